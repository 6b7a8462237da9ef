"""Counts of who is here and of whose rows they are, against a count by hand."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from kanonflow.transforms.release.lasting_metrics import Presence, activity_candidates, rows_over_share
from kanonflow.transforms.release.release_window import WindowResult
from kanonflow.transforms.rows.elements import from_ipc
from tests.swapped_feeds import Course, generated_feed, run

pytestmark = pytest.mark.thorough


def released(result: WindowResult, course: Course) -> list[tuple[int, int]]:
    """Person and group of each released row. Its payload names it."""
    assert result.release is not None
    owner = dict(zip((row.tag for row in course.feed.rows), course.feed.owners.tolist(), strict=True))
    rows = from_ipc(result.release.ipc)
    return [
        (owner[tag], group)
        for tag, group in zip(
            rows.column("tag").to_pylist(), rows.column("class_id").to_pylist(), strict=True
        )
    ]


@pytest.mark.parametrize("seed", range(6000, 6012))
def test_they_are_what_the_released_rows_tell(seed: int) -> None:
    """Of every release of a generated feed: people of a cohort with rows here, and rows of who has most of a group."""
    course = run(generated_feed(seed))
    k = course.feed.policy.k
    seen = 0
    for _, _, result in course.results:
        told = result.metrics
        if result.release is None:
            assert (told["activity_candidates"], told["rows_over_share"]) == (None, None)
            continue
        rows = released(result, course)
        here = {person for person, _ in rows}
        with_it = [
            sum(
                (course.entered[other].partition, course.entered[other].cohort)
                == (course.entered[person].partition, course.entered[person].cohort)
                for other in here
            )
            for person in here
        ]
        assert told["activity_candidates"] == {
            "minimum": min(with_it),
            "mean": sum(with_it) / len(with_it),
            "below_k": sum(each < k for each in with_it) / len(with_it),
        }
        cohorts = Counter((each.partition, each.cohort) for each in course.entered.values())
        sizes = [cohorts[course.entered[each].partition, course.entered[each].cohort] for each in here]
        assert told["candidates_of_people"] == Counter(map(str, sizes))
        assert told["epoch_candidates"]["minimum"] == min(map(int, told["candidates_of_people"]))
        of_group = {group: len({who for who, other in rows if other == group}) for _, group in rows}
        assert told["candidates_of_rows"] == Counter(str(of_group[group]) for _, group in rows)
        by_group: dict[int, Counter[int]] = defaultdict(Counter)
        for person, group in rows:
            by_group[group][person] += 1
        over = sum(
            count
            for group in by_group.values()
            for count in group.values()
            if count / group.total() > 1 / k + 1e-12
        )
        assert told["rows_over_share"] == over
        seen += 1
    assert seen or not course.generations()


def test_an_equal_share_is_not_over_it() -> None:
    """Of five people with two rows each none has more than a fifth; a sixth row more, and its owner has."""
    two = np.full(5, 2)
    assert rows_over_share(Presence(np.array([5]), two, np.full(5, 10)), 5) == 0
    assert rows_over_share(Presence(np.array([5]), np.array([3, 2, 2, 2, 2]), np.full(5, 11)), 5) == 3


def test_candidates_are_by_person() -> None:
    """A cohort counts once for each of its people who are here."""
    told = activity_candidates(np.array([1, 5, 4]), 5)
    assert told == {"minimum": 1, "mean": (1 + 25 + 16) / 10, "below_k": 0.5}
