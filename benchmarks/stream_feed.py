"""The feed that the streaming benchmark replays: its policy, the files it arrives in, and its accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from benchmarks.data_sets import DAY_MS, afresh, example_policy, with_method
from kanonflow.pipelines.commands.demo_feed import FEED_START, FeedShape, demo_feed
from kanonflow.schemas.avro_schema import transaction_schema
from kanonflow.schemas.policy import Role
from kanonflow.schemas.policy_file import to_mapping
from kanonflow.transforms.columns.avro_encoding import avro_file

PARTITION, REFERENCE = "postcode_area", "transaction_id"
OWN = "own"
WINDOW = "window"
"""The policy's own solver, with ``cohort: window``."""
BEGIN_MS = (FEED_START.toordinal() - 719_163) * DAY_MS
"""1970-01-01 is day 719,163."""


class FeedFile(NamedTuple):
    """number: of the stretch of event time. rows, newest_ms: of the whole feed up to the end of this file."""

    name: str
    number: int
    rows: int
    newest_ms: int


@dataclass(frozen=True)
class StreamFeed:
    """A feed as files, in the order in which they arrive. rows: in all of them."""

    folder: Path
    files: tuple[FeedFile, ...]
    rows: int

    def closing(self, window_end: int, out_of_orderness_ms: int) -> FeedFile | None:
        """The file whose last row lets the watermark reach a window's end; None: only the end of the feed does."""
        due = window_end + out_of_orderness_ms
        return next((file for file in self.files if file.newest_ms >= due), None)


def write_stream_feed(shape: FeedShape, folder: Path, file_ms: int) -> StreamFeed:
    """Write the demo generator's feed as Avro files, a file for each ``file_ms`` of event time in which rows arrive."""
    table = demo_feed(shape)
    newest = np.maximum.accumulate(table.column("booked_at").cast(pa.int64()).to_numpy())
    numbers = (newest - BEGIN_MS) // file_ms
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1), shape.rows]
    folder.mkdir(parents=True)
    files = []
    for begin, end in pairwise(cuts):
        name = f"part-{numbers[begin]:06d}.avro"
        data = avro_file(table.slice(begin, end - begin), transaction_schema(), b"kanonflow's demo")
        (folder / name).write_bytes(data)
        files.append(FeedFile(name, int(numbers[begin]), int(end), int(newest[end - 1])))
    return StreamFeed(folder, tuple(files), shape.rows)


def write_stream_policy(method: str, path: Path) -> Path:
    """The example policy ``transactions``, partitioned, with the transaction's id published, and with one thread.

    The id is what the accounts go by; to publish one would be a mistake outside of a benchmark. One thread a window,
    as each core has a worker of its own.
    """
    policy = example_policy("transactions")
    fields = tuple(
        replace(field, role=Role.INSENSITIVE) if field.name in (PARTITION, REFERENCE) else field
        for field in policy.fields
    )
    if method == WINDOW:
        policy = afresh(policy)
    elif method != OWN:
        policy = with_method(policy, method)
    solver = replace(policy.solver, threads=1)
    policy = replace(policy, fields=fields, solver=solver, partition_by=(PARTITION,))
    path.write_text(yaml.safe_dump(to_mapping(policy), sort_keys=False), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Accounts:
    """What became of the rows of a feed. released, rejected: rows in the files, rejected by reason.

    missing: rows that are neither. repeated: that are there more than once. foreign: rows that the feed did not hold.
    slots_repeated: places of a release that two of them took. unpaired: releases without metrics, and the reverse.
    """

    rows: int
    released: int
    rejected: Counter[str]
    missing: int
    repeated: int
    foreign: int
    slots_repeated: int
    unpaired: int

    @property
    def exact(self) -> bool:
        """Whether every row left once, by a way that is no mistake of ours."""
        mistakes = self.missing + self.repeated + self.foreign + self.slots_repeated + self.unpaired
        conflicts = self.rejected["release_conflict"] + self.rejected["gate_refused"]
        return mistakes + conflicts == 0 and self.released + self.rejected.total() == self.rows


def accounts(rows: int, output: Path) -> Accounts:
    """The accounts of an output directory against a feed of so many rows, whose ids are 0 to rows - 1."""
    released = [number(record[REFERENCE]) for record in records(output / "release")]
    reasons: Counter[str] = Counter()
    gone = []
    for record in records(output / "restricted/rejected"):
        reasons[record["reason"]] += 1
        gone.append(number(record["row"][REFERENCE]))
    told = list(records(output / "restricted/metrics"))
    slots = Counter((each["partition"], each["window_end"], each["release_no"]) for each in told)
    names = {path.stem for path in (output / "release").glob("*.avro")}
    found: NDArray[np.int64] = np.array([*released, *gone], dtype=np.int64)
    known = found[(found >= 0) & (found < rows)]
    times = np.bincount(known, minlength=rows)
    return Accounts(
        rows=rows,
        released=len(released),
        rejected=reasons,
        missing=int((times == 0).sum()),
        repeated=int((times > 1).sum()),
        foreign=int(found.size - known.size),
        slots_repeated=sum(count > 1 for count in slots.values()),
        unpaired=len(names ^ {each["release_id"] for each in told if each["released"]}),
    )


def number(reference: str | None) -> int:
    """The row of the feed that an id stands for; -1: none."""
    text = (reference or "")[1:]
    return int(text) if text.isdigit() else -1


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records of the Avro files in a folder."""
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as stream:
            for record in fastavro.reader(stream):
                assert isinstance(record, dict)
                yield record
