"""One entrance to the lattice solvers: a lattice in, its minimal k-anonymous nodes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice import ola
from kanonflow.solvers.lattice.kgen import KGenParameters, kgen
from kanonflow.solvers.lattice.lattice_node import LatticeNode, node_of
from kanonflow.solvers.lattice.losses import additive_gcp, log_of
from kanonflow.solvers.lattice.node_checks import CheckCounts, KnownNodes, NodeChecks
from kanonflow.solvers.lattice.ola import Acceptable
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.problem.limits import ANY_LEVELS, Limits
from kanonflow.solvers.problem.parameters import Parameters, chosen
from kanonflow.solvers.registered import registered

LOSSES = ("log", "gcp")
EVALUATIONS = 5_000


@dataclass(frozen=True, eq=False)
class LatticeTask:
    """What a lattice solver takes; each reads what concerns it.

    lattice: n records under hierarchies. k: how many individuals each class needs.
    suppression: share of the rows that may be suppressed. loss: ``log`` or ``gcp``, the order of the answer.
    evaluations: of random-search and kgen. parameters: of the method's own, which come before those.
    only_best: of ola, prune by the loss: a node of least LOG, or every minimal node of least GCP, is then found and not
    every minimal node. acceptable: of ola with only_best and gcp, may refuse those; then every minimal node is found.
    even_share: nobody shows more than 1/k of a class's rows (group_by.py).
    known: what an earlier window found, for solvers that are ``warm``.

    Raises BudgetError for an unknown loss, or a suppression that is no share below 1.
    """

    lattice: Lattice
    k: int
    _: KW_ONLY
    seed: int = 0
    suppression: float = 0.0
    loss: str = "log"
    evaluations: int = EVALUATIONS
    parameters: Parameters = field(default_factory=dict)
    only_best: bool = False
    acceptable: Acceptable | None = None
    even_share: bool = False
    known: KnownNodes | None = None

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise BudgetError(f"unknown loss of a lattice; there are {', '.join(LOSSES)}")
        suppression_limit(self.suppression, self.lattice.records)


@dataclass(frozen=True)
class LatticeSolver:
    """run: k-anonymous nodes, int32 (m, d). limits: what it takes.

    exact: it finds every minimal node. warm: it goes on from what an earlier window found. parameters: as of a
    ``Solver``.
    """

    run: Callable[[NodeChecks, LatticeTask], NDArray[np.int32]]
    limits: Limits = ANY_LEVELS
    exact: bool = False
    warm: bool = False
    parameters: type[Any] | None = None


def _ola(checks: NodeChecks, task: LatticeTask) -> NDArray[np.int32]:
    losses = additive_gcp(task.lattice) if task.only_best and task.loss == "gcp" else None
    return ola.ola(
        checks, known=task.known, only_best=task.only_best, losses=losses, acceptable=task.acceptable
    )


def _kgen(checks: NodeChecks, task: LatticeTask) -> NDArray[np.int32]:
    parameters = chosen(KGenParameters, {"evaluations": task.evaluations, **task.parameters})
    return kgen(checks, seed=task.seed, parameters=parameters, known=task.known)


LATTICE_SOLVERS: dict[str, LatticeSolver] = {
    "ola": LatticeSolver(_ola, Limits(levels_only=True, nodes=ola.MOST_NODES), exact=True, warm=True),
    "kgen": LatticeSolver(_kgen, warm=True, parameters=KGenParameters),
}


def lattice_solver(name: str) -> LatticeSolver:
    """The lattice solver of that name, the product's or a package's. Raises BudgetError: there is none."""
    found = LATTICE_SOLVERS.get(name) or getattr(registered(name), "levels", None)
    if found is None:
        raise BudgetError(
            f"unknown lattice method; there are {', '.join(LATTICE_SOLVERS)} and what packages bring"
        )
    return found


@dataclass(frozen=True)
class LatticeSolution:
    """nodes: int32 (m, d), the lowest k-anonymous nodes found, least loss first. losses: float64 (m,), of the loss
    asked for; GCP here as if nothing were suppressed (``losses.node_gcp`` counts that too).

    best: the first node with its classes. counts: what the checks took. failing: int32 (f, d), the highest nodes that
    turned out not to be k-anonymous. optimal: no node loses less; LOG, or with only_best the loss asked for.
    """

    nodes: NDArray[np.int32]
    losses: NDArray[np.float64]
    best: LatticeNode
    counts: CheckCounts
    failing: NDArray[np.int32]
    optimal: bool

    @property
    def known(self) -> KnownNodes:
        """What warm-starts the next window: level vectors, nothing of a record."""
        return KnownNodes(self.nodes, self.failing)


def suppression_limit(share: float, records: int) -> int:
    """Rows that a share allows to suppress, rounded down, never all. Raises BudgetError unless 0 <= share < 1."""
    if not 0 <= share < 1:
        raise BudgetError("suppression must be a share of the rows, at least 0 and below 1")
    return max(0, min(int(share * records + 1e-9), records - 1))


def node_order(
    nodes: NDArray[np.int32], lattice: Lattice, loss: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order of nodes by ascending loss, ties by levels, and the loss of each node before ordering."""
    if loss == "log":
        values = log_of(nodes, lattice)
    else:
        values = np.zeros(len(nodes))
        for levels, losses in zip(nodes.T, additive_gcp(lattice), strict=True):
            values += losses[levels]
    # Rounded, so that equal fractions summed in another order tie.
    return np.lexsort([*nodes.T[::-1], np.round(values, 12)]), values


def solve_lattice(task: LatticeTask, method: str = "ola") -> LatticeSolution:
    """Minimal k-anonymous nodes of a lattice by the ``lattice_solver`` of a name.

    Raises BudgetError for what a method cannot take, InfeasibleError when even the top is not k-anonymous.
    """
    solver, lattice = lattice_solver(method), task.lattice
    limit = suppression_limit(task.suppression, lattice.records)
    checks = NodeChecks(lattice, task.k, limit, even_share=task.even_share)
    nodes = solver.run(checks, task)
    order, values = node_order(nodes, lattice, task.loss)
    nodes, values = nodes[order], values[order]
    best = node_of(checks, tuple(int(level) for level in nodes[0]))
    return LatticeSolution(nodes, values, best, checks.counts, checks.highest_failing, solver.exact)
