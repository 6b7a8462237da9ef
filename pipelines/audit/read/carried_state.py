"""What a run of a chain was left by the one before it, and leaves for the next: rows that wait, and the pool.

    restricted/cohorts/PARTITION/carried.state   of the run that it continues
    restricted/carried/PARTITION.state           its own
    restricted/cohorts/PARTITION/expected.state  whom a file of people names, as if a run had left them in the pool

Both are one file: a mark, a layout, an index in JSON and parts behind each other; within it, as one of its parts, the
same once more (the warm state). Rows are Arrow IPC streams of canonical rows, people are digests.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy

CAME = "carried.state"
EXPECTED = "expected.state"
_HEADER = struct.Struct("<4sII")
_MARK, _WARM, _LAYOUT = b"KFCS", b"KFWS", 1
MOST_PLACES = 2**20
"""Of runs in a chain that may name people."""
_FROM_START = np.iinfo(np.int64).max


@dataclass(frozen=True)
class CarriedPartition:
    """What one partition carries.

    partition: its key in hexadecimal. epoch, place: of the run that wrote it. clock: the end of the last window that
    was released there, ms; None: no clock goes along, and no rows do.
    codes: int32 (n, c), of the rows, as those of the input. told: how many rows the file says there are.
    pool: uint64 (p,), digests of who waits for an intake; values: int32 (p, d), codes of what is known of them.
    kind: int64 (p,), the place of the run whose file named each one first; -1: he was seen.
    roster: (chain, segments, people, cohorts) of the roster that goes with it; None: nobody entered.
    """

    partition: str
    epoch: str
    place: int
    clock: int | None
    codes: np.ndarray
    told: int
    pool: np.ndarray
    values: np.ndarray
    kind: np.ndarray
    roster: tuple[str, int, int, int] | None


@dataclass(frozen=True)
class Carried:
    """came: what the run began with, left: what it left, by partition; left is None where a run tells nothing of it, as
    those of older builds do. expected: whom files of people named, of one run by partition. named: codes of those whom
    the policy's file names, as the audit has read it; None: there is none, or several runs are audited."""

    came: Mapping[str, CarriedPartition]
    left: Mapping[str, CarriedPartition] | None
    expected: tuple[CarriedPartition, ...] = ()
    named: np.ndarray | None = None

    def rows_came(self, columns: int) -> np.ndarray:
        """Codes int32 (n, columns) of all rows that came along."""
        return _together(self.came, columns)

    def rows_left(self, columns: int) -> np.ndarray:
        """Codes int32 (n, columns) of all rows that are left for the next run."""
        return _together(self.left or {}, columns)


def read_carried(
    folder: Path,
    bound: BoundPolicy,
    books: Sequence[CodeBook],
    findings: Findings,
    named: np.ndarray | None = None,
) -> Carried:
    """What the run in ``folder`` was left and leaves. books: of all kept fields, in the bound policy's order.
    named: as of ``Carried``.

    A file that is damaged is a failure, and is as if it were not there. O(rows + people).
    """
    cohorts, own = folder / "restricted" / "cohorts", folder / "restricted" / "carried"
    came = {path.parent.name: path for path in sorted(cohorts.glob(f"*/{CAME}"))}
    left = {path.stem: path for path in sorted(own.glob("*.state"))}
    strangers = len(list(own.iterdir())) - len(left) if own.is_dir() else 0
    if strangers:
        findings.add(f"restricted/carried holds {strangers} entries that are no carried state")
    expected: list[CarriedPartition] = []
    for path in sorted(cohorts.glob("*/expected*.state")):
        expected += _read_all({path.parent.name: path}, bound, books, findings).values()
    return Carried(
        _read_all(came, bound, books, findings),
        _read_all(left, bound, books, findings) if own.is_dir() else None,
        tuple(expected),
        named,
    )


