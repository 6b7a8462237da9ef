"""What a generalization graph must be: each invariant has a planted fault."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.graph import GeneralizationGraph
from tests.regular_graphs import rewired, ring


@pytest.mark.parametrize(("n", "k"), [(2, 2), (5, 2), (9, 4), (7, 7)])
def test_regular_graphs_pass(n: int, k: int) -> None:
    """Rings, complete graphs and rewired ones are simple and k-regular."""
    GeneralizationGraph(ring(n, k)).check()
    GeneralizationGraph(rewired(ring(n, k), 50, n)).check(np.arange(n) + 100)


def test_the_empty_graph_passes() -> None:
    """No slots, no fault."""
    GeneralizationGraph(np.empty((0, 3), dtype=np.int32)).check()


def test_sizes_are_read_off() -> None:
    """n slots of k members."""
    graph = GeneralizationGraph(ring(6, 4))
    assert (graph.records, graph.k) == (6, 4)


@pytest.mark.parametrize("stranger", [-1, 6])
def test_a_record_that_does_not_exist_is_found(stranger: int) -> None:
    """Members are 0 .. n - 1."""
    members = ring(6, 3)
    members[2, 1] = stranger
    with pytest.raises(StructureError, match="does not exist"):
        GeneralizationGraph(members).check()


def test_a_record_with_another_degree_is_found() -> None:
    """Every record is a member of exactly k slots."""
    members = ring(6, 3)
    members[0] = [0, 1, 5]
    with pytest.raises(StructureError, match="exactly k=3"):
        GeneralizationGraph(members).check()


def test_a_double_edge_is_found() -> None:
    """No slot names a record twice, even when all degrees are right."""
    members = ring(6, 2)
    members[0], members[1] = [1, 1], [0, 2]
    with pytest.raises(StructureError, match="same individual twice"):
        GeneralizationGraph(members).check()


def test_an_individual_that_stands_in_a_slot_twice_is_found() -> None:
    """Different records of one individual in one slot are a fault; in different slots they are not."""
    graph = GeneralizationGraph(ring(6, 2))
    graph.check(np.array([0, 1, 0, 1, 2, 3]))
    with pytest.raises(StructureError, match="same individual twice"):
        graph.check(np.array([0, 1, 2, 2, 4, 5]))
