"""What is told of cohorts by themselves."""

from __future__ import annotations

import numpy as np

from kanonflow.pipelines.audit.lasting.rosters import Rosters


def test_candidates_are_those_of_the_smallest_cohort_that_has_rows() -> None:
    """Three cohorts of five, four and six people: whoever has rows is one of as many as stand in his own cohort, the
    first of all people too; of strangers nothing is told."""
    cohort = np.repeat([0, 1, 2], [5, 4, 6])
    nothing = np.zeros(0, np.int64)
    rosters = Rosters(
        np.arange(15, dtype=np.uint64), nothing, cohort, nothing, nothing, nothing, np.array([5, 4, 6]),
        nothing, nothing, nothing,
    )  # fmt: skip
    told = [rosters.fewest(np.array(person, np.int64)) for person in ([0], [0, 14, -1], [5, 0], [-1], [])]
    assert told == [5, 5, 4, None, None]
