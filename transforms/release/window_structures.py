"""Which structure a policy asks of the solver, and what the steps after it need to know of any of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy
from kanonflow.solvers.problem.graph import GeneralizationGraph
from kanonflow.solvers.problem.partition import Partition
from kanonflow.solvers.shapes.warm_classes import WarmClasses
from kanonflow.solvers.shapes.warm_start import WarmGraph
from kanonflow.transforms.release.cohorts import class_cohorts, graph_cohorts, warm_classes, warm_graph
from kanonflow.transforms.release.warm_state import Cohorts

Structure = GeneralizationGraph | Partition


def solver_shape(policy: Policy) -> str:
    """The solver's name for what the policy publishes from: graph or classes."""
    return "classes" if policy.closed else "graph"


def earlier_structure(
    policy: Policy, cohorts: Cohorts, people: NDArray[np.uint64]
) -> WarmGraph | WarmClasses | None:
    """What the last windows leave for the solver of this one. people: uint64 (u,), digests of the individuals."""
    return warm_classes(cohorts, people) if policy.closed else warm_graph(cohorts, people)


def kept_records(structure: Structure) -> NDArray[np.bool_] | None:
    """Which records are released, bool (n,); None: all of them."""
    return None if isinstance(structure, GeneralizationGraph) else structure.labels >= 0


def described(structure: Structure) -> NDArray[np.int32]:
    """Numbers that tell the structure from every other one, for the keystream."""
    return structure.members if isinstance(structure, GeneralizationGraph) else structure.labels


def next_cohorts(
    structure: Structure,
    individuals: NDArray[np.int64],
    people: NDArray[np.uint64],
    before: Cohorts,
    policy: Policy,
    end: int,
) -> Cohorts:
    """Who was together, for the next release. individuals: int64 (n,), positions in ``people``."""
    if isinstance(structure, GeneralizationGraph):
        return graph_cohorts(structure, individuals, people, end)
    return class_cohorts(before, structure, individuals, people, end, end - policy.state_ttl_ms)
