"""What a sample of an input looks like under its policy: a line a field, and why it does not fit where it does not.

Nothing here holds a record's value: counts, shares, names of fields and files, and forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.spread_sample import FileSample
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.expected_forms import expected_instead
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.printable import printable
from kanonflow.schemas.proposed_forms import NULL_WORDS, ProposedForm, proposed_form
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.columns.crowding import crowding_of
from kanonflow.transforms.rows.classify import cells_of, one_array

_UNPARSEABLE = "unparseable"
_ZONED = r"(Z|[+-]\d\d:?\d\d)$"
_DECIMAL_ID = r"^\s*\d+\.0+\s*$"
_USUAL = 0.95
_TORN = "correct the rows, or say how they are written (csv: {delimiter: ..., quote: ..., encoding: ...})"


class InputMisfitError(PolicyError):
    """An input whose sample does not fit the policy."""

    thing = "input"
    _told = "the input does not fit"

    def __str__(self) -> str:
        """One line a mistake."""
        lines = [f"{self.source}: {self._told}", *(f"  - {mistake}" for mistake in self.mistakes)]
        return "\n".join(map(printable, lines))


class RunMisfitError(InputMisfitError):
    """The same, where a run ends with it before it wrote anything."""

    exit_code = 3
    _told = "the input does not fit the policy, and nothing was released"


@dataclass(frozen=True)
class FieldFit:
    """One field of a sample.

    kind: what its values are read as. rows: of the sample. nulls: rows without a value. distinct: different values.
    faults: rows by reason. file: that with most of them; in_file: the share of its rows.
    expected: what a value looks like, of the most frequent reason. proposed: what would read those that do not fit.
    notes: what reads without a fault, and may mean something else.
    """

    name: str
    kind: str
    rows: int
    nulls: int
    distinct: int
    faults: dict[str, int]
    file: str = ""
    in_file: float = 0.0
    expected: str = ""
    proposed: ProposedForm | None = None
    notes: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the rows, those in which this field does not fit."""
        return sum(self.faults.values()) / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class InputFit:
    """A sample under a policy.

    rows: of the sample, those that are none included. broken: those. unfit: rows at fault in any way.
    places: how many places of the files the rows are from. whole: whether they are all rows.
    front: names of the files of which only the beginning was read. limit: share of unfit rows that is let pass.
    broken_file: the file with most broken rows. frozen: whether people who are known are released under frozen values.
    """

    fields: tuple[FieldFit, ...]
    rows: int
    broken: int
    unfit: int
    places: int
    whole: bool
    front: tuple[str, ...]
    limit: float
    broken_file: str = ""
    frozen: bool = False

    @property
    def share(self) -> float:
        """Of the rows, those that do not fit."""
        return self.unfit / self.rows if self.rows else 0.0

    @property
    def fits(self) -> bool:
        """Whether no more rows are at fault than the policy lets pass, as far as a sample can tell: of rows that stand
        together in few places a share a little above the limit may be chance, and the run judges all."""
        return not self._above(self.share)

    def _above(self, share: float) -> bool:
        doubt = 0.0 if self.whole else 2.0 * (share * (1.0 - share) / max(1, self.places)) ** 0.5
        return share - doubt > self.limit

    def render(self) -> str:
        """The sample and a line a field."""
        read = "all" if self.whole else "a sample of"
        lines = [f"{read} {self.rows:,} rows" + ("" if self.whole else ", spread over the files")]
        lines += [f"of {name} only the beginning: it cannot be read at offsets" for name in self.front]
        head = ("field", "read as", "nulls", "distinct", "does not fit", "")
        table = [head]
        for field in self.fields:
            proposed = "" if field.proposed is None else f"would fit: {field.proposed.render(field.name)}"
            table.append(
                (
                    printable(field.name),
                    field.kind,
                    f"{field.nulls:,}",
                    f"{field.distinct:,}",
                    _percent(field.share),
                    printable(proposed),
                )
            )
        if self.broken:
            table.append(("(rows)", "", "", "", _percent(self.broken / self.rows), _UNPARSEABLE))
        widths = [max(len(line[place]) for line in table) for place in range(5)]
        for line in table:
            cells = [f"{line[place]:{'<' if place < 2 else '>'}{widths[place]}}" for place in range(5)]
            lines.append("  ".join([*cells, line[5]]).rstrip())
        lines += [printable(f"- {field.name}: {note}") for field in self.fields for note in field.notes]
        if self.frozen and self.unfit:
            lines.append(
                "- cohort: lasting: a row that does not fit in quasi-identifiers alone is counted here; a run releases"
                " it all the same once its person is known, under the values frozen at entry"
            )
        return "\n".join(lines)

    def mistakes(self, broken_mend: str = "") -> Iterator[str]:
        """Why the input does not fit: each field above the limit, or all at fault if none is by itself.

        broken_mend: what to do about rows that are none.
        """
        if self.fits:
            return
        at_fault = [field for field in self.fields if field.faults]
        above = [field for field in at_fault if self._above(field.share)]
        torn = self._above(self.broken / self.rows)
        limit = f"max_rejected is {self.limit:.3g}"
        if not above and not torn:
            above = at_fault
            torn = bool(self.broken)
        for field in sorted(above, key=lambda field: -field.share):
            reasons = ", ".join(sorted(field.faults, key=lambda reason: -field.faults[reason]))
            where = f", most in {field.file} ({_percent(field.in_file)})" if field.file else ""
            mend = "correct the values, or the field's declaration"
            if field.proposed is not None:
                mend = f"would fit: {field.proposed.render(field.name)}"
            yield (
                f"fields.{field.name}: {_percent(field.share)} of the {self._rows()} do not fit ({reasons}){where};"
                f" {limit}. Expected {field.expected}; {mend}"
            )
        if torn:
            yield (
                f"{self.broken_file}: {_percent(self.broken / self.rows)} of the {self._rows()} are none"
                f" ({_UNPARSEABLE}); {limit}. Expected as many values as the header names, in the file's encoding;"
                f" {broken_mend or _TORN}"
            )

    def _rows(self) -> str:
        return f"{self.rows:,} {'rows' if self.whole else 'sampled rows'}"


