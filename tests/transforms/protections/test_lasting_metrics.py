"""Counts of who is here and of whose rows they are, against a count by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.protections.lasting_metrics import Presence, activity_candidates, rows_over_share
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.rows.elements import from_ipc
from tests.pipelines.risks.toy_feeds import toy_bound, visits
from tests.small_feeds import SECRET
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


def naive_purchases(result: WindowResult, course: Course, k: int) -> dict[str, Any]:
    """Of each released row, people of its person's cohort with a row of that amount to 1; the feed's one number."""
    assert result.release is not None
    owner = dict(zip((row.tag for row in course.feed.rows), course.feed.owners.tolist(), strict=True))
    found = []
    for row in from_ipc(result.release.ipc).to_pylist():
        person = owner[row["tag"]]
        amount = None if row["amount"] is None else math.floor(abs(row["amount"]) + 0.5)
        entry = course.entered[person]
        found.append((person, (entry.partition, entry.cohort), amount))
    left = [len({who for who, *same in found if same == [cohort, amount]}) for _, cohort, amount in found]
    return {
        "reader": "1 row by its window and amount to 1",
        "minimum": min(left),
        "mean": sum(left) / len(left),
        "below_k": sum(each < k for each in left) / len(left),
        "alone": sum(each == 1 for each in left) / len(left),
    }


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
        assert told["purchase_candidates"] == naive_purchases(result, course, k)
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


def test_who_changed_before_entry_is_counted_with_the_release_they_enter_with() -> None:
    """Of five people of a pool two came with other ages in later hours; one of them has gone by the intake."""
    fields = {"age": {"role": "quasi", "type": "numeric"}, "amount": {"role": "sensitive", "as": "double"}}
    table = visits(
        [
            ("a", 0, 30), ("b", 0, 40), ("c", 0, None), ("d", 0, 50),
            ("a", 1, 31), ("c", 1, 60), ("b", 1, 40),
            ("b", 2, 41), ("e", 2, 20), ("c", 2, 60),
        ],
        amount=[1.0] * 10,
    )  # fmt: skip
    bound = toy_bound(table, payload=("amount",), fields=fields, intake=5, max_delay="9h")
    told = anonymize_table(table, bound.policy, SECRET).metrics
    assert [(each["people_entered"], each["changed_before_entry"]) for each in told if each["released"]] == [
        (5, 2)
    ]
    assert all(each["changed_before_entry"] is None for each in told if not each["released"])


def test_who_lowers_sil_is_told_it() -> None:
    """Of the rows' own ages in their groups, in standard deviations of the release's; who lowers NCP is told none."""
    rng = np.random.default_rng(2)
    ages = rng.integers(18, 90, 40)
    table = visits(
        [(f"p{who}", hour, int(ages[who])) for hour in range(2) for who in range(40)],
        amount=[float(row) for row in range(80)],
    )
    for loss in ("sil", "ncp"):
        solver = {"loss": loss, "threads": 1}
        bound = toy_bound(table, k=3, payload=("amount",), solver=solver)
        made = anonymize_table(table, bound.policy, SECRET)
        rows = made.released.to_pylist()
        for metrics in made.metrics:
            here = [row for row in rows if row["release_id"] == metrics["release_id"]]
            if not metrics["released"] or loss == "ncp":
                assert metrics["sil"] is None
                continue
            groups: dict[object, list[int]] = defaultdict(list)
            for row in here:
                groups[row["class_id"]].append(int(ages[int(row["amount"]) % 40]))
            gaps = [abs(age - np.mean(group)) for group in groups.values() for age in group]
            sigma = np.std([age for group in groups.values() for age in group])
            assert metrics["sil"] == pytest.approx(np.mean(gaps) / sigma)
