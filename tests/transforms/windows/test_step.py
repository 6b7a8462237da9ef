"""The step of a partition: with and without Beam the same, its order of effects, and that it needs no runner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.lineage.release_lineage import ReleaseConflictError, Slot
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.roster.roster import Roster, RosterHead
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret
from kanonflow.transforms.windows.chain import Batch
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.step import PartitionStep, StateAfter
from tests.driven_partitions import DrivenPartitions, SteppedPartitions
from tests.lasting_feeds import growing_feed, results_of
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, hourly, row
from tests.test_layers import ROOT, imported_file, imports_of

pytestmark = pytest.mark.thorough

TOWNS = ("Bonn", "Kiel")
SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False, "events": True},
    "lasting": {"people": True, "cohort": "lasting", "intake": 70},
}
KEY = b"partition"
END = START + HOUR


def small_policy(shape: str, **head: Any) -> Policy:
    """Parts of 30 rows, two hours of delay, state that is forgotten after nine."""
    given = {"max_window_rows": 30, "max_delay": "2h", "state_ttl": "9h", "out_of_orderness": "5m"}
    return feed_policy(towns=True, **given | SHAPES[shape] | head)


def feed(few_people: int = 2) -> list[tuple[float, list[Row]]]:
    """(watermark in hours, rows that arrive before it): every turn that a partition's life can take.

    Hours 0 to 2: a hundred rows each, which is more than one part. Hour 3 brings late rows of hour 2, which its release
    takes. Hour 4 brings late rows of hour 3, which no release comes for. Hour 6 has few people, by default too few for
    a release. Then silence, until state is forgotten, rows that are too late for anything, and a last hour.
    """
    rows = hourly(3, 100, 45, seed=9, towns=TOWNS)
    late = [row(500 + number, 50 + number, 2.5, town=TOWNS[number % 2]) for number in range(6)]
    third = [row(510 + number, 10 + number, 3.5, town=TOWNS[number % 2]) for number in range(20)]
    stray = [row(540 + number, 60 + number, 3.2 + number / 10, town="Bonn") for number in range(2)]
    few = [row(550 + number, 70 + number, 6.5, town="Kiel") for number in range(few_people)]
    gone = [row(560, 80, 1.5, town="Bonn"), row(561, 81, 6.2, town="Kiel")]
    last = [row(570 + number, number, 40.5, town=TOWNS[number % 2]) for number in range(20)]
    steps = [(hour + 1.2, rows[100 * hour : 100 * hour + 100]) for hour in range(3)]
    return [
        *steps,
        (4.2, [*late, *third]),
        (5.1, stray),
        (6.1, []),
        (7.2, few),
        (30.0, []),
        (41.2, gone + last),
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_step_alone_does_what_the_dofn_does(shape: str) -> None:
    """Late rows, parts, expiry, forgetting: after each move the same outputs in the same order, and the same state."""
    bound = bound_feed(small_policy(shape))
    # A clock that stands still, so that durations in the metrics are equal, too.
    alone, driven = (
        SteppedPartitions(bound, SECRET, lambda: 0.0),
        DrivenPartitions(bound, SECRET, clock=lambda: 0.0),
    )
    forgotten = set()
    for hour, rows in feed(5 if shape == "lasting" else 2):
        for each in (alone, driven):
            each.send(rows)
            each.advance(START + int(hour * HOUR))
        assert alone.released == driven.released
        assert [each | {"state_bytes": None} for each in driven.metrics] == alone.metrics
        assert alone.rejected == driven.rejected
        assert alone.partitions.keys() == driven.cells.keys()
        for key, cells in driven.cells.items():
            partition = alone.partitions[key]
            assert partition.clock.to_bytes() == cells.clock.value
            assert partition.fires_at == cells.due.at
            warm = partition.warm_state
            assert (WarmState() if warm is None else warm).to_bytes() == cells.state().to_bytes()
            assert partition.segments == cells.roster.values
            if cells.warm.value is None:
                forgotten.add(key)
    if shape == "lasting":
        every_lasting_turn_was_taken(driven, forgotten)
    else:
        every_turn_was_taken(driven, forgotten)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_due_at_a_feeds_end_goes_in_one_firing_as_it_would_in_many(shape: str) -> None:
    """Each partition's outputs, state and sizes of state are those of a firing a window, in their order."""
    bound = bound_feed(small_policy(shape, events=True))
    rows = [row for _, part in feed(5 if shape == "lasting" else 2) for row in part]
    many, one = (
        DrivenPartitions(bound, SECRET, clock=lambda: 0.0, at_end=at_end) for at_end in (False, True)
    )
    for each in (many, one):
        each.send(rows)
        each.advance(START + 100 * HOUR)
    assert (many.firings > 3 * len(many.cells), one.released) == (True, [])
    for each in (many, one):
        each.finish()
    assert one.firings == len(one.cells) == len(TOWNS)
    assert outputs_by_partition(one) == outputs_by_partition(many)
    for key, cells in one.cells.items():
        other = many.cells[key]
        assert cells.clock.value == other.clock.value
        assert cells.state().to_bytes() == other.state().to_bytes()
        assert [bag.values for bag in cells.events] == [bag.values for bag in other.events]
        assert cells.roster.values == other.roster.values


