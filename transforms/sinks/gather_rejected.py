"""Rejected rows gathered into few files: by size, and in a stream by time.

State of the one key, in the global window:
    parts   bag of bytes: what was rejected together, as JSON of (version, part, records).
    rows    number of rows in ``parts``.
Timers, both set when the first part comes into empty state:
    end     event time, the end of time: a bounded run, or a feed that has ended, hands on what is there.
    due     processing time, in streams only: ``GATHER_MS`` after the first part.
Between two calls ``parts`` holds every row that came in and was not handed on, and fewer than ``MOST_ROWS``.

It stands in front of the durable boundary, so nothing is lost or doubled by it: what was gathered is in the
checkpoint, or was handed on and is in the boundary, under a name that stays. Which parts a file holds depends on the
clock, so each record names its part (``part`` in rejected.avsc): rows that come again from an older checkpoint, in
other files, are the same rows to who reads them. A row that has a place in its source is a part by itself, for a topic
is cut into other batches whenever it is read. In a bounded run, which may begin again from nothing, the clock has
no say and parts are in the order of their names: equal runs make equal files.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.timestamp import Timestamp

from kanonflow.transforms.files.state_versions import other_layout
from kanonflow.transforms.rows.elements import RejectedRows

GATHER_MS = 60_000
"""How long a stream gathers."""

MOST_ROWS = 10_000
"""Rows of a file; a part of more is a file of its own."""

LARGE_PART = 1_000
"""Rows of a part that a run over files does not hold back: many wrong rows must not fill a worker's memory."""

_LAYOUT = 1
_LEADS_BACK = ("line", "raw", "header", "expected", "unread", "states")
_KEY = b"rejected"


