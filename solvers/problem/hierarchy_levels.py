"""Hierarchies as tables of codes, and the lattice of level vectors that they span.

A node of the lattice is a level an attribute: level 0 publishes the value itself, level ``heights[j]`` the root.
Source: S1, section 2.3 (figure 1); Samarati 2001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import TableError

LevelVector = tuple[int, ...]
"""A node: the level of each attribute."""


@dataclass(frozen=True)
class LevelTable:
    """One attribute's hierarchy.

    codes: int32 (height + 1, leaves); ``codes[l, v]`` is the node above leaf v at level l, dense codes from 0 a level;
    ``codes[0]`` is 0, 1, 2, ...

    Raises TableError unless every level is dense and joins whole nodes of the level below (else a higher node could
    be k-anonymous less often than a lower one).
    """

    codes: NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.size == 0:
            raise TableError("a level table needs at least one level and one leaf")
        if not np.array_equal(self.codes[0], np.arange(self.codes.shape[1])):
            raise TableError("level 0 of a level table must number the leaves from 0")
        for level in range(1, self.codes.shape[0]):
            lower, upper = self.codes[level - 1], self.codes[level]
            if not np.array_equal(np.unique(upper), np.arange(int(upper.max()) + 1)):
                raise TableError("the codes of each level must be dense from 0")
            above = np.full(int(lower.max()) + 1, -1, dtype=np.int64)
            above[lower] = upper
            if not np.array_equal(above[lower], upper):
                raise TableError("a level must join whole nodes of the level below")

    @property
    def height(self) -> int:
        """Steps from the leaves to the last level."""
        return int(self.codes.shape[0]) - 1

    @property
    def domain(self) -> int:
        """Number of leaves |D|."""
        return int(self.codes.shape[1])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes of each level, int64 (height + 1,)."""
        return self.codes.max(axis=1).astype(np.int64) + 1

    @cached_property
    def leaves(self) -> tuple[NDArray[np.int64], ...]:
        """Of each level, how many leaves stand below each node, int64 (sizes[l],)."""
        return tuple(np.bincount(codes) for codes in self.codes)


@dataclass(frozen=True)
class Lattice:
    """Records with their hierarchies.

    tables: one an attribute. values: int32 (n, d), the leaf of each record. weights: float64 (d,), positive weights of
    the attributes in GCP; None: equal. individuals: int64 (n,), whom each record belongs to; None: each record is its
    own individual.

    Raises TableError when shapes or codes do not fit.
    """

    tables: tuple[LevelTable, ...]
    values: NDArray[np.int32]
    weights: NDArray[np.float64] | None = None
    individuals: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not self.tables or self.values.ndim != 2 or self.values.shape[1] != len(self.tables):
            raise TableError("values needs one column an attribute, and a lattice at least one attribute")
        domains = np.array([table.domain for table in self.tables])
        if self.values.size and (self.values.min() < 0 or np.any(self.values.max(axis=0) >= domains)):
            raise TableError("values must be leaves of their attribute's hierarchy")
        if self.weights is not None and (
            self.weights.shape != (len(self.tables),) or not np.all(self.weights > 0)
        ):
            raise TableError("weights needs one positive entry an attribute")
        if self.individuals is not None and self.individuals.shape != (self.values.shape[0],):
            raise TableError("individuals needs one entry a record")

    @property
    def records(self) -> int:
        """Number of records n."""
        return int(self.values.shape[0])

    @property
    def attributes(self) -> int:
        """Number of quasi-identifiers d."""
        return len(self.tables)

    def taking(self, rows: NDArray[np.integer]) -> Lattice:
        """The lattice of some of the records, (m,) row numbers, in their order."""
        people = None if self.individuals is None else self.individuals[rows]
        return replace(self, values=self.values[rows], individuals=people)

    @property
    def top(self) -> LevelVector:
        """The node at which every attribute is at its last level."""
        return tuple(table.height for table in self.tables)

    @property
    def bottom(self) -> LevelVector:
        """The node that generalizes nothing."""
        return (0,) * len(self.tables)

    @property
    def nodes(self) -> int:
        """Number of nodes, the product of (height + 1)."""
        return math.prod(height + 1 for height in self.top)

    @property
    def normalized_weights(self) -> NDArray[np.float64]:
        """Weights scaled to sum 1, float64 (d,)."""
        weights = np.ones(self.attributes) if self.weights is None else self.weights
        return weights / weights.sum()
