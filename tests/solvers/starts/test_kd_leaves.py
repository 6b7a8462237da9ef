"""The start from k-d leaves is a valid graph of small components."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.matching.components import component_labels
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.kd_leaves import kd_leaf_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive
from tests.mixed_tables import mixed_table, tables


@settings(derandomize=True)
@given(tables(most=60, k=4), st.integers(2, 4))
def test_leaves_give_a_valid_graph(table: Table, k: int) -> None:
    """Regular over units, and simple over rows and individuals, whenever a graph exists."""
    units = group_rows(table)
    distinct = table.individuals is not None
    members = kd_leaf_members(units, k, distinct=distinct)
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


def test_components_are_small() -> None:
    """On rows that all differ, leaves are below 3k rows: a known match exposes few."""
    table = mixed_table(4, 500, numeric=3, cardinality=(5, 90), nulls=0.0, people=500)
    units = group_rows(table)
    members = deal_rows(units, kd_leaf_members(units, 5, distinct=True))
    sizes = np.bincount(component_labels(members))
    assert sizes.min() >= 5
    assert np.median(sizes) < 15