def outputs_by_partition(driven: DrivenPartitions) -> dict[str, Any]:
    """Releases, metrics and rejected rows, each partition's in the order in which they came."""
    found: dict[str, list[Any]] = {}
    whose = {record["release_id"]: record["partition"] for record in driven.metrics}
    for release in driven.released:
        found.setdefault(whose[release.release_id], []).append(release)
    for record in driven.metrics:
        found.setdefault(record["partition"], []).append(record)
    for rejected in driven.rejected:
        found.setdefault(whose[rejected.name], []).append(rejected)
    return found


def every_lasting_turn_was_taken(driven: DrivenPartitions, forgotten: set[bytes]) -> None:
    """Nothing is forgotten, late rows join or are refused, and somebody entered because rows had to leave."""
    assert not forgotten
    entered = [record["people_entered"] for record in driven.metrics if record["people_entered"]]
    assert len(entered) > len(driven.cells)
    assert min(entered) < 70
    assert max(record["pool"] for record in driven.metrics) > 0
    assert "late" in {reason for _, reason in driven.refused()}
    assert any(record["waiting_reasons"].get("awaits_intake") for record in driven.metrics)
    assert any(name in driven.published() for name in ("r500", "r501"))
    # An hour without rows of its own, and a release: those who waited entered together.
    ends = {record["window_end"] for record in driven.metrics if record["people_entered"]}
    assert ends - {START + hour * HOUR for hour in (1, 2, 3, 4, 5, 7, 41)}


def every_turn_was_taken(driven: DrivenPartitions, forgotten: set[bytes]) -> None:
    """The feed is what its docstring says; else the comparison would compare less."""
    kinds = {record["kind"] for record in driven.metrics}
    assert kinds == {"window", "expiry"}
    assert max(record["release_no"] for record in driven.metrics if record["kind"] == "window") >= 1
    assert forgotten == set(driven.cells)
    reasons = {reason for _, reason in driven.refused()}
    assert {"late", "too_few_peers"} <= reasons
    assert any(name in driven.published() for name in ("r500", "r501"))
    assert {"r560", "r561"} <= {name for name, _ in driven.refused()}
    assert {"r540", "r541"} <= {name for name, reason in driven.refused() if reason == "late"}
    assert not any(record["warm"] for record in driven.metrics if record["window_end"] == START + 41 * HOUR)
    assert driven.watermark == START + int(41.2 * HOUR)


@pytest.mark.parametrize("shape", ["classes", "lasting"])
def test_the_state_in_memory_is_the_state_in_bytes(shape: str) -> None:
    """A step that goes on from serialized state gives what one gives that kept its objects."""
    bound = bound_feed(small_policy(shape))
    kept, read = SteppedPartitions(bound, SECRET, lambda: 0.0), SteppedPartitions(bound, SECRET, lambda: 0.0)
    for hour, rows in feed():
        for each in (kept, read):
            each.send(rows)
            each.advance(START + int(hour * HOUR))
        for partition in read.partitions.values():
            partition.clock = PartitionClock.from_bytes(partition.clock.to_bytes())
            # The roster is put together from its segments again.
            partition._roster = None
            if partition.warm_state is not None:
                partition.warm_state = warm_state_from_bytes(partition.warm_state.to_bytes())
    assert (kept.released, kept.metrics, kept.rejected) == (read.released, read.metrics, read.rejected)


