"""(S) where windows are split by a field of rows: one roster, and a release of whole cohorts for each value.

People have rows in several parts of a window. Exchanging the trails of two people of a cohort shows nothing in any of
them, and who enters when is what it is without the key: an intake is decided over the whole window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.protections import intake, release_parts
from kanonflow.transforms.protections.protection import Protection
from kanonflow.transforms.protections.release_window import release_window
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.release import issue
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import part_codes, partition_codes
from tests.privacy.test_swap import (
    OF_CELLS,
    exchanged_shows_the_same,
    pair_of_a_generation,
    shuffled_generations,
)
from tests.swapped_feeds import Course, TrailFeed, disturbed, facts, reads_anything, rows_in, run, split_feed
from tests.swapped_on_beam import in_time, shows

pytestmark = pytest.mark.thorough

FEEDS = 40
TURNS = 3


@pytest.mark.parametrize("first", range(0, FEEDS, 10))
def test_exchanging_trails_shows_nothing_in_any_part(first: int) -> None:
    """Groups, boxes, times, who enters, waits and is rejected, part by part; 120 exchanges over 40 feeds in all.

    Rows after entry may say anything of their person, as in a feed that is not split.
    """
    for seed in range(first, first + 10):
        course = run(split_feed(seed))
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once, and nothing waits at the end"
        for turn in range(TURNS):
            choose = shuffled_generations if turn == TURNS - 1 else pair_of_a_generation
            changes = choose(course, np.random.default_rng([seed, turn]))
            other = disturbed(course, seed, unreadable=reads_anything(course.feed.policy)).exchanged(changes)
            assert facts(run(other), OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"


def released(course: Course) -> Iterator[tuple[int, WindowResult, pa.Table]]:
    """The steps of a course that released something, with the rows."""
    for _, step, result in course.results:
        if result.release is not None:
            yield step, result, from_ipc(result.release.ipc)


def test_a_release_has_one_value_and_whole_cohorts_of_k_people() -> None:
    """And the feeds are full of it: windows of several releases, parts that wait, people in several parts at once."""
    several = waiting = together = 0
    for seed in range(30):
        feed = split_feed(seed)
        course = run(feed)
        owner = {row.tag: int(who) for row, who in zip(feed.rows, feed.owners, strict=True)}
        windows: Counter[tuple[bytes, Any]] = Counter()
        people: dict[tuple[Any, Any], set[int]] = {}
        for _, result, rows in released(course):
            assert len(set(rows.column("channel").to_pylist())) == 1
            place = result.metrics["partition"], result.metrics["window_end"]
            windows[place] += 1
            here = [owner[tag] for tag in rows.column("tag").to_pylist()]
            together += bool(people.setdefault(place, set()) & set(here))
            people[place] |= set(here)
            group_of: dict[int, set[int]] = {}
            in_group: dict[int, set[int]] = {}
            for who, group in zip(here, rows.column("class_id").to_pylist(), strict=True):
                # Repeats may be another's row of the same tag, who is in no cohort.
                group_of.setdefault(course.entered[who].cohort, set()).add(group)
                in_group.setdefault(group, set()).add(who)
            assert all(len(groups) == 1 for groups in group_of.values())
            assert min(map(len, in_group.values())) >= feed.policy.k
        several += sum(count > 1 for count in windows.values())
        waiting += sum(
            bool(result.metrics["waiting_reasons"].get("too_few_peers")) and result.release is not None
            for _, _, result in course.results
        )
    assert several > 40
    assert waiting > 20
    assert together > 40


def segments(course: Course) -> list[tuple[bytes, int, bytes]]:
    """Who entered at which step of which partition."""
    return [(key, step, result.segment) for key, step, result in course.results if result.segment is not None]


def unsplit(feed: TrailFeed) -> TrailFeed:
    """The same feed, whose channel is published and splits nothing."""
    return replace(feed, policy=replace(feed.policy, split_by=()))


def entered_as_without(seeds: range) -> int:
    """In how many feeds people enter as they do without the key, to the last box."""
    feeds = [split_feed(seed, max_delay="2h") for seed in seeds]
    return sum(segments(run(feed)) == segments(run(unsplit(feed))) for feed in feeds)


def test_people_enter_as_they_do_without_the_key() -> None:
    """Where some part has k people when an intake is due, and that is nearly everywhere."""
    assert entered_as_without(range(20)) >= 17


def decided_in_each_part(
    protection: Protection[Any, Any], due: Due, before: Before, rows: pa.Table | None
) -> Iterator[WindowResult]:
    """A release of its own for each value, from gather to account: who enters is decided in each."""
    channels = [] if rows is None else part_codes(rows, due.policy).tolist()
    for number in range(max(channels, default=0) + 1):
        slot = due.slot._replace(release_no=due.slot.release_no + number)
        own = None if rows is None else rows.filter(pa.array([each == number for each in channels]))
        result = release_window(protection, replace(due, slot=slot), before, own)
        before = Before(result.warm, result.roster or before.roster)
        yield result


def test_control_an_intake_that_is_decided_in_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """People enter otherwise then, in nearly every feed.

    An exchange within a generation cannot tell: whatever is decided by trails alone is decided alike.
    """
    monkeypatch.setattr(release_parts, "release_split", decided_in_each_part)
    assert entered_as_without(range(20)) < 5


def pair_in_one_roster(course: Course, rng: np.random.Generator) -> dict[int, int]:
    """Two people of one cohort of the roster that each of them entered last."""
    pairs = [people[:2] for people in course.generations() if len(people) > 1]
    if not pairs:
        return {}
    one, other = pairs[rng.integers(len(pairs))]
    return {one: other, other: one}


def test_control_a_roster_for_each_value() -> None:
    """With partition_by in the place of split_by somebody is in two cohorts, and the exchange shows."""
    shown = sum(
        not exchanged_shows_the_same(split_feed(seed, "partition_by"), pair_in_one_roster, seed)
        for seed in range(20)
    )
    assert shown > 10


def numbered_by_rows(rows: pa.Table, policy: Policy) -> NDArray[np.int64]:
    """Parts in the order in which rows have them, which is one of people's values."""
    return partition_codes(rows, policy.split_by)[0]


