"""Which form would read cells that the declared one does not: what a policy should say of a field, found by trying.

Candidates are those of ``text_form``, tried by the cast that a run uses. No cell is in what is returned: words that
mean null are from a list of ours, formats are no values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.canonical_types import MICROSECONDS, type_named
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_form import EPOCH, Fold, TextForm
from kanonflow.schemas.text_values import cast_text

NULL_WORDS = (
    *("NA", "N/A", "n/a", "na", "#N/A", "NULL", "null", "Null", "None", "none"),
    *("nan", "NaN", "NAN", "NaT", "nil", "-", "--", "?", "\\N"),
    *("n.a.", "N.A.", "k.A.", "k. A.", "k.a.", "n.v.", "#NV"),
)
"""Words that stand for a missing value in exports, and are proposed as such."""
LEAST_SHARE = 0.5
"""Of the cells that do not fit and are no null words, what a form must read to be proposed."""

_DAYS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d"),
    *("%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%y"),
    *("%Y%m%d", "%y%m%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d. %m. %Y"),
)
_TIMES = (
    *("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H.%M"),
    *(" %H:%M:%S %z", " %H:%M %z", "T%H:%M:%S.%f", "T%H:%M:%S%z", " %H:%M:%S%z"),
)
_RUN_TOGETHER = ("%Y%m%d%H%M%S", "%y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%dT%H%M%S")
_EPOCH_DIGITS = {"epoch_s": (9, 10), "epoch_ms": (12, 13)}
"""Digits of such numbers between the 1970s and the 23rd century: fewer or more are days, or ids."""
_TRIED = 1_000
_TRIED_FIRST = 20


@dataclass(frozen=True)
class ProposedForm:
    """What a policy could say of cells that do not fit.

    csv: keys for ``csv``. field: keys for the field's declaration, None as a value: leave the key out. share: of the
    cells that do not fit, what the two together read. beside: what else reads as many of them, in words; "": nothing.
    """

    csv: tuple[tuple[str, object], ...]
    field: tuple[tuple[str, object], ...]
    share: float
    beside: str = ""

    def render(self, name: str) -> str:
        """The keys as they stand in a policy, with the field's name, and how much they read."""
        parts = []
        if keys := [(key, value) for key, value in self.field if value is not None]:
            parts.append(f"{name}: {{{', '.join(_keys(keys))}}}")
        parts += [f"{name} without {key}" for key, value in self.field if value is None]
        if self.csv:
            parts.append(f"csv: {{{', '.join(_keys(self.csv))}}}")
        line = f"{' and '.join(parts)} ({self.share:.0%} of them)"
        return f"{line}; {self.beside}" if self.beside else line


def proposed_form(cells: pa.StringArray, column: BoundColumn, *, csv: bool = True) -> ProposedForm | None:
    """What would read the cells of a field that do not fit; None: nothing that is known does.

    cells: text as it came, of cells that are no values of the column's ``text_type`` in its ``form`` (or whose values
    its declared domain does not have). csv: whether the input is CSV, and the policy's ``csv`` can say something of it.

    Tried on at most 1,000 different cells. O(candidates).
    """
    cells = cells.drop_null()
    if not len(cells):
        return None
    form = column.form
    bare = pc.utf8_trim_whitespace(cells)
    null = pc.is_in(bare, value_set=pa.array(NULL_WORDS, pa.string()))
    present = set(pc.unique(bare.filter(null)).to_pylist()) if csv else set()
    words = tuple(word for word in NULL_WORDS if word in present)
    rest = bare.filter(pc.invert(null)) if csv else bare
    said = (("nulls", [*form.nulls, *words]),) if words else ()
    nulls = 1 - len(rest) / len(cells)
    best = _best(rest, column, csv=csv) if len(rest) else None
    if best is not None:
        read, csv_keys, field_keys, beside = best
        return ProposedForm((*csv_keys, *said), field_keys, nulls + read * len(rest) / len(cells), beside)
    return ProposedForm(said, (), nulls) if words else None


_Keys = tuple[tuple[str, object], ...]
_Found = tuple[float, _Keys, _Keys, str]


