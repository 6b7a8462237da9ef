"""The one entrance: every method in every shape, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kanonflow.solvers.catalogue import solver_named, solver_names, start_names
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import SHAPES, Task
from kanonflow.solvers.rivals.paper_graphs import PAPER_METHODS
from kanonflow.solvers.structures.graph import GeneralizationGraph
from tests.levelled_tables import with_halves
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough

SOLVERS = {name: solver_named(name) for name in solver_names()}
STARTS = {shape: start_names(shape) for shape in SHAPES}
K = 3
TABLE = with_halves(replace(mixed_table(2, 90), individuals=np.arange(90) % 45))
NUMBERS = mixed_table(2, 24, people=24, cardinality=())
SEARCHING = ("auto", "iterated-local-search", "certify", *PAPER_METHODS)


def served(name: str) -> Table:
    """A table that the method or start of this name takes."""
    return NUMBERS if name in SOLVERS and SOLVERS[name].limits.numeric_only else TABLE


@pytest.mark.parametrize("method", SOLVERS)
def test_every_method_gives_a_graph(method: str) -> None:
    """A valid graph; pass-through gives its one class. Only the searching methods evaluate."""
    table = served(method)
    solution = solve(Task(table, K, budget=Budget(100.0), seed=1), method)
    if method == "pass-through":
        assert solution.partition.classes == 1
        solution.partition.check(K, table.individuals)
    else:
        solution.graph.check(table.individuals)
        assert solution.loss == pytest.approx(gcp(table, solution.graph), abs=1e-9)
    assert (solution.evaluations > 0) == (method in SEARCHING)


@pytest.mark.parametrize("method", SOLVERS)
def test_every_method_gives_classes_where_it_applies(method: str) -> None:
    """Classes that could be released; what builds or searches graphs only is refused by name."""
    if "classes" not in SOLVERS[method].ways:
        with pytest.raises(BudgetError, match=method):
            solve(Task(TABLE, K, shape="classes", seed=1), method)
        return
    solution = solve(Task(TABLE, K, shape="classes", budget=Budget(100.0), seed=1), method)
    solution.partition.check(K, TABLE.individuals)
    assert (solution.evaluations > 0) == (method in SEARCHING)


@pytest.mark.parametrize("start", dict.fromkeys((*STARTS["row_graph"], *STARTS["classes"])))
@pytest.mark.parametrize("shape", ["row_graph", "classes"])
def test_every_start_serves_its_shapes(shape: str, start: str) -> None:
    """A start is taken where it exists and named in the solution; elsewhere it is refused."""
    if start not in STARTS[shape]:
        with pytest.raises(BudgetError, match="unknown start"):
            solve(Task(TABLE, K, shape=shape, start=start, seed=1))
        return
    solution = solve(Task(served(start), K, shape=shape, start=start, budget=Budget(20.0), seed=1))
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
    method = wrong.get("method", "auto")
    asked = {name: value for name, value in wrong.items() if name != "method"}
    with pytest.raises(BudgetError, match=named):
        solve(Task(TABLE, K, seed=1, **asked), method)  # type: ignore[arg-type]


def test_a_warm_start_of_the_other_shape_is_refused() -> None:
    """Slots are no start for classes, classes none for a graph."""
    classes = WarmClasses(np.zeros(45, dtype=np.int64))
    slots = WarmGraph(np.zeros((90, K), dtype=np.int64))
    with pytest.raises(BudgetError, match="WarmGraph"):
        solve(Task(TABLE, K, warm=classes, seed=1))
    with pytest.raises(BudgetError, match="WarmClasses"):
        solve(Task(TABLE, K, shape="classes", warm=slots, seed=1))


@pytest.mark.parametrize("method", ["l-greedy", "kd-leaves", "pass-through"])
def test_methods_that_do_not_search_start_cold(method: str) -> None:
    """A warm start is the search's; who asks for a start gets that one."""
    warm = WarmGraph(np.arange(270).reshape(90, K) % 45)
    cold = solve(Task(TABLE, K, seed=1), method)
    again = solve(Task(TABLE, K, warm=warm, seed=1), method)
    assert again.start == cold.start
    assert again.loss == cold.loss


def test_pass_through_costs_the_whole_domain() -> None:
    """Everybody stands in one class, whose box is that of all rows."""
    table = mixed_table(2, 50)
    solution = solve(Task(table, K, seed=1), "pass-through")
    everybody = GeneralizationGraph(np.tile(np.arange(50, dtype=np.int32), (50, 1)))
    assert solution.loss == pytest.approx(gcp(table, everybody), abs=1e-9)
    assert solution.start == "one-class"


def test_without_a_budget_the_default_is_taken() -> None:
    """Budget() says how many evaluations that is."""
    solution = solve(Task(mixed_table(2, 20), K, seed=1))
    assert solution.evaluations >= Budget().evaluations(20, K)


def test_a_solution_knows_its_shape_and_sums_itself_up() -> None:
    """Asking for the other structure is a TypeError; the summary is one line with the loss."""
    graph = solve(Task(TABLE, K, budget=Budget(10.0), seed=1))
    classes = solve(Task(TABLE, K, shape="classes", budget=Budget(10.0), seed=1))
    with pytest.raises(TypeError, match="not a Partition"):
        _ = graph.partition
    with pytest.raises(TypeError, match="not a GeneralizationGraph"):
        _ = classes.graph
    assert f"{graph.loss:.5f}" in graph.summary()
    assert "\n" not in graph.summary()
    assert "inf" in replace(graph, lower_bound=0.0).summary()
