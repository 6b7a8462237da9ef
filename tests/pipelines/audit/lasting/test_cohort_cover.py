"""What is left of a release's groups is what trying out all assignments of cohorts leaves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.lasting.cohort_cover import (
    Cover,
    Narrowed,
    OutOfStepsError,
    Steps,
    Wish,
    fitting_sets,
    narrow,
    possible_sets,
)

Demands = list[list[tuple[int, int]]]
"""Of each group and demand, its least and its most."""


def cover_of(brings: list[list[tuple[int, int]]], certain: list[bool], demands: Demands) -> Cover:
    """Every cohort may be in every group."""
    cohorts, groups, kinds = len(brings), len(demands), len(demands[0])
    pairs = [(cohort, group) for cohort in range(cohorts) for group in range(groups)]
    entries = [
        (pair, group * kinds + kind, *brings[cohort][kind])
        for pair, (cohort, group) in enumerate(pairs)
        for kind in range(kinds)
        if brings[cohort][kind][1]
    ]
    pair, demand, least, most = np.array(entries, np.int64).reshape(-1, 4).T
    return Cover(
        np.array([group for _, group in pairs], np.int64),
        np.array([cohort for cohort, _ in pairs], np.int64),
        np.array(certain),
        np.array([low for each in demands for low, _ in each], np.int64),
        np.array([high for each in demands for _, high in each], np.int64),
        np.repeat(np.arange(groups), kinds),
        pair,
        demand,
        least,
        most,
    )


def every_answer(
    brings: list[list[tuple[int, int]]], certain: list[bool], demands: Demands
) -> set[tuple[frozenset[int], ...]]:
    """The slow twin: all assignments of cohorts to groups, or to none, tried out."""
    found = set()
    for chosen in product(range(-1, len(demands)), repeat=len(brings)):
        if any(sure and group < 0 for sure, group in zip(certain, chosen, strict=True)):
            continue
        sets = tuple(
            frozenset(cohort for cohort, own in enumerate(chosen) if own == group)
            for group in range(len(demands))
        )
        if all(
            sum(brings[cohort][kind][0] for cohort in own) <= high
            and sum(brings[cohort][kind][1] for cohort in own) >= low
            for own, each in zip(sets, demands, strict=True)
            for kind, (low, high) in enumerate(each)
        ):
            found.add(sets)
    return found


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[list[tuple[int, int]]], list[bool], Demands]:
    """Small releases of up to five cohorts in up to three groups; mostly some that were published so."""
    cohorts, groups = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    kinds = draw(st.integers(1, 3))
    amount = st.integers(0, 3)
    brings, certain = [], []
    for _ in range(cohorts):
        least = [draw(amount) for _ in range(kinds)]
        # Now and then a row that may be elsewhere.
        more = [draw(st.sampled_from([0, 0, 0, 1])) for _ in range(kinds)]
        brings.append([(one, one + other) for one, other in zip(least, more, strict=True)])
        certain.append(any(least))
    place = [draw(st.integers(0, groups - 1)) for _ in range(cohorts)]
    demands: Demands = [
        [
            (
                total := sum(brings[cohort][kind][0] for cohort in range(cohorts) if place[cohort] == group),
                total,
            )
            for kind in range(kinds)
        ]
        for group in range(groups)
    ]
    if draw(st.integers(0, 4)) == 0:
        demands[0][0] = (demands[0][0][0] + 1, demands[0][0][1] + 1)
    if draw(st.booleans()):
        demands[-1][0] = (demands[-1][0][0], demands[-1][0][1] + draw(st.integers(0, 2)))
    return brings, certain, demands


@given(releases())
@settings(max_examples=400)
def test_narrowing_keeps_every_answer(
    release: tuple[list[list[tuple[int, int]]], list[bool], Demands],
) -> None:
    """No pair of an answer is removed, and what is chosen is in all of them; where nothing fits, that is
    sometimes seen, and never said of what fits."""
    answers = every_answer(*release)
    cover = cover_of(*release)
    told: Narrowed = narrow(cover, len(release[2]))
    if told.refuted.any() or told.lost.any():
        assert not answers
    for answer in answers:
        for pair, (cohort, group) in enumerate(zip(cover.cohort.tolist(), cover.group.tolist(), strict=True)):
            assert told.alive[pair] or cohort not in answer[group]
            assert not told.chosen[pair] or cohort in answer[group]


@given(releases())
@settings(max_examples=400)
def test_sets_that_are_left_are_those_of_all_answers(
    release: tuple[list[list[tuple[int, int]]], list[bool], Demands],
) -> None:
    """One set is left of a group exactly where all answers agree, and none where there is no answer."""
    brings, certain, demands = release
    answers = every_answer(*release)
    sets = [
        fitting_sets(
            Wish(
                tuple(low for low, _ in each),
                tuple(high for _, high in each),
                tuple(
                    (cohort, tuple((kind, *own) for kind, own in enumerate(brought) if own[1]))
                    for cohort, brought in enumerate(brings)
                ),
            ),
            Steps(100_000),
            10_000,
        )
        for each in demands
    ]
    left = possible_sets(
        sets, frozenset(cohort for cohort, sure in enumerate(certain) if sure), Steps(100_000)
    )
    for group, each in enumerate(left):
        own = {answer[group] for answer in answers}
        assert set(each) <= own
        assert len(each) == len(own) if len(own) < 2 else len(each) >= 2


def test_a_search_that_takes_too_long_says_so() -> None:
    """Twenty equal cohorts, ten of them asked for: it ends, and nothing is claimed."""
    wish = Wish((10,), (10,), tuple((cohort, ((0, 1, 1),)) for cohort in range(20)))
    with pytest.raises(OutOfStepsError):
        fitting_sets(wish, Steps(1_000), 10**6)
    with pytest.raises(OutOfStepsError):
        fitting_sets(wish, Steps(10**6), 50)
    with pytest.raises(OutOfStepsError):
        possible_sets([[frozenset({1}), frozenset({2})]] * 2, frozenset({1, 2}), Steps(1))
