"""Which structure a policy asks of the solver, how its shape is spelled, and what it leaves for the next window."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Structure
from kanonflow.solvers.warm_up import kernel_sets
from kanonflow.transforms.release.cohorts import class_cohorts, graph_cohorts, warm_classes, warm_graph
from kanonflow.transforms.release.warm_state import Cohorts

SPELLED = {"row_graph": "graph", "classes": "classes", "lattice_node": "classes"}
"""How matching records (matching_record.avsc) spell the solvers' shapes. A node's groups are closed classes there."""


def solver_shape(policy: Policy) -> str:
    """The shape that a policy publishes from, as solvers name it: row_graph, classes or lattice_node."""
    if policy.by_levels:
        return "lattice_node"
    return "classes" if policy.closed else "row_graph"


def holds_hierarchies(bound: BoundPolicy) -> bool:
    """Whether a quasi-identifier has a hierarchy: for such tables every kernel is compiled by itself."""
    return any(column.hierarchy is not None for column in bound.quasis)


def needed_kernels(bound: BoundPolicy) -> tuple[str, ...]:
    """Sets of kernels (``solvers.warm_up``) that windows under a policy are released with."""
    policy = bound.policy
    return kernel_sets(
        solver_shape(policy),
        ruled=bool(policy.ruled),
        hierarchies=holds_hierarchies(bound),
        loss=policy.solver.loss,
        merging=policy.lasting,
    )


def earlier_structure(
    policy: Policy, cohorts: Cohorts, people: NDArray[np.uint64]
) -> WarmGraph | WarmClasses | None:
    """What the last windows leave for the solver of this one. people: uint64 (u,), digests of the individuals."""
    return warm_classes(cohorts, people) if policy.closed else warm_graph(cohorts, people)


def next_cohorts(
    structure: Structure,
    individuals: NDArray[np.int64],
    people: NDArray[np.uint64],
    before: Cohorts,
    policy: Policy,
    end: int,
) -> Cohorts:
    """Who was together, for the next release. individuals: int64 (n,), positions in ``people``."""
    if structure.shape == "row_graph":
        return graph_cohorts(cast(GeneralizationGraph, structure), individuals, people, end)
    forget_before = end - policy.state_ttl_ms
    return class_cohorts(before, cast(Partition, structure), individuals, people, end, forget_before)
