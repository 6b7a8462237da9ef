"""One entrance to the lattice solvers: a lattice in, its minimal k-anonymous nodes out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.kgen import KGenParameters, kgen
from kanonflow.solvers.lattice.lattice_node import LatticeNode, node_of
from kanonflow.solvers.lattice.losses import additive_gcp, log_of
from kanonflow.solvers.lattice.node_checks import CheckCounts, KnownNodes, NodeChecks
from kanonflow.solvers.lattice.ola import Acceptable, ola
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.rivals.datafly import datafly
from kanonflow.solvers.rivals.exhaustive import exhaustive
from kanonflow.solvers.rivals.incognito import incognito
from kanonflow.solvers.rivals.random_search import EVALUATIONS, random_search
from kanonflow.solvers.rivals.samarati import samarati

LATTICE_METHODS = ("exhaustive", "ola", "incognito", "samarati", "datafly", "random-search", "kgen")
EXACT_METHODS = ("exhaustive", "ola", "incognito")
LOSSES = ("log", "gcp")


@dataclass(frozen=True)
class LatticeSolution:
    """nodes: int32 (m, d), the lowest k-anonymous nodes found, least loss first. losses: float64 (m,), of the loss
    asked for; GCP here as if nothing were suppressed (``losses.node_losses`` counts that too).

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


def solve_lattice(
    lattice: Lattice,
    k: int,
    *,
    method: str = "ola",
    suppression: float = 0.0,
    loss: str = "log",
    seed: int = 0,
    evaluations: int = EVALUATIONS,
    kgen_parameters: KGenParameters | None = None,
    only_best: bool = False,
    acceptable: Acceptable | None = None,
    even_share: bool = False,
    known: KnownNodes | None = None,
) -> LatticeSolution:
    """Minimal k-anonymous nodes of a lattice by one of LATTICE_METHODS.

    suppression: share of the rows that may be suppressed. loss: ``log`` or ``gcp``, the order of the answer.
    evaluations: of random-search and kgen (``kgen_parameters`` replaces them). only_best: of ola, prune by the loss:
    a node of least LOG, or every minimal node of least GCP, is then found and not every minimal node; ``acceptable``
    (of ola with only_best and gcp) may refuse those, and then every minimal node is found.
    even_share: nobody shows more than 1/k of a class's rows (group_by.py). known: what an earlier window found,
    for ola, kgen and random-search.

    Raises BudgetError for what a method cannot take, InfeasibleError when even the top is not k-anonymous.
    """
    if method not in LATTICE_METHODS:
        raise BudgetError(f"unknown lattice method; there are {', '.join(LATTICE_METHODS)}")
    if loss not in LOSSES:
        raise BudgetError(f"unknown loss of a lattice; there are {', '.join(LOSSES)}")
    limit = suppression_limit(suppression, lattice.records)
    checks = NodeChecks(lattice, k, limit, even_share=even_share)
    if method == "exhaustive":
        nodes = exhaustive(checks)
    elif method == "ola":
        losses = additive_gcp(lattice) if only_best and loss == "gcp" else None
        nodes = ola(checks, known=known, only_best=only_best, losses=losses, acceptable=acceptable)
    elif method == "incognito":
        nodes = incognito(checks)
    elif method == "samarati":
        nodes = samarati(checks)
    elif method == "datafly":
        nodes = datafly(checks)
    elif method == "random-search":
        nodes = random_search(checks, seed=seed, evaluations=evaluations, known=known)
    else:
        chosen = kgen_parameters or KGenParameters(evaluations=evaluations)
        nodes = kgen(checks, seed=seed, parameters=chosen, known=known)
    order, values = node_order(nodes, lattice, loss)
    nodes, values = nodes[order], values[order]
    best = node_of(checks, tuple(int(level) for level in nodes[0]))
    return LatticeSolution(
        nodes, values, best, checks.counts, checks.highest_failing, method in EXACT_METHODS
    )
