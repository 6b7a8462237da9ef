"""``cohort: strict``: k candidates over the last windows, tested on the classes before any matching is drawn.

The promise. Take an individual u of a release and the last W windows in which the partition released anything, this one
included. For every choice of one slot per released row of u in them, at least k individuals, u among them, are members
of all chosen slots. In closed classes every slot of u in a window has the members of u's class, so that is: at least k
individuals were released in u's class in every one of these windows in which u was released. Who was absent, or whose
rows waited, is no candidate there.

Windows are the partition's, not u's own: counted by u's own, a person whose cohort has fallen apart could never be
released again. So it is exiled until its last release is more than W - 1 released windows ago, and then a newcomer.

fixed_cohorts    which returning individuals can be released, and in which cohort: what the solver is given
without_risk     the test itself: classes that break the promise are taken out whole, which changes no other class
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_cohorts import MUST_WAIT, NEWCOMER, FixedCohorts
from kanonflow.solvers.table import Table
from kanonflow.transforms.cohorts import History, candidates_of_last, positions

COHORT_AT_RISK = "cohort_at_risk"
"""Why a row waits or is rejected: with it, too few individuals would be left over the last windows."""


class Tested(NamedTuple):
    """solution: without the classes that would break the promise. at_risk: bool (n,), why they wait, if they do."""

    solution: Solution
    at_risk: NDArray[np.bool_]


def fixed_cohorts(history: History, people: NDArray[np.uint64], k: int, windows: int) -> FixedCohorts:
    """The cohort of each individual who is here, for the solver.

    history: as in ``Cohorts``. people: uint64 (u,), digests. windows: W.

    Whoever was released in none of the last W - 1 windows is a newcomer. The others belong to those with whom they
    shared a class in one of them, directly or over others. Of such a cohort the largest part is taken in which
    everybody has k candidates among those who are here; it exists, because the union of two such parts is one. The rest
    must wait. O(u W + s^2 W) for s different pasts in a cohort.
    """
    recent = history[-(windows - 1) :]
    labels = np.full(people.size, NEWCOMER, dtype=np.int64)
    if not recent:
        return FixedCohorts(labels)
    past = _pasts(recent, people)
    known = (past >= 0).any(axis=1)
    cohort = _connected(recent, people)
    for number in np.unique(cohort[known]):
        own = np.flatnonzero(known & (cohort == number))
        labels[own] = np.where(_covered(past[own], k), number, MUST_WAIT)
    return FixedCohorts(labels)


def _pasts(recent: History, people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The class of each individual in each window, int64 (u, windows), -1 where it was not released."""
    columns = []
    for _, known, labels in recent:
        at = positions(known, people)
        columns.append(np.where(at >= 0, labels[at] if labels.size else -1, -1))
    return np.stack(columns, axis=1)


def _connected(recent: History, people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """A number for each individual, equal for those who are connected by classes that they shared; int64 (u,)."""
    everybody = np.unique(np.concatenate([people, *(known for _, known, _ in recent)]))
    ones, others, classes = [], [], everybody.size
    for _, known, labels in recent:
        _, dense = np.unique(labels, return_inverse=True)
        ones.append(np.searchsorted(everybody, known))
        others.append(classes + dense)
        classes += int(dense.max(initial=-1)) + 1
    edges = np.concatenate(ones), np.concatenate(others)
    graph = coo_array((np.ones(edges[0].size, dtype=np.int8), edges), shape=(classes, classes))
    _, component = connected_components(graph, directed=False)
    return component[np.searchsorted(everybody, people)].astype(np.int64)


def _covered(past: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """The largest set in which everybody has k candidates: bool (m,); past: int64 (m, windows)."""
    kinds, kind, counts = np.unique(past, axis=0, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    # covers[a, b]: who has past b was released with who has past a wherever the latter was.
    covers = np.ones((kinds.shape[0], kinds.shape[0]), dtype=np.bool_)
    for column in kinds.T:
        covers &= (column[:, None] < 0) | (column[:, None] == column[None, :])
    alive = counts.astype(np.int64)
    while True:
        fails = (alive > 0) & (covers @ alive < k)
        if not fails.any():
            return (alive > 0)[kind]
        alive[fails] = 0


def without_risk(
    solution: Solution,
    table: Table,
    people: NDArray[np.uint64],
    history: History,
    given: FixedCohorts,
    k: int,
    windows: int,
) -> Tested:
    """Take out every class in which somebody has fewer than k candidates over the last W windows.

    table.individuals: positions in ``people``. given: what the solver was given, for the reason of waiting only.

    Postcondition: the promise above holds for everybody whom the solution releases. Why here: once a matching is drawn,
    a test on it, or drawing it again, would tell about it. Taking out a whole class leaves the others as they are.
    O(sum of squared class sizes x W).
    """
    who = table.individuals
    assert who is not None
    labels = solution.partition.labels
    kept = labels >= 0
    person, first = np.unique(who[kept], return_index=True)
    risky = np.zeros(labels.size, dtype=np.bool_)
    if person.size:
        own = labels[kept][first].astype(np.int64)
        order = np.argsort(people[person], kind="stable")
        now = (0, people[person][order], own[order])
        few = candidates_of_last((*history[-(windows - 1) :], now)) < k
        dropped = np.zeros(int(own.max()) + 1, dtype=np.bool_)
        dropped[own[order][few]] = True
        risky[kept] = dropped[labels[kept]]
    if risky.any():
        stays = np.where(risky, -1, labels)
        used, dense = np.unique(stays, return_inverse=True)
        partition = Partition((dense - (1 if used[0] < 0 else 0)).astype(np.int32))
        waiting = float((partition.labels < 0).mean())
        loss = waiting + (1.0 - waiting) * gcp(table, partition)
        solution = replace(solution, structure=partition, loss=loss)
    codes = np.unique(who, return_inverse=True)[1]
    return Tested(solution, risky | (given.labels[codes] != NEWCOMER))
