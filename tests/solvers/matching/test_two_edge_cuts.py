"""Two-edge cuts: found exactly, exchanged away, and gone from what the solver returns."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.matching.two_edge_cuts import tied_edges, two_edge_cuts, without_two_edge_cuts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.structures.graph import GeneralizationGraph
from tests.regular_graphs import ring, searched, side_by_side


def parts_when_removed(members: np.ndarray, one: int, other: int) -> bool:
    """Whether a graph has more components without two of its edges (slot * k + position)."""
    n, k = members.shape

    def components(skipped: set[int]) -> int:
        label = list(range(2 * n))
        for edge in range(n * k):
            if edge not in skipped:
                old, new = label[n + int(members[edge // k, edge % k])], label[edge // k]
                label = [new if value == old else value for value in label]
        return len(set(label))

    return components({one, other}) > components(set())


def two_blocks_crossed(k: int) -> np.ndarray:
    """Two complete components with one pair of members exchanged: the cut that a search makes."""
    members = side_by_side(ring(k, k), ring(k, k)).copy()
    members[0, 0], members[k, 0] = members[k, 0], members[0, 0]
    return members


@settings(max_examples=40, derandomize=True)
@given(n=st.integers(4, 9), k=st.integers(2, 3), seed=st.integers(0, 10_000))
def test_cuts_are_those_of_the_naive_twin(n: int, k: int, seed: int) -> None:
    """An edge is reported exactly when removing it together with some other edge parts a component."""
    members = searched(max(n, k + 1), k, seed)
    tied = set()
    for one, other in combinations(range(members.size), 2):
        if parts_when_removed(members, one, other):
            tied |= {one, other}
    assert set(two_edge_cuts(members).tolist()) == tied


@pytest.mark.parametrize("k", [3, 5, 7])
def test_an_exchange_between_complete_components_is_taken_back(k: int) -> None:
    """Two complete components joined by two edges have exactly those in a cut, and are parted again."""
    members = two_blocks_crossed(k)
    assert set(two_edge_cuts(members).tolist()) == {0, k * k}
    parted, left = without_two_edge_cuts(members, None)
    GeneralizationGraph(parted).check()
    assert left == 0
    assert two_edge_cuts(parted).size == 0


@pytest.mark.parametrize("people", [None, 120])
def test_the_solver_returns_graphs_without_ties(people: int | None) -> None:
    """On a window of 400 rows the graph is legal, its cuts are gone, and the reported number of ties is true."""
    generator = np.random.default_rng(7)
    n = 400
    individuals = None if people is None else np.arange(n) % people
    table = Table(
        generator.random((n, 2)),
        generator.integers(0, 4, (n, 1)).astype(np.int32),
        np.array([4]),
        np.ones(3),
        individuals,
    )
    free = solve_graph(Task(table, 5, budget=Budget(800), seed=3), untie=False)
    solution = solve_graph(Task(table, 5, budget=Budget(800), seed=3))
    solution.graph.check(individuals)
    assert solution.tied_edges == two_edge_cuts(solution.graph.members).size
    assert solution.tied_edges <= two_edge_cuts(free.graph.members).size // 4


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 12) | st.integers(2**63, 2**64 - 1), max_size=40))
def test_tied_edges_stand_in_the_order_of_their_labels(labels: list[int]) -> None:
    """Those of a label that comes again, label by label, each label's by number."""
    tied = [(label, edge) for edge, label in enumerate(labels) if labels.count(label) > 1]
    assert tied_edges(np.array(labels, np.uint64)).tolist() == [edge for _, edge in sorted(tied)]
