"""Boxes of fields with a hierarchy: the lowest node above all values of a group."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.tree import Tree
from kanonflow.transforms.kinds.domains import OPEN, Domain, SetDomain
from kanonflow.transforms.kinds.field_boxes import TableColumns
from kanonflow.transforms.kinds.value_sets import set_codes


@dataclass(frozen=True)
class Nodes:
    """The boxes of one field with a hierarchy.

    level: int64 (b,), the lowest level at which all values of the box have one node; the root's where it holds nulls
    and values; -1 where it holds nulls only. leaf: int64 (b,), one of its leaves (0 for nulls only).
    """

    column: BoundColumn
    tree: Hierarchy
    level: NDArray[np.int64]
    leaf: NDArray[np.int64]

    def part(self, begin: int, end: int) -> Nodes:
        """Some of them."""
        return Nodes(self.column, self.tree, self.level[begin:end], self.leaf[begin:end])

    def snapped(self) -> Nodes:
        """As they are: labels have no grid."""
        return self

    def loss(self, extent: float) -> NDArray[np.float64]:
        """Leaves below the node / all leaves, 0 for one; 1 for nulls among values (S4, eq. 2)."""
        loss = self.tree.ncp[self.level, self.leaf]
        return np.where(self.level < 0, 0.0, np.where(self._everything, 1.0, loss))

    @property
    def _everything(self) -> NDArray[np.bool_]:
        return self.level == self.tree.height

    def raised(self, level: int) -> Nodes:
        """The same boxes at least at a level: the nodes that a release at levels publishes; nulls alone stay null below
        the root."""
        height = self.tree.height
        nulls = height if level == height else -1
        return replace(self, level=np.where(self.level < 0, nulls, np.maximum(self.level, level)))

    @property
    def public_extent(self) -> float:
        """All leaves: whoever has the policy has them."""
        return float(len(self.tree.leaves))

    def holds(self, values: pa.Array, box: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Below the node."""
        below = self.tree.below(render_text(values), np.maximum(self.level[box], 0), self.leaf[box])
        return (self.level[box] >= 0) & below

    def array(self) -> pa.Array:
        """The label of each box's node, null for nulls only; string (b,)."""
        names = np.array(self.tree.rows, dtype=object)
        return pa.array(names[self.leaf, self.level], pa.string(), mask=self.level < 0)


class NodeKind:
    """What a tree's nodes do with a column."""

    def encode(
        self, column: BoundColumn, array: pa.Array, known: Domain | None, table: TableColumns
    ) -> SetDomain:
        """Places of the leaves in depth-first order, scaled to [0, 1], NaN for a null."""
        texts = render_text(array)
        tree = _tree(column).over(texts)
        leaf = tree.leaf_codes(texts)
        places = tree.places[leaf] / max(tree.places.size - 1, 1)
        table.add_line(np.where(leaf < 0, np.nan, places), column.weight, tree.heights)
        return self._domain(column, array, known)

    def _domain(self, column: BoundColumn, array: pa.Array, known: Domain | None) -> SetDomain:
        return set_codes(column, array, known)[1]

    def hulls(
        self, column: BoundColumn, array: pa.Array, records: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> Nodes:
        """The lowest common ancestors.

        Two leaves have one node at level l exactly when their codes are equal there, so a group's level is the first at
        which its least and greatest code agree. O(m height) for m grouped records.
        """
        texts = render_text(array)
        tree = _tree(column).over(texts)
        leaf = tree.leaf_codes(texts).astype(np.int64)[records]
        begins = starts[:-1]
        null = leaf < 0
        nulls = np.logical_or.reduceat(null, begins)
        first = np.maximum.reduceat(leaf, begins)
        level = np.full(begins.size, -1, dtype=np.int64)
        for height in range(tree.height, -1, -1):
            codes = tree.codes[height][leaf]
            low = np.minimum.reduceat(np.where(null, np.iinfo(np.int32).max, codes), begins)
            high = np.maximum.reduceat(np.where(null, -1, codes), begins)
            level = np.where(low == high, height, level)
        level = np.where(first < 0, -1, np.where(nulls, tree.height, level))
        return Nodes(column, tree, level, np.maximum(first, 0))

    def spanning(self, null: NDArray[np.bool_], ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Every value: leaves stand in no order that a box would be the ends of."""
        return np.ones(null.size, dtype=np.bool_)


class PrefixKind(NodeKind):
    """The same of a tree that nobody lists: what was seen of it changes no loss, and is not kept."""

    def _domain(self, column: BoundColumn, array: pa.Array, known: Domain | None) -> SetDomain:
        return OPEN


def _tree(column: BoundColumn) -> Tree:
    assert column.tree is not None
    return column.tree
