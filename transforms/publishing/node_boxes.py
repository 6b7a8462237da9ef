"""Boxes of fields with a hierarchy: the lowest node above all values of a group."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.sort_keys import whole


@dataclass(frozen=True)
class Nodes:
    """The boxes of one field with a hierarchy.

    level: int64 (b,), the lowest level at which all values of the box have one node; the root's where it holds nulls
    and values; -1 where it holds nulls only. leaf: int64 (b,), one of its leaves (0 for nulls only).
    """

    column: BoundColumn
    hierarchy: Hierarchy
    level: NDArray[np.int64]
    leaf: NDArray[np.int64]

    @property
    def ncp(self) -> NDArray[np.float64]:
        """NCP of each box, float64 (b,): leaves below the node / all leaves, 0 for one; 1 for nulls among values (S4,
        eq. 2)."""
        loss = self.hierarchy.ncp[self.level, self.leaf]
        return np.where(self.level < 0, 0.0, np.where(self._everything, 1.0, loss))

    @property
    def _everything(self) -> NDArray[np.bool_]:
        return self.level == self.hierarchy.height

    def raised(self, level: int) -> Nodes:
        """The same boxes at least at a level: the nodes that a release at levels publishes; nulls alone stay null below
        the root."""
        height = self.hierarchy.height
        nulls = height if level == height else -1
        return replace(self, level=np.where(self.level < 0, nulls, np.maximum(self.level, level)))

    def labels(self) -> pa.Array:
        """The label of each box's node, null for nulls only; string (b,)."""
        names = np.array(self.hierarchy.rows, dtype=object)
        return pa.array(names[self.leaf, self.level], pa.string(), mask=self.level < 0)


def lowest_nodes(
    column: BoundColumn,
    hierarchy: Hierarchy,
    rows: pa.Table,
    records: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> Nodes:
    """The lowest common ancestors of groups of records; group g is ``records[starts[g] : starts[g + 1]]``.

    Two leaves have one node at level l exactly when their codes are equal there, so a group's level is the first at
    which its least and greatest code agree. O(m height) for m grouped records.
    """
    leaf = hierarchy.leaf_codes(render_text(whole(rows.column(column.name)))).astype(np.int64)[records]
    begins = starts[:-1]
    null = leaf < 0
    nulls = np.logical_or.reduceat(null, begins)
    first = np.maximum.reduceat(leaf, begins)
    level = np.full(begins.size, -1, dtype=np.int64)
    for height in range(hierarchy.height, -1, -1):
        codes = hierarchy.codes[height][leaf]
        low = np.minimum.reduceat(np.where(null, np.iinfo(np.int32).max, codes), begins)
        high = np.maximum.reduceat(np.where(null, -1, codes), begins)
        level = np.where(low == high, height, level)
    level = np.where(first < 0, -1, np.where(nulls, hierarchy.height, level))
    return Nodes(column, hierarchy, level, np.maximum(first, 0))
