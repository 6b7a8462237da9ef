"""Reading who entered when (``cohort: lasting``): restricted/cohorts/PARTITION/NUMBER.people.avro and .boxes.avro.

A segment is two files. ``people``: digest, cohort and frozen values of everybody who entered with a release;
``boxes``: the corners of the cohorts' boxes. What a segment says of itself stands in its schema.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np

from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_input import avro_records
from kanonflow.pipelines.audit.read.segment_chain import Corners, Head, chain_after
from kanonflow.pipelines.audit.read.values import CodeBook, Unreadable, read_object
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.errors import InputError

_NAME = re.compile(r"([0-9]{6})\.(people|boxes)\.avro")
_BESIDE = re.compile(
    r"-?[0-9]+(-[0-9]+)?\.groups\.arrow|continued\.json|together\.avro|(carried|expected(-[0-9]+)?)\.state"
)
"""Which cohorts a release put together, for the search of the next; how many segments came from another run, and what
else it left; whom a file of people names."""
CONTINUED = "continued.json"
_EPOCH = re.compile("[0-9a-f]{16}")
_PROPERTY = "kanonflow"


@dataclass(frozen=True)
class EnteredSegment:
    """Who entered with one release.

    partition: its key in hexadecimal, the folder's name. head: the roster before, as the files tell it.
    after: (chain, people, cohorts) after it, as the files tell them; chain: worked out anew from their content.
    people: uint64 (p,), digests. cohort: int64 (p,). forgotten: bool (p,). values: int32 (p, d), codes of the frozen
    values, null is -1; of who is forgotten they are null.
    corner_cohort: int64 (c,). corners: int32 (c, d), codes.
    inherited: it came with a run that this one continues, whose releases and input are elsewhere. place: of the run
    with which they entered in its chain, as the files tell it.
    """

    partition: str
    release_id: str
    head: Head
    after: tuple[str, int, int]
    chain: str
    people: np.ndarray
    cohort: np.ndarray
    forgotten: np.ndarray
    values: np.ndarray
    corner_cohort: np.ndarray
    corners: np.ndarray
    inherited: bool = False
    place: int = 0


def read_cohorts(
    folder: Path, books: Sequence[CodeBook], findings: Findings, *, released: bool
) -> tuple[EnteredSegment, ...] | None:
    """The segments in ``folder``/restricted/cohorts, by partition and number; None: they cannot be judged.

    books: of the quasi-identifiers, in the policy's order. released: there are releases, so somebody entered.
    O(people + corners).
    """
    place = folder / "restricted" / "cohorts"
    if not place.is_dir():
        if not released:
            return ()
        findings.add("restricted/cohorts is missing: who entered with which release is not told")
        return None
    segments: list[EnteredSegment] = []
    whole, strangers = True, 0
    for partition in sorted(place.iterdir()):
        if not partition.is_dir():
            strangers += 1
            continue
        numbers: dict[str, set[int]] = {"people": set(), "boxes": set()}
        for path in partition.iterdir():
            found = _NAME.fullmatch(path.name)
            if found is None:
                strangers += _BESIDE.fullmatch(path.name) is None
            else:
                numbers[found[2]].add(int(found[1]))
        every = numbers["people"] | numbers["boxes"]
        lost = max(every, default=-1) + 1 - len(numbers["people"] & numbers["boxes"])
        if lost:
            findings.add(
                f"{lost} segments of cohorts lack a file, or are missing before others of their partition"
            )
            whole = False
            continue
        for number in sorted(every):
            try:
                segment = _segment(partition, number, books)
                segments.append(replace(segment, inherited=number < _inherited(partition)))
            except (InputError, KeyError, TypeError, ValueError, OverflowError, AttributeError):
                findings.add(f"segment {number} of a partition's cohorts is damaged, or has other columns")
                whole = False
    if strangers:
        findings.add(f"restricted/cohorts holds {strangers} entries that are no segments")
    return tuple(segments) if whole else None


def segment_chains(folder: Path) -> dict[str, tuple[str, ...]]:
    """The chain of digests after each segment, by partition, as the files tell them; "" where one is damaged."""
    found: dict[str, tuple[str, ...]] = {}
    for partition in sorted((folder / "restricted" / "cohorts").glob("*/")):
        chains = []
        for path in sorted(partition.glob("*.people.avro")):
            try:
                chains.append(str(_told(path)["chain"]))
            except (OSError, KeyError, ValueError):
                chains.append("")
        if chains:
            found[partition.name] = tuple(chains)
    return found


class ToldSegment(NamedTuple):
    """release: with which it came. cohorts: how often each is in it, by its people, with its box."""

    release: str
    cohorts: Counter[tuple[frozenset[int], frozenset[str]]]


def told_segments(folder: Path, partition: str) -> list[ToldSegment]:
    """The segments of a partition as its files tell them, in order. Raises ValueError: one is damaged."""
    segments = []
    for path in sorted((folder / "restricted" / "cohorts" / partition).glob("*.people.avro")):
        people: dict[int, set[int]] = defaultdict(set)
        boxes: dict[int, set[str]] = defaultdict(set)
        try:
            release = str(_told(path)["release_id"])
            for record in avro_records(path):
                people[record["cohort"]].add(record["person"])
            for record in avro_records(path.with_name(path.name.replace(".people.", ".boxes."))):
                cohort = record.pop("cohort")
                boxes[cohort].add(repr(sorted(record.items())))
        except (InputError, OSError, KeyError, TypeError) as error:
            raise ValueError("a segment is damaged") from error
        own = Counter((frozenset(people[each]), frozenset(boxes[each])) for each in people)
        segments.append(ToldSegment(release, own))
    return segments


def inherited_segments(folder: Path, partition: str) -> int:
    """How many of the first segments came from the run that this one continues. Raises ValueError: it is not told."""
    return _inherited(folder / "restricted" / "cohorts" / partition)


def _inherited(partition: Path) -> int:
    path = partition / CONTINUED
    return int(json.loads(path.read_text())["segments"]) if path.is_file() else 0


def _segment(partition: Path, number: int, books: Sequence[CodeBook]) -> EnteredSegment:
    files = [partition / f"{number:06}.{part}.avro" for part in ("people", "boxes")]
    told, other = map(_told, files)
    if told != other or told["partition"] != partition.name or told["segment"] != number:
        raise ValueError
    columns = [book.column for book in books]
    people, boxes = (list(avro_records(path)) for path in files)
    corners = _corners(boxes, columns)
    digests = np.array([record["person"] for record in people], np.int64).view(np.uint64)
    cohort = _longs(people)
    # What was there before follows from what is there now and what came.
    head = Head(
        _epoch(told["epoch"]),
        str(told["before"]),
        number,
        int(told["people"]) - len(people),
        int(told["cohorts"]) - len(np.unique(cohort)),
    )
    return EnteredSegment(
        partition.name,
        str(told["release_id"]),
        head,
        (str(told["chain"]), int(told["people"]), int(told["cohorts"])),
        chain_after(head, digests, cohort, corners),
        digests,
        cohort,
        np.array([record["forgotten"] for record in people], bool),
        _codes(people, books),
        corners.cohort,
        _codes(boxes, books),
        place=int(told.get("chain_place", 0)),
    )


def _told(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as stream:
        try:
            schema: Any = fastavro.reader(stream).writer_schema
        except OSError:
            raise
        except Exception:  # whatever the decoder trips over, the header is not one
            raise ValueError from None
    told = schema[_PROPERTY]
    if not isinstance(told, Mapping):
        raise ValueError
    return told


def _epoch(text: Any) -> int:
    if not isinstance(text, str) or not _EPOCH.fullmatch(text):
        raise ValueError
    return int(text, 16)


def _longs(records: Sequence[Mapping[str, Any]]) -> np.ndarray:
    return np.array([record["cohort"] for record in records], np.int64)


def _corners(boxes: Sequence[Mapping[str, Any]], columns: Sequence[BoundColumn]) -> Corners:
    cells = tuple(tuple(_cells(boxes, column)) for column in columns)
    if any(isinstance(cell, Unreadable) for column in cells for cell in column):
        raise ValueError
    names = tuple(column.name for column in columns)
    return Corners(_longs(boxes), names, tuple(column.arrow_type for column in columns), cells)


def _cells(records: Sequence[Mapping[str, Any]], column: BoundColumn) -> Iterator[Any]:
    name = column.published_name
    return (read_object(record[name], column.arrow_type) for record in records)


def _codes(records: Sequence[Mapping[str, Any]], books: Sequence[CodeBook]) -> np.ndarray:
    columns = [
        book.codes_of_objects([record[book.column.published_name] for record in records]) for book in books
    ]
    return np.column_stack(columns) if columns else np.zeros((len(records), 0), np.int32)