class GatherRejected(beam.PTransform):
    """PCollection[RejectedRows] -> PCollection[RejectedRows], fewer and larger.

    streaming: hand on every ``GATHER_MS`` as well, by ``clock`` (seconds since 1970).
    """

    def __init__(self, *, streaming: bool = False, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._gather = GatherForAWhile(clock) if streaming else GatherToTheEnd()

    @no_annotations
    def expand(self, rejected: beam.PCollection) -> beam.PCollection:
        return (
            rejected
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Keyed" >> beam.Map(_keyed).with_output_types(tuple[bytes, bytes])
            | "Gather" >> beam.ParDo(self._gather).with_output_types(RejectedRows)
        )


def part_id(rejected: RejectedRows) -> str:
    """What these rows have in common and with no others: a digest of their name and content; without a name, chance."""
    if not rejected.name:
        return uuid.uuid4().hex
    # How a row leads back is found by reading its file once more, which may fail: it is no part of what the row is. Nor
    # is which start of the job met it.
    own = [
        {key: value for key, value in record.items() if key not in _LEADS_BACK} for record in rejected.records
    ]
    own_name = json.dumps([rejected.name, own], sort_keys=True).encode()
    return hashlib.blake2b(own_name, digest_size=16, person=b"kanonflow part").hexdigest()


def with_part(rejected: RejectedRows) -> RejectedRows:
    """The rows, each with the part that it belongs to; one that has it keeps it."""
    if all(record.get("part") for record in rejected.records):
        return rejected
    part = part_id(rejected)
    records = tuple({**record, "part": record.get("part") or part} for record in rejected.records)
    return RejectedRows(rejected.name, records)


def encode_part(rejected: RejectedRows) -> bytes:
    """Rejected rows as they are kept in state."""
    return json.dumps([_LAYOUT, rejected.name, list(rejected.records)]).encode()


def decode_part(data: bytes) -> RejectedRows:
    """The inverse of ``encode_part``. Raises StateError: written by a version that this one cannot read."""
    layout, name, records = json.loads(data)
    if layout != _LAYOUT:
        raise other_layout("state of the rejected rows", layout, _LAYOUT)
    return RejectedRows(name, tuple(records))


def gathered(parts: Iterable[bytes], most: int | None = None) -> Iterator[RejectedRows]:
    """The rows of the parts in the order of the parts' names; nothing of nothing. A part counts once.

    most: about how many rows go together; None: all. Where it is cut follows from the parts, not from their order.
    """
    rows: dict[str, RejectedRows] = {}
    for data in parts:
        came = decode_part(data)
        own: dict[str, list[Mapping[str, Any]]] = {}
        for record in came.records:
            own.setdefault(record["part"], []).append(record)
        for part, records in own.items():
            rows.setdefault(part, RejectedRows(came.name, tuple(records)))
    if not rows:
        return
    together: list[str] = []
    count = 0
    for part_name in sorted(rows, key=lambda each: _order(each, rows[each])):
        together.append(part_name)
        count += len(rows[part_name].records)
        if most is not None and count >= most:
            yield _as_one(rows, together)
            together, count = [], 0
    if together:
        yield _as_one(rows, together)


def _order(part: str, rows: RejectedRows) -> tuple[str, str]:
    """By the name of what was rejected together; a row that is a part by itself has no other than its place."""
    return ("" if rows.records[0].get("source") == part else rows.name), part


def _as_one(rows: Mapping[str, RejectedRows], ordered: list[str]) -> RejectedRows:
    name = hashlib.blake2b("\n".join(ordered).encode(), digest_size=16, person=b"kanonflow parts").hexdigest()
    records: list[Mapping[str, Any]] = [record for part in ordered for record in rows[part].records]
    return RejectedRows(f"gathered-{name}", tuple(records))


def _keyed(rejected: RejectedRows) -> tuple[bytes, bytes]:
    return _KEY, encode_part(with_part(rejected))


_PARTS = BagStateSpec("kanonflow_rejected_parts", BytesCoder())
_ROWS = ReadModifyWriteStateSpec("kanonflow_rejected_rows", VarIntCoder())


class GatherToTheEnd(beam.DoFn):
    """(key, part) -> RejectedRows, at the end of input; a part of ``LARGE_PART`` rows or more at once."""

    END = TimerSpec("kanonflow_rejected_end_of_run", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[bytes, bytes],
        parts: Any = beam.DoFn.StateParam(_PARTS),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[RejectedRows]:
        """Keep the part. No file is cut by size here: where would depend on the order in which parts come."""
        part = decode_part(element[1])
        if len(part.records) >= LARGE_PART:
            yield part
        elif part.records:
            parts.add(element[1])
            end.set(GlobalWindow().max_timestamp())

    @on_timer(END)
    def at_the_end(self, parts: Any = beam.DoFn.StateParam(_PARTS)) -> Iterator[RejectedRows]:
        """Hand on everything."""
        yield from gathered(parts.read(), MOST_ROWS)
        parts.clear()


class GatherForAWhile(beam.DoFn):
    """(key, part) -> RejectedRows, when there are many, when time is up, and when the feed has ended."""

    END = TimerSpec("kanonflow_rejected_end", TimeDomain.WATERMARK)
    DUE = TimerSpec("kanonflow_rejected_due", TimeDomain.REAL_TIME)

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    def process(
        self,
        element: tuple[bytes, bytes],
        parts: Any = beam.DoFn.StateParam(_PARTS),
        rows: Any = beam.DoFn.StateParam(_ROWS),
        end: Any = beam.DoFn.TimerParam(END),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[RejectedRows]:
        """Keep the part, or hand on all that is there."""
        part = decode_part(element[1])
        if not part.records:
            return
        before = rows.read() or 0
        if before + len(part.records) >= MOST_ROWS:
            yield from gathered([*parts.read(), element[1]])
            parts.clear()
            rows.clear()
            return
        parts.add(element[1])
        rows.write(before + len(part.records))
        if not before:
            end.set(GlobalWindow().max_timestamp())
            due.set(Timestamp(micros=int((self._clock() + GATHER_MS / 1000) * 1_000_000)))

    @on_timer(DUE)
    def when_due(
        self, parts: Any = beam.DoFn.StateParam(_PARTS), rows: Any = beam.DoFn.StateParam(_ROWS)
    ) -> Iterator[RejectedRows]:
        """Hand on everything."""
        yield from gathered(parts.read())
        parts.clear()
        rows.clear()

    @on_timer(END)
    def at_the_end(
        self,
        parts: Any = beam.DoFn.StateParam(_PARTS),
        rows: Any = beam.DoFn.StateParam(_ROWS),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[RejectedRows]:
        """Hand on everything. Nothing is due any more: the timer would keep time from ending until then."""
        yield from gathered(parts.read())
        parts.clear()
        rows.clear()
        due.clear()
