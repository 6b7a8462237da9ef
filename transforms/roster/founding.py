"""Founding: all people of the pool are put into cohorts, once and for good.

    found(pool, head, bound, domains, ...) -> Founded(segment, domains, loss)

It sees the frozen values of the pool and nothing else: one point of weight 1 a person, whoever has how many rows. So
exchanging the rows of two people who enter together changes no cohort. Whom a file of people names and who was seen
never share one: of the one nobody knows whether there was a row before, of the other everybody does. Nor do people whom
files of two runs named first: one of the later file may have been seen between the two.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.tree_cut import even_sample, make_cut
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.kinds.domains import Domains, RangeDomain, SetDomain
from kanonflow.transforms.roster.corners import COHORT, corners
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead, Segment


class Founded(NamedTuple):
    """segment: the newcomers, in their cohorts. domains: as they are once the newcomers' values are in them.

    loss: GCP of the newcomers' boxes, one row a person, in [0, 1].
    """

    segment: Segment
    domains: dict[str, RangeDomain | SetDomain]
    loss: float


# Of the evaluations that a graph of as many rows gets: 3,500 a person at k = 5. sparkov, 91 days, GCP of the hulls by
# three secrets: .0676, .0662, .0670; at 5,000 .0675, .0658, .0661, and founding takes 1.4 times as long.
_SHARE = 0.7

PART = 200_000
"""A pool of more people is founded in pieces of near people: that bounds memory, and threads share the pieces."""

PIECE = 16_000
"""People of a piece; more where cohorts are large."""

SAMPLE = 20_000
"""So many of the pool are founded first, to see where few cohorts are parted by a cut."""

SAMPLE_LESS = 10
"""By so much fewer evaluations a person: it says where to cut, and is thrown away (one run of 300,000 demo people: at
300 a person .01375, at all 2,858 of them .01385)."""

SHARES = 10
"""A piece has people for at least half as many cohorts."""

MOST = 4_000_000
"""More people than this do not enter together: it would take longer than a checkpoint may (docs/operations.md)."""


def found(
    pool: Pool, head: RosterHead, bound: BoundPolicy, domains: Domains, *, seed: int, threads: int
) -> Founded:
    """The cohorts of a pool.

    pool: at least ``cohort_size`` people, and at most ``MOST``, of each kind that is in it (``Pool.kind``).
    head: of the roster so far; the cohorts' numbers go on from it. domains: those of the partition. seed: of the
    search.

    Postcondition: every person is in one cohort of at least ``cohort_size``; a function of the arguments but for
    ``threads``, which has no say. Time: that of the solver.
    """
    size = bound.policy.cohorts.cohort_size
    encoded = encode(pool.values, bound, None, domains)
    labels, loss = _apart(encoded.table, pool.kind, bound.policy, size, seed, threads)
    # Numbered by their first member, in the order of digests.
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    cohort = rank[dense]
    boxes = corners(pool.values, cohort, bound)
    numbered = pa.array(np.asarray(boxes.column(COHORT)) + head.cohorts, pa.int64())
    boxes = boxes.set_column(0, COHORT, numbered)
    return Founded(Segment(head, pool.people, cohort + head.cohorts, boxes), encoded.domains, loss)


def _apart(
    table: Table, kind: NDArray[np.int64], policy: Policy, size: int, seed: int, threads: int
) -> tuple[NDArray[np.int64], float]:
    """The class of each person and the loss, people of each kind by themselves; who was seen comes last."""
    labels, lost, classes = np.empty(table.records, dtype=np.int64), 0.0, 0
    for one in sorted(set(kind.tolist()), key=lambda each: (each < 0, each)):
        own = np.flatnonzero(kind == one)
        part = table if own.size == table.records else rows_of(table, own)
        its, loss = _labels(part, policy, size, seed, threads)
        labels[own] = its + classes
        classes += int(its.max()) + 1
        lost += loss * own.size
    return labels, lost / table.records


def rows_of(table: Table, rows: NDArray[np.int64]) -> Table:
    return replace(table, numeric=table.numeric[rows], categorical=table.categorical[rows])


def _labels(
    table: Table, policy: Policy, size: int, seed: int, threads: int
) -> tuple[NDArray[np.int64], float]:
    """The class of each person, int64 (n,), and the loss. Large pools are cut where people are unlike."""
    people = table.records
    budget = budget_of(policy.solver.evaluations_per_row, people, size)
    if people <= PART:
        return put_together(table, policy, size, budget, seed, threads)
    parts = _pieces(table, policy, size, seed)
    seeds = np.random.SeedSequence(seed).generate_state(len(parts), np.uint64)

    def solved(part: NDArray[np.int64], seed_of_part: np.uint64) -> tuple[NDArray[np.int64], float]:
        return put_together(rows_of(table, part), policy, size, budget, int(seed_of_part) >> 1, 1)

    labels, lost, classes = np.empty(people, dtype=np.int64), 0.0, 0
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        for part, (own, loss) in zip(parts, pool.map(solved, parts, seeds), strict=True):
            labels[part] = own + classes
            classes += int(own.max()) + 1
            lost += loss * part.size
    return labels, lost / people


def _pieces(table: Table, policy: Policy, size: int, seed: int) -> list[NDArray[np.int64]]:
    """The people of each piece, ascending: a function of their values, but for which of equal ones is where."""
    few = budget_of(policy.solver.evaluations_per_row, table.records, size, SAMPLE_LESS)
    sample = even_sample(table, max(SAMPLE, SHARES * size))
    cohorts, _ = put_together(rows_of(table, sample), policy, size, few, seed, 1)
    cut = make_cut(table, sample, cohorts, max(1, table.records // max(PIECE, SHARES * size)))
    piece = cut.piece_of(table)
    return np.split(np.argsort(piece, kind="stable"), np.cumsum(np.bincount(piece))[:-1])


def put_together(
    table: Table,
    policy: Policy,
    size: int,
    budget: Budget,
    seed: int,
    threads: int,
    warm: WarmClasses | None = None,
) -> tuple[NDArray[np.int64], float]:
    """The same of people who are solved at once: by the policy's method, or by ``auto`` if that takes no such table.

    warm: what the search begins with; None: nothing. The loss is that of everybody's boxes.
    """
    task = Task(
        table,
        size,
        shape="classes",
        start=policy.solver.start,
        loss=policy.solver.loss,
        # As long as a graph is searched: what is found is used in every window of the epoch.
        budget=budget,
        seed=seed,
        threads=threads,
        warm=warm,
        parameters=dict(policy.solver.parameters),
        figures=False,
    )
    try:
        solution = solve(task, policy.solver.method)
    except UnservedError:
        solution = solve(replace(task, start="auto", parameters={}))
    labels = _everybody(table, solution.partition.labels.astype(np.int64), size)
    if solution.partition.labels.min() >= 0:
        return labels, solution.loss
    # The solver counts whom it leaves out as lost whole.
    boxes = Partition(labels.astype(np.int32))
    return labels, gcp(table, boxes) if policy.solver.loss == "ncp" else sil(table, boxes)


def budget_of(each: float | None, people: int, size: int, less: int = 1) -> Budget:
    """Of a pool in parts fewer evaluations a person: by the root of its size in parts, so that it ends in time.

    less: by so much fewer again.
    """
    default = _SHARE * Budget().evaluations(people, size) / people / max(1.0, people / PART) ** 0.5
    return Budget((default if each is None else each) / less)


def _everybody(table: Table, labels: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Labels without -1: who is left out by the solver joins the class that grows least.

    Why: nobody may be left behind by an intake, for that would be a choice by quasi-identifiers.
    """
    out = np.flatnonzero(labels < 0)
    if out.size == 0:
        return labels
    units = labels.copy()
    units[out] = labels.max() + 1 + np.arange(out.size)
    members = np.bincount(units)
    joined = merge_cohorts(
        MergeTask(
            Table(
                table.numeric,
                table.categorical,
                table.cardinality,
                table.weights,
                individuals=units,
                heights=table.heights,
            ),
            rows=members,
            active=members,
            k=size,
            seed=0,
            evaluations=0,
        )
    )
    return joined.labels[units].astype(np.int64)
