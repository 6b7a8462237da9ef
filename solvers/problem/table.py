"""The numbers a solver sees: encoded records, without Arrow and without Beam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import TableError
from kanonflow.solvers.problem.hierarchy_levels import Lattice


@dataclass(frozen=True)
class Table:
    """n encoded records.

    numeric: float64 (n, dn), each column scaled to [0, 1] of its domain; NaN is a null.
    categorical: int32 (n, dc), codes ``0 .. cardinality[j]-1`` (a null has a code of its own).
    cardinality: int64 (dc,), the size |A_j| of each categorical domain.
    weights: float64 (dn + dc,), positive attribute weights, numeric ones first.
    individuals: int64 (n,), whom each record belongs to; None: each record is its own individual.
    heights: of hierarchies, one entry a numeric column, None where it holds numbers; () when all do. The m leaves of a
    hierarchy stand in depth-first order, leaf i as i / (m - 1) in ``numeric``; its heights, float64 (m - 1,), are the
    NCP in [0, 1] of the lowest node above each leaf and the next (see leaf_orders.py).
    lattice: the same n records under hierarchies, for starts by lattice methods; None: they have none.

    Raises TableError when shapes, ranges or dtypes do not fit.
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]
    cardinality: NDArray[np.int64]
    weights: NDArray[np.float64]
    individuals: NDArray[np.int64] | None = None
    heights: tuple[NDArray[np.float64] | None, ...] = ()
    lattice: Lattice | None = None

    def __post_init__(self) -> None:
        n = self.numeric.shape[0]
        if self.numeric.ndim != 2 or self.categorical.ndim != 2 or self.categorical.shape[0] != n:
            raise TableError("numeric and categorical must be 2-dimensional with the same number of rows")
        if self.cardinality.shape != (self.categorical.shape[1],):
            raise TableError("cardinality needs one entry a categorical column")
        if self.weights.shape != (self.attributes,) or not np.all(self.weights > 0):
            raise TableError("weights needs one positive entry a column")
        if self.attributes == 0:
            raise TableError("a table needs at least one quasi-identifier")
        with np.errstate(invalid="ignore"):
            if np.any((self.numeric < 0) | (self.numeric > 1)):
                raise TableError("numeric columns must be scaled to [0, 1]")
        if (
            n
            and self.categorical.size
            and (self.categorical.min() < 0 or np.any(self.categorical.max(axis=0) >= self.cardinality))
        ):
            raise TableError("categorical codes must be below the cardinality of their column")
        if self.individuals is not None and self.individuals.shape != (n,):
            raise TableError("individuals needs one entry a record")
        if self.lattice is not None and self.lattice.records != n:
            raise TableError("the lattice must be of the same records")
        self._check_heights()

    def _check_heights(self) -> None:
        if self.heights and len(self.heights) != self.numeric.shape[1]:
            raise TableError("heights needs one entry a numeric column, or none at all")
        for column, heights in zip(self.numeric.T, self.heights, strict=False):
            if heights is None:
                continue
            if heights.ndim != 1 or not np.all((heights >= 0) & (heights <= 1)):
                raise TableError("the heights of a hierarchy must be a line of numbers in [0, 1]")
            known = column[~np.isnan(column)]
            leaves = known * heights.size
            if np.any(np.abs(leaves - np.rint(leaves)) > 1e-6) or (heights.size == 0 and known.any()):
                raise TableError("a column with heights must hold the places of leaves")

    @property
    def hierarchical(self) -> bool:
        """Whether some columns are hierarchies."""
        return any(heights is not None for heights in self.heights)

    def by_leaves(self) -> Table:
        """The same records with each hierarchy as a categorical attribute of its leaves, a null a value of its own."""
        if not self.hierarchical:
            return self
        dn = self.numeric.shape[1]
        trees = [j for j, heights in enumerate(self.heights) if heights is not None]
        numbers = [j for j in range(dn) if j not in trees]
        codes, sizes = [], []
        for j in trees:
            place = np.where(np.isnan(self.numeric[:, j]), np.inf, self.numeric[:, j])
            values, code = np.unique(place, return_inverse=True)
            codes.append(code.astype(np.int32))
            sizes.append(max(values.size, 1))
        return Table(
            numeric=self.numeric[:, numbers],
            categorical=np.concatenate([self.categorical, np.stack(codes, axis=1)], axis=1),
            cardinality=np.concatenate([self.cardinality, np.array(sizes, dtype=np.int64)]),
            weights=self.weights[[*numbers, *range(dn, self.weights.size), *trees]],
            individuals=self.individuals,
        )

    @property
    def records(self) -> int:
        """Number of records n."""
        return int(self.numeric.shape[0])

    @property
    def attributes(self) -> int:
        """Number of quasi-identifiers d = dn + dc."""
        return int(self.numeric.shape[1] + self.categorical.shape[1])
