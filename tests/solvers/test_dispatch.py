"""The one entrance: every method in every shape, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kanonflow.solvers.dispatch import GRAPH_ONLY, METHODS, STARTS, solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.graph import GeneralizationGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.classes import CLASS_STARTS
from kanonflow.solvers.shapes.graph_starts import NUMERIC_ONLY
from kanonflow.solvers.shapes.graphs import GRAPH_STARTS
from kanonflow.solvers.shapes.paper_graphs import PAPER_METHODS
from kanonflow.solvers.shapes.warm_classes import WarmClasses
from kanonflow.solvers.shapes.warm_start import WarmGraph
from tests.levelled_tables import with_halves
from tests.mixed_tables import mixed_table

K = 3
TABLE = with_halves(replace(mixed_table(2, 90), individuals=np.arange(90) % 45))
NUMBERS = mixed_table(2, 24, people=24, cardinality=())
SEARCHING = ("auto", "iterated-local-search", "certify", *PAPER_METHODS)


def served(name: str) -> Table:
    """A table that the method or start of this name takes."""
    return NUMBERS if name in NUMERIC_ONLY else TABLE


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_graph(method: str) -> None:
    """A valid graph; pass-through gives its one class. Only the searching methods evaluate."""
    table = served(method)
    solution = solve(table, K, method=method, budget=Budget(100.0), seed=1)
    if method == "pass-through":
        assert solution.partition.classes == 1
        solution.partition.check(K, table.individuals)
    else:
        solution.graph.check(table.individuals)
        assert solution.loss == pytest.approx(gcp(table, solution.graph), abs=1e-9)
    assert (solution.evaluations > 0) == (method in SEARCHING)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_classes_where_it_applies(method: str) -> None:
    """Classes that could be released; what builds or searches graphs only is refused by name."""
    if method in GRAPH_ONLY or (method in GRAPH_STARTS and method not in CLASS_STARTS):
        with pytest.raises(BudgetError, match=method):
            solve(TABLE, K, shape="classes", method=method, seed=1)
        return
    solution = solve(TABLE, K, shape="classes", method=method, budget=Budget(100.0), seed=1)
    solution.partition.check(K, TABLE.individuals)
    assert (solution.evaluations > 0) == (method in SEARCHING)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("shape", ["graph", "classes"])
def test_every_start_serves_its_shapes(shape: str, start: str) -> None:
    """A start is taken where it exists and named in the solution; elsewhere it is refused."""
    if start not in (GRAPH_STARTS if shape == "graph" else CLASS_STARTS):
        with pytest.raises(BudgetError, match="unknown start"):
            solve(TABLE, K, shape=shape, start=start, seed=1)
        return
    solution = solve(served(start), K, shape=shape, start=start, budget=Budget(20.0), seed=1)
    assert start in ("auto", solution.start)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"method": "k-means"}, "unknown method 'k-means'"),
        ({"start": "k-means"}, "unknown start 'k-means'"),
        ({"start": "k-means", "shape": "classes"}, "unknown start 'k-means'"),
        ({"shape": "ring"}, "unknown shape 'ring'"),
        ({"shape": "ring", "method": "pass-through"}, "unknown shape 'ring'"),
    ],
)
def test_unknown_names_are_refused(wrong: dict[str, str], named: str) -> None:
    """The message names what is unknown and what there is."""
    with pytest.raises(BudgetError, match=named):
        solve(TABLE, K, seed=1, **wrong)  # type: ignore[arg-type]


def test_a_warm_start_of_the_other_shape_is_refused() -> None:
    """Slots are no start for classes, classes none for a graph."""
    classes = WarmClasses(np.zeros(45, dtype=np.int64))
    slots = WarmGraph(np.zeros((90, K), dtype=np.int64))
    with pytest.raises(BudgetError, match="WarmGraph"):
        solve(TABLE, K, warm=classes, seed=1)
    with pytest.raises(BudgetError, match="WarmClasses"):
        solve(TABLE, K, shape="classes", warm=slots, seed=1)


@pytest.mark.parametrize("method", ["l-greedy", "kd-leaves", "pass-through"])
def test_methods_that_do_not_search_start_cold(method: str) -> None:
    """A warm start is the search's; who asks for a start gets that one."""
    warm = WarmGraph(np.arange(270).reshape(90, K) % 45)
    cold = solve(TABLE, K, method=method, seed=1)
    again = solve(TABLE, K, method=method, warm=warm, seed=1)
    assert again.start == cold.start
    assert again.loss == cold.loss


def test_pass_through_costs_the_whole_domain() -> None:
    """Everybody stands in one class, whose box is that of all rows."""
    table = mixed_table(2, 50)
    solution = solve(table, K, method="pass-through", seed=1)
    everybody = GeneralizationGraph(np.tile(np.arange(50, dtype=np.int32), (50, 1)))
    assert solution.loss == pytest.approx(gcp(table, everybody), abs=1e-9)
    assert solution.start == "one-class"


def test_without_a_budget_the_default_is_taken() -> None:
    """Budget() says how many evaluations that is."""
    solution = solve(mixed_table(2, 20), K, seed=1)
    assert solution.evaluations >= Budget().evaluations(20, K)


def test_a_solution_knows_its_shape_and_sums_itself_up() -> None:
    """Asking for the other structure is a TypeError; the summary is one line with the loss."""
    graph = solve(TABLE, K, budget=Budget(10.0), seed=1)
    classes = solve(TABLE, K, shape="classes", budget=Budget(10.0), seed=1)
    with pytest.raises(TypeError, match="not a partition"):
        _ = graph.partition
    with pytest.raises(TypeError, match="not a graph"):
        _ = classes.graph
    assert f"{graph.loss:.5f}" in graph.summary()
    assert "\n" not in graph.summary()
    assert "inf" in replace(graph, lower_bound=0.0).summary()