def chosen_by_part(entering: Any) -> Any:
    """Of the pool only those enter who are in the fullest part: who is left behind is known by what he did."""

    def chosen(pool: Any, here: Any, *rest: Any) -> NDArray[np.bool_]:
        enters = entering(pool, here, *rest)
        fullest = int(np.bincount(here.part).argmax()) if here.part.size else 0
        active = here.digests[np.unique(here.person[here.part == fullest])]
        some = enters & np.isin(pool.people, active)
        return some if some.sum() >= rest[-1].policy.cohort_size else np.zeros_like(enters)

    return chosen


def test_control_parts_numbered_by_the_order_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which part goes first, and who enters with which release, would follow from whose row comes first."""
    monkeypatch.setattr(intake, "part_codes", numbered_by_rows)
    assert any(
        not exchanged_shows_the_same(split_feed(seed), pair_of_a_generation, seed) for seed in range(40)
    )


def test_control_only_people_of_one_part_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left out of an intake."""
    monkeypatch.setattr(intake, "_entering", chosen_by_part(intake._entering))
    assert entered_as_without(range(20)) < 15


@pytest.mark.parametrize("seed", range(4000, 4003))
def test_exchanging_trails_shows_nothing_on_a_runner(seed: int) -> None:
    """From messages to releases, metrics and rejected rows."""
    course = run(in_time(split_feed(seed)))
    assert course.generations()
    changes = pair_of_a_generation(course, np.random.default_rng(seed))
    shows(course.feed, course, OF_CELLS)
    shows(disturbed(course, seed, unreadable=True).exchanged(changes), course, OF_CELLS)


def test_the_first_part_that_goes_out_vouches_for_who_enters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that refuses the first release of each window: the segment comes with the second, once, and later ones
    are built on it."""
    refused = []
    publish = issue._publish

    def refuses(due: Due, *rest: Any) -> Any:
        if due.slot.release_no == 0:
            refused.append(due.slot)
            raise GateError("no")
        return publish(due, *rest)

    monkeypatch.setattr(issue, "_publish", refuses)
    came = 0
    for seed in range(20):
        course = run(split_feed(seed))
        went = rows_in(course)
        assert went[0] == went[1]
        known = 0
        for _, result, _ in released(course):
            assert result.release is not None
            slot = result.release.slot
            assert slot is not None
            assert slot.roster is not None
            assert slot.part > 0
            assert slot.roster.entered == (result.segment is not None)
            known += result.segment is not None
            came += result.segment is not None
        entries = [int(entry.step) for entry in course.entered.values()]
        assert len(entries) == len(set(course.entered))
        assert all(len(members) >= (course.feed.policy.cohort_size or 0) for members in course.generations())
    assert refused
    assert came > 10


def test_a_window_with_no_part_of_k_people_waits_as_one() -> None:
    """One result, no release, and nobody enters."""
    feed = split_feed(1, k=4, cohort_size=5, intake=5, max_delay="2h")
    rows = tuple(row._replace(channel=f"c{number}") for number, row in enumerate(feed.rows))
    course = run(replace(feed, rows=rows))
    assert not any(result.release for _, _, result in course.results)
    assert not course.entered
    assert {
        result.metrics["release_no"] for _, _, result in course.results if result.metrics["kind"] == "window"
    } == {0}
    assert rows_in(course)[0] == rows_in(course)[1]