def input_fit(samples: Sequence[FileSample], bound: BoundPolicy, *, whole: bool) -> InputFit:
    """The sample under the policy. whole: whether the samples are of all files.

    Cells are judged whoever\'s they are: of lasting cohorts too. O(rows x fields).
    Raises InputError: a column is not of the type that the policy was bound to.
    """
    whole = whole and all(sample.whole for sample in samples)
    bad = [np.zeros(sample.rows.num_rows, dtype=bool) for sample in samples]
    people = _first_rows(samples, bound)
    fields = tuple(_field(column, samples, bad, people) for column in bound.columns)
    broken = sum(sample.broken for sample in samples)
    torn = max(samples, key=lambda sample: sample.broken / max(1, sample.looked_at)) if samples else None
    return InputFit(
        fields,
        sum(sample.looked_at for sample in samples),
        broken,
        broken + sum(int(each.sum()) for each in bad),
        sum(sample.places for sample in samples),
        whole,
        tuple(sample.file.name for sample in samples if sample.front),
        bound.policy.rejected_limit,
        torn.file.path if torn is not None and broken else "",
        bool(bound.policy.read_once),
    )


def _first_rows(samples: Sequence[FileSample], bound: BoundPolicy) -> pa.Array | None:
    """The places of a row of each person among all rows; None: each row is one."""
    for name in bound.policy.owner:
        column = bound.column(name)
        cells = [
            cells_of(column, one_array(sample.rows.column(column.source)), sample.file.name)[0]
            for sample in samples
        ]
        codes = codes_of(pa.chunked_array(cells, column.arrow_type).combine_chunks())
        return pa.array(np.unique(codes, return_index=True)[1])
    return None


