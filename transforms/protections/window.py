"""Closed classes, anew in each window: of individuals, or of rows under rules for sensitive values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.protections.afresh import Afresh
from kanonflow.transforms.release.cohorts import class_cohorts, warm_classes
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.warm_state import Cohorts


class Window(Afresh):
    """The classes of the windows before are a start of the search; a class that goes on keeps its label."""

    shape = "classes"

    def earlier(self, cohorts: Cohorts, people: NDArray[np.uint64]) -> WarmClasses | None:
        """As of ``Afresh``."""
        return warm_classes(cohorts, people)

    def cohorts(
        self,
        due: Due,
        solution: Solution,
        individuals: NDArray[np.int64],
        people: NDArray[np.uint64],
        before: Cohorts,
    ) -> Cohorts:
        """As of ``Afresh``."""
        end = due.slot.window_end or 0
        forget_before = end - due.policy.state_ttl_ms
        return class_cohorts(before, solution.partition, individuals, people, end, forget_before)