class Told:
    """What a step does to the outside, in order: as ``Held``, as ``PublishedReleases``, as its clock.

    conflict: the part that may not stand beside what is published. end: of the window.
    """

    def __init__(self, rows: pa.Table | None, conflict: int | None = None, end: int = END) -> None:
        self.calls: list[str] = []
        self.taken: list[tuple[tuple[int, ...], bool]] = []
        self._end = end
        self.made: list[Slot] = []
        self._rows = rows
        self._conflict = conflict

    def warm(self) -> WarmState:
        self.calls.append("warm")
        return WarmState()

    def roster(self, head: RosterHead) -> Roster:
        raise AssertionError("nobody has entered")

    def take(self, windows: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        self.calls.append(f"take {len(windows)}{' late' if late_only else ''}")
        self.taken.append((windows, late_only))
        return self._rows

    def batches(self) -> tuple[Batch, ...]:
        return ()

    def secret_version(self, place: ReleaseSlot, begun: int | None) -> int | None:
        self.calls.append(f"version {begun}")
        return begun

    def solution(self, place: ReleaseSlot) -> bytes | None:
        self.calls.append(f"solution {place.release_no}")
        return None

    def compare(self, place: ReleaseSlot, made: Slot | None) -> None:
        assert (place.partition, place.window_end) == (KEY, self._end)
        self.calls.append(f"compare {place.release_no}")
        if place.release_no == self._conflict:
            raise ReleaseConflictError("not beside that")
        if made is not None:
            self.made.append(made)

    def compare_end(self, place: ReleaseSlot, parts: int) -> None:
        self.calls.append(f"compare_end {parts}")

    def seconds(self) -> float:
        self.calls.append("solving")
        return 0.0


def released(told: Told, **head: Any) -> Iterator[WindowResult | StateAfter]:
    """What the step makes of the rows of hour 0."""
    policy = feed_policy(people=False, max_window_rows=30, **head)
    step = PartitionStep(bound_feed(policy), SECRET, 1, time=told.seconds, published=told)
    clock = step.arrive(PartitionClock(), END // HOUR - 1).clock
    action = step.due(clock)
    assert action is not None
    return step.act(KEY, action, clock, told)


def ninety() -> pa.Table:
    """Rows for three parts."""
    rows = [row(number, number, 0.5, age=str(number), job="baker") for number in range(90)]
    return canonical(rows, bound_feed(feed_policy(people=False)))


def told_with_results(told: Told, **head: Any) -> list[StateAfter]:
    """Take what the step yields, and write down when; equal calls that follow each other count once."""
    states = []
    for made in released(told, **head):
        told.calls.append("state" if isinstance(made, StateAfter) else f"yield {made.metrics['release_no']}")
        if isinstance(made, StateAfter):
            states.append(made)
    told.calls = [call for n, call in enumerate(told.calls) if n == 0 or told.calls[n - 1] != call]
    return states


def test_a_part_is_compared_and_leaves_before_the_next_is_solved() -> None:
    """State is read once and first; the end is compared after all parts; the state comes last, and once."""
    told = Told(ninety())
    (after,) = told_with_results(told)
    parts = [call for part in range(3) for call in ("solving", f"compare {part}", f"yield {part}")]
    assert told.calls == ["warm", "take 1", "version 1", *parts, "compare_end 3", "state"]
    assert after.clock.release_no == 3
    assert after.clock.claims == tuple(slot.claim for slot in told.made)


def test_each_release_names_those_before_it() -> None:
    """What a part was built on is fixed when it is compared, and in its slot when it leaves."""
    told = Told(ninety())
    results = [made for made in released(told) if isinstance(made, WindowResult)]
    slots = [made.release.slot for made in results if made.release is not None]
    assert slots == told.made
    assert [len(slot.built_on) for slot in told.made] == [0, 1, 2]
    assert told.made[2].built_on == (told.made[0].claim, told.made[1].claim)


def test_a_recorded_solution_is_asked_for_where_a_clock_has_a_part() -> None:
    """Under a deadline, of each part, before it is solved."""
    told = Told(ninety())
    told_with_results(told, solver={"deadline": "60s", "evaluations_per_row": 20})
    asked = [call for call in told.calls if call.startswith(("solution", "yield"))]
    assert asked == [f"{call} {part}" for part in range(3) for call in ("solution", "yield")]


def test_a_conflict_ends_the_step_before_its_result_leaves() -> None:
    """Nor does a state leave: the partition stays as it was."""
    told, left = Told(ninety(), conflict=1), []
    with pytest.raises(ReleaseConflictError):
        left += [made.metrics["release_no"] for made in released(told) if isinstance(made, WindowResult)]
    assert told.calls[-1] == "compare 1"
    told, left = Told(ninety(), conflict=0), []
    with pytest.raises(ReleaseConflictError):
        left += list(released(told))
    assert left == []


def test_forgetting_reads_nothing() -> None:
    """Warm state may be large; it is dropped unread, and the clock keeps its numbers."""
    told = Told(None)
    (after,) = told_with_results(told)
    step = PartitionStep(bound_feed(feed_policy()), SECRET, 1, published=told)
    action, told.calls = step.due(after.clock), []
    assert action is not None
    assert action.kind == "forget"
    (forgotten,) = step.act(KEY, action, after.clock, told)
    assert (forgotten, told.calls) == (StateAfter(after.clock.forgotten(), None), [])
    assert step.due(after.clock.forgotten()) is None


def test_an_expiry_reads_late_rows_only_and_compares_nothing() -> None:
    """It publishes nothing; its rows leave under the secret of the window that began last."""
    bound = bound_feed(feed_policy(max_delay="2h"))
    told = Told(canonical([row(1, 1, 0.5)], bound))
    rotated = Secret(bytes(range(40, 80)), 2, [SECRET])
    step = PartitionStep(bound, rotated, 1, published=told)
    window = END // HOUR - 1
    clock = PartitionClock(last_end=END, secret_version=1).arrive(window, bound.policy, 2).clock
    action = step.due(clock)
    assert action is not None
    assert action.kind == "expire"
    result, after = step.act(KEY, action, clock, told)
    assert isinstance(result, WindowResult)
    assert result.metrics["rows_rejected"] == {"late": 1}
    assert told.calls == ["warm", "take 1 late"]
    assert isinstance(after, StateAfter)
    assert (after.clock.release_no, after.clock.late) == (1, ())


@pytest.mark.parametrize(("own", "bag"), [(END - HOUR, 1), (END - 3 * HOUR, 0)], ids=["late", "old"])
def test_rows_that_are_late_or_old_leave_without_those_of_open_windows(own: int, bag: int) -> None:
    """With cohorts that last both are releases: of the bag of the window after the last release, or of that before it;
    never of a row that has a window of its own there; under the secret that was in force last."""
    bound = bound_feed(feed_policy(cohort="lasting", max_delay="1h"))
    told = Told(canonical([row(who, who, 0.5) for who in range(4)], bound), end=END + HOUR)
    step = PartitionStep(bound, Secret(bytes(range(40, 80)), 2, [SECRET]), 1, published=told, epoch=7)
    clock = replace(PartitionClock(last_end=END), secret_version=1).carried_over()
    arrival = clock.arrive(own // HOUR, bound.policy)
    action = step.due(arrival.clock)
    assert action is not None
    assert (action.kind, action.at) == ("closing" if bag == 0 else "expire", END + HOUR)
    result, after = step.act(KEY, action, arrival.clock, told)
    assert told.taken == [((END // HOUR - 1 + bag,), True)]
    assert isinstance(result, WindowResult)
    assert isinstance(after, StateAfter)
    assert result.release is not None
    assert result.release.slot is not None
    assert (result.release.slot.secret_version, result.release.slot.part) == (1, 0)
    assert after.clock.claims == (result.release.slot.claim,)
    assert result.roster is not None
    assert result.roster.head.epoch == 7


@pytest.mark.parametrize("cohort", ["window", "lasting"])
def test_a_release_is_the_same_whether_it_is_recorded_or_compressed(cohort: str) -> None:
    """A step compresses, for releases leave the process, and records nothing, unless it is told otherwise."""
    rows, policy = growing_feed(1, per_person=60), feed_policy(cohort=cohort)
    (plain,), (small,), (recorded,) = (
        results_of(rows, policy, time=lambda: 0.0, **told)
        for told in ({"compressed": False}, {}, {"matching_records": True})
    )
    assert plain.release is not None
    assert small.release is not None
    assert small.release == recorded.release
    assert (small.matching_record, recorded.matching_record is None) == (None, False)
    assert len(small.release.ipc) < len(plain.release.ipc)
    assert from_ipc(small.release.ipc).equals(from_ipc(plain.release.ipc))


def test_the_step_and_all_that_it_rests_on_know_no_runner() -> None:
    """No import of Beam, in these files or in any that they import."""
    open_files = [Path("transforms/windows/step.py"), Path("transforms/windows/partition_in_memory.py")]
    seen: set[Path] = set()
    while open_files:
        file = open_files.pop()
        if file in seen:
            continue
        seen.add(file)
        for found in imports_of((ROOT / file).read_text(), file):
            assert not found.module.startswith("apache_beam"), found
            below = imported_file(found.module) if found.module.startswith("kanonflow") else None
            open_files += [below] if below is not None else []
    assert len(seen) > 50
