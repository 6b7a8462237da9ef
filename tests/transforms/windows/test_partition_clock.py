"""When a partition releases, rejects and forgets, against a model that keeps every row."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.lineage.release_lineage import Claim
from kanonflow.transforms.rows.split import END_OF_TIME_MS
from kanonflow.transforms.windows.partition_clock import (
    Action,
    PartitionClock,
    fires_at,
    window_end,
    window_number,
)
from tests.small_feeds import HOUR, feed_policy

HOURS = feed_policy(max_delay="2h", out_of_orderness="10m")
PROMPT = feed_policy()
CLOCK = (
    b'{"version": 1, "last_end": 7200000, "release_no": 5, "pending": [2, 9], "late": [], "late_deadline": null,'
    b' "waiting_deadline": 10800000, "warm": true, "refused": 1, "began": [[2, 1], [9, 2]], "secret_version": 2,'
    b' "claims": [[3600000, 0, "ab"], [7200000, 0, "cd"]]}'
)
"""These bytes are in the state of running jobs: another layout needs another version, and a migration."""
NO_WINDOWS = feed_policy(window=None)


def arrive(clock: PartitionClock, *numbers: int, policy: Policy = HOURS) -> PartitionClock:
    """The clock after batches of these windows."""
    for number in numbers:
        clock = clock.arrive(number, policy).clock
    return clock


def test_windows_are_due_at_their_end_in_order() -> None:
    """Whatever the order of arrival, the earliest window goes first, once it was open for late rows."""
    clock = arrive(PartitionClock(), 7, 3, 5, 3)
    assert clock.pending == (3, 5, 7)
    assert clock.next_action(HOURS) == Action("release", 4 * HOUR)
    assert fires_at(clock.next_action(HOURS), HOURS) == 4 * HOUR + 600_000


def test_a_new_partition_is_due_never() -> None:
    """Nothing held, nothing armed: a drain ends."""
    assert fires_at(PartitionClock().next_action(HOURS), HOURS) is None


def test_a_late_row_goes_to_the_bag_of_the_next_window() -> None:
    """It joins the next release, not one of its own, and sets a deadline: its own window's end + max_delay."""
    clock = arrive(PartitionClock(), 3).released(None, HOURS)
    arrival = clock.arrive(2, HOURS)
    assert (arrival.bag, arrival.late) == (4, True)
    assert arrival.clock.next_action(HOURS) == Action("expire", 5 * HOUR)
    assert arrive(arrival.clock, 4).next_action(HOURS) == Action("release", 5 * HOUR)


def test_a_row_that_no_release_may_take_is_refused() -> None:
    """Its own window's end + max_delay lies before the end of the last release, or is that."""
    clock = arrive(PartitionClock(), 5).released(None, HOURS)
    assert clock.arrive(4, HOURS).bag == 6
    assert clock.arrive(3, HOURS)[1:] == (None, True)
    prompt = arrive(PartitionClock(), 5, policy=PROMPT).released(None, PROMPT)
    assert prompt.arrive(5, PROMPT).bag is None


def test_every_refusal_has_a_number_of_its_own() -> None:
    """The files of refused rows are named by it: equal batches stay two, a retry finds its own."""
    clock = arrive(PartitionClock(), 9).released(None, HOURS)
    assert arrive(clock, 1, 1).refused == clock.refused + 2


def test_late_rows_join_the_release_of_whatever_window_comes_next() -> None:
    """Windows without rows are skipped; the bag is emptied and its deadline gone."""
    clock = arrive(arrive(PartitionClock(), 3).released(None, HOURS), 3, 5)
    clock = clock.released(None, HOURS)
    assert (clock.last_end, clock.late, clock.late_deadline) == (6 * HOUR, (), None)


def test_a_release_goes_before_an_expiry_of_the_same_time() -> None:
    """A row may still leave with the release at its deadline."""
    clock = arrive(arrive(PartitionClock(), 3).released(6 * HOUR, HOURS), 5)
    assert clock.next_action(HOURS) == Action("release", 6 * HOUR)
    assert clock.released(None, HOURS).next_action(HOURS) == Action("forget", 6 * HOUR + HOURS.state_ttl_ms)


def test_after_the_state_was_forgotten_nothing_is_due() -> None:
    """The timer is not armed again, and release numbers go on."""
    clock = arrive(PartitionClock(), 3).released(None, HOURS).forgotten()
    assert fires_at(clock.next_action(HOURS), HOURS) is None
    assert arrive(clock, 9).release_no == 1


