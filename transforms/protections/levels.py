"""Windows that are released at levels of hierarchies: rows as a lattice, and the classes of its best node.

A release is then homogeneous: rows with equal labels are a closed class of at least k individuals, their payloads are
permuted as in every closed class, and rows whose class would be too small are suppressed: rejected, not held.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.solvers.lattice.closed_node import closed_node
from kanonflow.solvers.lattice.lattice_node import LatticeNode, lattice_node
from kanonflow.solvers.lattice.losses import node_gcp
from kanonflow.solvers.lattice.node_checks import KnownNodes, LatticeWork
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector
from kanonflow.solvers.shapes.lattices import LatticeTask, lattice_solver, solve_lattice, suppression_limit
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import Encoded
from kanonflow.transforms.protections.rows_as_lattice import lattice_of_rows
from kanonflow.transforms.protections.solver_refusals import refusals_of_levels
from kanonflow.transforms.protections.window import Window
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import (
    OVER_LIMIT,
    SUPPRESSED,
    Unreleased,
    hold,
    own_ends,
    picked,
    reject,
)
from kanonflow.transforms.release.stages import Answer, People
from kanonflow.transforms.release.warm_state import WarmState

MOST_KNOWN = 2_000
"""Nodes of each kind that are kept for the next window."""
MOST_CLOSED = 100
"""Nodes that are tried in turn when closing the classes suppresses too many rows."""


class Levels(Window):
    """Every field stands at one level; what the budget of suppression leaves out is rejected, and does not wait."""

    shape = "lattice_node"

    def refusals(self, policy: Policy) -> list[str]:
        """As of ``Protection``."""
        return refusals_of_levels(policy)

    def solution(
        self, due: Due, rows: pa.Table, people: People, encoded: Encoded, warm: WarmState
    ) -> tuple[Solution, NDArray[np.bool_] | None]:
        """No clock has a part in it."""
        return solve_levels_of_rows(rows, due.bound, due.search_seed, warm.known, people.of_row)

    def left_out(
        self, due: Due, answer: Answer, kept: NDArray[np.bool_], suppressed: NDArray[np.bool_] | None
    ) -> Unreleased:
        """What is neither kept nor suppressed is above what enough individuals share."""
        gone = np.zeros_like(kept) if suppressed is None else suppressed
        left = reject(due, picked(answer.rows, gone), SUPPRESSED)
        return left + hold(due, picked(answer.rows, ~kept & ~gone), OVER_LIMIT)


def solve_levels_of_rows(
    rows: pa.Table,
    bound: BoundPolicy,
    seed: int,
    known: KnownNodes | None = None,
    individuals: NDArray[np.int64] | None = None,
) -> tuple[Solution, NDArray[np.bool_]]:
    """The node of least GCP among the minimal k-anonymous ones that the policy's solver finds; and the mask of the
    suppressed rows, bool (n,).

    One evaluation is a node; without ``evaluations_per_row`` there are 5,000 of them (kgen, random-search). The loss is
    GCP by leaves, a null counted as a leaf, a suppressed row 1. Always has an answer: the roots.

    known: what the window before found out; it is checked first. Exact solvers answer the same with and without, with
    fewer evaluations, which are here the nodes that took a pass over the rows. OLA proves the nodes of least GCP, and
    all minimal ones only where closing the classes of those suppresses too many rows.
    """
    choice = bound.policy.solver
    lattice = lattice_of_rows(rows, bound, individuals)
    if known is not None and known.anonymous.shape[1] != lattice.attributes:
        known = None
    priority = own_ends(rows, bound)
    task = LatticeTask(
        lattice,
        bound.policy.k,
        suppression=choice.suppression,
        loss="gcp",
        seed=seed,
        known=known,
        parameters=dict(choice.parameters),
        only_best=True,
        acceptable=None if individuals is None else partial(_stays_within, lattice, bound, priority),
    )
    if choice.evaluations_per_row is not None:
        task = replace(task, evaluations=max(1, round(choice.evaluations_per_row * rows.num_rows)))
    found = solve_lattice(task, choice.method)
    node, suppressed = found.best, found.best.suppressed
    if individuals is not None:
        node, suppressed = _closed(lattice, found.nodes, bound, priority)
    warm = known is not None and lattice_solver(choice.method).warm
    last_cold = known.cold if known is not None and warm else found.counts.checked
    solution = Solution(
        structure=node,
        loss=node_gcp(lattice, node),
        start_loss=1.0,
        lower_bound=0.0,
        start="warm" if warm else choice.method,
        evaluations=found.counts.checked,
        known=KnownNodes(found.nodes[:MOST_KNOWN], found.failing[:MOST_KNOWN], last_cold),
        lattice=LatticeWork(
            lattice.nodes, found.counts.seeded if warm and choice.method == "ola" else None, last_cold
        ),
    )
    return solution, suppressed


def _closed(
    lattice: Lattice, nodes: NDArray[np.int32], bound: BoundPolicy, priority: NDArray[np.int64]
) -> tuple[LatticeNode, NDArray[np.bool_]]:
    """The first of the nodes (by least GCP) that stays within the limit when its classes are closed, else the roots.

    At the roots everybody is in one class, and nobody is suppressed.
    """
    for levels in (*nodes[:MOST_CLOSED].tolist(), list(lattice.top)):
        closed, suppressed = _closed_at(lattice, bound, priority, tuple(levels))
        if _within(lattice, bound, suppressed):
            break
    return closed, suppressed


def _closed_at(
    lattice: Lattice, bound: BoundPolicy, priority: NDArray[np.int64], levels: LevelVector
) -> tuple[LatticeNode, NDArray[np.bool_]]:
    assert lattice.individuals is not None
    node = lattice_node(lattice, levels, bound.policy.k)
    return closed_node(node, lattice.individuals, bound.policy.k, priority)


def _within(lattice: Lattice, bound: BoundPolicy, suppressed: NDArray[np.bool_]) -> bool:
    return int(suppressed.sum()) <= suppression_limit(bound.policy.solver.suppression, lattice.records)


def _stays_within(
    lattice: Lattice, bound: BoundPolicy, priority: NDArray[np.int64], levels: LevelVector
) -> bool:
    """Whether a node can be released in closed classes within the limit."""
    return _within(lattice, bound, _closed_at(lattice, bound, priority, levels)[1])
