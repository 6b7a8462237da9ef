"""Quasi-identifiers whose boxes are closed ranges: numbers, days, instants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.grid import snap_outward
from kanonflow.transforms.kinds.domains import Domain, RangeDomain, extent_of
from kanonflow.transforms.kinds.field_boxes import TableColumns
from kanonflow.transforms.kinds.range_values import range_array, range_values

# Its ends are crossed: a range from 0 would reach from there to the first value, and dull the field for good.
_NOTHING_SEEN = RangeDomain(0, -1, declared=False)


@dataclass(frozen=True)
class Ranges:
    """The boxes of one numeric or date field.

    low, high: (b,) closed ranges in the units of the column (float64 for doubles, else int64).
    numbers, nulls: bool (b,), whether the box holds values, and whether it holds nulls; without values its
    range means nothing.
    """

    column: BoundColumn
    low: NDArray[np.int64] | NDArray[np.float64]
    high: NDArray[np.int64] | NDArray[np.float64]
    numbers: NDArray[np.bool_]
    nulls: NDArray[np.bool_]

    def part(self, begin: int, end: int) -> Ranges:
        """Some of them."""
        some = slice(begin, end)
        return Ranges(self.column, self.low[some], self.high[some], self.numbers[some], self.nulls[some])

    def snapped(self) -> Ranges:
        """Snapped outward to the field's grid, clipped at a declared domain only."""
        quasi, grid_of = self.column.field.quasi, self.column.values.grid
        assert quasi is not None
        assert grid_of is not None
        ends = snap_outward(self.low, self.high, grid=quasi.grid, kind=grid_of, domain=self.column.domain)
        return replace(self, low=ends[0], high=ends[1])

    def raised(self, level: int) -> Ranges:
        """As they are: ranges have no levels."""
        return self

    def array(self) -> pa.Array:
        """struct<min, max, nulls> (b,)."""
        kind = self.column.arrow_type
        ends = [range_array(end, self.numbers, kind) for end in (self.low, self.high)]
        parts = [pa.field("min", kind), pa.field("max", kind), pa.field("nulls", pa.bool_(), nullable=False)]
        return pa.StructArray.from_arrays([*ends, pa.array(self.nulls)], fields=parts)

    def loss(self, extent: float) -> NDArray[np.float64]:
        """min(1, (u - l) / extent) of the ends' positions, 0 where the extent is; 1 for nulls among values, 0 for nulls
        alone (S0, eq. 1)."""
        if extent > 0:
            low, high = self.column.scale.places(self.low), self.column.scale.places(self.high)
            # Halved first: the width of two finite doubles can be infinite.
            half = high.astype(np.float64) / 2 - low.astype(np.float64) / 2
            loss = np.minimum(1.0, half / (extent / 2))
        else:
            loss = np.zeros(self.low.shape)
        return np.where(self.numbers & self.nulls, 1.0, np.where(self.numbers, loss, 0.0))

    @property
    def public_extent(self) -> float | None:
        """Of a declared domain."""
        ends = self.column.domain
        return None if ends is None else extent_of(ends[0], ends[1], self.column.scale)

    def holds(self, values: pa.Array, box: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Between the ends."""
        number, _ = range_values(values)
        return self.numbers[box] & (self.low[box] <= number) & (number <= self.high[box])


class RangeKind:
    """What ranges do with a column."""

    def encode(
        self, column: BoundColumn, array: pa.Array, known: Domain | None, table: TableColumns
    ) -> RangeDomain:
        """Positions by the field's scale, from 0 to 1 of the domain."""
        values, valid = range_values(array)
        if column.domain is not None:
            domain = RangeDomain(column.domain[0], column.domain[1], declared=True)
        else:
            seen = values[valid]
            ends = [seen.min().item(), seen.max().item()] if seen.size else []
            ends += [] if known is None else known.seen
            domain = RangeDomain(min(ends), max(ends), declared=False) if ends else _NOTHING_SEEN
        width, places = domain.extent(column.scale), column.scale.places
        scaled = _above(places(values), places(domain.low)) / width if width > 0 else np.zeros(len(values))
        # Rounding may leave [0, 1] by a hair; classification has kept everything inside a declared domain.
        table.add_line(np.where(valid, np.clip(scaled, 0.0, 1.0), np.nan), column.weight)
        return domain

    def hulls(
        self, column: BoundColumn, array: pa.Array, records: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> Ranges:
        """Least and greatest value. O(m)."""
        values, valid = range_values(array)
        grouped, present = values[records], valid[records]
        begins = starts[:-1]
        limits = np.finfo(np.float64) if values.dtype.kind == "f" else np.iinfo(np.int64)
        low = np.minimum.reduceat(np.where(present, grouped, limits.max), begins)
        high = np.maximum.reduceat(np.where(present, grouped, limits.min), begins)
        numbers = np.logical_or.reduceat(present, begins)
        zero = values.dtype.type(0)
        nulls = np.logical_or.reduceat(~present, begins)
        return Ranges(column, np.where(numbers, low, zero), np.where(numbers, high, zero), numbers, nulls)

    def spanning(self, null: NDArray[np.bool_], ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The ends, and a null."""
        return null | ends


def _above(values: NDArray[np.int64] | NDArray[np.float64], low: int | float) -> NDArray[np.float64]:
    """``values - low`` as float64, also where the difference is more than an int64 or a double can hold."""
    if values.dtype.kind == "f":
        limit = np.finfo(np.float64).max / 2
        return np.minimum(values / 2 - low / 2, limit) * 2
    return (values - np.int64(low)).view(np.uint64).astype(np.float64)
