"""What one release of a partition leaves for the next, as versioned bytes.

It holds the rows that wait, each individual's cohort, the running domains, digests of event ids seen lately, and the
levels that a lattice solver found out about (vectors of levels, nothing of anybody).
Individuals appear as keyed 64-bit digests. The layout is a header (magic, version, JSON index) and raw buffers; nothing
is pickled, so state written by one build is read by another or refused with a message.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.transforms.files.state_versions import damaged, other_layout
from kanonflow.transforms.release.encode import RangeDomain, SetDomain
from kanonflow.transforms.rows.elements import from_ipc, to_ipc

MAGIC = b"KFWS"
VERSION = 1
_WHAT = "warm state"
_HEADER = struct.Struct("<4sII")
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
    """

    waiting: pa.Table | None = None
    waiting_reason: tuple[str, ...] = ()
    cohorts: Cohorts = field(default_factory=Cohorts)
    domains: dict[str, RangeDomain | SetDomain] = field(default_factory=dict)
    events: Events = ()
    known: KnownNodes | None = None

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return 0 if self.waiting is None else self.waiting.num_rows

    def to_bytes(self) -> bytes:
        """The versioned bytes. Inverse of ``warm_state_from_bytes``."""
        index: dict[str, object] = {
            "reasons": _run_lengths(self.waiting_reason),
            "next_label": self.cohorts.next_label,
        }
        buffers: list[bytes] = []

        def put(name: str, data: bytes) -> None:
            index[name] = len(data)
            buffers.append(data)

        put("waiting", b"" if self.waiting is None else to_ipc(self.waiting.combine_chunks()))
        cohorts = self.cohorts
        put("people", cohorts.people.astype("<u8").tobytes())
        index["shape"] = list(cohorts.members.shape)
        put("members", cohorts.members.astype("<i4").tobytes())
        put("labels", cohorts.labels.astype("<i8").tobytes())
        put("seen", cohorts.seen.astype("<i8").tobytes())
        index["history"] = [end for end, _, _ in cohorts.history]
        for number, (_, people, labels) in enumerate(cohorts.history):
            put(f"history_people_{number}", people.astype("<u8").tobytes())
            put(f"history_labels_{number}", labels.astype("<i8").tobytes())
        ranges = {}
        sets = {}
        for name, domain in self.domains.items():
            if isinstance(domain, RangeDomain):
                ranges[name] = [domain.low, domain.high, domain.declared]
            else:
                sets[name] = domain.declared
                put(f"set_{len(sets) - 1}", domain.values.astype("<u8").tobytes())
        index["ranges"], index["sets"] = ranges, sets
        index["order"] = list(self.domains)
        index["events"] = [end for end, _ in self.events]
        for number, (_, digests) in enumerate(self.events):
            put(f"events_{number}", digests.astype("<u8").tobytes())
        if self.known is not None:
            index["known"] = [*self.known.anonymous.shape, len(self.known.failing)]
            # A list: a number would be the length of a part.
            index["known_cold"] = [] if self.known.cold is None else [self.known.cold]
            put("known_anonymous", self.known.anonymous.astype("<i4").tobytes())
            put("known_failing", self.known.failing.astype("<i4").tobytes())
        head = json.dumps(index).encode()
        return b"".join([_HEADER.pack(MAGIC, VERSION, len(head)), head, *buffers])


def _run_lengths(reasons: tuple[str, ...]) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for reason in reasons:
        if runs and runs[-1][0] == reason:
            runs[-1] = (reason, runs[-1][1] + 1)
        else:
            runs.append((reason, 1))
    return runs


def warm_state_from_bytes(data: bytes | None) -> WarmState:
    """The state; an empty one for None or b"". Raises StateError for another version's or damaged bytes."""
    if not data:
        return WarmState()
    try:
        magic, version, length = _HEADER.unpack_from(data)
    except struct.error:
        raise damaged(_WHAT, "its header is cut off") from None
    if magic != MAGIC:
        raise damaged(_WHAT, "it does not begin with its mark")
    if version != VERSION:
        raise other_layout(_WHAT, version, VERSION)
    try:
        index = json.loads(data[_HEADER.size : _HEADER.size + length])
        return _read(index, memoryview(data)[_HEADER.size + length :])
    except (ValueError, KeyError, TypeError, OSError):
        raise damaged(_WHAT, "its parts do not fit its index") from None


def _read(index: dict, body: memoryview) -> WarmState:
    offsets: dict[str, tuple[int, int]] = {}
    position = 0
    for name, size in index.items():
        buffer = isinstance(size, int) and name != "next_label"
        if buffer:
            offsets[name] = (position, position + size)
            position += size
    if position != len(body):
        raise ValueError("the parts are not as long as the index says")

    def array(name: str, dtype: str) -> NDArray:
        start, stop = offsets[name]
        return np.frombuffer(body[start:stop], dtype=dtype).copy()

    start, stop = offsets["waiting"]
    waiting = from_ipc(bytes(body[start:stop])) if stop > start else None
    cohorts = Cohorts(
        people=array("people", "<u8"),
        members=array("members", "<i4").reshape(index["shape"]),
        labels=array("labels", "<i8"),
        seen=array("seen", "<i8"),
        next_label=index["next_label"],
        history=tuple(
            (end, array(f"history_people_{number}", "<u8"), array(f"history_labels_{number}", "<i8"))
            for number, end in enumerate(index["history"])
        ),
    )
    domains: dict[str, RangeDomain | SetDomain] = {}
    numbers = {name: number for number, name in enumerate(index["sets"])}
    for name in index["order"]:
        if name in index["ranges"]:
            domains[name] = RangeDomain(*index["ranges"][name])
        else:
            domains[name] = SetDomain(array(f"set_{numbers[name]}", "<u8"), index["sets"][name])
    known = None
    if "known" in index:
        nodes, attributes, failing = index["known"]
        known = KnownNodes(
            array("known_anonymous", "<i4").reshape(nodes, attributes),
            array("known_failing", "<i4").reshape(failing, attributes),
            *index["known_cold"],
        )
    return WarmState(
        waiting=waiting,
        waiting_reason=tuple(reason for reason, count in index["reasons"] for _ in range(count)),
        cohorts=cohorts,
        domains=domains,
        events=tuple((end, array(f"events_{number}", "<u8")) for number, end in enumerate(index["events"])),
        known=known,
    )
