"""Closed classes, anew in each window: of individuals, or of rows under rules for sensitive values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.protections.afresh import Afresh
from kanonflow.transforms.release.cohorts import class_cohorts, warm_classes
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Answer
from kanonflow.transforms.release.warm_state import Cohorts


class Window(Afresh):
    """The classes of the windows before are a start of the search; a class that goes on keeps its label."""

    shape = "classes"
    earlier = staticmethod(warm_classes)

    def cohorts(self, due: Due, answer: Answer, of_row: NDArray[np.int64], before: Cohorts) -> Cohorts:
        """Who is absent keeps the old class for the time that state is kept."""
        end = due.slot.window_end or 0
        forget_before = end - due.policy.state_ttl_ms
        classes, people = answer.solution.partition, answer.people.digests
        return class_cohorts(before, classes, of_row, people, end, forget_before)
