"""One window of one partition: what is released, what waits, what is rejected, and that nothing else happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections.release_window import earliest_deadline
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.release import cohorts as module
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, references, row
from tests.transforms.window_rows import bound_policy, window_rows
from tests.windows_alone import expire, release_window

PEOPLE = bound_feed(feed_policy(max_delay="2h"))
ROWS_OF_PEOPLE = bound_feed(feed_policy(max_delay="2h", protect="row"))
ROWS = bound_feed(feed_policy(people=False, max_delay="2h"))
PROMPT = bound_feed(feed_policy())
EVENTS = bound_feed(feed_policy(events=True, max_delay="2h"))
EVERY_SHAPE = pytest.mark.parametrize(
    "bound",
    [PEOPLE, ROWS_OF_PEOPLE, ROWS],
    ids=["classes", "people", "rows"],
)


def close(
    rows: Sequence[Row] | None,
    bound: BoundPolicy,
    hour: int = 0,
    warm: WarmState | None = None,
    number: int = 0,
) -> WindowResult:
    """The window ``hour`` ends; the ledger is checked."""
    table = None if rows is None else canonical(rows, bound)
    slot = ReleaseSlot(b"partition", START + (hour + 1) * HOUR, number)
    return checked(release_window(table, bound, warm or WarmState(), SECRET, slot), warm, rows)


def checked(result: WindowResult, warm: WarmState | None, rows: Sequence[Row] | None) -> WindowResult:
    """New + waited = released + waiting + rejected, in the metrics and in what was returned."""
    metrics = result.metrics
    released = 0 if result.release is None else from_ipc(result.release.ipc).num_rows
    assert metrics["rows_new"] == len(rows or ())
    assert metrics["rows_waited"] == (0 if warm is None else warm.waiting_rows)
    assert metrics["rows_released"] == released
    assert metrics["released"] == (result.release is not None)
    assert metrics["rows_waiting"] == result.warm.waiting_rows == len(result.warm.waiting_reason)
    assert sum(metrics["rows_rejected"].values()) == len(result.rejected)
    assert metrics["rows_new"] + metrics["rows_waited"] == released + result.warm.waiting_rows + len(
        result.rejected
    )
    return result


def released(result: WindowResult) -> pa.Table:
    """The rows that went out."""
    assert result.release is not None
    return from_ipc(result.release.ipc)


def reasons(result: WindowResult) -> dict[str, str]:
    """Why each row was rejected, by its reference."""
    return {record["row"]["reference"]: record["reason"] for record in result.rejected}


@EVERY_SHAPE
def test_a_window_of_ten_rows_is_released(bound: BoundPolicy) -> None:
    """Small is no reason to wait: ten people, each row out once, with its payload."""
    rows = [row(number, number, 0.5) for number in range(10)]
    out = released(close(rows, bound))
    assert references(out) == sorted(str(each["reference"]) for each in rows)
    assert set(zip(out.column("reference").to_pylist(), out.column("amount").to_pylist(), strict=True)) == {
        (each["reference"], float(str(each["amount"]))) for each in rows
    }


@EVERY_SHAPE
def test_identical_rows_are_released_one_by_one(bound: BoundPolicy) -> None:
    """Equal quasi-identifiers, all of them: boxes of one point, loss 0, no row lost or merged."""
    rows = [row(number, number, 0.5, age="30", job="nurse", amount="1") for number in range(7)]
    rows += [row(7, 7, 0.5, age="30", job="nurse", amount="1", reference="r6")]
    result = close(rows, bound)
    assert released(result).num_rows == 8
    assert result.metrics["gcp"] == 0.0


@EVERY_SHAPE
def test_a_release_crosses_processes_compressed(bound: BoundPolicy) -> None:
    """It is less than half as many bytes as its rows, and reads as the same; one that is not compressed reads, too. Few
    rows are not: that costs more than what is saved."""
    result = close([row(number, number % 40, 0.5) for number in range(400)], bound)
    assert result.release is not None
    plain = to_ipc(released(result))
    assert 2 * len(result.release.ipc) < len(plain)
    assert from_ipc(plain).equals(released(result))
    few = close([row(number, number % 40, 0.5) for number in range(100)], bound)
    assert few.release is not None
    assert few.release.ipc == to_ipc(released(few))


@EVERY_SHAPE
def test_no_rows_are_no_release(bound: BoundPolicy) -> None:
    """An empty table, or none at all: a record of zeros and an empty state."""
    for rows in (None, []):
        result = close(rows, bound)
        assert result.release is None
        assert result.warm.waiting is None
        assert result.metrics["rows_new"] == 0


@EVERY_SHAPE
def test_fewer_than_k_wait_for_the_next_release(bound: BoundPolicy) -> None:
    """Two people in the first hour, one in the second: then all three leave together."""
    first = close([row(0, 0, 0.1), row(1, 1, 0.2)], bound)
    assert first.release is None
    assert first.metrics["waiting_reasons"] == {"too_few_peers": 2}
    assert earliest_deadline(first.warm, bound) == START + 3 * HOUR
    second = close([row(2, 2, 1.5)], bound, 1, first.warm, 1)
    assert references(released(second)) == ["r0", "r1", "r2"]
    assert second.release is not None
    assert second.release.window_start == START
    assert second.metrics["window_start"] == START


def test_many_rows_of_fewer_than_k_people_wait() -> None:
    """Individuals count, not rows."""
    for bound in (PEOPLE, ROWS_OF_PEOPLE):
        result = close([row(number, number % 2, 0.5) for number in range(20)], bound)
        assert result.warm.waiting_rows == 20


def test_rows_that_nothing_may_take_later_are_rejected_at_once() -> None:
    """Without max_delay there is no later release."""
    result = close([row(0, 0, 0.1), row(1, 1, 0.2)], PROMPT)
    assert reasons(result) == {"r0": "too_few_peers", "r1": "too_few_peers"}
    assert result.warm.waiting is None


def test_a_row_leaves_with_the_release_at_its_deadline_or_not_at_all() -> None:
    """Own window's end + max_delay: the release there takes it; if none is possible, it is rejected."""
    rows = [row(0, 0, 0.1), row(1, 1, 0.2)]
    first = close(rows, PEOPLE)
    assert references(released(close([row(2, 2, 2.5)], PEOPLE, 2, first.warm, 1))) == ["r0", "r1", "r2"]
    missed = close([row(2, 1, 2.5)], PEOPLE, 2, first.warm, 1)
    assert reasons(missed) == {"r0": "too_few_peers", "r1": "too_few_peers"}
    assert missed.warm.waiting_rows == 1


