"""Each quasi-identifier before and after: how its values lie in the input, and how they lie by the release alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import Float64s
from kanonflow.pipelines.estimates.query_parts import edge_in_units, interval
from kanonflow.pipelines.pages.charts import paired_bars
from kanonflow.pipelines.pages.pages import Figure
from kanonflow.pipelines.pictures.value_parts import MOST_VALUES, Parts, part_names, parts_of
from kanonflow.pipelines.terminal.table import Table, rows_of, share
from kanonflow.schemas.value_units import from_units

MOST_FIELDS = 12
"""That are drawn."""
_INPUT, _RELEASE = "input", "release"


def field_shapes(release: ReleasedTable, seen: Mapping[str, Parts]) -> Iterator[Figure]:
    """A figure a field with ranges or sets. seen: of the input, by published name (``value_parts``); a field that is
    not among them is drawn by the release alone.

    The release's part v has sum over rows of w(box, v) / rows, where w is the share of a box that ``estimate`` counts.
    """
    drawn = (field for field in release.fields if field.kind in _PARTS)
    for number, field in enumerate(itertools.islice(drawn, MOST_FIELDS)):
        # Numbers that are categories have edges in the input, and none in the release.
        own = seen.get(field.name, {})
        fits = _ASKED[field.kind] in own
        column = release.column(field.name)
        parts = own if fits else _PARTS[field.kind](field, column)
        if parts is None:
            continue
        after = _SHARES[field.kind](field, column, parts)
        before = np.asarray(own["rows"], np.float64) if fits else None
        yield _figure(number, field.name, parts, before, after)


def _figure(number: int, name: str, parts: Parts, before: Float64s | None, after: Float64s) -> Figure:
    names = part_names(parts)
    if "values" in parts and not (after[-1] or (before is not None and before[-1])):
        names, after, before = names[:-1], after[:-1], None if before is None else before[:-1]
    series = {_RELEASE: after / max(after.sum(), 1e-12)}
    moved = ""
    if before is not None:
        series = {_INPUT: before / max(before.sum(), 1.0)} | series
        apart = np.abs(series[_INPUT] - series[_RELEASE]).sum() / 2
        moved = f": {apart:.1%} of the rows would have to move"
    rows = rows_of(
        (part, *(share(values[place]) for values in series.values())) for place, part in enumerate(names)
    )
    table = Table(f"shape_{number}", f"{name} in numbers", (name, *series), rows)
    shown = {key: values.tolist() for key, values in series.items()}
    said = f"Shares of the rows by {name}, {' and '.join(series)}"
    return Figure(f"{name}{moved}", paired_bars(said, names, shown), table)


def _range_parts(field: ReleasedField, column: Any) -> Parts | None:
    """As of an input that has the middle of each range."""
    low, high = column.low[column.valued], column.high[column.valued]
    # Halved first: the width of two whole numbers or doubles may be none.
    middles = low // 2 + high // 2 if column.whole else low / 2 + high / 2
    return parts_of(from_units(middles, np.zeros(middles.size, bool), field.value))


def _set_parts(field: ReleasedField, sets: Any) -> Parts | None:
    weights = {value: _share(sets, frozenset([value])) for value in sets.each() if value is not None}
    most = sorted(weights, key=lambda value: (-weights[value], str(value)))[:MOST_VALUES]
    return {"values": most} if most else None


def _range_shares(field: ReleasedField, column: Any, parts: Parts) -> Float64s:
    edges = [edge_in_units(field.name, field.value, each) for each in parts["edges"]]
    ends = itertools.pairwise([-np.inf, *edges, np.inf])
    return np.array([_share(column, interval(*pair, whole=column.whole)) for pair in ends])


def _set_shares(field: ReleasedField, sets: Any, parts: Parts) -> Float64s:
    rest = frozenset(value for value in sets.each() if value is not None) - {*parts["values"]}
    return np.array([*(_share(sets, frozenset([value])) for value in parts["values"]), _share(sets, rest)])


def _share(column: Any, query: Any) -> float:
    return float(column.cover(query).share.sum())


_ASKED = {Kind.RANGE: "edges", Kind.SET: "values"}
_PARTS = {Kind.RANGE: _range_parts, Kind.SET: _set_parts}
_SHARES = {Kind.RANGE: _range_shares, Kind.SET: _set_shares}
