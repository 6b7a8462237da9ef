"""What one release of a partition leaves for the next, as versioned bytes.

It holds the rows that wait, each individual's cohort, the running domains, digests of event ids seen lately, and the
levels that a lattice solver found out about (vectors of levels, nothing of anybody).
Individuals appear as keyed 64-bit digests. The bytes are named parts behind an index (``state_parts``), so state that
one build wrote is read by another or refused with a message. Each piece has a function that writes its parts and, next
to it, one that reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.transforms.files.state_parts import Content, UnreadParts, joined, pack, unpack
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.kinds.domains import RangeDomain, SetDomain
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster_state import (
    RosterState,
    read_roster_state,
    rest_of_roster,
    roster_content,
)
from kanonflow.transforms.rows.elements import sound_rows, to_ipc

MAGIC = b"KFWS"
VERSION = 1
VERSION_OF_REST = 2
_WHAT = "warm state"
Events = tuple[tuple[int, NDArray[np.uint64]], ...]
"""Event ids seen lately: (end of the window they came for, sorted digests)."""


def _no_people() -> NDArray[np.uint64]:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Cohorts:
    """Who belonged together.

    people: uint64 (p,), digests of individuals, sorted. members: int32 (n, k), slots over positions in ``people``
    (row mode), or (0, 0). labels: int64 (p,), class of each (individual mode), or (0,). seen: int64 (p,), end of the
    window in which each was last released. next_label: the first label never used.
    history: of the last windows, oldest first, (window end, people uint64 sorted, class labels) of who was released.
    """

    people: NDArray[np.uint64] = field(default_factory=_no_people)
    members: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int32))
    labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seen: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    next_label: int = 0
    history: tuple[tuple[int, NDArray[np.uint64], NDArray[np.int64]], ...] = ()


@dataclass(frozen=True)
class WarmState:
    """waiting: canonical rows that wait, None when none do; waiting_reason: why, one entry a row.

    domains: running and declared domains by field. events: (window end, sorted uint64 digests of event ids).
    known: levels of hierarchies that the last window's solver decided about, None without such a solver.
    roster: with ``cohort: lasting``, which roster there is and who waits for an intake; None: none yet.
    """

    waiting: pa.Table | None = None
    waiting_reason: tuple[str, ...] = ()
    cohorts: Cohorts = field(default_factory=Cohorts)
    domains: dict[str, RangeDomain | SetDomain] = field(default_factory=dict)
    events: Events = ()
    known: KnownNodes | None = None
    roster: RosterState | None = None

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return 0 if self.waiting is None else self.waiting.num_rows

    def to_bytes(self) -> bytes:
        """The versioned bytes, of layout 1. Inverse of ``warm_state_from_bytes``."""
        return pack(MAGIC, VERSION, self._content(_events_content(self.events), roster_content(self.roster)))

    def rest_to_bytes(self, events: object) -> bytes:
        """All but the pool and the event ids, of layout 2. events: where these stand, as JSON keeps it."""
        where = Content({"events": events}, {})
        return pack(MAGIC, VERSION_OF_REST, self._content(where, rest_of_roster(self.roster)))

    def _content(self, events: Content, roster: Content) -> Content:
        return joined(
            _waiting_content(self.waiting, self.waiting_reason),
            _cohorts_content(self.cohorts),
            _domains_content(self.domains),
            events,
            _known_content(self.known),
            roster,
        )


def warm_state_from_bytes(data: bytes | None) -> WarmState:
    """The state; an empty one for None or b"". Raises StateError for another version's or damaged bytes."""
    return _state(unpack(data, MAGIC, VERSION, _WHAT)) if data else WarmState()


def warm_state_from_cells(
    data: bytes | None, pool: Callable[[], Pool], events: Callable[[Any], Events]
) -> WarmState:
    """The state of which the pool and the event ids stand elsewhere; builds of before kept all of it in these bytes.

    data: of layout 1 or 2, or nothing, as of ``warm_state_from_bytes``. pool: reads it, asked where there is a roster.
    events: reads them, given what was written of where they are. Both are asked of layout 2 alone. Raises StateError.
    """
    if not data:
        return WarmState()
    parts = unpack(data, MAGIC, VERSION_OF_REST, _WHAT)
    return _state(parts) if parts.layout == VERSION else _state(parts, pool, events)


def _state(
    parts: UnreadParts,
    pool: Callable[[], Pool] | None = None,
    events: Callable[[Any], Events] | None = None,
) -> WarmState:
    try:
        waiting, reasons = _waiting(parts)
        state = WarmState(
            waiting,
            reasons,
            _cohorts(parts),
            _domains(parts),
            _events(parts) if events is None else events(parts.meta["events"]),
            _known(parts),
            read_roster_state(parts, None if pool is None or parts.meta["roster"] is None else pool()),
        )
        parts.end()
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        raise damaged(_WHAT, "its parts do not fit its index") from None
    return state