def test_without_windows_there_is_one_release_at_the_end_of_time() -> None:
    """All rows share it; rows after it are refused; nothing is left to do."""
    clock = arrive(PartitionClock(), 0, 0, policy=NO_WINDOWS)
    assert clock.pending == (window_number(END_OF_TIME_MS, NO_WINDOWS),)
    assert fires_at(clock.next_action(NO_WINDOWS), NO_WINDOWS) == END_OF_TIME_MS
    clock = clock.released(None, NO_WINDOWS)
    assert fires_at(clock.next_action(NO_WINDOWS), NO_WINDOWS) is None
    assert clock.arrive(0, NO_WINDOWS).bag is None


def test_a_partition_begins_with_nothing() -> None:
    """No release, no refused batch, nothing to forget: these are the bytes of its state."""
    nothing: dict[str, object] = {
        **dict.fromkeys(("last_end", "late_deadline", "waiting_deadline", "secret_version", "opened")),
        **dict.fromkeys(("release_no", "refused"), 0),
        **{name: [] for name in ("pending", "late", "began", "claims")},
        **dict.fromkeys(("warm", "closing", "kept"), False),
    }
    assert json.loads(PartitionClock().to_bytes()) == {"version": 2, **nothing}
    assert PartitionClock(last_end=HOUR).next_action(HOURS) is None


def test_clocks_of_this_version_keep_their_layout() -> None:
    """Read and written again they are the same."""
    clock = PartitionClock(
        2 * HOUR,
        5,
        (2, 9),
        (),
        None,
        3 * HOUR,
        warm=True,
        refused=1,
        began=((2, 1), (9, 2)),
        secret_version=2,
        claims=(Claim(HOUR, 0, "ab"), Claim(2 * HOUR, 0, "cd")),
    )
    assert PartitionClock.from_bytes(CLOCK) == clock
    assert PartitionClock.from_bytes(clock.to_bytes()) == clock
    later = replace(clock, claims=(Claim(HOUR, 0, "ab", "closing"),), opened=HOUR, closing=True, kept=True)
    assert PartitionClock.from_bytes(later.to_bytes()) == later
    assert json.loads(later.to_bytes())["version"] == 2


def test_a_clock_that_another_run_carried_over_takes_older_rows_once() -> None:
    """Before anything of the run is released they lie in a bag of their own; afterwards they are late, as in any run.
    Rows whose max_delay is not over go with the next release."""
    clock = replace(PartitionClock(), last_end=5 * HOUR).carried_over()
    old = clock.arrive(0, HOURS)
    assert (old.bag, old.late, old.clock.closing) == (4, True, True)
    assert old.clock.next_action(HOURS) == Action("closing", 6 * HOUR)
    assert clock.arrive(4, HOURS).bag == 5
    both = arrive(old.clock, 5)
    assert both.next_action(HOURS) == Action("closing", 6 * HOUR)
    after = both.released_old(None, ())
    assert after.next_action(HOURS) == Action("release", 6 * HOUR)
    assert after.arrive(0, HOURS).bag is None
    # Nor does the run after it release them once more.
    assert after.carried_over().next_action(HOURS) == Action("release", 6 * HOUR)
    assert clock.released_waiting(6 * HOUR, None, ()).arrive(0, HOURS).bag is None


def test_a_window_remembers_the_secret_it_began_under() -> None:
    """The version of its first row, whatever is in force when others come; forgotten with its release."""
    clock = PartitionClock().arrive(3, HOURS, 1).clock.arrive(4, HOURS, 1).clock
    clock = clock.arrive(3, HOURS, 2).clock.arrive(5, HOURS, 2).clock
    assert [clock.version_of(number) for number in (3, 4, 5)] == [1, 1, 2]
    assert clock.released(None, HOURS).began == ((4, 1), (5, 2))
    assert clock.secret_version == 2
    assert clock.released(None, HOURS).released(None, HOURS).began == ((5, 2),)


def test_rows_older_than_all_of_a_run_are_released_under_the_secret_of_today() -> None:
    """It may have replaced the one that the earlier run ended with; where none is told, that one stays."""
    clock = PartitionClock(last_end=5 * HOUR, secret_version=1).carried_over()
    assert clock.arrive(0, HOURS, 2).clock.secret_version == 2
    assert clock.arrive(0, HOURS).clock.secret_version == 1


@pytest.mark.parametrize("version", [0, 3, 99, "2b", None])
def test_a_clock_of_another_version_is_refused_with_what_to_do(version: object) -> None:
    """The message names both layouts and both ways out."""
    data = json.dumps({**json.loads(CLOCK), "version": version}).encode()
    message = f"partition clock has layout {version}, this version reads 1 to 2; go on with .* never with empty state"
    with pytest.raises(StateError, match=message) as caught:
        PartitionClock.from_bytes(data)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("data", [CLOCK, PartitionClock().to_bytes()])
def test_a_clock_that_is_cut_off_is_refused(data: bytes) -> None:
    """Wherever it ends."""
    for length in range(1, len(data)):
        with pytest.raises(StateError, match="partition clock is damaged"):
            PartitionClock.from_bytes(data[:length])


