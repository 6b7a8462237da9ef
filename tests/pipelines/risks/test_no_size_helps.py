"""Whom no size of cohorts helps: counted by all that could be known of each person, among all of its partition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kanonflow.pipelines.risks import no_size_helps as module
from kanonflow.pipelines.risks.no_size_helps import no_size_helps
from tests.pipelines.risks.toy_feeds import toy

PEOPLE = "abcdefghij"


def rows_of(seed: int) -> list[tuple[str, int, int]]:
    """Ten people, some of whom come in few of eight hours."""
    rng = np.random.default_rng(seed)
    often = rng.choice([0.2, 0.9], len(PEOPLE))
    return [
        (person, hour, 7)
        for hour in range(8)
        for person, share in zip(PEOPLE, often, strict=True)
        if rng.random() < share
    ]


def slowly(rows: list[tuple[str, int, int]], windows: int, least: int) -> tuple[int, int]:
    """People and rows, by all sets of windows of everybody."""
    hours = {person: {hour for who, hour, _ in rows if who == person} for person, *_ in rows}
    few = {
        person
        for person, own in hours.items()
        for some in itertools.combinations(own, min(windows, len(own)))
        if sum(other.issuperset(some) for other in hours.values()) < least
    }
    return len(few), sum(person in few for person, *_ in rows)


@pytest.mark.parametrize("seed", range(3))
def test_whom_no_size_helps_is_counted_among_all_of_the_partition(seed: int) -> None:
    """Without a clause for one window and for three; with one for its reader, and who knows other people too."""
    rows = rows_of(seed)
    feed, bound = toy(rows)
    k = bound.policy.k
    for each, windows in zip(no_size_helps(feed, bound), (1, 3), strict=True):
        assert each[1:5] == (*slowly(rows, windows, k), False, k)
        assert each[5:] == (len({who for who, *_ in rows}), len(rows))
    clause = {"known_people": 4, "known_windows": {"count": 2}, "known_purchases": {"of": ["value"]}}
    more = {"columns": {"value": [7] * len(rows)}, "payload": ["value"], "cohort_size": 6}
    feed, bound = toy(rows, against=clause, **more)
    against = bound.policy.against
    assert against is not None
    (each,) = no_size_helps(feed, bound)
    # All rows have the same value, so who knows one knows its window.
    assert each[:5] == (against.active, *slowly(rows, 2, k + 4), True, k + 4)
    assert f"at least {each.people} of {each.of_people} people" in each.words
    assert each.people > 0


def test_of_large_partitions_windows_are_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is said that there may be more."""
    rows = rows_of(1)
    feed, bound = toy(rows)
    monkeypatch.setattr(module, "MOST_PEOPLE", 5)
    one, three = no_size_helps(feed, bound)
    assert three[1:4] == (*slowly(rows, 1, bound.policy.k), True)
    assert not one.at_least
