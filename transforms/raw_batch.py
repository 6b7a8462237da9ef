"""The elements that travel through the pipeline: batches of input, rejected rows, releases, certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa


class RawBatch(NamedTuple):
    """Rows as a source read them.

    name: stable id of the batch (a digest of its file's path, and its number); "" for elements from memory.
    ipc: one Arrow IPC stream; from CSV every column is text.
    broken: records of rejected.avsc for what the source could not split into rows.
    """

    name: str
    ipc: bytes
    broken: tuple[Mapping[str, Any], ...] = ()


class RejectedRows(NamedTuple):
    """Rejected rows that are written together.

    name: stable and unique, the stem of their file; "" lets the sink choose one.
    records: as rejected.avsc.
    """

    name: str
    records: tuple[Mapping[str, Any], ...]


class Release(NamedTuple):
    """What one closed window of one partition publishes.

    window_start, window_end: milliseconds since 1970-01-01 UTC; None when the policy has no window.
    ipc: one Arrow IPC stream in the release's Arrow schema.
    """

    release_id: str
    window_start: int | None
    window_end: int | None
    ipc: bytes


class Certificate(NamedTuple):
    """How a release was matched. Restricted: it names the record behind every row.

    avro: an Avro file with one record of certificate.avsc.
    """

    release_id: str
    avro: bytes


def to_ipc(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()


def from_ipc(ipc: bytes) -> pa.Table:
    """The rows of one Arrow IPC stream, without a copy: the table lives on ``ipc``."""
    with pa.ipc.open_stream(pa.py_buffer(ipc)) as reader:
        return reader.read_all()
