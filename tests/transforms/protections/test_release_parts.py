"""Windows that are released in parts: nothing lost, nothing twice, one number a part, and the next window finds all."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot
from kanonflow.transforms.windows.partition_clock import PartitionClock
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, hourly, row
from tests.windows_alone import release_parts, release_window

pytestmark = pytest.mark.thorough

SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
SLOT = ReleaseSlot(b"partition", START + HOUR, 7)


def bound_shape(shape: str, **head: Any) -> BoundPolicy:
    """A policy of one of the three kinds of promises, with parts of 30 rows."""
    return bound_feed(feed_policy(**{"max_window_rows": 30, **SHAPES[shape], **head}))


def in_parts(
    rows: list[Row], bound: BoundPolicy, warm: WarmState | None = None, hour: int = 0
) -> list[WindowResult]:
    """The results of a window; each record adds up, and goes on where the one before it stopped."""
    slot = SLOT._replace(window_end=START + (hour + 1) * HOUR)
    before = warm or WarmState()
    results = list(release_parts(canonical(rows, bound), bound, before, SECRET, slot))
    assert [result.metrics["release_no"] for result in results] == list(range(7, 7 + len(results)))
    held = before.waiting_rows
    for result in results:
        record = result.metrics
        assert record["rows_waited"] == held
        held = record["rows_waiting"]
        assert held == result.warm.waiting_rows == sum(record["waiting_reasons"].values())
        gone = record["rows_released"] + sum(record["rows_rejected"].values())
        assert record["rows_new"] + record["rows_waited"] == gone + held
    assert sum(result.metrics["rows_new"] for result in results) == len(rows)
    return results


def alike(number: int, who: int, hour: float) -> Row:
    """A row that costs nothing to hide among others of its kind, so that nobody is held back."""
    return row(number, who, hour, age="40", job="baker")


def references(result: WindowResult) -> list[str]:
    """What went out."""
    return [] if result.release is None else from_ipc(result.release.ipc).column("reference").to_pylist()


@EVERY_SHAPE
def test_a_window_at_the_limit_is_the_release_it_always_was(shape: str) -> None:
    """Thirty rows are one release, byte for byte that of release_window; thirty-one are two."""
    bound = bound_shape(shape)
    rows = [alike(number, number, 0.5) for number in range(31)]
    (one,) = in_parts(rows[:30], bound)
    assert (
        one.release == release_window(canonical(rows[:30], bound), bound, WarmState(), SECRET, SLOT).release
    )
    assert [len(references(result)) for result in in_parts(rows, bound)] == [15, 16]


@EVERY_SHAPE
def test_waiting_rows_count_and_are_cut_like_new_ones(shape: str) -> None:
    """Twenty new rows and two that wait are one part, thirty and two are two, whichever of them is late."""
    bound = bound_shape(shape, max_delay="2h")
    early = in_parts([alike(100 + number, 50 + number, 0.5) for number in range(2)], bound)[-1].warm
    assert early.waiting_rows == 2
    for count, parts in ((20, 1), (30, 2)):
        rows = [alike(number, number, 1.5) for number in range(count)]
        results = in_parts(rows, bound, early, hour=1)
        assert len(results) == parts
        out = [name for result in results for name in references(result)]
        assert sorted(out) == sorted([f"r{number}" for number in range(count)] + ["r100", "r101"])
        for result in results:
            assert result.release is not None
            old = {"r100", "r101"} & set(references(result))
            assert result.release.window_start == (START if old else START + HOUR)


def test_an_individual_with_released_rows_waits_for_the_next_window() -> None:
    """Its rows above the limit are in no other part of the window, though parts follow that would take them."""
    own = {f"r{number}" for number in range(8)}
    rows = [row(number, 0, 0.5) for number in range(8)]
    rows += [row(100 + number, 1 + number, 0.5, age=str(number)) for number in range(90)]
    for delay, waiting in (("0s", 0), ("1h", 7)):
        results = in_parts(rows, bound_shape("classes", max_delay=delay))
        (holder,) = (place for place, result in enumerate(results) if own & set(references(result)))
        assert holder < len(results) - 1
        assert len(own & set(references(results[holder]))) == 1
        # Without max_delay no later window may take them either, and no part holds them longer than it must.
        assert results[holder].metrics["rows_rejected"].get("individual_over_limit", 0) == 7 - waiting
        assert results[-1].metrics["waiting_reasons"].get("individual_over_limit", 0) == waiting
    waits = results[-1].warm.waiting
    assert waits is not None
    assert own - set(references(results[holder])) <= set(waits.column("reference").to_pylist())


def test_what_a_part_cannot_release_goes_on_to_the_next_one() -> None:
    """A part of repeats has nobody left; its few new rows leave with the part that follows, though max_delay is 0."""
    bound = bound_shape("rows", events=True)
    first = [row(number, number, 0.5, age=str(number), job="baker") for number in range(20)]
    warm = in_parts(first, bound)[-1].warm
    again = [each | {"when": row(0, 0, 1.5)["when"]} for each in first[:18]]
    more = [row(50 + number, number, 1.5, age=str(100 - number), job="baker") for number in range(20)]
    few = [row(80 + number, 0, 1.5, age="1", job="baker") for number in range(2)]
    left, right = in_parts([*again, *few, *more], bound, warm, hour=1)
    assert left.release is None
    assert left.metrics["rows_rejected"] == {"duplicate_event": 18}
    assert left.metrics["waiting_reasons"] == {"too_few_peers": 2}
    assert len(references(right)) == 22
    assert {"r80", "r81"} < set(references(right))


def test_what_the_last_part_cannot_release_waits_or_is_rejected_as_ever() -> None:
    """There is no part after it."""
    first = [row(number, number, 0.5, age=str(100 - number), job="baker") for number in range(20)]
    more = [row(50 + number, number, 1.5, age=str(number), job="baker") for number in range(20)]
    few = [row(80 + number, 0, 1.5, age="99", job="baker") for number in range(2)]
    again = [each | {"when": row(0, 0, 1.5)["when"]} for each in first[:18]]
    for delay, waiting in (("0s", 0), ("1h", 2)):
        bound = bound_shape("rows", events=True, max_delay=delay)
        warm = in_parts(first, bound)[-1].warm
        results = in_parts([*again, *few, *more], bound, warm, hour=1)
        assert results[1].release is None
        assert results[1].warm.waiting_rows == waiting
        assert results[1].metrics["rows_rejected"].get("too_few_peers", 0) == 2 - waiting


def test_repeats_are_found_across_parts() -> None:
    """One event in several parts, equal or not: the first part that has it keeps it."""
    bound = bound_shape("rows", events=True)
    rows = [row(number, number, 0.5, age=str(number), event=f"e{number % 40}") for number in range(80)]
    rows += [row(100 + number, 3, 0.5, age="50", event="same") for number in range(50)]
    results = in_parts(rows, bound)
    out = [name for result in results for name in references(result)]
    assert len(out) == len(set(out)) == 41
    assert sum(result.metrics["rows_rejected"].get("duplicate_event", 0) for result in results) == 89
    events = [digests for _, digests in results[-1].warm.events]
    assert np.unique(np.concatenate(events)).size == sum(each.size for each in events) == 41


@EVERY_SHAPE
def test_the_next_window_finds_everybody(shape: str) -> None:
    """All parts leave one window's cohorts, and each part of the next window meets its own people in them."""
    bound = bound_shape(shape)
    rows = [row(number, number, 0.5, age=str(number)) for number in range(90)]
    first = in_parts(rows, bound)
    assert [result.metrics["peer_retention"] for result in first] == [None] * 3
    state = warm_state_from_bytes(first[-1].warm.to_bytes())
    cohorts = state.cohorts
    if shape == "rows":
        assert cohorts.people.size == 0
        return
    assert np.all(np.diff(cohorts.people.astype(object)) > 0)
    assert cohorts.people.size == 90
    if shape == "classes":
        ((end, people, labels),) = cohorts.history
        assert end == START + HOUR
        np.testing.assert_array_equal(people, cohorts.people)
        np.testing.assert_array_equal(labels, cohorts.labels)
        assert cohorts.next_label == np.unique(labels).size == sum(each.metrics["classes"] for each in first)
    else:
        assert cohorts.members.shape == (90, 3)
        assert np.all(np.bincount(cohorts.members.ravel()) == 3)
    again = [each | {"when": row(0, 0, 1.5)["when"]} for each in rows]
    second = in_parts(again, bound, state, hour=1)
    retained = [result.metrics["peer_retention"] for result in second]
    assert len(retained) == 3
    assert all(share > 0.3 for share in retained)
    if shape == "classes":
        assert len(second[-1].warm.cohorts.history) == 2
        assert second[-1].warm.cohorts.history[-1][1].size == 90


