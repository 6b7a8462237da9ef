"""S0's search as a method of ``solve``: a start by name, the search over its rows, the result as others give it."""

from __future__ import annotations

from dataclasses import replace

from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.matching.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.parameters import chosen
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.paper_search import PaperSearch, paper_search, paper_state
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.graph import GeneralizationGraph

# method -> whether it perturbs and goes on after the first local optimum
PAPER_METHODS = {"paper-local-search": False, "paper-iterated-local-search": True}


def solve_paper(
    task: Task,
    *,
    method: str = "paper-local-search",
    parameters: PaperSearch | None = None,
    untie: bool = True,
) -> Solution:
    """A k-regular graph over rows by S0's local search (Algorithm 2) or its iteration (Algorithm 1).

    Without ``evaluations_per_row`` the search goes to its local optimum, the iterated one twice as far: on 10,000 rows
    minutes, growing with the square of the rows; a deadline counts from the call. Threads are for the start only.
    parameters: of the paper's search, whose loss then stands for the task's. untie: exchange two-edge cuts away at the
    end, as ``solve_graph`` does.
    The solution's loss is the one that was searched (``sil-own``: SIL); for SIL its lower bound is 0, which says
    nothing.

    Raises InfeasibleError when no graph exists, BudgetError for an unknown method or start, UnservedError for a table
    with too many categorical values for the paper's counters, or that the start does not take.
    """
    if method not in PAPER_METHODS:
        raise BudgetError(f"unknown method {method!r}: choose one of {', '.join(PAPER_METHODS)}")
    given = parameters if parameters is not None else chosen(PaperSearch, task.parameters, loss=task.loss)
    table, budget = task.table, task.budget
    deadline = task.deadline()
    begun = solve_graph(replace(task, loss="ncp", warm=None), search=False, untie=False)
    state = paper_state(table, begun.graph.members, given)
    start_loss = float(state.loss.mean())
    result = paper_search(
        state,
        table.individuals,
        given,
        iterated=PAPER_METHODS[method],
        evaluations=None if budget.evaluations_per_row is None else budget.evaluations(table.records, task.k),
        seed=task.seed,
        deadline=deadline,
        clock=task.clock,
        progress=task.progress,
    )
    members, tied = state.members, None
    if untie:
        members, tied = without_two_edge_cuts(members, table.individuals)
    graph = GeneralizationGraph(members)
    return replace(
        begun,
        structure=graph,
        loss=gcp(table, graph) if given.loss == "ncp" else sil(table, graph),
        tied_edges=tied,
        start_loss=start_loss,
        lower_bound=begun.lower_bound if given.loss == "ncp" else 0.0,
        evaluations=result.evaluations,
        deadline_struck=result.deadline_struck,
        trace=((0, start_loss), *result.trace),
    )
