"""S0's search as a method: from any start, on rows, within budget and deadline, and where it is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from kanonflow.solvers.catalogue import solver_named, start_names
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.solvers.rivals.paper_graphs import PAPER_METHODS, solve_paper
from kanonflow.solvers.rivals.paper_search import PaperSearch
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough

BUILT_STARTS = {
    name: solver_named(name) for name in start_names("row_graph") if name not in ("auto", *LEVEL_STARTS)
}
K = 3
TABLE = replace(mixed_table(2, 60), individuals=np.arange(60) % 30)
NUMBERS = mixed_table(2, 60, cardinality=())


@pytest.mark.parametrize("start", BUILT_STARTS)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_it_improves_on_any_start(start: str, method: str) -> None:
    """Lower loss than the start, a legal graph, the start's name; iterated, it goes on and is no worse."""
    table = NUMBERS if BUILT_STARTS[start].limits.numeric_only else TABLE
    alone = solve(Task(table, K, seed=1), start)
    solution = solve(Task(table, K, start=start, seed=1), method)
    solution.graph.check(table.individuals)
    assert solution.start == alone.start
    assert solution.trace[-1][1] <= solution.start_loss + 1e-12
    assert solution.lower_bound == alone.lower_bound > 0
    assert solution.tied_edges is not None
    if method == "paper-iterated-local-search":
        single = solve(Task(table, K, start=start, seed=1), "paper-local-search")
        assert solution.evaluations >= 2 * single.evaluations
        assert solution.trace[-1][1] <= single.trace[-1][1]


def test_it_searches_the_loss_that_is_asked_for() -> None:
    """SIL falls further when it is searched; it has no bound."""
    losses = {}
    for loss in ("ncp", "sil", "sil-own"):
        solution = solve_paper(
            Task(TABLE, K, budget=Budget(), seed=1), parameters=PaperSearch(loss=loss), untie=False
        )
        losses[loss] = sil(TABLE, solution.graph)
        assert solution.loss == pytest.approx(losses[loss]) or loss == "ncp"
        assert (solution.lower_bound > 0) == (loss == "ncp")
    assert losses["sil"] < losses["ncp"]
    assert losses["sil"] < losses["sil-own"]


def test_the_same_seed_gives_the_same_graph() -> None:
    """Whatever the threads; another seed, another order of slots."""
    runs = [
        solve(Task(TABLE, K, seed=seed, threads=threads), "paper-local-search").graph.members.tolist()
        for seed, threads in ((1, 1), (1, 3), (2, 1))
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_it_keeps_to_its_budget_and_its_deadline() -> None:
    """No evaluations, no search; a deadline that has passed ends it at once."""
    none = solve(Task(TABLE, K, budget=Budget(0.0), seed=1), "paper-local-search")
    assert none.evaluations == 0
    ticks = itertools.count()
    late = solve_paper(
        Task(TABLE, K, budget=Budget(deadline_ms=1.0), seed=1, clock=lambda: float(next(ticks)))
    )
    assert late.deadline_struck


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_classes_are_refused(method: str) -> None:
    """The message names the method."""
    with pytest.raises(BudgetError, match=method):
        solve(Task(TABLE, K, shape="classes", seed=1), method)


def test_an_unknown_method_is_refused() -> None:
    """By name."""
    with pytest.raises(BudgetError, match="unknown method 'local'"):
        solve_paper(Task(TABLE, K, budget=Budget(), seed=1), method="local")
