"""Cohorts that last with a number for each person (``publish_member``): what an exchange of trails shows then.

    (S')  who enters when, who is grouped with whom, which rows go out, wait or are rejected, every box and every time
          stay as they are, and so do all published rows but for their numbers. These are exchanged with the trails: the
          number is the person's, and stands on whatever rows are his.

To whoever has not the secret the numbers of a cohort are drawn, so exchanged ones are as likely as those that were. Who
links all rows anyway sees the same bundles under other names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.lasting.member_numbers import NumberKeys, NumbersKey, numbers_of_people
from kanonflow.schemas.published_member import PublishedMember
from kanonflow.transforms.publishing.publish import published_order
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.secret.epoch_numbers import member_numbers
from kanonflow.transforms.secret.seeds import Secret, member_key, people_key
from tests.privacy.test_swap import (
    OF_CELLS,
    pair_of_a_generation,
    pair_of_two_cohorts,
    shuffled_generations,
)
from tests.small_feeds import SECRET
from tests.swapped_feeds import (
    EPOCH,
    Course,
    TrailFeed,
    disturbed,
    facts,
    generated_feed,
    reads_anything,
    run,
    run_chain,
    split_feed,
)

MEMBER = PublishedMember("a test")
FEEDS = 40
BATCH = 8
Numbers = dict[str, str]


def with_member(feed: TrailFeed) -> TrailFeed:
    return replace(feed, policy=replace(feed.policy, publish_member=MEMBER))


def numbers_in(feed: TrailFeed) -> Numbers:
    """The number of each person, by name."""
    found: Numbers = {}
    for person in feed.people:
        values = [person.town if name == "town" else None for name in feed.policy.partition_by]
        digest = person_digests([person.name], people_key(SECRET))
        (found[person.name],) = member_numbers(SECRET, EPOCH, feed.policy.name, values, digest).to_pylist()
    return found


def renamed(course: Course, changes: Mapping[int, int]) -> Course:
    """The course with the number of each person in the place of that of who has its rows now."""
    numbers = numbers_in(course.feed)
    names = [person.name for person in course.feed.people]
    other = {numbers[names[person]]: numbers[names[changes[person]]] for person in changes}

    def of(result: Any) -> Any:
        if result.release is None:
            return result
        rows = from_ipc(result.release.ipc)
        cells = [other.get(number, number) for number in rows.column("member").to_pylist()]
        place = rows.schema.get_field_index("member")
        rows = rows.set_column(place, rows.schema.field(place), pa.array(cells, pa.string()))
        return result._replace(release=result.release._replace(ipc=to_ipc(rows.combine_chunks())))

    return replace(course, results=[(key, step, of(result)) for key, step, result in course.results])


def shows_the_same(course: Course, choose: Callable[..., dict[int, int]], seed: int) -> bool:
    """Whether a course, with trails exchanged and anything said of who is known, shows the same under exchanged
    numbers."""
    changes = choose(course, np.random.default_rng(seed))
    other = disturbed(course, seed, unreadable=reads_anything(course.feed.policy)).exchanged(changes)
    return facts(run(other), OF_CELLS) == facts(renamed(course, changes), OF_CELLS)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_trails_exchanges_numbers_and_nothing_else(first: int) -> None:
    """(S'), of a pair and of all people of all cohorts."""
    for seed in range(7000 + first, 7000 + first + BATCH):
        course = run(with_member(generated_feed(seed)))
        for choose in (pair_of_a_generation, shuffled_generations):
            assert shows_the_same(course, choose, seed), f"feed {seed}"


@pytest.mark.thorough
def test_exchanging_trails_exchanges_numbers_in_parts_and_chains() -> None:
    """Windows that are split, and runs that continue each other: one number over all of them."""
    for seed in range(7100, 7106):
        course = run(with_member(split_feed(seed)))
        assert shows_the_same(course, pair_of_a_generation, seed), f"feed {seed}"
        feed, ends, carries = with_member(generated_feed(seed)), (2, 4), (bool(seed % 2), True)
        course = run_chain(feed, ends, carries)
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        exchanged = run_chain(feed.exchanged(changes), ends, carries)
        assert facts(exchanged, OF_CELLS) == facts(renamed(course, changes), OF_CELLS), f"feed {seed}"


@pytest.mark.thorough
def test_an_exchange_shows_in_the_numbers_and_across_cohorts() -> None:
    """Two controls: without exchanged numbers it does; and with them, where people of two cohorts exchange."""
    kept, across = [], []
    for seed in range(7200, 7214):
        course = run(with_member(generated_feed(seed)))
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        kept.append(facts(run(course.feed.exchanged(changes))) != facts(course))
        changes = pair_of_two_cohorts(course, np.random.default_rng(seed))
        if changes:
            across.append(facts(run(course.feed.exchanged(changes))) != facts(renamed(course, changes)))
    assert np.mean(kept) >= 0.8
    assert len(across) > 9
    assert np.mean(across) >= 0.9


def test_a_number_joins_the_rows_of_a_person_and_nobody_elses() -> None:
    """Over all releases: late rows, rows that waited, several intakes and partitions."""
    rows_seen = 0
    for seed in range(7300, 7305):
        feed = with_member(generated_feed(seed))
        numbers = numbers_in(feed)
        owner: dict[str, set[str]] = defaultdict(set)
        for row, person in zip(feed.rows, feed.owners, strict=True):
            owner[row.tag].add(feed.people[person].name)
        for _, _, result in run(feed).results:
            if result.release is not None:
                for row in from_ipc(result.release.ipc).to_pylist():
                    (name,) = owner[row["tag"]]
                    assert row["member"] == numbers[name]
                    rows_seen += 1
    assert rows_seen > 300
    assert len(set(numbers.values())) == len(numbers)


def test_the_column_changes_nothing_else() -> None:
    """With it and without it releases have the same rows in the same order, and metrics say the same but for it."""
    for seed in range(7400, 7403):
        feed = generated_feed(seed)
        one, other = run(feed), run(with_member(feed))
        for (_, _, plain), (_, _, told) in zip(one.results, other.results, strict=True):
            assert (plain.release is None) == (told.release is None)
            if plain.release is not None and told.release is not None:
                rows = from_ipc(told.release.ipc)
                assert rows.drop_columns(["member"]).equals(from_ipc(plain.release.ipc))
                assert plain.release.release_id == told.release.release_id
            changed = {name for name in told.metrics if told.metrics[name] != plain.metrics[name]}
            assert changed <= {"publish_member", "digest"}
            assert plain.rejected == told.rejected
            assert plain.segment == told.segment


def test_rows_stand_in_the_order_of_what_else_they_publish() -> None:
    """Of rows that are equal in all else the number decides: however they are laid, the table is the same."""
    feed = with_member(generated_feed(7500))
    course = run(replace(feed, rows=tuple(row._replace(amount="1", tag="all") for row in feed.rows)))
    rng, ties = np.random.default_rng(1), 0
    for _, _, result in course.results:
        if result.release is not None:
            rows = from_ipc(result.release.ipc)
            laid = rows.take(pa.array(rng.permutation(rows.num_rows)))
            assert laid.take(pa.array(published_order(laid))).equals(rows)
            cells = [repr([row[name] for name in rows.schema.names[:-1]]) for row in rows.to_pylist()]
            numbers = rows.column("member").to_pylist()
            for place in range(1, len(cells)):
                ties += cells[place] == cells[place - 1] and numbers[place] != numbers[place - 1]
                assert cells[place] != cells[place - 1] or numbers[place] >= numbers[place - 1]
    assert ties > 20


def test_numbers_are_as_good_as_drawn() -> None:
    """Each bit of them is one as often as not, also where people's digests follow each other; none comes twice."""
    digests = np.arange(20_000, dtype=np.uint64)
    numbers = np.array(
        [int(each, 16) for each in member_numbers(SECRET, EPOCH, "test", (), digests).to_pylist()], np.uint64
    )
    bits = np.unpackbits(numbers.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / np.sqrt(len(numbers))
    assert len(np.unique(numbers)) == len(numbers)


def test_each_epoch_policy_partition_and_secret_has_numbers_of_its_own() -> None:
    """And a rotated secret those of the one before it."""
    digests = np.arange(50, dtype=np.uint64)
    own = member_numbers(SECRET, EPOCH, "test", (), digests).to_pylist()
    others = [
        member_numbers(SECRET, EPOCH + 1, "test", (), digests),
        member_numbers(SECRET, EPOCH, "another", (), digests),
        member_numbers(Secret(bytes(range(100, 132))), EPOCH, "test", (), digests),
        member_numbers(SECRET, EPOCH, "test", ("Bonn",), digests),
        member_numbers(SECRET, EPOCH, "test", (None,), digests),
    ]
    for other in others:
        assert not set(own) & set(other.to_pylist())
    rotated = Secret(bytes(range(100, 132))).after([SECRET], 2)
    assert member_numbers(rotated, EPOCH, "test", (), digests).to_pylist() == own


def test_a_number_tells_nothing_of_the_digest_under_which_somebody_is_known() -> None:
    """Its key is one of its own."""
    assert member_key(SECRET) != people_key(SECRET)
    digests = person_digests([f"p{number}" for number in range(200)], people_key(SECRET))
    numbers = set(member_numbers(SECRET, EPOCH, "test", (), digests).to_pylist())
    assert not numbers & {f"{int(each):016x}" for each in digests}
    assert not numbers & {int(each).to_bytes(8, "little").hex() for each in digests}


def test_the_audit_works_out_the_same_numbers() -> None:
    """By code of its own."""
    digests = person_digests([f"p{number}" for number in range(200)], people_key(SECRET))
    label = np.arange(200) % 3
    key = NumbersKey(
        NumberKeys(member_key(SECRET), b""), ['["test"]', '["test", "Bonn"]', '["test", null]'], label
    )
    own = numbers_of_people(key, digests, f"{EPOCH:016x}")
    for place, values in enumerate([(), ("Bonn",), (None,)]):
        theirs = member_numbers(SECRET, EPOCH, "test", values, digests[label == place]).to_pylist()
        assert [f"{int(each):016x}" for each in own[label == place]] == theirs
