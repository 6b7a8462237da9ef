"""``kanonflow verify --matching-records``: does every release have one matching record, and does it hold?

    one for each release, none besides, no release slot twice
    its records are records of the input, of the release's windows and partition, each released once
    structure: regular, distinct individuals, disjoint perfect matchings, or closed classes  audit_record_structure
    every member lies in the box of its row, as it was released
    every row carries the payload of the record matched to it
    digests of policy, boxes and content are those of the policy file and the release file
    over all matching records: the published factors are fair draws                              audit_ranks

With the secret, ``recipe`` redoes the draw (matching_record_recipe.py, which shares code with the pipeline; nothing
here does). What no matching record shows: that the graph was found without a look at the payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.files.avro_cells import Cells
from kanonflow.pipelines.audit.files.release_files import encoded, release_path, release_reader
from kanonflow.pipelines.audit.judge.ranks import RankCounts, medoid_distances
from kanonflow.pipelines.audit.read.boxes import BoxBook, encode_boxes, encode_records
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.foreign_entries import MATCHING_RECORDS
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, ReleaseHead
from kanonflow.pipelines.audit.read.released_groups import ReleasedGroups
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.records.record_file import (
    ReadMatchingRecord,
    digests_of_groups,
    keyed,
    read_matching_record,
)
from kanonflow.pipelines.audit.records.record_structure import (
    Boxes,
    Members,
    Recorded,
    shared_places,
    structure_faults,
)
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.recorded_policy import recorded_policy

Recipe = Callable[[ReadMatchingRecord, BoundPolicy, pa.Table, np.ndarray, np.ndarray | None], Iterable[str]]
"""With the secret: (matching record, policy, its records in their order, bool (n,): no equal record is in the input,
with cohorts that last int64 (g,): the class_id of each of its groups) -> what is wrong."""


@dataclass(frozen=True)
class Ground:
    """What matching records are held against. records int32 (n, c): codes of all records of the input; stays bool (n,):
    not rejected; windows int64 (n,): their windows; ranges int64 (releases, 2): the windows each release may hold.
    members: whom boxes have to hold. structure: what records are to hold, ``graph`` or ``classes``."""

    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    records: np.ndarray
    stays: np.ndarray
    windows: np.ndarray
    released: ReleasedRows
    ranges: np.ndarray
    members: Members
    structure: str


def check_matching_records(
    ground: Ground, folder: Path, findings: Findings, recipe: Recipe | None = None
) -> tuple[int, RankCounts]:
    """Check the matching records of all releases, in ``folder``/restricted/matching_records.

    Returns how many there are, and the draws they show. O(n k log k) for n records with k members a slot.
    """
    heads = ground.released.heads
    places = [folder / "restricted" / place for place in MATCHING_RECORDS]
    paths = {path.stem: path for place in reversed(places) for path in place.glob("*.avro")}
    names = set(paths)
    lost = [head.release_id for head in heads if head.release_id not in names]
    if lost:
        findings.add(f"{len(lost)} releases without a matching record", *lost)
    strangers = len(names - {head.release_id for head in heads})
    if strangers:
        findings.add(f"{strangers} matching records of releases that are not there")
    check = _Check(ground)
    slots: dict[tuple[Any, ...], str] = {}
    for number, head in enumerate(heads):
        if head.release_id not in names:
            continue
        try:
            matching_record = read_matching_record(paths[head.release_id])
        except InputError:
            findings.add("a damaged matching record", head.release_id)
            continue
        matching_record = replace(matching_record, place=head.place, closing=head.closing)
        run, own = (head.place, head.closing), (matching_record.window[1], matching_record.release_no)
        slot = (matching_record.partition, *run, *own)
        if slots.setdefault(slot, head.release_id) != head.release_id:
            findings.add("two matching records name the same release slot", head.release_id)
        for fault in check.faults(number, matching_record, folder / "release", recipe):
            findings.add(f"matching record: {fault}", head.release_id)
    ground.members.judge_boxes(findings)
    if not lost and not check.complete():
        findings.add("the matching records do not publish every record that was not rejected exactly once")
    return len(names), check.ranks


class _Check:
    """One matching record after the other against the same ground."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.ranks = RankCounts()
        self._first, group, self._size = group_rows(ground.records)
        self._has = np.bincount(group[ground.stays], minlength=len(self._first))
        self._published = np.zeros(len(self._first), np.int64)
        self._group_of: dict[bytes, dict[bytes, int]] = {}
        quasis = [ground.bound.place(book.book.column.name) for book in ground.box_books]
        self._points = encode_records(ground.records[:, quasis], ground.box_books)
        self._boxes = Boxes(
            encode_boxes(ground.box_books), ground.box_books, ground.released.boxes, self._points
        )

    def complete(self) -> bool:
        """Whether no record was published more often than it is there and not rejected."""
        return bool(np.all(self._published <= self._has))

    def faults(
        self, number: int, matching_record: ReadMatchingRecord, releases: Path, recipe: Recipe | None
    ) -> Iterator[str]:
        """What is wrong with the matching record of release ``number``."""
        ground = self.ground
        rows = slice(*np.searchsorted(ground.released.release, [number, number + 1]).tolist())
        head = ground.released.heads[number]
        yield from self._head_faults(matching_record, head)
        known = self._known(matching_record.digest_key)
        groups = np.array([known.get(digest, -1) for digest in matching_record.digests], np.int64)
        if (groups < 0).any():
            yield f"{int((groups < 0).sum())} of its records are not in the input"
            return
        if len(matching_record.matched) != rows.stop - rows.start or len(matching_record.kept) != len(
            matching_record.matched
        ):
            yield "it has another number of rows than the release"
            return
        record = self._first[groups]
        np.add.at(self._published, groups[matching_record.kept], 1)
        policy = ground.bound.policy
        wrong = list(
            structure_faults(
                matching_record, self._who(record), policy.k, counts_shared=ground.members.counts_shared
            )
        )
        yield from wrong
        if wrong:
            return
        kept = record[matching_record.kept]
        low, high = ground.ranges[number]
        if np.any((ground.windows[kept] < low) | (ground.windows[kept] > high)):
            yield "it holds records of windows that the release may not hold"
        yield from self._row_faults(matching_record, record, rows, head)
        yield from ground.members.faults(self._boxes, Recorded(number, matching_record, record, rows))
        yield from self._digest_faults(matching_record, release_path(releases, head.release_id))
        self._count(matching_record, record)
        if recipe is not None:
            table = records_table(ground.records[record], ground.books, ground.bound)
            own = _class_ids(matching_record, ground.released.groups, rows)
            yield from recipe(matching_record, ground.bound, table, self._size[groups] == 1, own)

    def _head_faults(self, matching_record: ReadMatchingRecord, head: ReleaseHead) -> Iterator[str]:
        policy = self.ground.bound.policy
        pairs = (
            (matching_record.release_id, head.release_id),
            (matching_record.window, (head.start, head.end)),
            (matching_record.policy, policy.name),
            (matching_record.protect, str(policy.protect)),
            (matching_record.k, policy.k),
        )
        if any(told != right for told, right in pairs):
            yield "its release, window, policy or k is another one"
        serves = self.ground.structure
        if matching_record.structure != serves:
            yield f"its structure is {matching_record.structure}, where the policy asks for {serves}"

    def _known(self, key: bytes) -> dict[bytes, int]:
        if key not in self._group_of:
            self._group_of[key] = digests_of_groups(self.ground.records[self._first], self.ground.books, key)
        return self._group_of[key]

    def _who(self, record: np.ndarray) -> np.ndarray:
        field = self.ground.bound.policy.individual
        if field is None:
            return np.arange(len(record))
        return self.ground.records[record, self.ground.bound.place(field.name)].astype(np.int64)

    def _row_faults(
        self, matching_record: ReadMatchingRecord, record: np.ndarray, rows: slice, head: ReleaseHead
    ) -> Iterator[str]:
        """The release's rows, taken place by place: boxes hold members, payloads are those of the matched records."""
        ground, bound = self.ground, self.ground.bound
        boxes = ground.released.boxes[rows][matching_record.row]
        first, places = shared_places(matching_record)
        if np.any(boxes[first] != boxes[places]):
            yield "rows of one class have different boxes"
        names = [column.name for column in bound.payload]
        columns = [bound.place(name) for name in names]
        sent = ground.records[record[matching_record.matched]][:, columns]
        wrong = np.any(ground.released.payload[rows][matching_record.row] != sent, axis=1)
        if wrong.any():
            yield f"{int(wrong.sum())} rows do not carry the payload of the record matched to them"
        values = (*head.partition, *head.part)
        if np.any(sent[:, : len(values)] != np.array(values, np.int64)):
            yield "it holds records of another partition, or of another part of the window"

    def _digest_faults(self, matching_record: ReadMatchingRecord, path: Path) -> Iterator[str]:
        key = matching_record.digest_key
        if matching_record.policy_digest != keyed(key, b"p", recorded_policy(self.ground.bound.policy)):
            yield "it was made under another policy"
        file = release_reader(path)
        if matching_record.content_digest != keyed(key, b"c", file.content(self.ground.bound)):
            yield "the release file holds other rows than it vouches for"
        if matching_record.box_digest != keyed(
            key, b"b", self._box_bytes(file.columns()[0], matching_record.row)
        ):
            yield "the release file holds other boxes than it vouches for"

    def _box_bytes(self, columns: Mapping[str, Cells], row: np.ndarray) -> bytes:
        schema = release_avro_schema(self.ground.bound)
        names = {column.published_name for column in self.ground.bound.quasis}
        fields = [field for field in schema["fields"] if field["name"] in names]
        boxes = {**schema, "fields": fields, "name": "Boxes"}
        cells = {name: columns[name] for name in names}
        rows = (
            {name: each.values[each.place[place]] for name, each in cells.items()} for place in row.tolist()
        )
        return encoded(boxes, list(rows))

    def _count(self, matching_record: ReadMatchingRecord, record: np.ndarray) -> None:
        """Add the draw of a graph to the statistics."""
        if matching_record.structure == "classes":
            return
        members = matching_record.members
        is_set = np.array([book.is_set for book in self.ground.box_books], bool)
        scores = {
            "own": (members == np.arange(len(members))[:, None]).astype(float),
            "arrival": record[members].astype(float),
            "waiting": self.ground.windows[record][members].astype(float),
            "medoid": medoid_distances(self._points[record].astype(np.int64), is_set, members),
        }
        self.ranks.add(members, matching_record.factors, matching_record.chosen, scores)


def _class_ids(
    matching_record: ReadMatchingRecord, groups: ReleasedGroups | None, rows: slice
) -> np.ndarray | None:
    if groups is None:
        return None
    label = matching_record.groups[matching_record.kept]
    numbers = np.zeros(int(label.max(initial=-1)) + 1, np.int64)
    numbers[label] = groups.number[groups.of_row[rows][matching_record.row]]
    return numbers


def records_table(codes: np.ndarray, books: tuple[CodeBook, ...], bound: BoundPolicy) -> pa.Table:
    """Records, codes int32 (n, c), as a table of canonical types. O(n c)."""
    arrays = [
        book.canonical().take(pa.array(column, mask=column < 0))
        for column, book in zip(codes.T, books, strict=True)
    ]
    fields = [bound.canonical_schema.field(place) for place in range(len(arrays))]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
