"""The protocol of kinds: how a column is encoded, and what its boxes can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.transforms.kinds.domains import Domain

Float64s = NDArray[np.float64]


class FieldBoxes(Protocol):
    """The b boxes of one field."""

    @property
    def column(self) -> BoundColumn:
        """The field."""

    def part(self, begin: int, end: int) -> Self:
        """Some of them, by their places."""

    def snapped(self) -> Self:
        """As they are published: each contains the box that it was."""

    def raised(self, level: int) -> Self:
        """At least at a level of the field's hierarchy, where it has one."""

    def array(self) -> pa.Array:
        """The column of a release, one entry a box."""

    def loss(self, extent: float) -> Float64s:
        """NCP of each box, float64 (b,) in [0, 1]. extent: of the domain."""

    @property
    def public_extent(self) -> float | None:
        """The extent of the domain as anybody can tell it from boxes and policy; None: nobody can."""

    def holds(self, values: pa.Array, box: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether values lie in their boxes, bool (n,); of a null anything. box: int64 (n,)."""


@dataclass
class TableColumns:
    """Columns of a solver's table, as kinds add them. heights: of each numeric one, None where it is no tree."""

    numeric: list[Float64s] = field(default_factory=list)
    heights: list[Float64s | None] = field(default_factory=list)
    numeric_weights: list[float] = field(default_factory=list)
    categorical: list[NDArray[np.int32]] = field(default_factory=list)
    cardinality: list[int] = field(default_factory=list)
    set_weights: list[float] = field(default_factory=list)

    def add_line(self, places: Float64s, weight: float, heights: Float64s | None = None) -> None:
        """A column of places in [0, 1], NaN for a null."""
        self.numeric.append(places)
        self.heights.append(heights)
        self.numeric_weights.append(weight)

    def add_codes(self, codes: NDArray[np.int32], cardinality: int, weight: float) -> None:
        """A column of codes ``0 .. cardinality - 1``."""
        self.categorical.append(codes)
        self.cardinality.append(cardinality)
        self.set_weights.append(weight)


class BoxKind(Protocol):
    """What a kind of quasi-identifier does with a column."""

    def encode(
        self, column: BoundColumn, array: pa.Array, known: Domain | None, table: TableColumns
    ) -> Domain:
        """Add the column to a solver's table. known: its domain after the last release. Returns the new one."""

    def hulls(
        self, column: BoundColumn, array: pa.Array, records: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> FieldBoxes:
        """The exact hulls of groups of records; group g is ``records[starts[g] : starts[g + 1]]``."""

    def spanning(self, null: NDArray[np.bool_], ends: NDArray[np.bool_]) -> Any:
        """Which of a group's distinct values, in their order, span its hull: bool (n,). null: whether it is one; ends:
        whether it is the first or the last that is none."""
