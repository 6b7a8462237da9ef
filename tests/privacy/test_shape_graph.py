"""Graphs over individuals: what a release tells about a person, all of whose rows the payload may link."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.matching import random_factor
from kanonflow.transforms.raw_batch import from_ipc
from kanonflow.transforms.release_window import release_window
from kanonflow.transforms.seeds import ReleaseSlot, Secret, publish_keystream
from kanonflow.transforms.warm_state import WarmState
from tests.regular_graphs import ring, searched, side_by_side
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, row

K = 3
KEYS = 6_000
FALSE_ALARM = 1e-4
GRAPH = LevelGraph(
    side_by_side(searched(12, K, 3), ring(3, K), ring(5, K)),
    np.repeat(np.arange(20), np.repeat([1, 4, 2], [12, 3, 5])),
)
"""12 people with one row, 3 with four (a complete component), 5 with two."""


def published(keys: int) -> np.ndarray:
    """The individual on each slot under each of so many keys, int32 (keys, 20)."""
    secret = Secret(bytes(range(32)))
    return np.stack(
        [random_factor(GRAPH.members, publish_keystream(secret, str(key), b"", b"")) for key in range(keys)]
    )


def test_every_slot_of_a_person_is_equally_likely() -> None:
    """Over 6,000 keys each person stands on each of its 3 slots a third of the time, and nowhere else.

    Chi-square with 2 degrees for each of 20 people, at 1e-4 / 20 each: false alarm below 1e-4 in all.
    """
    factors = published(KEYS)
    for person in range(20):
        slots = np.flatnonzero((GRAPH.members == person).any(axis=1))
        counts = (factors[:, slots] == person).sum(axis=0)
        assert counts.sum() == KEYS
        assert ((counts - KEYS / K) ** 2 / (KEYS / K)).sum() < chi2.isf(FALSE_ALARM / 20, K - 1)


def test_all_rows_of_a_person_go_where_one_does() -> None:
    """Not row by row: whatever factor is drawn, each slot carries all rows of one member, and no other's."""
    GRAPH.check(K, GRAPH.of_row)
    for factor in published(50):
        slot = np.repeat(np.arange(20), GRAPH.slot_rows)
        owner = GRAPH.of_row[GRAPH.published_records(factor)]
        assert np.array_equal(owner, factor[slot])
        assert Counter(owner.tolist()) == Counter(GRAPH.of_row.tolist())


def test_levels_are_matched_independently() -> None:
    """Which of its slots somebody of one level is on tells nothing about another level.

    Chi-square of independence with 4 degrees over 6,000 keys, false alarm 1e-4.
    """
    factors = published(KEYS)
    table = np.zeros((K, K))
    homes = [np.flatnonzero((GRAPH.members == person).any(axis=1)) for person in (0, 15)]
    for factor in factors:
        first, second = (
            int(np.flatnonzero(factor[own] == p)[0]) for own, p in zip(homes, (0, 15), strict=True)
        )
        table[first, second] += 1
    assert ((table - KEYS / 9) ** 2 / (KEYS / 9)).sum() < chi2.isf(FALSE_ALARM, 8)


def feed(seed: int, count: int = 120, people: int = 30) -> list[Row]:
    """An hour of people with very different numbers of rows, whose age differs a little from row to row."""
    rng = np.random.default_rng(seed)
    chosen = np.minimum(rng.geometric(0.08, count), people) - 1
    return [
        row(number, int(who), 0.5, age=str(20 + int(who) * 2 + int(rng.integers(2))))
        for number, who in enumerate(chosen)
    ]


def released(rows: list[Row], **head: Any) -> list[dict[str, Any]]:
    """What goes out."""
    bound = bound_feed(feed_policy(**head))
    slot = ReleaseSlot(b"p", START + HOUR, 0)
    result = release_window(canonical(rows, bound), bound, WarmState(), SECRET, slot)
    assert result.release is not None
    return from_ipc(result.release.ipc).to_pylist()


def linked(rows: list[Row], out: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Whose they are, and the published rows of one person: what a payload that links rows gives away."""
    owner = {each["reference"]: str(each["who"]) for each in rows}
    found = defaultdict(list)
    for each in out:
        found[owner[each["reference"]]].append(each)
    yield from found.items()


def fits(ages: list[int], jobs: set[str | None], boxes: list[dict[str, Any]]) -> bool:
    """Whether all of somebody's values lie in each of the boxes."""
    return all(
        all(box["age"]["min"] <= age <= box["age"]["max"] for age in ages) and jobs <= set(box["job"])
        for box in boxes
    )


def candidates(rows: list[Row], out: list[dict[str, Any]]) -> list[int]:
    """For each person's linked rows: how many people have as many rows out, and all of their values in those boxes.

    Counts of rows are known to the attacker; values of rows that waited are not needed.
    """
    references = {each["reference"] for each in out}
    ages, jobs = defaultdict(list), defaultdict(set)
    for each in rows:
        if each["reference"] in references:
            ages[each["who"]].append(int(str(each["age"])))
            jobs[each["who"]].add(each["job"])
    return [
        sum(len(ages[who]) == len(own) and fits(ages[who], jobs[who], own) for who in ages)
        for _, own in linked(rows, out)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_linked_rows_keep_k_candidates(seed: int) -> None:
    """All rows of a person linked, all quasi-identifiers and row counts known: k people remain; in row mode not."""
    rows = feed(seed)
    assert min(candidates(rows, released(rows, shape="graph"))) >= K
    assert min(candidates(rows, released(rows, protect="row"))) < K


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_person_share_a_box(seed: int) -> None:
    """Which is what analysts want, and why links between them say nothing new; in row mode they do not."""
    rows = feed(seed)

    def boxes(out: list[dict[str, Any]]) -> list[int]:
        return [len({str((each["age"], each["job"])) for each in own}) for _, own in linked(rows, out)]

    assert max(boxes(released(rows, shape="graph"))) == 1
    assert max(boxes(released(rows, protect="row"))) > 1


def test_a_row_count_tells_nobody_apart() -> None:
    """Members of a slot who could have its number of rows: all k. In a graph that ignores counts: often one."""
    counts = np.random.default_rng(1).geometric(0.3, 40)
    plain = searched(40, K, 2)
    factor = random_factor(plain, publish_keystream(SECRET, "r", b"", b""))
    alone = (counts[plain] == counts[factor][:, None]).sum(axis=1)
    assert (alone == 1).mean() > 0.3
    assert np.all(GRAPH.rows[GRAPH.members] == GRAPH.slot_rows[:, None])


def test_who_waits_follows_from_counts_not_from_payload() -> None:
    """Of a person with more rows than k share, the oldest windows' rows stay; exchanging payloads changes nothing."""
    heavy = [row(number, number % 6, 0.5, age="30", job="nurse") for number in range(12)]
    late = [row(20 + number, 0, 1.5, age="30", job="nurse") for number in range(4)]
    bound = bound_feed(feed_policy(shape="graph", max_delay="2h"))
    slot = ReleaseSlot(b"p", START + 2 * HOUR, 0)
    result = release_window(canonical(heavy + late, bound), bound, WarmState(), SECRET, slot)
    assert result.release is not None
    out = from_ipc(result.release.ipc)
    assert sorted(out["reference"].to_pylist()) == sorted(each["reference"] for each in heavy)
    assert result.warm.waiting is not None
    assert set(result.warm.waiting.column("reference").to_pylist()) == {each["reference"] for each in late}
    assert isinstance(out, pa.Table)
