"""The one step of a partition: what is due is released, rejected or forgotten. Pure: no runner, no state of its own.

    act(key, action, clock, held)   ->   WindowResult, WindowResult, ..., StateAfter

    release   the rows due are taken, the window goes out in one part or several, each names what it was built on
    expire    waiting and late rows whose time is over are rejected; with ``cohort: lasting`` they are a reason for an
              intake first, and what then can go out is a release
    forget    the warm state is dropped

``SolveWindows`` keeps the state in cells of a runner and fires by its timer, ``PartitionInMemory`` keeps it in memory.
Both do what this step says, so the releases are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.lineage.release_lineage import Claim, Slot, reach_ms, within_reach
from kanonflow.transforms.release.lasting_window import release_lasting_window
from kanonflow.transforms.release.rejected import at_places, rejected_records
from kanonflow.transforms.release.release_window import Clock, WindowResult, earliest_deadline, expire
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.continued import Continued, domains_of
from kanonflow.transforms.roster.pool import empty_pool
from kanonflow.transforms.roster.roster import Roster, RosterHead, empty_roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.rows.row_places import RowPlaces
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, release_id
from kanonflow.transforms.windows.partition_clock import Action, Arrival, PartitionClock, window_number
from kanonflow.transforms.windows.release_parts import release_parts


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


class PublishedReleases(Protocol):
    """What is published already of partitions that may be released again; see ``EarlierReleases``."""

    def secret_version(self, partition: bytes, window_end: int | None, begun: int | None) -> int | None:
        """The secret's version for a window that began under ``begun``."""

    def solution(self, place: ReleaseSlot) -> bytes | None:
        """What the committed release of a place was published from; None: it is solved."""

    def compare(self, partition: bytes, window_end: int | None, part: int, made: Slot | None) -> None:
        """Raise ReleaseConflictError unless what was made may stand beside what is published. made: None: nothing."""

    def compare_end(self, partition: bytes, window_end: int | None, parts: int) -> None:
        """The same for parts of a window that were published and that it does not have now."""


