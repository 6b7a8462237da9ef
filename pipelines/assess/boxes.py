"""Released boxes against people: who is in which, how far from which, as fields of numbers.

b distinct boxes of a release, d quasi-identifiers, m people. Everything follows from the released columns and from
people's attributes, whatever made the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import Interval, Missing, PrefixColumn, RangeColumn, SetColumn
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.value_units import to_units

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
AT_ONCE = 4_000_000
"""Cells of a block of boxes and people."""


@dataclass(frozen=True)
class BoxField:
    """A field of boxes and of people. f different boxes of the field, v different values of people.

    box: int64 (b,), of each box, 0 .. f-1. value: int64 (m,), of each person. holds: bool (f, v).
    middle: float64 (f,), of ranges, NaN without values; own: float64 (v,), values as middles are; None: no ranges.
    low, high: the ends of ranges, float64 (f,). single: bool (f,), boxes of one value.
    """

    column: BoundColumn
    released: RangeColumn | SetColumn | PrefixColumn
    box: Numbers
    value: Numbers
    values: tuple[Any, ...]
    holds: Mask
    single: Mask
    middle: Floats | None = None
    own: Floats | None = None

    @cached_property
    def apart(self) -> NDArray[np.float32]:
        """How far each value is from each box, float32 (f, v) in [0, 1]: of ranges from their middle, in parts of all
        that there is; else 1 where the box does not hold it."""
        if self.middle is None or self.own is None:
            return (~self.holds).astype(np.float32)
        there = np.concatenate([self.middle, self.own])
        there = there[~np.isnan(there)]
        span = float(np.ptp(there)) if there.size else 0.0
        gap = np.abs(self.middle[:, None] - self.own[None, :]) / (span or 1.0)
        missing = np.isnan(self.middle)[:, None] & np.isnan(self.own)[None, :]
        return np.where(missing, 0.0, np.nan_to_num(gap, nan=1.0)).astype(np.float32)


@dataclass(frozen=True)
class BoxesAndPeople:
    """fields: of ``BoxField``. of_row: int64 (n,), the box of each released row. people: how many, m."""

    fields: tuple[BoxField, ...]
    of_row: Numbers
    people: int

    @cached_property
    def rows(self) -> Numbers:
        """Released rows of each box, int64 (b,)."""
        return np.bincount(self.of_row)

    @property
    def boxes(self) -> int:
        """How many different boxes there are."""
        return self.rows.size

    def holds(self, people: Numbers, boxes: Numbers | None = None) -> Mask:
        """Who lies in which, bool (boxes, people). O(boxes people d)."""
        inside: Mask | None = None
        for field in self.fields:
            box = field.box if boxes is None else field.box[boxes]
            own = field.holds[:, field.value[people]][box]
            inside = own if inside is None else inside & own
        assert inside is not None
        return inside

    def apart(self, people: Numbers, fields: tuple[int, ...]) -> NDArray[np.float32]:
        """How far people are from boxes in some fields, float32 (boxes, people)."""
        total = np.zeros((self.boxes, people.size), dtype=np.float32)
        for place in fields:
            field = self.fields[place]
            total += field.apart[:, field.value[people]][field.box]
        return total

    def blocks(self, people: Numbers) -> list[Numbers]:
        """The people in parts of which a block with all boxes fits into memory."""
        size = max(1, AT_ONCE // max(self.boxes, 1))
        return [people[start : start + size] for start in range(0, people.size, size)]


def boxes_and_people(released: ReleasedTable, people: pa.Table, bound: BoundPolicy) -> BoxesAndPeople:
    """Of a release and of m people, whose canonical attributes are ``people``. O(n log n + f v d)."""
    flat = released.flat(Flat.LABEL)
    codes, fields = [], []
    for column in bound.quasis:
        text = flat.column(column.published_name).combine_chunks().dictionary_encode("encode").indices
        _, first, code = np.unique(np.asarray(text), return_index=True, return_inverse=True)
        codes.append(code.astype(np.int64))
        some = released.arrow().take(pa.array(first))
        fields.append((column, ReleasedTable(some, released.form, released.hierarchies)))
    _, first, of_row = np.unique(np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True)
    own = tuple(
        _field(column, some, code[first], people.column(column.name).combine_chunks())
        for (column, some), code in zip(fields, codes, strict=True)
    )
    return BoxesAndPeople(own, of_row.reshape(-1).astype(np.int64), people.num_rows)


def _field(column: BoundColumn, some: ReleasedTable, box: Numbers, values: pa.Array) -> BoxField:
    released = some.column(column.published_name)
    if not isinstance(released, RangeColumn):
        coded = values.dictionary_encode("encode")
        each = tuple(coded.dictionary.to_pylist())
        holds = _held(released, len(some), [frozenset([value]) for value in each])
        single = np.asarray(released.widths == (0 if isinstance(released, PrefixColumn) else 1))
        return BoxField(
            column, released, box, np.asarray(coded.indices).astype(np.int64), each, holds, single
        )
    units, none = to_units(values)
    missing = np.where(none, 1, 0)
    pairs, code = np.unique(
        np.stack([missing, np.where(none, 0, units)], axis=1), axis=0, return_inverse=True
    )
    code = code.reshape(-1).astype(np.int64)
    first = np.zeros(pairs.shape[0], dtype=np.int64)
    first[code[::-1]] = np.arange(code.size)[::-1]
    own, absent = units[first], none[first]
    queries = [
        Missing()
        if gone
        else Interval(value, value if released.whole else np.nextafter(value, np.inf), released.whole)
        for value, gone in zip(own.tolist(), absent.tolist(), strict=True)
    ]
    return BoxField(
        column,
        released,
        box,
        code,
        tuple(own.tolist()),
        _held(released, len(some), queries),
        released.low == released.high,
        np.where(released.valued, released.low / 2 + released.high / 2, np.nan),
        np.where(absent, np.nan, own.astype(np.float64)),
    )


def _held(released: Any, boxes: int, queries: list[Any]) -> Mask:
    holds = np.zeros((boxes, len(queries)), dtype=np.bool_)
    for place, query in enumerate(queries):
        holds[released.cover(query).rows, place] = True
    return holds
