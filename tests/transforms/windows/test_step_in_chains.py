"""The step where runs continue each other: what is done, what is handed on, what is old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.roster import RosterHead, segment_from_bytes
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.row_places import RowPlaces
from kanonflow.transforms.secret.seeds import ReleaseSlot, release_id
from kanonflow.transforms.windows.chain import Chain, carried_from_bytes
from kanonflow.transforms.windows.expected_people import expected_states
from kanonflow.transforms.windows.partition_clock import Action, PartitionClock
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep
from tests.lasting_feeds import EPOCH, KEY, growing_feed, lasting_policy, partition_of
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, references, row

pytestmark = pytest.mark.thorough

END = START + HOUR
POLICY = lasting_policy(max_delay="2h", intake=9)


@dataclass(frozen=True)
class Left:
    """What a run has left of the one partition, as of ``step.EarlierCohorts``."""

    continued: Continued | None

    def of(self, key: bytes) -> Continued | None:
        """Of a partition."""
        return self.continued if key == KEY else None

    def keys(self) -> list[bytes]:
        """Of which ones."""
        return [] if self.continued is None else [KEY]


NOBODY = Left(None)


def left_by(partition: PartitionInMemory, *, cohorts_alone: bool = False) -> Left:
    """What the next run finds. cohorts_alone: as of a run that handed on nothing but its cohorts."""
    assert partition.carried is not None
    carried = None if cohorts_alone else partition.carried.to_bytes()
    segments = tuple(map(segment_from_bytes, partition.segments))
    return Left(Continued(EPOCH, segments, no_groups(), carried))


def begun(rows: Sequence[Row], chain: Chain, earlier: Left = NOBODY, **of: Any) -> PartitionInMemory:
    """The partition in a run that has read all its rows. until: in hours. of: as of ``partition_of``."""
    partition = partition_of(rows, POLICY, continued=earlier, chain=chain, **of)
    partition.wake()
    return partition


def until(hour: int, place: int = 0) -> Chain:
    """A run that carries over what is later than this hour."""
    return Chain(place, carry=True, until=START + hour * HOUR)


def ends(results: Sequence[WindowResult]) -> list[tuple[str, int]]:
    """Kind and end, in hours, of all that was released."""
    return [
        (made.release.slot.kind, (made.release.slot.window_end - START) // HOUR)
        for made in results
        if made.release is not None and made.release.slot is not None and made.release.slot.window_end
    ]


def published(results: Sequence[WindowResult]) -> list[str]:
    """References of all released rows."""
    return [name for made in results if made.release for name in references(from_ipc(made.release.ipc))]


def test_what_ends_with_the_run_is_released_and_what_ends_later_is_handed_on() -> None:
    """Exactly at ``until`` a window still is of this run; the one after it waits, with all its rows and nobody's
    rejection."""
    rows = growing_feed(3, each=0)
    partition = begun(rows, until(2))
    results = list(partition.finish())
    assert ends(results) == [("release", 1), ("release", 2)]
    assert sum(len(made.rejected) for made in results) == 0
    assert partition.carried is not None
    carried = carried_from_bytes(partition.carried.to_bytes())
    assert carried.clock is not None
    assert carried.clock.pending == ((START + 2 * HOUR) // HOUR,)
    assert carried.place == 0
    assert sorted(published(results)) == sorted(str(each["reference"]) for each in rows[:18])
    handed = [name for batch in carried.batches for name in references(batch.rows)]
    assert sorted(handed) == sorted(str(each["reference"]) for each in rows[18:])


def test_a_run_ends_once() -> None:
    """After the end nothing is due, or a drained feed would never end; and no mark of it is handed on."""
    partition = begun(growing_feed(2), until(1))
    list(partition.finish())
    assert partition.fires_at is None
    assert partition.carried is not None
    assert partition.carried.clock is not None
    assert not partition.carried.clock.kept
    assert not partition.clock.kept


def test_two_runs_release_what_one_would() -> None:
    """The clock, the rows of open windows, who waits, the cohorts and the groups go from run to run."""
    rows = growing_feed(4)
    whole = list(begun(rows, until(4)).finish())
    first = begun(rows, until(2))
    parts = list(first.finish())
    second = begun([], until(4, 1), left_by(first))
    parts += second.finish()
    assert ends(parts) == ends(whole) == [("release", hour) for hour in (1, 2, 3, 4)]
    assert [sorted(references(from_ipc(made.release.ipc))) for made in parts if made.release] == [
        sorted(references(from_ipc(made.release.ipc))) for made in whole if made.release
    ]
    assert [made.segment is None for made in parts] == [made.segment is None for made in whole]
    # The second one's slots are its own.
    assert [made.release.slot.chain_place for made in parts if made.release and made.release.slot] == [
        0,
        0,
        1,
        1,
    ]


def test_rows_older_than_all_of_a_run_leave_beside_its_releases_though_none_is_due() -> None:
    """They are released even where the run ends before its first window does, and nothing else is with them; what the
    earlier run carried over of open windows stays."""
    first = begun(growing_feed(6, each=0), until(5))
    list(first.finish())
    old = [row(900 + who, who, 0.5) for who in range(5)]
    late = [row(950 + who, who, 3.5) for who in range(4)]
    second = begun([*old, *late], until(5, 1), left_by(first))
    results = list(second.finish())
    assert ends(results) == [("closing", 6)]
    assert sorted(published(results)) == [f"r{900 + who}" for who in range(5)]
    assert results[0].metrics["kind"] == "closing"
    assert second.carried is not None
    waiting = {name for batch in second.carried.batches for name in references(batch.rows)}
    assert {f"r{950 + who}" for who in range(4)} < waiting
    third = begun([], until(6, 2), left_by(second))
    results = list(third.finish())
    assert ends(results) == [("release", 6)]
    assert waiting <= set(published(results))


def test_a_run_that_carries_nothing_hands_on_who_waits_to_enter() -> None:
    """Its rows leave at their deadlines and there is no clock, but who was seen is counted by the next run."""
    first = begun(growing_feed(2, each=2), Chain())
    results = list(first.finish())
    assert first.carried is not None
    assert first.carried.clock is None
    assert first.carried.rows == 0
    assert first.carried.warm.roster is not None
    waiting = first.carried.warm.roster.pool.people.size
    assert waiting == 2
    assert [record["reason"] for made in results for record in made.rejected] == ["awaits_intake"] * 2
    # One more, and there are enough for a cohort when the rows of the new one have to leave.
    second = begun(
        [row(800, 70, 30.5), *(row(801 + who, who, 32.5) for who in range(9))], Chain(1), left_by(first)
    )
    more = list(second.finish())
    assert sum(made.metrics["people_entered"] or 0 for made in more) == 3
    assert "r800" in published(more)


def test_a_partition_that_is_known_by_its_cohorts_alone_begins_with_them() -> None:
    """Nobody waits, and whoever is in a cohort is released in it: the roster goes on by its own numbers, and is part of
    the state from the first step on."""
    first = begun(growing_feed(1), Chain())
    list(first.finish())
    again = [row(700 + who, who, 20.5) for who in range(9)]
    second = begun(again, Chain(1), left_by(first, cohorts_alone=True))
    assert second.segments == []
    (made,) = second.fire()
    assert made.metrics["people_entered"] == 0
    assert len(published([made])) == 9
    assert second.segments == first.segments
    # Of another partition nothing is known: its people enter there.
    other = partition_of(again, POLICY, continued=Left(None), chain=Chain(1))
    (made,) = other.fire()
    assert made.metrics["people_entered"] == 9


def test_refused_rows_are_named_by_a_place_that_no_release_has() -> None:
    """The places -1, -2 ... of the last released window's end: a job that is started again finds the file that it
    wrote, whatever build it is, and no release has such a name."""
    bound = bound_feed(POLICY)
    step = PartitionStep(bound, SECRET, 1)
    rows = canonical([row(1, 1, 0.5), row(2, 1, 0.6)], bound)
    for refused in (0, 1):
        clock = PartitionClock(last_end=START + 9 * HOUR, refused=refused)
        made = step.refuse(KEY, clock, rows)
        place = ReleaseSlot(KEY, START + 9 * HOUR, -1 - refused)
        assert made.name == release_id(SECRET, POLICY.name, place)
        assert [(each["reason"], each.get("part")) for each in made.records] == [("late", None)] * 2
    placed = step.refuse(KEY, clock, rows, RowPlaces("topic-0", pa.array([7, 9]).to_numpy()))
    assert [each["part"] for each in placed.records] == ["topic-0/7", "topic-0/9"]


def test_without_a_chain_a_step_hands_nothing_on() -> None:
    """It is the first run, all that is due is done, and the end of the feed leaves no state behind."""
    step = PartitionStep(bound_feed(POLICY), SECRET, 1)
    clock = step.arrive(PartitionClock(), START // HOUR).clock
    assert (step.place, clock.kept, step.due(clock)) == (0, False, Action("release", START + HOUR))
    partition = partition_of(growing_feed(3, each=0), POLICY)
    results = list(partition.finish())
    assert ends(results) == [("release", 1), ("release", 2), ("release", 3)]
    assert (partition.carried, partition.clock.kept) == (None, False)


def named_people(first: int, count: int, key: bytes = KEY) -> bytes:
    """A carried state that names people, as a file of people would."""
    bound = bound_feed(POLICY)
    rows = canonical([row(who, who, 0.5) for who in range(first, first + count)], bound)
    (state,) = expected_states(rows, bound, SECRET, EPOCH).values()
    return replace(state, partition=key).to_bytes()


def test_a_partition_begins_with_whom_a_file_names() -> None:
    """Alone, and beside what a run has left; people of the cohorts are not expected again, and too few are none."""
    bound = bound_feed(POLICY)
    step = PartitionStep(
        bound,
        SECRET,
        1,
        epoch=EPOCH,
        continued=Left(Continued(EPOCH, (), no_groups(), None, named_people(0, 5))),
    )
    started = step.begin(KEY)
    assert started is not None
    assert started.warm.roster is not None
    assert started.warm.roster.pool.from_start.tolist() == [True] * 5
    assert (started.segments, started.batches, started.rows) == ((), (), 0)
    assert started.clock == PartitionClock()
    assert step.begin(b"another") is None
    first = begun(growing_feed(2), until(2))
    list(first.finish())
    left = left_by(first).continued
    assert left is not None
    known = left.roster.head.people
    for count, expected in ((known + 4, 4), (known + 2, 0)):
        people = left._replace(expected=named_people(0, count))
        began = PartitionStep(bound, SECRET, 1, epoch=EPOCH, continued=Left(people), chain=until(4, 1)).begin(
            KEY
        )
        assert began is not None
        assert began.warm.roster is not None
        assert int(began.warm.roster.pool.from_start.sum()) == expected
        assert len(began.segments) == len(left.segments)
        assert began.clock.kept
    _judge_a_longer_file(left, known)
    others = Left(Continued(EPOCH, (), no_groups(), None, named_people(0, 5, b"another")))
    lost = PartitionStep(bound, SECRET, 1, epoch=EPOCH, continued=others)
    with pytest.raises(StateError, match="of another partition"):
        lost.begin(KEY)


def _judge_a_longer_file(left: Continued, known: int) -> None:
    """Who waits by a file keeps kind and values where a longer one comes; fewer than a cohort beside them are none."""
    first = PartitionStep(
        bound_feed(POLICY),
        SECRET,
        1,
        epoch=EPOCH,
        continued=Left(left._replace(expected=named_people(0, known + 4))),
        chain=until(4, 1),
    ).begin(KEY)
    assert first is not None
    assert left.carried is not None
    state = replace(carried_from_bytes(left.carried), place=1, warm=first.warm)
    waits = left._replace(carried=state.to_bytes())
    for count, kinds in ((known + 8, [1] * 4 + [2] * 4), (known + 6, [1] * 4)):
        began = PartitionStep(
            bound_feed(POLICY),
            SECRET,
            1,
            epoch=EPOCH,
            continued=Left(waits._replace(expected=named_people(0, count))),
            chain=until(6, 2),
        ).begin(KEY)
        assert began is not None
        assert began.warm.roster is not None
        pool = began.warm.roster.pool
        assert sorted(pool.kind[pool.from_start].tolist()) == kinds


def test_people_of_a_collection_join_the_pool_until_something_is_released() -> None:
    """Whoever comes after a release is refused: of a bounded collection nobody does."""
    step = PartitionStep(bound_feed(POLICY), SECRET, 1, epoch=EPOCH)
    warm = step.expect(KEY, PartitionClock(), WarmState(), named_people(0, 4))
    assert warm.roster is not None
    assert warm.roster.pool.from_start.tolist() == [True] * 4
    assert warm.roster.head == RosterHead(EPOCH)
    more = step.expect(KEY, PartitionClock(), warm, named_people(0, 8))
    assert more.roster is not None
    assert sorted(more.roster.pool.kind.tolist()) == [0] * 4 + [1] * 4
    with pytest.raises(InputError, match="after a first release"):
        step.expect(KEY, PartitionClock(last_end=END), warm, named_people(20, 4))
