"""Cohorts that last with an id for each group (``publish_group``): an exchange of trails shows nothing at all then.

The id is of the set of cohorts in the group, and the number beside it is of all their people: neither knows whose trail
is whose. That is (S) of test_swap.py with two columns more, so 1/k stands without another word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.published_group import PublishedGroup
from kanonflow.schemas.published_member import PublishedMember
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.epoch_numbers import group_numbers
from kanonflow.transforms.secret.seeds import Secret, group_key, member_key, people_key
from tests.privacy.test_swap import (
    OF_CELLS,
    disturbed_and_exchanged_shows_the_same,
    pair_of_a_generation,
    pair_of_two_cohorts,
    shuffled_generations,
)
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, Course, TrailFeed, facts, generated_feed, run, run_chain, split_feed

GROUP = PublishedGroup("a test", "set", "size")
FEEDS = 24
BATCH = 8


def with_group(feed: TrailFeed, **keys: Any) -> TrailFeed:
    return replace(feed, policy=replace(feed.policy, publish_group=GROUP, **keys))


def groups_in(course: Course) -> Iterator[tuple[tuple[Any, ...], frozenset[int], str, int]]:
    """Of each group of each release its partition, the cohorts with rows in it, its id and its number of people."""
    owner = {row.tag: person for row, person in zip(course.feed.rows, course.feed.owners, strict=True)}
    cohort_of = {person: number for number, people in enumerate(course.generations()) for person in people}
    for key, _, result in course.results:
        if result.release is not None:
            own: dict[tuple[str, int], set[int]] = defaultdict(set)
            for row in from_ipc(result.release.ipc).to_pylist():
                own[row["set"], row["size"]].add(cohort_of[owner[row["tag"]]])
            for (name, size), cohorts in own.items():
                yield (key,), frozenset(cohorts), name, size


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_trails_shows_nothing_where_groups_are_followed(first: int) -> None:
    """(S) with the ids, of a pair and of all people of all cohorts."""
    for seed in range(7600 + first, 7600 + first + BATCH):
        course = run(with_group(generated_feed(seed)))
        for choose in (pair_of_a_generation, shuffled_generations):
            assert disturbed_and_exchanged_shows_the_same(course, choose, seed), f"feed {seed}"


@pytest.mark.thorough
def test_exchanging_trails_shows_nothing_in_ids_of_parts_and_chains() -> None:
    """Windows that are split, and runs that continue each other."""
    for seed in range(7700, 7705):
        course = run(with_group(split_feed(seed)))
        assert disturbed_and_exchanged_shows_the_same(course, pair_of_a_generation, seed), f"feed {seed}"
        feed, ends, carries = with_group(generated_feed(seed)), (2, 4), (bool(seed % 2), True)
        course = run_chain(feed, ends, carries)
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        exchanged = run_chain(feed.exchanged(changes), ends, carries)
        assert facts(exchanged, OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"


@pytest.mark.thorough
def test_an_exchange_across_cohorts_shows() -> None:
    """The control."""
    across = []
    for seed in range(7800, 7812):
        course = run(with_group(generated_feed(seed)))
        changes = pair_of_two_cohorts(course, np.random.default_rng(seed))
        if changes:
            across.append(facts(run(course.feed.exchanged(changes))) != facts(course))
    assert len(across) > 7
    assert np.mean(across) >= 0.9


def test_an_id_is_of_a_set_of_cohorts_and_the_number_of_all_their_people() -> None:
    """One to one over all releases of a partition, whoever has rows; people are told down to a multiple of k, and of
    those who are absent, too."""
    seen, again = 0, 0
    for seed in range(7900, 7906):
        course = run(with_group(generated_feed(seed)))
        k, generations = course.feed.policy.k, course.generations()
        sets: dict[Any, set[str]] = defaultdict(set)
        ids: dict[str, set[Any]] = defaultdict(set)
        for place, cohorts, name, size in groups_in(course):
            again += name in ids
            sets[place, cohorts].add(name)
            ids[name].add((place, cohorts))
            people = sum(len(generations[cohort]) for cohort in cohorts)
            assert size == people // k * k
            seen += 1
        assert {len(each) for each in (*sets.values(), *ids.values())} == {1}
    assert seen > 40
    assert again > 10


def test_the_columns_change_nothing_else() -> None:
    """Releases have the same rows in the same order with them."""
    for seed in range(8000, 8003):
        feed = generated_feed(seed)
        one, other = run(feed), run(with_group(feed))
        for (_, _, plain), (_, _, told) in zip(one.results, other.results, strict=True):
            if plain.release is not None and told.release is not None:
                rows = from_ipc(told.release.ipc)
                assert rows.column_names[3:6] == ["class_id", "set", "size"]
                assert rows.drop_columns(["set", "size"]).equals(from_ipc(plain.release.ipc))
            assert plain.segment == told.segment
            changed = {name for name in told.metrics if told.metrics[name] != plain.metrics[name]}
            assert changed <= {"publish_group", "digest"}


def test_ids_beside_numbers_of_people() -> None:
    """Both columns of one release, each where it belongs."""
    course = run(with_group(generated_feed(7900), publish_member=PublishedMember("a test")))
    released = [each.release for _, _, each in course.results if each.release is not None]
    assert released
    for release in released:
        names = from_ipc(release.ipc).column_names
        assert (names[4:6], names[-1]) == (["set", "size"], "member")


def test_each_epoch_policy_partition_and_secret_has_ids_of_its_own() -> None:
    """And a rotated secret those of before; neither the order of cohorts nor the numbers of groups change any."""
    least = np.arange(1, 61, dtype=np.uint64)
    group = np.arange(60, dtype=np.int64) % 20

    def ids(secret: Secret = SECRET, epoch: int = EPOCH, name: str = "test", values: Any = ()) -> list[str]:
        return list(group_numbers(secret, epoch, name, values, least, group).to_pylist())

    other = Secret(bytes(range(100, 132)))
    own = ids()
    assert len(set(own)) == 20
    for changed in (ids(other), ids(epoch=EPOCH + 1), ids(name="another"), ids(values=("Bonn",))):
        assert not set(own) & set(changed)
    assert ids(other.after([SECRET], 2)) == own
    turn = np.random.default_rng(1).permutation(60)
    assert group_numbers(SECRET, EPOCH, "test", (), least[turn], group[turn]).to_pylist() == own
    assert len({group_key(SECRET), member_key(SECRET), people_key(SECRET)}) == 3
