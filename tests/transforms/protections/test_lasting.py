"""A window of cohorts that last: who enters when, what waits, what is rejected, and what nothing reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections import intake
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.roster.roster import Roster, empty_roster, roster_of
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, row
from tests.windows_alone import release_lasting_window


class Windows:
    """The windows of one partition, one after the other, by the pure function."""

    def __init__(self, **head: Any) -> None:
        given = {"cohort": "lasting", "max_delay": "2h"}
        self.bound: BoundPolicy = bound_feed(feed_policy(**given | head))
        self.warm = WarmState()
        self.roster: Roster = empty_roster(5)
        self.segments: list[bytes] = []
        self.hour = 0

    def close(self, *rows: Row) -> WindowResult:
        """The next hour ends; these rows came."""
        self.hour += 1
        slot = ReleaseSlot(b"p", START + self.hour * HOUR, 0)
        table = canonical(rows, self.bound) if rows else None
        result = release_lasting_window(table, self.bound, self.warm, self.roster, SECRET, slot, threads=1)
        assert result.roster is not None
        new, waited = len(rows), self.warm.waiting_rows
        told = result.metrics
        assert new + waited == told["rows_released"] + len(result.rejected) + result.warm.waiting_rows
        self.warm, self.roster = warm_state_from_bytes(result.warm.to_bytes()), result.roster
        if result.segment is not None:
            assert result.release is not None
            self.segments.append(result.segment)
        assert self.warm.roster is not None
        assert roster_of(self.warm.roster.head, self.segments).head == self.roster.head
        return result


def rows_of(people: list[int] | range, hour: float, first: int = 0, **changes: Any) -> list[Row]:
    """One row of each person."""
    return [row(first + number, who, hour, **changes) for number, who in enumerate(people)]


def reasons(result: WindowResult) -> list[str]:
    """Why rows were rejected."""
    return [record["reason"] for record in result.rejected]


def published(result: WindowResult) -> pa.Table:
    """The released rows."""
    assert result.release is not None
    return from_ipc(result.release.ipc)


def test_newcomers_wait_for_the_count_and_then_all_enter() -> None:
    """Nine wait where ten are asked for; with the tenth all enter, also who has no row here any more."""
    windows = Windows(intake=10)
    first = windows.close(*rows_of(range(9), 0.5))
    assert (first.release, first.metrics["pool"], first.warm.waiting_rows) == (None, 9, 9)
    assert set(first.warm.waiting_reason) == {"awaits_intake"}
    second = windows.close(*rows_of([20], 1.5, 50))
    assert second.metrics["people_entered"] == 10
    assert second.metrics["pool"] == 0
    assert published(second).num_rows == 10
    assert windows.roster.members.min() >= 3


def test_a_row_that_must_leave_lets_all_who_wait_enter() -> None:
    """Before the count is reached; fewer than a cohort do not enter, and their rows are rejected at the deadline."""
    windows = Windows(intake=100)
    windows.close(*rows_of(range(4), 0.5))
    windows.close(*rows_of([9], 1.5, 50))
    third = windows.close()
    assert third.metrics["people_entered"] == 5
    assert published(third).num_rows == 5
    few = Windows(intake=100)
    few.close(*rows_of(range(2), 0.5))
    few.close()
    third = few.close()
    assert reasons(third) == ["awaits_intake"] * 2
    assert third.metrics["pool"] == 2, "who was seen stays in the pool when the rows have gone"
    fourth = few.close(*rows_of([7], 3.5, 60))
    assert fourth.metrics["pool"] == 3
    few.close()
    # Three have been seen, one of them is here: an intake comes with a release only.
    assert reasons(few.close()) == ["awaits_intake"]
    last = few.close(*rows_of(range(3), 6.5, 70), *rows_of([7], 6.5, 80))
    assert last.release is None
    few.close()
    assert few.close().metrics["people_entered"] == 4


def test_more_people_than_can_enter_together_wait_under_a_name_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is taken in, and rows leave at their deadline for that reason; nobody leaves the pool, and what is known
    goes out as ever."""
    monkeypatch.setattr(intake, "MOST", 12)
    windows = Windows(intake=10, max_delay="1h")
    assert windows.close(*rows_of(range(10), 0.5)).release is not None
    second = windows.close(*rows_of(range(30), 1.5))
    assert second.release is not None
    assert published(second).num_rows == 10
    assert set(second.warm.waiting_reason) == {"intake_too_large"}
    assert len(second.warm.waiting_reason) == 20
    third = windows.close(*rows_of(range(10), 2.5))
    assert third.warm.roster is not None
    assert third.warm.roster.pool.people.size == 20
    assert set(reasons(third)) == {"intake_too_large"}


