"""Which structure a policy asks of the solver, and what the steps after it need to know of any of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy import Cohort, Policy, Shape
from kanonflow.solvers.graph import GeneralizationGraph
from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.solve_cohorts import FixedCohorts
from kanonflow.solvers.warm_classes import WarmClasses
from kanonflow.solvers.warm_start import WarmGraph
from kanonflow.transforms.cohorts import class_cohorts, graph_cohorts, warm_classes, warm_graph
from kanonflow.transforms.strict_cohorts import fixed_cohorts
from kanonflow.transforms.warm_state import Cohorts

Structure = GeneralizationGraph | Partition | LevelGraph


def solver_shape(policy: Policy) -> str:
    """The solver's name for what the policy publishes from: graph, classes, levels or cohorts."""
    if policy.closed:
        return "cohorts" if policy.cohort is Cohort.STRICT else "classes"
    return "levels" if policy.shape is Shape.GRAPH else "graph"


def earlier_structure(
    policy: Policy, cohorts: Cohorts, people: NDArray[np.uint64]
) -> WarmGraph | WarmClasses | FixedCohorts | None:
    """What the last windows leave for the solver of this one. people: uint64 (u,), digests of the individuals."""
    shape = solver_shape(policy)
    if shape == "cohorts":
        return fixed_cohorts(cohorts.history, people, policy.k, policy.cohort_windows)
    if shape == "classes":
        return warm_classes(cohorts, people, policy.cohort, policy.stability)
    return warm_graph(cohorts, people)


def kept_records(structure: Structure) -> NDArray[np.bool_] | None:
    """Which records are released, bool (n,); None: all of them."""
    if isinstance(structure, GeneralizationGraph):
        return None
    return (structure.of_row if isinstance(structure, LevelGraph) else structure.labels) >= 0


def described(structure: Structure) -> NDArray[np.int32]:
    """Numbers that tell the structure from every other one, for the keystream."""
    if isinstance(structure, LevelGraph):
        return np.concatenate([structure.members.ravel(), structure.of_row.astype(np.int32)])
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
    if isinstance(structure, Partition):
        forget = end - policy.state_ttl_ms
        return class_cohorts(
            before, structure, individuals, people, end, forget, windows=policy.cohort_windows
        )
    if isinstance(structure, GeneralizationGraph):
        return graph_cohorts(structure, individuals, people, end)
    kept = np.flatnonzero(structure.of_row >= 0)
    owner = np.empty(structure.slots, dtype=np.int64)
    owner[structure.of_row[kept]] = individuals[kept]
    return graph_cohorts(GeneralizationGraph(structure.members), owner, people, end)