class EarlierCohorts(Protocol):
    """Whom partitions know before their first row; see ``ContinuedCohorts``."""

    def of(self, key: bytes) -> Continued | None:
        """What a partition begins with; None: with nobody. The same whenever it is asked."""


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
    compressed: compress the rows of releases: they leave the process.
    """

    bound: BoundPolicy
    secret: Secret
    threads: int = 1
    time: Clock = time.monotonic
    matching_records: bool = False
    published: PublishedReleases | None = None
    epoch: int = 0
    continued: EarlierCohorts | None = None
    compressed: bool = True

    def arrive(self, clock: PartitionClock, window: int) -> Arrival:
        """Where a batch of rows of a window goes, and the clock after it."""
        return clock.arrive(window, self.bound.policy, self.secret.version)

    def refuse(
        self, key: bytes, clock: PartitionClock, rows: pa.Table, places: RowPlaces | None = None
    ) -> RejectedRows:
        """A batch that no release may take any more. clock: as it was before the batch. places: of the rows.

        Its name is that of a place that no release has: a retry finds the same file, and equal batches stay two.
        """
        place = ReleaseSlot(key, clock.last_end, -1 - clock.refused)
        name = release_id(self.secret, self.bound.policy.name, place)
        records = rejected_records(rows, self.bound, "late")
        if places is not None:
            records = list(at_places(records, places))
        return RejectedRows(name, tuple(records))

    def due(self, clock: PartitionClock) -> Action | None:
        """What a partition does next; None: it holds nothing."""
        return clock.next_action(self.bound.policy)

    def window_end(self, action: Action) -> int | None:
        """The window end that results of an action are named by, in ms; None without windows."""
        return None if self.bound.policy.window_ms is None else action.at

    def act(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | StateAfter]:
        """Do what is due. Yields each result as soon as it is there, and last, once, the state after all of them.

        key: of the partition. action: ``due(clock)``.

        Precondition: ``clock`` and ``held`` are what the last step left, and the batches that came since.
        Postcondition: equal arguments give equal results and an equal state, in whatever order the rows came (with a
        deadline: where ``published`` has what was recorded). Nothing of the partition is changed but by
        ``held.take``; a caller that drops what was yielded, and puts back what was taken, has not made the step.
        Raises ReleaseConflictError: a result may not stand beside what is published; it is not yielded.
        Raises SecretError: the window's version of the secret is not there.
        """
        if action.kind == "forget":
            yield StateAfter(clock.forgotten(), None)
        elif action.kind == "expire" and not self.bound.policy.lasting:
            yield from self._expire(key, action, clock, held)
        else:
            # Waiting rows whose time is over are a reason for an intake: who is new may be released with them.
            yield from self._release(key, action, clock, held)

    def _expire(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | StateAfter]:
        slot = ReleaseSlot(key, self.window_end(action), clock.release_no, "expiry")
        warm, late = held.warm(), held.take(clock.late, late_only=True)
        # Of the state: the order of the rejected rows must be that of a retry, also after a rotation.
        secret = self.secret.of(clock.secret_version)
        result = expire(self.bound, warm, late, secret, slot)
        yield result
        yield StateAfter(clock.expired(earliest_deadline(result.warm, self.bound)), result.warm)

    def _release(
        self, key: bytes, action: Action, clock: PartitionClock, held: Held
    ) -> Iterator[WindowResult | StateAfter]:
        slot, published = ReleaseSlot(key, self.window_end(action), 0), self.published
        warm, begun, segments = self._begun(key, held.warm())
        number = window_number(action.at, self.bound.policy)
        if action.kind == "expire":
            rows = held.take(clock.late, late_only=True)
            version = clock.secret_version
        else:
            # The first pending window; late rows lie under it, or under one before it that has no rows of its own.
            due = {number, *(window for window in clock.late if window <= number)}
            rows = held.take(tuple(sorted(due)), late_only=False)
            version = clock.version_of(number)
        if published is not None:
            version = published.secret_version(key, slot.window_end, version)
        results = self._results(rows, warm, self.secret.of(version), slot, begun or held.roster)
        claims, parts = clock.claims, 0
        roster: Roster | None = None
        for made in results:
            result, claims = self._built_on(made, claims, slot._replace(release_no=parts))
            warm, parts, roster = result.warm, parts + 1, result.roster
            if result.segment is not None:
                segments.append(result.segment)
            yield result
        if published is not None:
            published.compare_end(key, slot.window_end, parts)
        deadline = earliest_deadline(warm, self.bound)
        if action.kind == "expire":
            after = clock.released_waiting(action.at, deadline, claims)
        else:
            after = clock.released(deadline, True, self.bound.policy, parts, claims)
        yield StateAfter(after, warm, tuple(segments), roster)

    def _begun(
        self, key: bytes, warm: WarmState
    ) -> tuple[WarmState, Callable[[RosterHead], Roster] | None, list[bytes]]:
        """The state of a partition that has none yet and whose people an earlier run knows, its roster, its segments.

        The segments become part of the state with this step: from then on nothing is read of the earlier run.
        """
        if self.continued is None or warm.roster is not None or (earlier := self.continued.of(key)) is None:
            return warm, None, []
        roster = earlier.roster
        state = RosterState(roster.head, empty_pool(self.bound), earlier.last)
        begun = replace(warm, domains=domains_of(roster, self.bound), roster=state)
        return begun, lambda head: roster, [segment.to_bytes() for segment in earlier.segments]

    def _results(
        self,
        rows: pa.Table | None,
        warm: WarmState,
        secret: Secret,
        slot: ReleaseSlot,
        roster: Callable[[RosterHead], Roster],
    ) -> Iterator[WindowResult]:
        """The window in one part or in several; with cohorts that last always in one, for merging is near linear."""
        if self.bound.policy.lasting:
            head = warm.roster.head if warm.roster is not None else None
            yield release_lasting_window(
                rows,
                self.bound,
                warm,
                empty_roster(self.epoch) if head is None else roster(head),
                secret,
                slot,
                threads=self.threads,
                clock=self.time,
                matching_records=self.matching_records,
                compressed=self.compressed,
            )
            return
        yield from release_parts(
            rows,
            self.bound,
            warm,
            secret,
            slot,
            threads=self.threads,
            clock=self.time,
            matching_records=self.matching_records,
            compressed=self.compressed,
            recorded=None if self.published is None else self.published.solution,
        )

    def _built_on(
        self, result: WindowResult, claims: tuple[Claim, ...], slot: ReleaseSlot
    ) -> tuple[WindowResult, tuple[Claim, ...]]:
        """The result with what its release was built on, and the claims of later ones. slot: of the part."""
        release = result.release
        claims = within_reach(claims, slot.window_end, reach_ms(self.bound.policy))
        made = None if release is None or release.slot is None else release.slot._replace(built_on=claims)
        if self.published is not None:
            self.published.compare(slot.partition, slot.window_end, slot.release_no, made)
        if release is None or made is None:
            return result, claims
        return result._replace(release=release._replace(slot=made)), (*claims, made.claim)
