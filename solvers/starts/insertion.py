"""Insertion: a graph grows by one record at a time, which joins k - 1 edges near it.

Record v takes k - 1 edges (y_t -> x_t), distinct members y_t of distinct slots x_t: v takes the place of y_t in x_t,
and the new slot is {v, y_1 .. y_(k-1)}. Every record then stands in k slots again, and every slot holds k records.
Records come in an order that is coarse first and fine later, so that those before v lie all round it.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bits import bits_cost
from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.errors import InfeasibleError
from kanonflow.solvers.kd_tree import KdTree
from kanonflow.solvers.neighbours import node_bound, pair_loss
from kanonflow.solvers.search.slots import PLACE, Slots, admits, build_slots, refresh, replaced_loss
from kanonflow.solvers.starts.circulant import constructive_members

# Near units whose edges are considered for one record: the more, the better the graph and the longer it takes.
NEAR = 12
# Places of one unit that are looked at, when equal rows give it more.
PLACES = 64


class _Growing(NamedTuple):
    """filled: int64 (u,), places of each unit so far. live: int64 (nodes,), inserted units below each tree node.

    position: int64 (u,), where a unit stands in the tree's order. size: int64 (1,), slots so far.
    near: int32 (m,), distance: float64 (m,), stack: int64 (nodes,), bounds: float64 (nodes,): scratch of a query.
    edges: int64 (room, 3), unit, slot and position of each candidate edge; price: float64 (room,).
    open_slot: int64 (n,), whether a slot is among those chosen (the number of the record that asked).
    chosen: int64 (k, 2), slot and position of the chosen edges.
    """

    filled: NDArray[np.int64]
    live: NDArray[np.int64]
    position: NDArray[np.int64]
    size: NDArray[np.int64]
    near: NDArray[np.int32]
    distance: NDArray[np.float64]
    stack: NDArray[np.int64]
    bounds: NDArray[np.float64]
    edges: NDArray[np.int64]
    price: NDArray[np.float64]
    open_slot: NDArray[np.int64]
    chosen: NDArray[np.int64]