def test_a_row_past_its_deadline_is_never_released() -> None:
    """Even when a caller hands it in."""
    result = close([row(number, number, 0.5) for number in range(6)], PEOPLE, 3)
    assert set(reasons(result).values()) == {"late"}


@EVERY_SHAPE
def test_the_start_of_a_release_is_that_of_its_oldest_window(bound: BoundPolicy) -> None:
    """One late row dates the release back, and every row of it alike."""
    rows = [row(number, number, 2.5) for number in range(6)] + [row(6, 6, 0.5)]
    out = released(close(rows, bound, 2))
    assert {start.value for start in out.column("window_start")} == {START}
    assert {end.value for end in out.column("window_end")} == {START + 3 * HOUR}


def test_one_person_with_half_of_the_rows_waits_in_part() -> None:
    """Ten of twenty rows are one person's: in a graph for k = 3 at most a third of the rows may be."""
    rows = [row(number, 0 if number < 10 else number, 0.5) for number in range(20)]
    result = close(rows, ROWS_OF_PEOPLE)
    assert result.metrics["rows_released"] == 15
    assert result.metrics["waiting_reasons"] == {"individual_over_limit": 5}
    alone = close(rows, PEOPLE)
    assert alone.metrics["rows_released"] == 11
    assert alone.metrics["waiting_reasons"] == {"individual_over_limit": 9}


def test_the_oldest_rows_of_a_heavy_individual_go_first() -> None:
    """What waits has the later deadline."""
    rows = [row(number, 0, 1.5) for number in range(6)] + [row(6 + number, 0, 0.5) for number in range(6)]
    rows += [row(12 + number, 1 + number, 1.5) for number in range(12)]
    result = close(rows, ROWS_OF_PEOPLE, 1)
    kept = {f"r{number}" for number in range(6, 12)}
    assert result.metrics["rows_released"] == 18
    assert kept <= set(references(released(result)))


def test_an_event_is_released_once() -> None:
    """Repeats within a window and across windows are rejected; a row without a repeat is not."""
    rows = [row(number, number, 0.5) for number in range(5)]
    first = close([*rows, rows[0], row(9, 9, 0.6, event="e1")], EVENTS)
    assert first.metrics["rows_rejected"] == {"duplicate_event": 2}
    again = [row(number, number, 1.5) for number in range(10, 14)]
    second = close([*again, rows[2]], EVENTS, 1, first.warm, 1)
    assert reasons(second) == {"r2": "duplicate_event"}
    assert len(references(released(second))) == 4


