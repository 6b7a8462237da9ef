"""NCP and GCP: the published example, and the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.loss.ncp import attribute_ncp, gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from tests import naive
from tests.mixed_tables import scrambled_graph, tables

# S2, Table I: eight tuples, and the tuples that match each anonymized one.
AGE = [59, 57, 39, 28, 41, 37, 40, 53]
SALARY = [25, 27, 47, 41, 20, 59, 35, 34]
MATCHES = [[0, 1, 7], [0, 1, 7], [2, 3, 5], [3, 4, 5], [0, 4, 6], [2, 3, 5], [2, 4, 6], [1, 6, 7]]
AGE_RANGES = [(53, 59), (53, 59), (28, 39), (28, 41), (40, 59), (28, 39), (39, 41), (40, 57)]
SALARY_RANGES = [(25, 34), (25, 34), (41, 59), (20, 59), (20, 35), (41, 59), (20, 47), (27, 35)]


def published_table() -> Table:
    """Age on 28-59 and Salary on 20-59, the least and the greatest values of the example."""
    numeric = np.stack([(np.array(AGE) - 28) / 31, (np.array(SALARY) - 20) / 39], axis=1)
    return Table(numeric, np.empty((8, 0), np.int32), np.empty(0, np.int64), np.ones(2))


def test_the_published_example_has_its_loss() -> None:
    """S2, Table I: the matches are 3-regular, give the printed ranges, and GCP = 0.400538."""
    graph = GeneralizationGraph(np.array(MATCHES, dtype=np.int32))
    graph.check()
    for slot, match in enumerate(MATCHES):
        ages, salaries = [AGE[t] for t in match], [SALARY[t] for t in match]
        assert (min(ages), max(ages)) == AGE_RANGES[slot]
        assert (min(salaries), max(salaries)) == SALARY_RANGES[slot]
    assert gcp(published_table(), graph) == pytest.approx(0.400538, abs=5e-7)


def test_the_published_example_in_each_attribute() -> None:
    """The printed ranges, summed by hand: Age 96 / (31 x 8), Salary 158 / (39 x 8)."""
    losses = attribute_ncp(published_table(), GeneralizationGraph(np.array(MATCHES, dtype=np.int32)))
    ages = sum(high - low for low, high in AGE_RANGES)
    salaries = sum(high - low for low, high in SALARY_RANGES)
    assert losses.tolist() == pytest.approx([ages / (31 * 8), salaries / (39 * 8)])


@settings(derandomize=True)
@given(tables(trees=True, k=3), st.integers(0, 100))
def test_the_loss_of_a_graph_is_the_mean_over_slots(table: Table, seed: int) -> None:
    """NCP of each box by its definition, with nulls and single-valued domains; GCP their weighted mean."""
    graph = GeneralizationGraph(scrambled_graph(table, 2, seed))
    boxes = [naive.ncp(table, slot) for slot in graph.members.tolist()]
    assert attribute_ncp(table, graph).tolist() == pytest.approx(np.mean(boxes, axis=0).tolist(), abs=1e-12)
    losses = [naive.box_loss(table, slot) for slot in graph.members.tolist()]
    assert gcp(table, graph) == pytest.approx(np.mean(losses), abs=1e-12)


@settings(derandomize=True)
@given(tables(trees=True), st.data())
def test_the_loss_of_a_partition_is_the_mean_over_released_rows(table: Table, data: st.DataObject) -> None:
    """Each released row counts its class's box; rows that wait do not count."""
    labels = data.draw(st.lists(st.integers(-1, 3), min_size=table.records, max_size=table.records))
    rows = [row for row, label in enumerate(labels) if label >= 0]
    boxes = [[other for other in rows if labels[other] == labels[row]] for row in rows]
    expected = np.mean([naive.box_loss(table, box) for box in boxes]) if rows else 0.0
    assert gcp(table, Partition(np.array(labels, dtype=np.int32))) == pytest.approx(expected, abs=1e-12)


def test_the_ends_of_the_scale() -> None:
    """Equal records cost 0; a box of the whole domain costs 1."""
    table = Table(
        np.array([[0.0], [0.0], [1.0]]),
        np.array([[0], [0], [1]], np.int32),
        np.array([2]),
        np.array([1.0, 3.0]),
    )
    assert gcp(table, Partition(np.array([0, 0, -1], dtype=np.int32))) == 0.0
    assert gcp(table, Partition(np.array([0, 0, 0], dtype=np.int32))) == 1.0
