"""The one step of a partition: what is due is released, rejected or forgotten. Pure: no runner, no state of its own.

    act(key, action, clock, held)   ->   WindowResult, WindowResult, ..., StateAfter

    release   the rows due are taken, the window goes out in one part or several, each names what it was built on
    expire    waiting and late rows whose time is over are rejected, or a reason for a release: the protection says it
    closing   rows that are older than all of this run leave in a release beside the regular one of the next window
    forget    the warm state is dropped
    end       of the feed: what the next run of the chain goes on from is told (``chain``)

``SolveWindows`` keeps the state in cells of a runner and fires by its timer, ``PartitionInMemory`` keeps it in memory.
Both do what this step says, so the releases are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.slot_kinds import CLOSING, REGULAR
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.lineage.release_lineage import Claim, Slot, reach_ms, within_reach
from kanonflow.transforms.protections.protection import Protection
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.protections.release_parts import release_parts
from kanonflow.transforms.protections.release_window import earliest_deadline, expire
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.due import Clock, Due
from kanonflow.transforms.release.rejected import at_places, rejected_records
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.continued import Continued, domains_of, having_expected
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster, RosterHead, empty_roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.rows.row_places import RowPlaces
from kanonflow.transforms.rows.split import END_OF_TIME_MS
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, release_id
from kanonflow.transforms.windows.chain import (
    Batch,
    CarriedState,
    Chain,
    carried_from_bytes,
    refuse_other_roster,
    windows_of,
)
from kanonflow.transforms.windows.partition_clock import (
    Action,
    Arrival,
    PartitionClock,
    fires_at,
    window_number,
)


class Held(Protocol):
    """What a partition holds beside its clock. The step asks for it when it needs it, once: reading may be dear."""

    def warm(self) -> WarmState:
        """What the last step left."""

    def roster(self, head: RosterHead) -> Roster:
        """The roster of that head (``cohort: lasting``). Raises StateError: its segments are not all there."""

    def take(self, windows: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        """Remove the rows that were laid down under these window numbers; None: there are none.

        late_only: only the rows that were late for their own window; the others stay. The order does not matter.
        """

    def batches(self) -> tuple[Batch, ...]:
        """All rows that were laid down and not taken. They stay."""


class PublishedReleases(Protocol):
    """What is published already of partitions that may be released again; see ``EarlierReleases``."""

    def secret_version(self, place: ReleaseSlot, begun: int | None) -> int | None:
        """The secret's version for a window that began under ``begun``."""

    def solution(self, place: ReleaseSlot) -> bytes | None:
        """What the committed release of a place was published from; None: it is solved."""

    def compare(self, place: ReleaseSlot, made: Slot | None) -> None:
        """Raise ReleaseConflictError unless what was made may stand beside what is published. made: None: nothing."""

    def compare_end(self, place: ReleaseSlot, parts: int) -> None:
        """The same for parts of a window that were published and that it does not have now. place: of any of them."""


class EarlierCohorts(Protocol):
    """Whom partitions know before their first row; see ``ContinuedCohorts``."""

    def of(self, key: bytes) -> Continued | None:
        """What a partition begins with; None: with nobody. The same whenever it is asked."""

    def keys(self) -> list[bytes]:
        """The partitions of which something was carried over, or in which people are expected, in their order."""


class Begun(NamedTuple):
    """What a partition goes on from that an earlier run has carried over.

    warm: its warm state. segments: of its roster, as they stand in state. batches: to lie in its bags.
    rows: how many rows that are.
    """

    clock: PartitionClock
    warm: WarmState
    roster: Roster
    segments: tuple[bytes, ...]
    batches: tuple[Batch, ...]
    rows: int


class StateAfter(NamedTuple):
    """What a step leaves. warm: None: the warm state is dropped.

    segments: what the roster grew by; they are added to those that are there. roster: with them; None: there is none.
    """

    clock: PartitionClock
    warm: WarmState | None
    segments: tuple[bytes, ...] = ()
    roster: Roster | None = None