def _waiting_content(waiting: pa.Table | None, reasons: tuple[str, ...]) -> Content:
    rows = b"" if waiting is None else to_ipc(waiting.combine_chunks())
    return Content({"reasons": _run_lengths(reasons)}, {"waiting": rows})


def _waiting(parts: UnreadParts) -> tuple[pa.Table | None, tuple[str, ...]]:
    data = parts.take("waiting")
    rows = sound_rows(data) if data else None
    runs = parts.meta["reasons"]
    if sum(count for _, count in runs) != (0 if rows is None else rows.num_rows):
        raise ValueError("there are not as many reasons as rows that wait")
    return rows, tuple(reason for reason, count in runs for _ in range(count))


def _run_lengths(reasons: tuple[str, ...]) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for reason in reasons:
        if runs and runs[-1][0] == reason:
            runs[-1] = (reason, runs[-1][1] + 1)
        else:
            runs.append((reason, 1))
    return runs


def _cohorts_content(cohorts: Cohorts) -> Content:
    meta = {
        "next_label": cohorts.next_label,
        "members": list(cohorts.members.shape),
        "history": [end for end, _, _ in cohorts.history],
    }
    parts = {
        "people": _raw(cohorts.people, "<u8"),
        "members": _raw(cohorts.members, "<i4"),
        "labels": _raw(cohorts.labels, "<i8"),
        "seen": _raw(cohorts.seen, "<i8"),
    }
    for number, (_, people, labels) in enumerate(cohorts.history):
        parts[f"history_people_{number}"] = _raw(people, "<u8")
        parts[f"history_labels_{number}"] = _raw(labels, "<i8")
    return Content(meta, parts)


def _cohorts(parts: UnreadParts) -> Cohorts:
    return Cohorts(
        people=parts.array("people", "<u8"),
        members=parts.array("members", "<i4").reshape(parts.meta["members"]),
        labels=parts.array("labels", "<i8"),
        seen=parts.array("seen", "<i8"),
        next_label=parts.meta["next_label"],
        history=tuple(
            (
                end,
                parts.array(f"history_people_{number}", "<u8"),
                parts.array(f"history_labels_{number}", "<i8"),
            )
            for number, end in enumerate(parts.meta["history"])
        ),
    )


def _domains_content(domains: dict[str, RangeDomain | SetDomain]) -> Content:
    """Each domain as [field, ends or none, declared], in the order of the fields; the values of sets are parts."""
    listed: list[list[object]] = []
    parts: dict[str, bytes] = {}
    for number, (name, domain) in enumerate(domains.items()):
        listed.append([name, domain.ends, domain.declared])
        parts |= {} if domain.digests is None else {f"set_{number}": _raw(domain.digests, "<u8")}
    return Content({"domains": listed}, parts)


def _domains(parts: UnreadParts) -> dict[str, RangeDomain | SetDomain]:
    domains: dict[str, RangeDomain | SetDomain] = {}
    for number, (name, ends, declared) in enumerate(parts.meta["domains"]):
        if ends is None:
            domains[name] = SetDomain(parts.array(f"set_{number}", "<u8"), declared)
        else:
            low, high = ends
            domains[name] = RangeDomain(low, high, declared)
    return domains


def _events_content(events: Events) -> Content:
    parts = {f"events_{number}": _raw(digests, "<u8") for number, (_, digests) in enumerate(events)}
    return Content({"events": [end for end, _ in events]}, parts)


def _events(parts: UnreadParts) -> Events:
    ends = parts.meta["events"]
    return tuple((end, parts.array(f"events_{number}", "<u8")) for number, end in enumerate(ends))


def _known_content(known: KnownNodes | None) -> Content:
    """Nothing of a state that no lattice solver left."""
    if known is None:
        return Content({"known": None}, {})
    nodes, attributes = known.anonymous.shape
    meta = {"nodes": nodes, "attributes": attributes, "failing": len(known.failing), "cold": known.cold}
    parts = {
        "known_anonymous": _raw(known.anonymous, "<i4"),
        "known_failing": _raw(known.failing, "<i4"),
    }
    return Content({"known": meta}, parts)


def _known(parts: UnreadParts) -> KnownNodes | None:
    known = parts.meta["known"]
    if known is None:
        return None
    return KnownNodes(
        parts.array("known_anonymous", "<i4").reshape(known["nodes"], known["attributes"]),
        parts.array("known_failing", "<i4").reshape(known["failing"], known["attributes"]),
        known["cold"],
    )


def _raw(array: NDArray, dtype: str) -> bytes:
    return array.astype(dtype).tobytes()
