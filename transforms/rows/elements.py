"""The elements that travel through the pipeline: batches of input, rejected rows, releases, matching records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.rows.row_origins import RowOrigins

_MANY = 10_000
"""Rows above which threads compress columns sooner than one does."""
COMPRESSED_ROWS = 200
"""Fewer rows go as they are: to begin with a column costs the compressor more than it saves of a few kilobytes."""


class CellFault(NamedTuple):
    """What was wrong with a cell that stands as null in a batch.

    row: its place in the batch. field: its column. reason, message: as in rejected.avsc. text: what came, as text.
    """

    row: int
    field: str
    reason: str
    message: str
    text: str | None


class RawBatch(NamedTuple):
    """Rows as a source read them.

    name: stable id of the batch (a digest of its file's path, and its number); "" for elements from memory.
    ipc: one Arrow IPC stream; from CSV every column is text.
    broken: records of rejected.avsc for what the source could not split into rows.
    arrived: when the rows arrived, for a source that knows and that says the same of a row whenever it is read again:
    int64 of each row, little-endian, in ms since 1970 UTC, below 0 where it is not known; b"": of none.
    origin, numbers: of a source that may cut its batches otherwise when it is read again, what the rows are counted in
    (a topic's partition) and the number of each row there (its offset), int64, little-endian; see ``row_places``.
    faults: cells that no value could be read from when the columns were made (``element_rows``).
    origins: what tells where a rejected row came from; None: nobody knows.
    """

    name: str
    ipc: bytes
    broken: tuple[Mapping[str, Any], ...] = ()
    arrived: bytes = b""
    origin: str = ""
    numbers: bytes = b""
    faults: tuple[CellFault, ...] = ()
    origins: RowOrigins | None = None


class RejectedRows(NamedTuple):
    """Rejected rows that are written together.

    name: stable and unique, the stem of their file; "" lets the sink choose one.
    records: as rejected.avsc.
    """

    name: str
    records: tuple[Mapping[str, Any], ...]


class MatchingRecord(NamedTuple):
    """How a release was matched. Restricted: it names the record behind every row.

    avro: an Avro file with one record of matching_record.avsc.
    """

    release_id: str
    avro: bytes


class EnteredPeople(NamedTuple):
    """Who entered with a release, for OUT/restricted/cohorts. Restricted: it says who is together with whom.

    people: an Avro file, one record a person: digest, cohort and frozen values.
    boxes: an Avro file, the corners of the cohorts' boxes; with people's digests it is all that goes on.
    """

    people: bytes
    boxes: bytes


class Release(NamedTuple):
    """What one closed window of one partition publishes.

    window_start, window_end: milliseconds since 1970-01-01 UTC; None when the policy has no window.
    ipc: one Arrow IPC stream in the release's Arrow schema, compressed where its rows are many.
    slot: where it stands among its partition's releases, and what it was built on; None of a release that no partition
    made, which is told from others by its name only.
    solution: what it was published from, where a clock had a part in that (``recorded_solution``).
    metrics: its record of metrics.avsc, for the sink, which alone knows whether it is published; None: not known.
    matching_record: how it was matched, where that was asked for; the sink hands it on if the release is published.
    entered: who entered with it (``cohort: lasting``); None: nobody.
    groups: which cohorts it put together, for a run that continues this one (``cohort_files.groups_file``).
    """

    release_id: str
    window_start: int | None
    window_end: int | None
    ipc: bytes
    slot: Slot | None = None
    solution: bytes | None = None
    metrics: Mapping[str, Any] | None = None
    matching_record: MatchingRecord | None = None
    entered: EnteredPeople | None = None
    groups: bytes | None = None


def arrivals(batch: RawBatch) -> NDArray[np.int64] | None:
    """When each row of a batch arrived, int64 (n,) in ms since 1970 UTC, below 0: not known; None: of none."""
    return np.frombuffer(batch.arrived, "<i8").astype(np.int64) if batch.arrived else None


def arrived_at(times: Sequence[int] | int, rows: int) -> bytes:
    """What ``RawBatch.arrived`` holds: a time of each row, or one for all."""
    return np.broadcast_to(np.asarray(times, "<i8"), rows).tobytes()


def to_ipc(rows: pa.RecordBatch | pa.Table, *, compressed: bool = False) -> bytes:
    """Rows as one Arrow IPC stream.

    compressed: a fifth of the bytes where rows share their boxes, for what crosses processes and stands in checkpoints;
    the bytes are then a function of the rows and of the compressor's version.
    """
    options = pa.ipc.IpcWriteOptions(
        compression="zstd" if compressed else None, use_threads=rows.num_rows > _MANY
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()


def from_ipc(ipc: bytes) -> pa.Table:
    """The rows of one Arrow IPC stream. Without a copy unless it is compressed: the table lives on ``ipc``."""
    with pa.ipc.open_stream(pa.py_buffer(ipc)) as reader:
        return reader.read_all()


def sound_rows(ipc: bytes) -> pa.Table:
    """The same of bytes that were stored. Raises pa.ArrowException or OSError: they are no rows, or point elsewhere."""
    table = from_ipc(ipc)
    try:
        table.validate(full=True)
    except UnicodeDecodeError:  # of a column's name
        raise pa.ArrowInvalid("a name that is no text") from None
    return table
