"""What this room registers (``solvers/registered.py``): a ``Solver`` for each name that setup.py lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.catalogue import LARGEST_GRAPH_K, Solver, Way, start_alone
from kanonflow.solvers.problem.limits import ANYTHING, Limits
from kanonflow.solvers.rivals import greedy, hungarian, sort_greedy, split_and_carry
from kanonflow.solvers.rivals.black_hole import BlackHoleParameters
from kanonflow.solvers.rivals.certify import CERTIFY_LIMITS, certify_graph
from kanonflow.solvers.rivals.clusterings import (
    CLUSTERINGS,
    LARGEST_QUADRATIC,
    STAR_METHODS,
    SUBQUADRATIC,
    check_size,
    cluster,
    clustered_members,
    individual_input,
    star_problem,
    stars_of,
)
from kanonflow.solvers.rivals.factor_search import SWEEPS_PER_PLACE, factor_search
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.solvers.rivals.paper_graphs import PAPER_METHODS, solve_paper
from kanonflow.solvers.rivals.paper_search import PaperSearch
from kanonflow.solvers.rivals.ring import ring_members
from kanonflow.solvers.rivals.toy_lattices import TOY_LATTICES
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.shapes.class_starts import ClassStartProblem, StartedClasses
from kanonflow.solvers.shapes.graph_starts import GraphStart, StartProblem, dense_first
from kanonflow.solvers.shapes.graphs import LOSSES
from kanonflow.solvers.shapes.lattices import lattice_solver
from kanonflow.solvers.starts.circulant import constructive_members
from kanonflow.solvers.starts.insertion import insertion_members
from kanonflow.solvers.units.kd_tree import slot_tour


def _factor_searched(problem: StartProblem) -> NDArray[np.int32]:
    """The dense-first graph after so many sweeps of assignments: a method of its own, and a start."""
    slots = build_slots(problem.units, dense_first(problem))
    tour = slot_tour(slots.members, problem.tree.order)
    factor_search(problem.units, slots, tour, sweeps=SWEEPS_PER_PLACE * problem.k, seed=problem.seed)
    return slots.members


def _over_units(build: Callable[..., NDArray[np.int32]], problem: StartProblem) -> NDArray[np.int32]:
    return build(problem.units, problem.k, distinct=problem.distinct)


def _over_tree(build: Callable[..., NDArray[np.int32]], problem: StartProblem) -> NDArray[np.int32]:
    return build(problem.units, problem.tree, problem.k, distinct=problem.distinct)


def _graph_starts() -> Iterator[tuple[str, GraphStart, Limits]]:
    yield "factor-search", _factor_searched, ANYTHING
    yield "constructive", partial(_over_units, constructive_members), ANYTHING
    yield "ring", partial(_over_tree, ring_members), ANYTHING
    yield (
        "greedy",
        lambda problem: greedy.greedy_members(problem.units, problem.k),
        Limits(rows=greedy.LARGEST_ROWS),
    )
    yield (
        "sort-greedy",
        lambda problem: sort_greedy.sort_greedy_members(problem.units, problem.tree, problem.k),
        Limits(rows=sort_greedy.LARGEST_ROWS),
    )
    yield (
        "sort-greedy-blocks",
        lambda problem: sort_greedy.sort_greedy_members(
            problem.units, problem.tree, problem.k, block_rows=sort_greedy.BLOCK_ROWS
        ),
        ANYTHING,
    )
    yield (
        "hungarian",
        lambda problem: hungarian.hungarian_members(problem.units, problem.k),
        Limits(rows=hungarian.LARGEST_ROWS),
    )
    yield (
        "split-and-carry",
        partial(_over_units, split_and_carry.split_and_carry_members),
        Limits(rows=split_and_carry.LARGEST_ROWS, k=split_and_carry.LARGEST_K, numeric_only=True),
    )
    yield "insertion", partial(_over_tree, insertion_members), ANYTHING


def _members(name: str, problem: StartProblem) -> NDArray[np.int32]:
    return clustered_members(
        problem.units,
        name,
        problem.k,
        problem.seed,
        distinct=problem.distinct,
        lattice=problem.lattice if name in LEVEL_STARTS else None,
        tree=problem.tree,
        parameters=problem.parameters,
    )


def _labels(name: str, problem: ClassStartProblem) -> StartedClasses:
    """A clustering of individuals; the old classes are one of the first stars of KAB."""
    given = individual_input(problem.table, problem.people, problem.k, problem.seed)
    given = given._replace(parameters=problem.parameters)
    if name != "kab" or problem.old is None:
        return StartedClasses(cluster(name, given))
    check_size(name, given)
    _, dense = np.unique(problem.old, return_inverse=True)
    star = (dense - (1 if (problem.old < 0).any() else 0)).astype(np.int32)
    found = kab_result(star_problem(given), given.seed, stars_of(given), old_star=star)
    return StartedClasses(found.labels, found.warm, found.warm_loss, found.cold_loss)


def _clustering(name: str) -> Solver:
    levels = (
        lattice_solver(name) if name in LEVEL_STARTS and name not in TOY_LATTICES else TOY_LATTICES.get(name)
    )
    limits = ANYTHING if name in SUBQUADRATIC else Limits(rows=LARGEST_QUADRATIC)
    return start_alone(
        name,
        partial(_members, name),
        partial(_labels, name),
        limits=limits if levels is None else levels.limits,
        warm=name == "kab",
        levels=levels,
        parameters=BlackHoleParameters
        if name in STAR_METHODS
        else None
        if levels is None
        else levels.parameters,
    )


def _solvers() -> Iterator[Solver]:
    way = Way(certify_graph, largest_k=LARGEST_GRAPH_K)
    yield Solver("certify", {"row_graph": way}, limits=CERTIFY_LIMITS)
    for name in PAPER_METHODS:
        way = Way(partial(solve_paper, method=name), LOSSES, LARGEST_GRAPH_K)
        yield Solver(name, {"row_graph": way}, parameters=PaperSearch)
    for name, start, limits in _graph_starts():
        yield start_alone(name, start, limits=limits)
    yield from map(_clustering, (*CLUSTERINGS, *LEVEL_STARTS))


RIVALS: dict[str, Solver] = {solver.name: solver for solver in _solvers()}


def rival(name: str) -> Solver:
    """The solver of that name. Raises KeyError: setup.py lists one that is not here."""
    return RIVALS[name]
