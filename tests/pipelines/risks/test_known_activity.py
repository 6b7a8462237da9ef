"""Candidates under known windows and gaps, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.risks.known_activity import known_activity

COHORT = np.array([0, 0, 1, 1, -1])
VISITS = {0: [0, 1, 2, 6], 1: [0, 1, 2], 2: [5], 3: [4], 4: [0]}
MEMBER = np.concatenate([np.full(len(hours), member) for member, hours in VISITS.items()])
WINDOW = np.concatenate([np.array(hours) for hours in VISITS.values()])


def test_one_window() -> None:
    """Member 0: 2, 2, 2, 1 left, 1.75 on average; 1: 2; 2 and 3: 1. Below two: a quarter, 0, 1, 1."""
    one = known_activity(COHORT, MEMBER, WINDOW, 2)[0]
    assert one.people == 4
    assert one.mean == pytest.approx((1.75 + 2 + 1 + 1) / 4)
    assert one.below == pytest.approx((0.25 + 0 + 1 + 1) / 4)


def test_three_windows_of_one_person() -> None:
    """Only members 0 and 1 have three; 1 is left with both, 0 as well unless hour 6 is among them."""
    three = known_activity(COHORT, MEMBER, WINDOW, 2)[1]
    assert three.people == 2
    assert three.mean in (1.5, 2.0)
    without = MEMBER != 0
    assert known_activity(COHORT, MEMBER[without], WINDOW[without], 2)[1].mean == 1.0


def test_a_gap() -> None:
    """Member 0 alone has one, hours 3 to 5; its peer has no rows then either."""
    gap = known_activity(COHORT, MEMBER, WINDOW, 2)[2]
    assert (gap.people, gap.mean, gap.below) == (1, 2.0, 0.0)
    with_rows = np.append(MEMBER, 1), np.append(WINDOW, 4)
    order = np.lexsort(with_rows[::-1])
    gap = known_activity(COHORT, with_rows[0][order], with_rows[1][order], 2)[2]
    assert (gap.mean, gap.below) == (1.0, 1.0)


def test_who_is_in_no_cohort_does_not_count() -> None:
    """Nobody in, nothing told."""
    assert known_activity(np.full(5, -1), MEMBER, WINDOW, 2) == ()