def test_a_repeat_of_a_waiting_row_is_rejected() -> None:
    """The row that waits was seen; it does not become its own repeat either."""
    first = close([row(0, 0, 0.1), row(1, 1, 0.2)], EVENTS)
    second = close([row(0, 0, 0.1), row(2, 2, 1.5)], EVENTS, 1, first.warm, 1)
    assert reasons(second) == {"r0": "duplicate_event"}
    assert references(released(second)) == ["r0", "r1", "r2"]


def test_a_late_repeat_is_not_released_by_way_of_waiting() -> None:
    """An expiry reads late rows; a repeat among them must not wait on and go out with the next release."""
    rows = [row(number, number, 0.5) for number in range(4)]
    first = close(rows, EVENTS)
    slot = ReleaseSlot(b"partition", START + 2 * HOUR, 1)
    late = canonical([rows[0], row(7, 7, 0.9)], EVENTS)
    between = checked(expire(EVENTS, first.warm, late, SECRET, slot), first.warm, [rows[0], rows[1]])
    assert reasons(between) == {"r0": "duplicate_event"}
    assert between.metrics["waiting_reasons"] == {"late": 1}
    last = close([row(number, number, 2.5) for number in range(20, 24)], EVENTS, 2, between.warm, 2)
    assert "r0" not in references(released(last))
    assert "r7" in references(released(last))


def test_a_row_that_an_expiry_saw_has_been_seen() -> None:
    """A late row that waits on after an expiry is released once, though it comes again."""
    first = close([row(number, number, 0.5) for number in range(4)], EVENTS)
    late = row(7, 7, 0.9)
    slot = ReleaseSlot(b"partition", START + 2 * HOUR, 1)
    between = expire(EVENTS, first.warm, canonical([late], EVENTS), SECRET, slot)
    again = [late, *(row(number, number, 2.5) for number in range(20, 24))]
    last = close(again, EVENTS, 2, between.warm, 2)
    assert reasons(last) == {"r7": "duplicate_event"}
    assert references(released(last)).count("r7") == 1


def test_which_repeat_stays_does_not_follow_from_arrival() -> None:
    """Two records with one event id and another content: always the same one is released."""
    rows = [row(number, number, 0.5) for number in range(5)] + [row(9, 9, 0.6, event="e1")]
    one, other = close(rows, EVENTS), close(rows[::-1], EVENTS)
    assert one.release == other.release
    assert one.rejected == other.rejected


def test_events_are_forgotten_after_state_ttl() -> None:
    """Digests of ids are kept as long as the policy says."""
    bound = bound_feed(feed_policy(events=True, state_ttl="3h"))
    warm = close([row(number, number, 0.5) for number in range(4)], bound).warm
    for hour in range(1, 6):
        fresh = [row(10 * hour + number, number, hour + 0.5) for number in range(4)]
        warm = close(fresh, bound, hour, warm, hour).warm
    assert [end for end, _ in warm.events] == [START + hour * HOUR for hour in (4, 5, 6)]


def test_an_expiry_rejects_what_is_due_and_nothing_else() -> None:
    """Rows whose time is not over wait on, for the reason they waited."""
    first = close([row(0, 0, 0.1)], PEOPLE)
    second = close([row(1, 1, 1.1)], PEOPLE, 1, first.warm, 1)
    slot = ReleaseSlot(b"partition", START + 3 * HOUR, 2)
    third = checked(expire(PEOPLE, second.warm, None, SECRET, slot), second.warm, None)
    assert reasons(third) == {"r0": "too_few_peers"}
    assert third.warm.waiting_reason == ("too_few_peers",)
    assert third.metrics["kind"] == "expiry"
    assert third.metrics["release_id"] != second.metrics["release_id"]