def test_known_people_go_out_at_once_under_frozen_boxes() -> None:
    """Whatever stands in their rows: changed, missing, unreadable or outside of the domain."""
    windows = Windows(max_delay="0h")
    windows.close(*rows_of(range(6), 0.5))
    honest = windows.close(*rows_of(range(6), 1.5, 10))
    fields = ["age", "job"]
    boxes = sorted(map(str, published(honest).select(fields).to_pylist()))
    for number, changes in enumerate([{"age": "99"}, {"age": None}, {"age": "old"}, {"job": "unheard of"}]):
        result = windows.close(*rows_of(range(6), 2.5 + number, 20 + 10 * number, **changes))
        assert result.rejected == []
        assert sorted(map(str, published(result).select(fields).to_pylist())) == boxes
        outdated = result.metrics["outdated_values"]
        assert outdated["age"] == (6 if changes == {"age": "99"} else 0)


def test_of_who_is_not_known_an_unreadable_row_is_rejected_as_ever() -> None:
    """It does not make its person seen; once the person waits, further rows of any kind wait, too."""
    windows = Windows(intake=100)
    bad = windows.close(row(1, 1, 0.5, age="old"), *rows_of([2], 0.5, 10))
    assert reasons(bad) == ["bad_value"]
    assert bad.rejected[0]["field"] == "age"
    assert bad.rejected[0]["row"]["age"] == "old"
    assert bad.metrics["pool"] == 1
    later = windows.close(row(3, 2, 1.5, age="old"), *rows_of(range(5, 9), 1.5, 20))
    assert later.rejected == []
    released = windows.close()
    assert released.metrics["people_entered"] == 5
    assert published(released).num_rows == 6


def test_fewer_active_people_than_k_wait() -> None:
    """Known ones; with a third they all go, and nobody enters who was not seen."""
    windows = Windows()
    windows.close()
    windows = Windows(max_delay="1h", intake=6)
    assert windows.close(*rows_of(range(6), 0.5)).metrics["people_entered"] == 6
    two = windows.close(*rows_of([0, 3], 1.5, 10))
    assert (two.release, set(two.warm.waiting_reason)) == (None, {"too_few_peers"})
    three = windows.close(*rows_of([5], 2.5, 20))
    assert published(three).num_rows == 3
    assert three.metrics["classes"] == 1


def test_a_group_has_the_time_of_its_own_rows() -> None:
    """One row that waited does not widen the time of all others."""
    windows = Windows(max_delay="1h", intake=100)
    windows.close(*rows_of(range(12), 0.5))
    windows.close(*rows_of(range(12), 1.5, 20))
    late = rows_of([0], 1.7, 50)
    result = windows.close(*late, *rows_of(range(12), 2.5, 30))
    table = published(result)
    starts = [value.timestamp() * 1000 for value in table.column("window_start").to_pylist()]
    assert {START + HOUR, START + 2 * HOUR} == set(map(int, starts))
    early = table.filter(pa.array([int(each) == START + HOUR for each in starts]))
    assert np.unique(np.asarray(early.column("class_id"))).size == 1


def test_class_ids_are_new_in_every_release() -> None:
    """The same groups have other numbers a window later; equal calls give equal bytes."""
    windows, again = Windows(max_delay="0h"), Windows(max_delay="0h")
    tables = []
    for hour in range(3):
        rows = rows_of(range(12), hour + 0.5, 20 * hour)
        tables.append(published(windows.close(*rows)))
        assert again.close(*rows[::-1]).release is not None
    ids = [set(table.column("class_id").to_pylist()) for table in tables]
    assert not ids[0] & ids[1]
    assert not ids[1] & ids[2]
    assert again.segments == windows.segments


def test_domains_grow_with_who_enters_and_with_nothing_else() -> None:
    """A value that only a known person's later row has leaves no trace in what normalizes the loss."""
    windows = Windows(running=False, max_delay="0h")
    windows.close(*rows_of(range(6), 0.5))
    before = windows.warm.domains
    windows.close(*rows_of(range(6), 1.5, 10, age="119", job="other 3"))
    assert str(windows.warm.domains) == str(before)


@pytest.mark.parametrize("what", ["segment", "release"])
def test_what_the_gate_refuses_leaves_the_roster_as_it_was(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is known of whom nothing was published; the pool waits on, the rows are rejected or wait."""
    from kanonflow.transforms.publishing import publish
    from kanonflow.transforms.publishing.gate import GateError

    def refuse(*given: Any) -> None:
        raise GateError("no")

    windows = Windows(max_delay="0h")
    name = "check_segment" if what == "segment" else "check_frozen_release"
    monkeypatch.setattr(intake if what == "segment" else publish, name, refuse)
    result = windows.close(*rows_of(range(6), 0.5))
    assert (result.release, result.segment) == (None, None)
    assert reasons(result) == ["gate_refused"] * 6
    assert (windows.roster.head.people, result.metrics["pool"]) == (0, 6)
    monkeypatch.undo()
    assert windows.close(*rows_of(range(6), 1.5, 10)).metrics["people_entered"] == 6