def _best(cells: pa.StringArray, column: BoundColumn, *, csv: bool) -> _Found | None:
    """The form that reads most of the cells, the first of several."""
    places = np.unique(np.linspace(0, len(cells) - 1, min(len(cells), _TRIED)).astype(np.int64))
    tried = cells.take(pa.array(places))
    few = tried.slice(0, _TRIED_FIRST)
    # A few first: most candidates read none of them.
    candidates: list[_Found] = []
    for kind, form, csv_keys, field_keys in _candidates(column, csv=csv):
        if (
            _read(few, kind, form) == 0
            and len(tried) > _TRIED_FIRST
            and _read(tried[-_TRIED_FIRST:], kind, form) == 0
        ):
            continue
        share = _read(tried, kind, form)
        if share >= LEAST_SHARE and _plausible(tried, form):
            candidates.append((share, csv_keys, field_keys, ""))
    if not candidates:
        return None
    best = max(candidates, key=lambda each: each[0])
    return (*best[:3], _other_reading(best, candidates))


def _other_reading(best: _Found, candidates: list[_Found]) -> str:
    """What reads as many cells and means something else: day and month, or comma and point, the other way round."""
    share, csv_keys, field_keys, _ = best
    form = dict(field_keys).get("format")
    if not isinstance(form, str):
        mine = dict(csv_keys)
        for other, keys, _, _ in candidates:
            point = dict(keys).get("decimal")
            if other >= share and point == mine.get("thousands") is not None:
                return f"csv: {{{', '.join(_keys(keys))}}} reads as many and means other numbers: say which it is"
        return ""
    turned = form.replace("%d", "%\0").replace("%m", "%d").replace("%\0", "%m")
    for other, _, keys, _ in candidates:
        there = dict(keys).get("format")
        if there == turned != form and other >= share:
            return f"{_text(turned)} reads as many, for no day is above 12: say which it is"
    return ""


def _read(cells: pa.StringArray, kind: pa.DataType, form: TextForm) -> float:
    """The share of cells that a form reads."""
    values, _ = cast_text(cells, kind, form)
    return 1 - values.null_count / len(values) if len(values) else 0.0


def _plausible(cells: pa.StringArray, form: TextForm) -> bool:
    """Whether numbers are as long as seconds or milliseconds of our times are."""
    if form.format not in EPOCH:
        return True
    low, high = _EPOCH_DIGITS[form.format]
    digits = pc.match_substring_regex(cells, rf"^[+-]?\d{{{low},{high}}}(\.0*)?$")
    return bool(pc.mean(digits).as_py() >= LEAST_SHARE)


def _candidates(column: BoundColumn, *, csv: bool) -> Iterator[tuple[pa.DataType, TextForm, _Keys, _Keys]]:
    """(type, form, keys of csv, keys of the field), the likeliest first."""
    column = column.as_read
    kind, form = column.text_type, column.form
    values = form_of(kind)
    if values.per_day is not None:
        for name in EPOCH:
            instants = (("as", "timestamp"),) if values.per_day == 1 and column.field.value else ()
            yield MICROSECONDS, replace(form, format=name), (), (*instants, ("format", name))
        yield from ((kind, each, (), keys) for each, keys in _temporal(column))
        return
    if values.scale is not None:
        if csv:
            for decimal, thousands in _signs(form):
                keys = _changed(decimal=(form.decimal, decimal), thousands=(form.thousands, thousands))
                yield kind, replace(form, decimal=decimal, thousands=thousands), keys, ()
        for wider in values.wider:
            yield type_named(wider), form, (), (("as", wider),)
        if values.spelled and csv and form.decimal != ",":
            comma = replace(form, decimal=",")
            yield pa.float64(), comma, (("decimal", ","),), (("as", "double"),)


def _temporal(column: BoundColumn) -> Iterator[tuple[TextForm, _Keys]]:
    form = column.form
    if form.timezone is not None and form.fold is None:
        yield replace(form, fold=Fold.FIRST), (("fold", "first"),)
    if form.format is not None:
        yield replace(form, format=None), (("format", None),)
    for time in _TIMES:
        for day in _DAYS:
            yield replace(form, format=day + time), (("format", day + time),)
    for both in _RUN_TOGETHER:
        yield replace(form, format=both), (("format", both),)


def _signs(form: TextForm) -> Iterator[tuple[str, str | None]]:
    for decimal in (".", ","):
        for thousands in (None, ",", ".", " ", "'", "_"):
            if thousands != decimal and (decimal, thousands) != (form.decimal, form.thousands):
                yield decimal, thousands


def _changed(**keys: tuple[object, object]) -> _Keys:
    return tuple((name, now) for name, (before, now) in keys.items() if now != before)


def _keys(keys: Iterable[tuple[str, object]]) -> Iterator[str]:
    for name, value in keys:
        if isinstance(value, list):
            yield f"{name}: [{', '.join(map(_text, value))}]"
        else:
            plain = name not in _QUOTED or value in EPOCH
            yield f"{name}: {value if plain else _text(value)}"


_QUOTED = ("decimal", "thousands", "format")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