@pytest.mark.parametrize("field", ["release_no", "pending", "late_deadline"])
def test_a_clock_that_lacks_a_value_is_refused(field: str) -> None:
    """A release number that began again at 0 would meet the releases of old."""
    values = json.loads(CLOCK)
    del values[field]
    with pytest.raises(StateError, match="lacks values"):
        PartitionClock.from_bytes(json.dumps(values).encode())


@pytest.mark.parametrize("number", [-30_000, -1, 0, 16, 475_000])
def test_window_numbers_and_ends_are_inverse(number: int) -> None:
    """Also before 1970, and with an offset."""
    for policy in (HOURS, feed_policy(window="1d", window_offset="5h")):
        assert window_number(window_end(number, policy), policy) == number


@dataclass
class Rows:
    """The naive model: every row, by what may still become of it. Windows by number, others by deadline."""

    policy: Policy
    in_windows: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    last_end: int | None = None
    done: int = 0
    warm: bool = False

    def due(self) -> tuple[int, str] | None:
        """The earliest of everything that will have to happen."""
        events = [(window_end(number, self.policy), "a release") for number in self.in_windows]
        events += [(deadline, "expire") for deadline in self.late + self.waiting]
        if not events and self.warm and self.last_end is not None:
            events = [(self.last_end + self.policy.state_ttl_ms, "forget")]
        return min(events) if events else None


class ClockAgainstRows(RuleBasedStateMachine):
    """Rows arrive in any order, what is due happens, some rows wait: the clock never differs from the rows."""

    @initialize(delay=st.integers(0, 4), open_for=st.integers(0, 2))
    def begin(self, delay: int, open_for: int) -> None:
        self.policy = feed_policy(max_delay=f"{30 * delay}m", out_of_orderness=f"{open_for}h")
        self.clock = PartitionClock()
        self.rows = Rows(self.policy)

    @rule(number=st.integers(0, 9))
    def arrive(self, number: int) -> None:
        arrival = self.clock.arrive(number, self.policy)
        end = window_end(number, self.policy)
        deadline = end + self.policy.max_delay_ms
        if self.rows.last_end is None or end > self.rows.last_end:
            assert (arrival.bag, arrival.late) == (number, False)
            self.rows.in_windows.append(number)
        elif deadline > self.rows.last_end:
            assert arrival.late
            assert arrival.bag is not None
            assert window_end(arrival.bag - 1, self.policy) == self.rows.last_end
            self.rows.late.append(deadline)
        else:
            assert arrival.bag is None
        self.clock = arrival.clock

    @precondition(lambda self: self.rows.due() is not None)
    @rule(waits=st.lists(st.booleans(), max_size=20), parts=st.integers(1, 3))
    def act(self, waits: list[bool], parts: int) -> None:
        action = self.clock.next_action(self.policy)
        assert action is not None
        rows = self.rows
        if action.kind == "forget":
            self.clock, rows.warm = self.clock.forgotten(), False
            return
        rows.done += parts if action.kind == "release" else 1
        there = rows.late + rows.waiting
        if action.kind == "release":
            own = [action.at + self.policy.max_delay_ms] * rows.in_windows.count(self.clock.pending[0])
            rows.in_windows = [number for number in rows.in_windows if number != self.clock.pending[0]]
            held = [*waits, *[False] * 1000]
            there = [deadline for deadline, waits_on in zip(there + own, held, strict=False) if waits_on]
            rows.last_end, rows.warm = action.at, True
        rows.late, rows.waiting = [], [deadline for deadline in there if deadline > action.at]
        first = min(rows.waiting, default=None)
        if action.kind == "release":
            self.clock = self.clock.released(first, self.policy, parts)
        else:
            self.clock = self.clock.expired(first)

    @invariant()
    def same_as_the_rows(self) -> None:
        if not hasattr(self, "clock"):
            return
        due, action = self.rows.due(), self.clock.next_action(self.policy)
        assert (due is None) == (action is None)
        if due is not None and action is not None:
            assert (action.at, action.kind) == (due[0], due[1].removeprefix("a "))
            assert (
                fires_at(self.clock.next_action(self.policy), self.policy)
                == due[0] + self.policy.out_of_orderness_ms
            )
        assert set(self.clock.pending) == set(self.rows.in_windows)
        assert bool(self.clock.late) == bool(self.rows.late)
        assert len(self.clock.late) <= 1
        assert (self.clock.last_end, self.clock.release_no) == (self.rows.last_end, self.rows.done)
        assert PartitionClock.from_bytes(self.clock.to_bytes()) == self.clock


TestClockAgainstRows = ClockAgainstRows.TestCase
TestClockAgainstRows.settings = settings(derandomize=True, max_examples=150, stateful_step_count=30)