def test_what_the_gate_refuses_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes out, nothing is lost, no exception stops the feed."""

    def refuse(*_: Any) -> None:
        raise GateError("no")

    monkeypatch.setattr("kanonflow.transforms.publishing.publish.check_release", refuse)
    result = close([row(number, number, 0.5) for number in range(5)], PEOPLE)
    assert result.release is None
    assert set(reasons(result).values()) == {"gate_refused"}


def test_a_returning_person_finds_the_class_back() -> None:
    """The second window of the same people starts warm."""
    first = close([row(number, number, 0.5) for number in range(30)], PEOPLE)
    second = close([row(40 + number, number, 1.5) for number in range(30)], PEOPLE, 1, first.warm, 1)
    assert second.metrics["warm"]
    assert second.metrics["guaranteed_candidates"] >= 1
    assert second.metrics["warm_kept"] > 0
    assert second.metrics["peer_retention"] > 0


def test_a_window_of_newcomers_starts_cold() -> None:
    """Nobody of the last release is here again: released all the same, in either mode."""
    for bound in (PEOPLE, ROWS_OF_PEOPLE):
        first = close([row(number, number, 0.5) for number in range(6)], bound)
        second = close([row(10 + number, 10 + number, 1.5) for number in range(6)], bound, 1, first.warm, 1)
        assert second.metrics["rows_released"] == 6
        assert not second.metrics["warm"]
        assert second.metrics["peer_retention"] is None


def test_people_whose_digests_collide_stay_two_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests only look things up in the warm state: with all of them equal, windows are still released."""
    monkeypatch.setattr(module, "person_digests", lambda names, key: np.zeros(len(names), dtype=np.uint64))
    for bound in (PEOPLE, ROWS_OF_PEOPLE):
        first = close([row(number, number, 0.5) for number in range(12)], bound)
        second = close([row(20 + number, number, 1.5) for number in range(12)], bound, 1, first.warm, 1)
        assert second.metrics["individuals"] == 12
        assert second.metrics["rows_released"] == 12


def test_two_people_are_not_k_because_of_equal_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do digests split one person: people are told apart by their own values."""
    monkeypatch.setattr(
        module, "person_digests", lambda names, key: np.arange(len(names), dtype=np.uint64)[::-1]
    )
    result = close([row(number, number % 2, 0.5) for number in range(20)], PEOPLE)
    assert result.release is None


@pytest.mark.parametrize("individual", [True, False])
def test_every_type_of_field_goes_through(individual: bool) -> None:
    """Ranges, sets, dates, decimals, nulls; payload of every type."""
    bound = bound_policy(k=3, individual=individual)
    bound = replace(
        bound, policy=replace(bound.policy, solver=replace(bound.policy.solver, evaluations_per_row=20.0))
    )
    rows = window_rows(30, 4, bound, people=15)
    slot = ReleaseSlot(b"p", 86_400_000, 0)
    result = release_window(rows, bound, WarmState(), SECRET, slot)
    assert sorted(released(result).column("serial").to_pylist()) == list(range(30))
    after = release_window(rows, bound, result.warm, SECRET, slot)
    assert after.release is not None


def test_without_windows_nothing_waits() -> None:
    """The whole input is one window; what cannot go out is rejected; no window is published."""
    bound = bound_feed(feed_policy(window=None, protect="row"))
    slot = ReleaseSlot(b"p", None, 0)
    rows = [row(number, 0 if number < 10 else number, 0.5) for number in range(20)]
    result = checked(release_window(canonical(rows, bound), bound, WarmState(), SECRET, slot), None, rows)
    assert (result.metrics["rows_released"], result.metrics["rows_waiting"]) == (15, 0)
    assert set(reasons(result).values()) == {"individual_over_limit"}
    assert released(result).column("window_end").null_count == 15


def test_the_number_of_threads_does_not_change_a_release() -> None:
    """Parts have their own seeds and are joined in their own order."""
    bound = bound_feed(feed_policy(protect="row"))
    rows = canonical([row(number, number % 900, 0.5, age=str(number % 83)) for number in range(3000)], bound)
    slot = ReleaseSlot(b"p", START + HOUR, 0)
    one, many = (release_window(rows, bound, WarmState(), SECRET, slot, threads=n) for n in (1, 3))
    assert one.release == many.release


def test_an_old_clock_does_not_show() -> None:
    """Only a deadline may look at the time: with none, any clock gives the same bytes."""
    rows = canonical([row(number, number, 0.5) for number in range(12)], PEOPLE)
    slot = ReleaseSlot(b"p", START + HOUR, 0)
    ticks = iter(range(0, 10**9, 1000))
    one = release_window(rows, PEOPLE, WarmState(), SECRET, slot)
    other = release_window(rows, PEOPLE, WarmState(), SECRET, slot, clock=lambda: float(next(ticks)))
    assert one.release == other.release
    assert one.warm.to_bytes() == other.warm.to_bytes()
