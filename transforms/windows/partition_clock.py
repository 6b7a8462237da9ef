"""When a partition releases, rejects and forgets: the decisions of the stateful step, without Beam.

A partition sees batches of rows of one window each, in any order, and times that fire. Its clock remembers the end of
the last released window, which windows have rows pending, which bag holds rows that came too late for their own
window, and when the first late or waiting row must be gone. All times are integer milliseconds of event time.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.state_versions import damaged, other_layout
from kanonflow.transforms.lineage.release_lineage import Claim
from kanonflow.transforms.rows.split import END_OF_TIME_MS, window_end

VERSION = 2
_WHAT = "partition clock"


class Arrival(NamedTuple):
    """Where a batch goes: the clock after it, the window number whose bag takes it (None: refuse it as late)."""

    clock: PartitionClock
    bag: int | None
    late: bool


class Action(NamedTuple):
    """What is due. kind: release, expire, forget; or closing, a release beside the regular one of the window's end; or
    end, of the feed. at: the window end (release, closing), the deadline (expire) or the end of time, in ms.

    What is due at a deadline may be a release (``step``); with ``cohort: lasting``, whose deadlines are window ends.
    """

    kind: str
    at: int


@dataclass(frozen=True)
class PartitionClock:
    """last_end: end of the last released window, None before the first. release_no: how many releases and
    expiries there were, by which expiries are numbered.

    pending: numbers of windows with rows of their own, sorted. late: of the bag that holds late rows, or none.
    late_deadline: when the first late row must be gone. waiting_deadline: the same of rows that wait in the warm
    state. warm: whether the warm state holds anything worth forgetting. refused: batches refused as late so far.
    began: for each pending window, in their order, (its number, the secret's version when its first row came).
    secret_version: that of the window that began last; None, here and where ``began`` lacks a window: the feed's first
    secret. claims: the releases made so far that a later one can share rows with (``release_lineage``).
    opened: ``last_end`` of a clock that another run has carried over, until it moves; else None. closing: whether there
    are rows that were too late for every release already then: they leave in a closing one. kept: whether the partition
    holds something that the feed's end must hand on (``transforms/windows/chain``).
    """

    last_end: int | None = None
    release_no: int = 0
    pending: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    late_deadline: int | None = None
    waiting_deadline: int | None = None
    warm: bool = False
    refused: int = 0
    began: tuple[tuple[int, int], ...] = ()
    secret_version: int | None = None
    claims: tuple[Claim, ...] = ()
    opened: int | None = None
    closing: bool = False
    kept: bool = False

    def to_bytes(self) -> bytes:
        """The state as JSON text, with the version of its layout."""
        return json.dumps({"version": VERSION, **self.__dict__}).encode()

    @classmethod
    def from_bytes(cls, data: bytes | None) -> PartitionClock:
        """The inverse of ``to_bytes``; a fresh clock for None.

        Raises StateError: the bytes are another version's, or damaged.
        """
        if not data:
            return cls()
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            raise damaged(_WHAT, "it is not JSON text") from None
        if not isinstance(values, dict):
            raise damaged(_WHAT, "it is not an object")
        version = values.pop("version", None)
        if version == 1:  # of the time before runs carried anything over
            values |= {"opened": None, "closing": False, "kept": False}
        elif version != VERSION:
            raise other_layout(_WHAT, version, VERSION)
        # Nothing else is filled in: a clock without its release number would use the slots of old releases again.
        if values.keys() != cls.__dataclass_fields__.keys():
            raise damaged(_WHAT, "it lacks values, or has others")
        try:
            tuples: dict[str, tuple] = {name: tuple(values[name]) for name in ("pending", "late")}
            tuples["began"] = tuple((number, key) for number, key in values["began"])
            tuples["claims"] = tuple(Claim(*claim) for claim in values["claims"])
        except (ValueError, TypeError):
            raise damaged(_WHAT, "a value is not of its kind") from None
        single = (value for name, value in values.items() if name not in tuples)
        numbers = (*tuples["pending"], *tuples["late"], *chain(*tuples["began"]), *single)
        if not all(value is None or isinstance(value, int) for value in numbers):
            raise damaged(_WHAT, "a value is not of its kind")
        return cls(**{**values, **tuples})

    def version_of(self, number: int) -> int | None:
        """The secret's version under which a pending window began; it is finished under it."""
        return next((version for window, version in self.began if window == number), None)

    def arrive(self, number: int, policy: Policy, secret_version: int | None = None) -> Arrival:
        """A batch of rows of window ``number`` came, while this version of the secret was in force.

        Rows of a window that was not released yet wait for its end. Late ones join the next release there is, in
        the bag of the window after the last released one, or are refused when no release may take them any more.
        """
        end = window_end(number, policy)
        if self.last_end is None or end > self.last_end:
            place = bisect_left(self.pending, number)
            if self.pending[place : place + 1] == (number,):
                return Arrival(self, number, False)
            begun = replace(self, pending=(*self.pending[:place], number, *self.pending[place:]))
            if secret_version is not None:
                place = bisect_left(self.began, (number, secret_version))
                versions = (*self.began[:place], (number, secret_version), *self.began[place:])
                begun = replace(begun, began=versions, secret_version=secret_version)
            return Arrival(begun, number, False)
        deadline = end + policy.waiting_ms
        if policy.window_ms is None or deadline <= self.last_end:
            if self.opened is None or policy.window_ms is None:
                return Arrival(replace(self, refused=self.refused + 1), None, True)
            # Nothing of this run has been released yet: the row is older than all of it.
            version = self.secret_version if secret_version is None else secret_version
            begun = replace(self, closing=True, secret_version=version)
            return Arrival(begun, window_number(self.opened, policy), True)
        bag = window_number(self.last_end + policy.window_ms, policy)
        first = deadline if self.late_deadline is None else min(deadline, self.late_deadline)
        return Arrival(replace(self, late=(bag,), late_deadline=first), bag, True)

    def next_action(self, policy: Policy, *, forgets: bool = True) -> Action | None:
        """What is due next, None when the partition holds nothing. At equal times a release goes before an expiry.

        forgets: whether state that nothing uses is dropped after the policy's ``state_ttl``."""
        if self.closing and self.opened is not None and policy.window_ms is not None:
            # Their bag is that of the window before, of which there is nothing else any more.
            return Action("closing", self.opened + policy.window_ms)
        actions = []
        if self.pending:
            actions.append(Action("release", window_end(self.pending[0], policy)))
        deadlines = [at for at in (self.late_deadline, self.waiting_deadline) if at is not None]
        if deadlines:
            actions.append(Action("expire", min(deadlines)))
        if actions:
            return min(actions, key=lambda action: (action.at, action.kind != "release"))
        if forgets and self.warm and self.last_end is not None and policy.window_ms is not None:
            return Action("forget", self.last_end + policy.state_ttl_ms)
        return None

    def released(
        self,
        waiting_deadline: int | None,
        policy: Policy,
        parts: int = 1,
        claims: tuple[Claim, ...] = (),
    ) -> PartitionClock:
        """After the release of the first pending window; late rows, whose bag is that of the window after the last
        released one, have joined.

        parts: how many release numbers it took. claims: its releases, and earlier ones.
        Precondition: rows are pending.
        """
        number, *pending = self.pending
        return replace(
            self,
            opened=None,
            last_end=window_end(number, policy),
            release_no=self.release_no + parts,
            pending=tuple(pending),
            began=tuple(each for each in self.began if each[0] != number),
            late=(),
            late_deadline=None,
            waiting_deadline=waiting_deadline,
            warm=True,
            claims=claims,
        )

    def expired(self, waiting_deadline: int | None) -> PartitionClock:
        """After an expiry: late rows have been read and now wait, or are gone."""
        return replace(
            self,
            release_no=self.release_no + 1,
            late=(),
            late_deadline=None,
            waiting_deadline=waiting_deadline,
        )

    def released_waiting(
        self, at: int, waiting_deadline: int | None, claims: tuple[Claim, ...]
    ) -> PartitionClock:
        """After a release of late and waiting rows alone, at the end of a window that had no rows of its own.

        at: that end. Rows of windows up to it that come now are late: the place of a release is taken once.
        """
        last_end = max(at, self.last_end or at)
        return replace(self.expired(waiting_deadline), opened=None, last_end=last_end, claims=claims)

    def released_old(self, waiting_deadline: int | None, claims: tuple[Claim, ...]) -> PartitionClock:
        """After a closing release: it is beside the regular ones, and moves nothing. There is one a run."""
        return replace(self, opened=None, closing=False, waiting_deadline=waiting_deadline, claims=claims)

    def carried_over(self) -> PartitionClock:
        """The clock as the first of another run."""
        return replace(self, opened=self.last_end)

    def forgotten(self) -> PartitionClock:
        """After the warm state was dropped."""
        return replace(self, warm=False)


def fires_at(action: Action | None, policy: Policy) -> int | None:
    """When the timer must fire for what is due next, in ms: then, plus how long windows stay open for late rows."""
    if action is None:
        return None
    if policy.window_ms is None or action.kind == "end":
        return END_OF_TIME_MS
    return action.at + policy.out_of_orderness_ms


def window_number(end: int, policy: Policy) -> int:
    """The window that ends then."""
    if policy.window_ms is None:
        return 0
    return (end - policy.window_offset_ms) // policy.window_ms - 1
