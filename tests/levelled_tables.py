"""Small tables that come with hierarchies, for starts by lattice methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable
from kanonflow.solvers.problem.table import Table
from tests.mixed_tables import tables


def with_halves(table: Table) -> Table:
    """The table with a hierarchy a column: its values in their order, then by twos, by fours, ... to one root."""
    columns = [np.where(np.isnan(column), 2.0, column) for column in table.numeric.T]
    columns += list(table.categorical.T)
    leaves = [np.unique(column, return_inverse=True)[1].astype(np.int32) for column in columns]
    return replace(table, lattice=Lattice(tuple(map(_halved, leaves)), np.stack(leaves, axis=1)))


def _halved(leaves: NDArray[np.int32]) -> LevelTable:
    levels = [np.arange(int(leaves.max(initial=0)) + 1)]
    while levels[-1].max() > 0 or len(levels) == 1:
        levels.append(levels[-1] // 2)
    return LevelTable(np.stack(levels).astype(np.int32))


@st.composite
def levelled(draw: st.DrawFn, *, k: int = 1, most: int = 24, individuals: bool | None = None) -> Table:
    """Mixed tables with such hierarchies."""
    return with_halves(draw(tables(k=k, most=most, individuals=individuals)))