@dataclass(frozen=True)
class PartitionStep:
    """The step of every partition of a job.

    bound: the policy, bound to the feed.
    secret: that of the job, with those it replaced: a window is finished under the version that it began under.
    threads: of the solver.
    time: seconds that go by, for deadlines of the search and for durations in the metrics.
    matching_records: make one of each release (matching_record.py).
    published: what there is to compare with; None: nothing is released again.
    epoch: with ``cohort: lasting``, of partitions that begin with this job, a number of 63 bits.
    continued: with ``cohort: lasting``, whom an earlier run of the epoch has put together; None: nobody.
    chain: the run among those that continue each other; None: it hands nothing on.
    compressed: compress the rows of releases: they leave the process.
    earliest: freeze people with the values of their first window: with a plan of shards, which goes by them.
    at_end: nothing is done before the feed has ended, and then all of it, in order.
    """

    bound: BoundPolicy
    secret: Secret
    threads: int
    time: Clock = time.monotonic
    matching_records: bool = False
    published: PublishedReleases | None = None
    epoch: int = 0
    continued: EarlierCohorts | None = None
    chain: Chain | None = None
    compressed: bool = True
    earliest: bool = False
    at_end: bool = False

    @cached_property
    def protection(self) -> Protection[Any, Any]:
        """What differs between policies, and the step need not know."""
        return protection_of(self.bound.policy)

    def begin(self, key: bytes) -> Begun | None:
        """What a partition that has no state yet goes on from; None: from nothing, or from its cohorts alone.

        Raises StateError: what was carried over cannot be read, or does not fit the cohorts.
        """
        earlier = None if self.continued is None else self.continued.of(key)
        if earlier is None or (earlier.carried is None and earlier.expected is None):
            return None
        roster, clock, rows = earlier.roster, PartitionClock(), 0
        batches: tuple[Batch, ...] = ()
        warm = WarmState(roster=RosterState(roster.head, empty_pool(self.bound), earlier.last))
        if earlier.carried is not None:
            state = carried_from_bytes(earlier.carried)
            refuse_other_roster(state, key, roster.head)
            warm, batches, rows = state.warm, state.batches, state.rows
            clock = clock if state.clock is None else state.clock.carried_over()
        warm = replace(warm, domains=domains_of(roster, self.bound) or warm.domains)
        if earlier.expected is not None:
            waits = warm.roster or RosterState(roster.head, empty_pool(self.bound))
            named = _named(earlier.expected, key)
            pool = having_expected(waits.pool, named, roster, self.bound, self.place)
            warm = replace(warm, roster=replace(waits, pool=pool))
        segments = tuple(segment.to_bytes() for segment in earlier.segments)
        return Begun(self._kept(clock), warm, roster, segments, batches, rows)

    def expect(self, key: bytes, clock: PartitionClock, warm: WarmState, people: bytes) -> WarmState:
        """The warm state of a partition that has released nothing, with people who are known from the start.

        people: as of ``Continued.expected``, all of the partition. Raises InputError: something was released.
        """
        if clock.last_end is not None:
            raise InputError("people: some came after a first release; give them as a bounded collection")
        waits = warm.roster or RosterState(empty_roster(self.epoch).head, empty_pool(self.bound))
        # Of a kind of their own, if some are there already.
        named, place = _named(people, key), int(waits.pool.kind.max(initial=-1)) + 1
        pool = having_expected(waits.pool, named, empty_roster(self.epoch), self.bound, place)
        return replace(warm, roster=replace(waits, pool=pool))

    def arrive(self, clock: PartitionClock, window: int) -> Arrival:
        """Where a batch of rows of a window goes, and the clock after it."""
        arrival = clock.arrive(window, self.bound.policy, self.secret.version)
        return arrival._replace(clock=self._kept(arrival.clock))

    def wake(self, clock: PartitionClock) -> PartitionClock:
        """The clock of a partition that an earlier run knew, whether it has rows in this one or not."""
        return self._kept(clock)

    def _kept(self, clock: PartitionClock) -> PartitionClock:
        hands_on = self.chain is not None and self.protection.lasts
        return replace(clock, kept=True) if hands_on and not clock.kept else clock

    def refuse(
        self, key: bytes, clock: PartitionClock, rows: pa.Table, places: RowPlaces | None = None
    ) -> RejectedRows:
        """A batch that no release may take any more. clock: as it was before the batch. places: of the rows.

        Its name is that of a place that no release has: a retry finds the same file, and equal batches stay two.
        """
        place = ReleaseSlot(key, clock.last_end, -1 - clock.refused, place=self.place)
        name = release_id(self.secret, self.bound.policy.name, place)
        records = rejected_records(rows, self.bound, "late")
        if places is not None:
            records = list(at_places(records, places))
        return RejectedRows(name, tuple(records))

    def due(self, clock: PartitionClock) -> Action | None:
        """What a partition does next; None: it holds nothing.

        What lies beyond the end of a run that carries it over is not done; rows that are older than all of the run are.
        """
        action = clock.next_action(self.bound.policy, forgets=not self.protection.lasts)
        until = None if self.chain is None else self.chain.until
        if action is not None and (until is None or action.kind == "closing" or action.at <= until):
            return action
        return Action("end", END_OF_TIME_MS) if clock.kept else None

    def fires_at(self, clock: PartitionClock) -> int | None:
        """When that is due, in ms of event time."""
        at = fires_at(self.due(clock), self.bound.policy)
        return END_OF_TIME_MS if self.at_end and at is not None else at

    @property
    def place(self) -> int:
        """Of the run in its chain."""
        return 0 if self.chain is None else self.chain.place

    def window_end(self, action: Action) -> int | None:
        """The window end that results of an action are named by, in ms; None without windows."""
        return None if self.bound.policy.window_ms is None else action.at

    def act(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | CarriedState | StateAfter]:
        """Do what is due. Yields each result as soon as it is there, and last, once, the state after all of them.

        key: of the partition. action: ``due(clock)``.

        Precondition: ``clock`` and ``held`` are what the last step left, and the batches that came since.
        Postcondition: equal arguments give equal results and an equal state, in whatever order the rows came (with a
        deadline: where ``published`` has what was recorded). Nothing of the partition is changed but by
        ``held.take``; a caller that drops what was yielded, and puts back what was taken, has not made the step.
        Raises ReleaseConflictError: a result may not stand beside what is published; it is not yielded.
        Raises SecretError: the window's version of the secret is not there.
        """
        kind = self.protection.expiry if action.kind == "expire" else action.kind
        if kind == "forget":
            yield StateAfter(clock.forgotten(), None)
        elif kind == "end":
            yield from self._end(key, clock, held)
        elif kind == "expire":
            yield from self._expire(key, action, clock, held)
        else:
            yield from self._release(key, action, clock, held)

    def _expire(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | StateAfter]:
        slot = ReleaseSlot(key, self.window_end(action), clock.release_no, "expiry", self.place)
        warm, late = held.warm(), held.take(clock.late, late_only=True)
        # Of the state: the order of the rejected rows must be that of a retry, also after a rotation.
        result = expire(self._due(slot, clock.secret_version), warm, late)
        yield result
        yield StateAfter(clock.expired(earliest_deadline(result.warm, self.bound)), result.warm)

    def _end(self, key: bytes, clock: PartitionClock, held: Held) -> Iterator[CarriedState | StateAfter]:
        """What the next run goes on from: of a run that carries nothing over, who waits and the event ids alone."""
        chain, policy = self.chain, self.bound.policy
        assert chain is not None
        warm, _, segments = self._begun(key, held.warm())
        yield CarriedState(
            key,
            self.epoch,
            chain.place,
            windows_of(policy),
            replace(clock, kept=False) if chain.carry else None,
            warm,
            held.batches() if chain.carry else (),
        )
        # Once: a timer that is set again after the last of all times would keep a feed from ending.
        yield StateAfter(replace(clock, kept=False), warm, tuple(segments))

    def _release(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | StateAfter]:
        kind = CLOSING if action.kind == "closing" else REGULAR
        slot, published = ReleaseSlot(key, self.window_end(action), 0, kind, self.place), self.published
        warm, roster, segments = self._begun(key, held.warm())
        number = window_number(action.at, self.bound.policy)
        if action.kind == "expire":
            rows = held.take(clock.late, late_only=True)
            version = clock.secret_version
        elif action.kind == "closing":
            rows = held.take((number - 1,), late_only=True)
            version = clock.secret_version
        else:
            # The first pending window; late rows lie under it, or under one before it that has no rows of its own.
            rows = held.take(tuple(sorted({number, *clock.late})), late_only=False)
            version = clock.version_of(number)
        if published is not None:
            version = published.secret_version(slot, version)
        if roster is None:
            roster = empty_roster(self.epoch) if warm.roster is None else held.roster(warm.roster.head)
        before, claims, parts = Before(warm, roster), clock.claims, 0
        after_all: Roster | None = None
        for made in release_parts(self.protection, self._due(slot, version), before, rows):
            result, claims = self._built_on(made, claims, slot._replace(release_no=parts))
            warm, parts, after_all = result.warm, parts + 1, result.roster
            if result.segment is not None:
                segments.append(result.segment)
            yield result
        if published is not None:
            published.compare_end(slot, parts)
        deadline = earliest_deadline(warm, self.bound)
        if action.kind == "expire":
            after = clock.released_waiting(action.at, deadline, claims)
        elif action.kind == "closing":
            after = clock.released_old(deadline, claims)
        else:
            after = clock.released(deadline, self.bound.policy, parts, claims)
        yield StateAfter(self._kept(after), warm, tuple(segments), after_all)

    def _begun(self, key: bytes, warm: WarmState) -> tuple[WarmState, Roster | None, list[bytes]]:
        """The state of a partition that has none yet and whose people an earlier run knows, its roster, its segments.

        Of what an earlier run has carried over, ``begin`` has made state already.

        The segments become part of the state with this step: from then on nothing is read of the earlier run.
        """
        if self.continued is None or warm.roster is not None or (earlier := self.continued.of(key)) is None:
            return warm, None, []
        roster = earlier.roster
        state = RosterState(roster.head, empty_pool(self.bound), earlier.last)
        begun = replace(warm, domains=domains_of(roster, self.bound), roster=state)
        return begun, roster, [segment.to_bytes() for segment in earlier.segments]

    def _due(self, slot: ReleaseSlot, version: int | None) -> Due:
        """What is due at a slot, under a version of the secret."""
        return Due(
            self.bound,
            self.secret.of(version),
            slot,
            matching_records=self.matching_records,
            compressed=self.compressed,
            threads=self.threads,
            clock=self.time,
            recorded=None if self.published is None else self.published.solution,
            earliest=self.earliest,
        )

    def _built_on(
        self, result: WindowResult, claims: tuple[Claim, ...], slot: ReleaseSlot
    ) -> tuple[WindowResult, tuple[Claim, ...]]:
        """The result with what its release was built on, and the claims of later ones. slot: of the part."""
        release = result.release
        claims = within_reach(claims, slot.window_end, reach_ms(self.bound.policy))
        made = None if release is None or release.slot is None else release.slot._replace(built_on=claims)
        if self.published is not None:
            self.published.compare(slot, made)
        if release is None or made is None:
            return result, claims
        return result._replace(release=release._replace(slot=made)), (*claims, made.claim)


def _named(people: bytes, key: bytes) -> Pool:
    """The people whom a partition expects. Raises StateError: they are another's."""
    state = carried_from_bytes(people)
    if state.partition != key or state.warm.roster is None:
        raise damaged("state of expected people", "it is of another partition")
    return state.warm.roster.pool