def carried_facts(path: Path) -> tuple[Mapping[str, Any], np.ndarray]:
    """What a file says of itself, and the digests uint64 (p,) of the pool in it. Raises ValueError: it is damaged."""
    try:
        meta, parts = _parts(path.read_bytes(), _MARK)
        warm = _parts(parts["warm"], _WARM)[1] if parts.get("warm") else {}
        pool = np.frombuffer(warm.get("pool_people", b""), "<u8")
    except (struct.error, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError("no carried state") from error
    return meta, pool


def carried_rows(path: Path) -> Counter[str]:
    """The rows in a file, as texts. Raises ValueError: it is damaged."""
    try:
        meta, parts = _parts(path.read_bytes(), _MARK)
        warm = _parts(parts["warm"], _WARM)[1] if parts.get("warm") else {}
        tables = [parts[f"batch_{number}"] for number in range(len(meta["batches"]))]
        tables += [warm.get("waiting", b"")]
        rows = [pa.ipc.open_stream(data).read_all().to_pylist() for data in tables if data]
    except (struct.error, KeyError, TypeError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ValueError("no carried state") from error
    return Counter(repr(row) for own in rows for row in own)


def pool_values(path: Path) -> dict[int, tuple[str, ...]]:
    """What a file knows of each person in its pool, by digest as the files of cohorts have it; {} where there is none.

    Raises ValueError: it is damaged."""
    if not path.is_file():
        return {}
    try:
        parts = _parts(path.read_bytes(), _MARK)[1]
        warm = _parts(parts["warm"], _WARM)[1] if parts.get("warm") else {}
        people = np.frombuffer(warm.get("pool_people", b""), "<i8").tolist()
        rows = pa.ipc.open_stream(warm["pool_values"]).read_all().to_pylist() if people else []
    except (struct.error, KeyError, TypeError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ValueError("no carried state") from error
    return {who: tuple(map(repr, row.values())) for who, row in zip(people, rows, strict=True)}


def clock_in(path: Path) -> int | None:
    """The end of the last window that was released, ms, as a file carries it; None: none, or the file is damaged."""
    try:
        told = carried_facts(path)[0]["clock"]
        end = None if told is None else json.loads(told)["last_end"]
    except (ValueError, KeyError, TypeError):
        return None
    return end if isinstance(end, int) else None


def _read_all(
    paths: Mapping[str, Path], bound: BoundPolicy, books: Sequence[CodeBook], findings: Findings
) -> dict[str, CarriedPartition]:
    found = {}
    for partition, path in paths.items():
        try:
            found[partition] = _read(path, partition, bound, books)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, pa.ArrowException):
            findings.add(f"the carried state of a partition ({_below(path)}) is damaged, or of other columns")
    return found


def _read(path: Path, partition: str, bound: BoundPolicy, books: Sequence[CodeBook]) -> CarriedPartition:
    meta, parts = _parts(path.read_bytes(), _MARK)
    if meta["partition"] != partition:
        raise ValueError
    clock = None if meta["clock"] is None else json.loads(meta["clock"])["last_end"]
    tables = [parts[f"batch_{number}"] for number in range(len(meta["batches"]))]
    state: Mapping[str, Any] = {}
    warm: Mapping[str, bytes] = {}
    if parts["warm"]:
        state, warm = _parts(parts["warm"], _WARM)
        tables.insert(0, warm["waiting"])
    rows = [_codes(pa.ipc.open_stream(data).read_all(), bound, books) for data in tables if data]
    quasis = [
        (book, column) for book, column in zip(books, bound.columns, strict=True) if column in bound.quasis
    ]
    pool = np.frombuffer(warm.get("pool_people", b""), "<u8").astype(np.uint64)
    values = np.zeros((len(pool), len(quasis)), np.int32)
    kind = np.full(len(pool), -1, np.int64)
    if len(pool):
        ends = np.frombuffer(warm["pool_ends"], "<i8").reshape(len(pool), len(quasis))
        # In the place of a window's end: the last one of all times, less the place.
        named = (ends > _FROM_START - MOST_PLACES).all(axis=1) & (len(quasis) > 0)
        kind[named] = _FROM_START - ends[named, 0]
        known = pa.ipc.open_stream(warm["pool_values"]).read_all()
        for number, (book, column) in enumerate(quasis):
            values[:, number] = book.codes_of_canonical(known.column(column.name).combine_chunks())
    roster = None if state.get("roster") is None else tuple(state["roster"]["head"][1:])
    told = meta["waiting"] + sum(count for _, _, count in meta["batches"])
    return CarriedPartition(
        partition,
        str(meta["epoch"]),
        int(meta["place"]),
        clock,
        np.concatenate([np.zeros((0, len(books)), np.int32), *rows]),
        int(told),
        pool,
        values,
        kind,
        roster,
    )


def _codes(rows: pa.Table, bound: BoundPolicy, books: Sequence[CodeBook]) -> np.ndarray:
    """Codes int32 (n, c) of canonical rows. What was at fault in a quasi-identifier stands beside them as it came."""
    faults: list[tuple[int, Mapping[str, Any]]] = []
    if FAULT_COLUMN in rows.column_names:
        told = rows.column(FAULT_COLUMN).to_pylist()
        faults = [(row, json.loads(cell)) for row, cell in enumerate(told) if cell is not None]
    columns = []
    for book, column in zip(books, bound.columns, strict=True):
        codes = book.codes_of_canonical(rows.column(column.name).combine_chunks())
        own = [(row, fault) for row, fault in faults if column.name in fault["cells"]]
        came = [(fault["cells"][column.name], column.name in fault["unread"]) for _, fault in own]
        codes[[row for row, _ in own]] = book.codes_of_rejected(came, len(came))
        columns.append(codes)
    return np.column_stack(columns).astype(np.int32)


def _parts(data: bytes, mark: bytes) -> tuple[Mapping[str, Any], dict[str, bytes]]:
    """The meta and the parts of a container. Raises ValueError, struct.error, KeyError, TypeError: it is none."""
    found, layout, length = _HEADER.unpack_from(data)
    if (found, layout) != (mark, _LAYOUT):
        raise ValueError
    start = _HEADER.size + length
    index = json.loads(data[_HEADER.size : start])
    parts = {}
    for name, size in index["parts"]:
        parts[name] = data[start : start + size]
        start += size
    if start != len(data):
        raise ValueError
    return index["meta"], parts


def _together(partitions: Mapping[str, CarriedPartition], columns: int) -> np.ndarray:
    parts = [each.codes for each in partitions.values()]
    return np.concatenate([np.zeros((0, columns), np.int32), *parts])


def _below(path: Path) -> str:
    """The file's place below restricted/, without the partition's key."""
    return "carried/PARTITION.state" if path.parent.name == "carried" else f"cohorts/PARTITION/{path.name}"
