"""SIL against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from tests import naive
from tests.mixed_tables import scrambled_graph, tables


@settings(derandomize=True)
@given(tables(k=3, most=14), st.integers(0, 100))
def test_the_distance_of_a_graph_is_the_mean_over_edges(table: Table, seed: int) -> None:
    """Every record against the average of every slot it may be published in."""
    members = scrambled_graph(table, 3, seed)
    assert sil(table, GeneralizationGraph(members)) == pytest.approx(
        naive.sil(table, members.tolist()), abs=1e-9
    )


@settings(derandomize=True)
@given(tables(most=14), st.data())
def test_the_distance_of_a_partition_is_the_mean_over_released_rows(
    table: Table, data: st.DataObject
) -> None:
    """Every released record against the average of its class; waiting ones are left out."""
    labels = data.draw(st.lists(st.integers(-1, 3), min_size=table.records, max_size=table.records))
    groups = [[row for row, label in enumerate(labels) if label == number] for number in range(4)]
    expected = naive.sil(table, [group for group in groups if group])
    assert sil(table, Partition(np.array(labels, dtype=np.int32))) == pytest.approx(expected, abs=1e-9)


def test_a_worked_example() -> None:
    """0 and 1 lie one standard deviation (1/2) from their mean; of three codes one misses the mode."""
    numbers = Table(np.array([[0.0], [1.0]]), np.empty((2, 0), np.int32), np.empty(0, np.int64), np.ones(1))
    assert sil(numbers, Partition(np.zeros(2, dtype=np.int32))) == pytest.approx(1.0)
    codes = Table(np.empty((3, 0)), np.array([[1], [1], [0]], np.int32), np.array([2]), np.ones(1))
    assert sil(codes, Partition(np.zeros(3, dtype=np.int32))) == pytest.approx(1 / 3)