def _field(
    column: BoundColumn, samples: Sequence[FileSample], bad: list[NDArray[np.bool_]], people: pa.Array | None
) -> FieldFit:
    """One field; rows at fault are marked in ``bad``, of each sample. people: a row of each."""
    faults: Counter[str] = Counter()
    values: list[pa.Array] = []
    misfits: list[pa.Array] = []
    texts: list[pa.Array] = []
    worst, in_worst = "", 0.0
    for sample, marked in zip(samples, bad, strict=True):
        raw = one_array(sample.rows.column(column.source))
        read, _, problems = cells_of(column, raw, sample.file.name)
        own = np.zeros(len(raw), dtype=bool)
        for mask, reason in problems:
            faults[reason] += int((mask & ~own).sum())
            own |= mask
            if column.from_text and reason != "missing_value" and form_of(raw.type).text:
                misfits.append(raw.filter(pa.array(mask)).cast(pa.string()))
        marked |= own
        share = float(own.sum()) / max(1, sample.looked_at)
        if share > in_worst:
            worst, in_worst = sample.file.path, share
        values.append(read)
        if form_of(raw.type).text:
            texts.append(raw.cast(pa.string()))
    everything = pa.chunked_array(values, column.arrow_type)
    rows = sum(sample.looked_at for sample in samples)
    csv = bool(samples) and samples[0].file.format.text
    most = max(faults, key=lambda reason: faults[reason]) if faults else ""
    cells = pa.chunked_array(misfits, pa.string()).combine_chunks()
    unread = faults.get("bad_value", 0)
    return FieldFit(
        column.name,
        str(column.arrow_type),
        rows,
        int(everything.null_count) - unread,
        int(pc.count_distinct(everything, mode="only_valid").as_py()),
        dict(faults),
        worst,
        in_worst,
        expected_instead(column, most) if most else "",
        proposed_form(_array(cells), column, csv=csv) if len(cells) else None,
        (
            *_notes(column, pa.chunked_array(texts, pa.string()).combine_chunks(), csv=csv),
            *_crowd(column, everything.combine_chunks(), people),
        ),
    )


def _crowd(column: BoundColumn, values: pa.Array, people: pa.Array | None) -> Iterator[str]:
    """That loss counts widths where nobody is."""
    if crowd := crowding_of(column, values if people is None else values.take(people)):
        yield (
            f"{crowd.words}; say {crowd.mend}, so that loss is counted where the people are, or declare a narrower"
            " domain with outside: code"
        )


def _array(cells: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def _notes(column: BoundColumn, texts: pa.Array, *, csv: bool) -> Iterator[str]:
    """What is read as the policy says, and may not be meant so."""
    texts = _array(texts).drop_null()
    texts = texts.filter(pc.not_equal(texts, ""))
    if not len(texts):
        return
    if form_of(column.as_read.text_type).per_day not in (None, 1) and column.form.timezone is None:
        zoned = pc.match_substring_regex(texts, _ZONED)
        # Epochs and formats with a zone are instants by themselves.
        form = column.form.format or ""
        if (
            not pc.any(zoned).as_py()
            and not form.startswith("epoch")
            and "%z" not in form
            and pc.any(pc.match_substring(texts, ":")).as_py()
        ):
            yield (
                "its times say no zone and are read as UTC; where they are local, say timezone: (such as"
                " Europe/Prague)"
            )
    if not column.as_read.values.text:
        return
    if _share(pc.match_substring_regex(texts, _DECIMAL_ID)) >= _USUAL:
        yield (
            "its values are whole numbers that were written as decimals (an id such as 12.0), and another file may"
            " have them without: say as: long, so that both are the same"
        )
    elif csv:
        bare = pc.utf8_trim_whitespace(texts)
        words = pc.is_in(bare, value_set=pa.array(NULL_WORDS, pa.string()))
        there = set(pc.unique(bare.filter(words)).to_pylist()) - set(column.form.nulls)
        if there:
            named = ", ".join(f'"{word}"' for word in NULL_WORDS if word in there)
            count = int(pc.sum(words).as_py() or 0)
            yield f"{count:,} rows have {named}, which is a text here; if it means null, say csv: {{nulls: [{named}]}}"


def _share(mask: pa.Array) -> float:
    return float(pc.mean(mask).as_py() or 0.0)


def _percent(share: float) -> str:
    return "0" if share == 0 else f"{share:.1%}" if share >= 0.001 else "<0.1%"