def test_losses_of_parts_are_measured_against_the_whole_window() -> None:
    """A part's own range is narrow where the cut was; a running domain of it would make its boxes look wide."""
    bound = bound_shape("rows", running=True)
    rows = [row(number, number, 0.5, age=str(number % 100)) for number in range(90)]
    results = in_parts(rows, bound)
    assert {result.metrics["domains"]["age"] for result in results} == {"[0, 89] running"}


def feed_of_parts(towns: tuple[str, ...] = ("Bonn", "Kiel")) -> list[Row]:
    """Four hours of a hundred rows each."""
    return hourly(4, 100, 45, seed=9, towns=towns)


@EVERY_SHAPE
def test_parts_take_numbers_of_their_own_and_a_retry_takes_the_same(shape: str) -> None:
    """The step counts on over the parts; from the same state it makes the same releases, state and rejected rows."""
    step = DrivenPartitions(bound_shape(shape, max_delay="1h", towns=True), SECRET)
    feed = feed_of_parts()
    for hour in range(4):
        step.send(feed[100 * hour : 100 * hour + 100])
        again = step.copy()
        counts = len(step.released), len(step.rejected)
        for each in (step, again):
            each.advance(START + (hour + 1) * HOUR)
        assert again.released == step.released[counts[0] :]
        assert again.rejected == step.rejected[counts[1] :]
        for key, cells in step.cells.items():
            assert again.cells[key].warm.value == cells.warm.value
            assert again.cells[key].clock.value == cells.clock.value
    step.finish()
    assert len({release.release_id for release in step.released}) == len(step.released) >= 16
    for key, cells in step.cells.items():
        records = [record for record in step.metrics if record["partition"] == key.hex()]
        numbers: dict[Any, int] = {}
        for number, record in enumerate(records):
            of_window = record["kind"] == "window"
            part = numbers.setdefault(record["window_end"], 0) if of_window else number
            assert record["release_no"] == part
            if of_window:
                numbers[record["window_end"]] += 1
        assert max(numbers.values()) > 1
        assert PartitionClock.from_bytes(cells.clock.value).release_no == len(records)
        for before, after in pairwise(records):
            assert after["rows_waited"] == before["rows_waiting"]
        assert records[-1]["rows_waiting"] == 0


@EVERY_SHAPE
def test_arrival_does_not_change_the_parts(shape: str) -> None:
    """Any order, any batches: the same releases and rejected rows, byte for byte."""
    feed, results = feed_of_parts(), []
    for seed in range(3):
        step = DrivenPartitions(bound_shape(shape, max_delay="1h", towns=True), SECRET)
        rng = np.random.default_rng(seed)
        for part in np.array_split(rng.permutation(len(feed)), int(rng.integers(1, 9))):
            step.send([feed[index] for index in part])
        step.finish()
        results.append((sorted(step.released), sorted((each.name, each.records) for each in step.rejected)))
    assert len(results[0][0]) >= 16
    assert all(result == results[0] for result in results)
