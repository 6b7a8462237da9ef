"""``kanonflow verify --certificates``: does every release have one certificate, and does it hold?

    one for each release, none besides, no release slot twice
    its records are records of the input, of the release's windows and partition, each released once
    structure: regular, distinct individuals, disjoint perfect matchings, or closed classes  audit_certificate_structure
    every member lies in the box of its row, as it was released
    every row carries the payload of the record matched to it
    digests of policy, boxes and content are those of the policy file and the release file
    over all certificates: the published factors are fair draws                              audit_ranks

With the secret, ``recipe`` redoes the draw (certificate_recipe.py, which shares code with the pipeline; nothing here
does). What no certificate shows: that the graph was found without a look at the payload.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.boxes import BoxBook, EncodedBoxes, encode_boxes, encode_records
from kanonflow.pipelines.audit.candidate_graph import group_rows
from kanonflow.pipelines.audit.certificate_file import (
    ReadCertificate,
    digests_of_groups,
    keyed,
    read_certificate,
)
from kanonflow.pipelines.audit.certificate_structure import covered, shared_places, structure_faults
from kanonflow.pipelines.audit.ranks import RankCounts, medoid_distances
from kanonflow.pipelines.audit.read_input import avro_records
from kanonflow.pipelines.audit.read_releases import ReleasedRows, ReleaseHead
from kanonflow.pipelines.audit.report import Findings
from kanonflow.pipelines.audit.values import CodeBook
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.certified_policy import certified_policy
from kanonflow.schemas.errors import InputError

Recipe = Callable[[ReadCertificate, BoundPolicy, pa.Table, np.ndarray], Iterable[str]]
"""With the secret: (certificate, policy, its records in their order, bool (n,): no equal record is in the input) ->
what is wrong."""


@dataclass(frozen=True)
class Ground:
    """What certificates are held against. records int32 (n, c): codes of all records of the input; stays bool (n,): not
    rejected; windows int64 (n,): their windows; ranges int64 (releases, 2): the windows each release may hold."""

    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    records: np.ndarray
    stays: np.ndarray
    windows: np.ndarray
    released: ReleasedRows
    ranges: np.ndarray


def check_certificates(
    ground: Ground, folder: Path, findings: Findings, recipe: Recipe | None = None
) -> tuple[int, RankCounts]:
    """Check the certificates of all releases, in ``folder``/restricted/certificates.

    Returns how many there are, and the draws they show. O(n k log k) for n records with k members a slot.
    """
    place = folder / "restricted" / "certificates"
    heads = ground.released.heads
    names = {path.stem for path in place.glob("*.avro")}
    lost = [head.release_id for head in heads if head.release_id not in names]
    if lost:
        findings.add(f"{len(lost)} releases without a certificate", *lost)
    strangers = len(names - {head.release_id for head in heads})
    if strangers:
        findings.add(f"{strangers} certificates of releases that are not there")
    check = _Check(ground)
    slots: dict[tuple[Any, ...], str] = {}
    for number, head in enumerate(heads):
        if head.release_id not in names:
            continue
        try:
            certificate = read_certificate(place / f"{head.release_id}.avro")
        except InputError:
            findings.add("a damaged certificate", head.release_id)
            continue
        slot = (certificate.partition, certificate.window[1], certificate.release_no)
        if slots.setdefault(slot, head.release_id) != head.release_id:
            findings.add("two certificates name the same release slot", head.release_id)
        for fault in check.faults(number, certificate, folder / "release", recipe):
            findings.add(f"certificate: {fault}", head.release_id)
    if not lost and not check.complete():
        findings.add("the certificates do not publish every record that was not rejected exactly once")
    return len(names), check.ranks


class _Check:
    """One certificate after the other against the same ground."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.ranks = RankCounts()
        self._first, group, self._size = group_rows(ground.records)
        self._has = np.bincount(group[ground.stays], minlength=len(self._first))
        self._published = np.zeros(len(self._first), np.int64)
        self._group_of: dict[bytes, dict[bytes, int]] = {}
        self._encoded: EncodedBoxes = encode_boxes(ground.box_books)
        names = ground.bound.input_columns
        quasis = [names.index(book.book.column.name) for book in ground.box_books]
        self._points = encode_records(ground.records[:, quasis], ground.box_books)

    def complete(self) -> bool:
        """Whether no record was published more often than it is there and not rejected."""
        return bool(np.all(self._published <= self._has))

    def faults(
        self, number: int, certificate: ReadCertificate, releases: Path, recipe: Recipe | None
    ) -> Iterator[str]:
        """What is wrong with the certificate of release ``number``."""
        ground = self.ground
        rows = slice(*np.searchsorted(ground.released.release, [number, number + 1]).tolist())
        head = ground.released.heads[number]
        yield from self._head_faults(certificate, head)
        known = self._known(certificate.digest_key)
        groups = np.array([known.get(digest, -1) for digest in certificate.digests], np.int64)
        if (groups < 0).any():
            yield f"{int((groups < 0).sum())} of its records are not in the input"
            return
        if len(certificate.matched) != rows.stop - rows.start or len(certificate.kept) != len(
            certificate.matched
        ):
            yield "it has another number of rows than the release"
            return
        record = self._first[groups]
        np.add.at(self._published, groups[certificate.kept], 1)
        wrong = list(structure_faults(certificate, self._who(record), ground.bound.policy.k))
        yield from wrong
        if wrong:
            return
        kept = record[certificate.kept]
        low, high = ground.ranges[number]
        if np.any((ground.windows[kept] < low) | (ground.windows[kept] > high)):
            yield "it holds records of windows that the release may not hold"
        yield from self._row_faults(certificate, record, rows, head)
        yield from self._digest_faults(certificate, releases / f"{head.release_id}.avro")
        self._count(certificate, record)
        if recipe is not None:
            table = records_table(ground.records[record], ground.books, ground.bound)
            yield from recipe(certificate, ground.bound, table, self._size[groups] == 1)

    def _head_faults(self, certificate: ReadCertificate, head: ReleaseHead) -> Iterator[str]:
        policy = self.ground.bound.policy
        pairs = (
            (certificate.release_id, head.release_id),
            (certificate.window, (head.start, head.end)),
            (certificate.policy, policy.name),
            (certificate.protect, str(policy.protect)),
            (certificate.k, policy.k),
        )
        if any(told != right for told, right in pairs):
            yield "its release, window, policy or k is another one"
        serves = "classes" if policy.closed else "graph"
        if certificate.structure != serves:
            yield f"its structure is {certificate.structure}, where the policy asks for {serves}"

    def _known(self, key: bytes) -> dict[bytes, int]:
        if key not in self._group_of:
            self._group_of[key] = digests_of_groups(self.ground.records[self._first], self.ground.books, key)
        return self._group_of[key]

    def _who(self, record: np.ndarray) -> np.ndarray:
        field = self.ground.bound.policy.individual
        if field is None:
            return np.arange(len(record))
        return self.ground.records[record, self.ground.bound.input_columns.index(field.name)].astype(np.int64)

    def _row_faults(
        self, certificate: ReadCertificate, record: np.ndarray, rows: slice, head: ReleaseHead
    ) -> Iterator[str]:
        """The release's rows, taken place by place: boxes hold members, payloads are those of the matched records."""
        ground, bound = self.ground, self.ground.bound
        boxes = ground.released.boxes[rows][certificate.row]
        first, places = shared_places(certificate)
        if np.any(boxes[first] != boxes[places]):
            yield "rows of one class have different boxes"
        place, member = covered(certificate)
        outside = outside_boxes(self._encoded, boxes[place], self._points[record[member]], ground.box_books)
        if outside.any():
            yield f"{len(np.unique(place[outside]))} boxes do not hold all of their members"
        names = [column.name for column in bound.payload]
        columns = [bound.input_columns.index(name) for name in names]
        sent = ground.records[record[certificate.matched]][:, columns]
        wrong = np.any(ground.released.payload[rows][certificate.row] != sent, axis=1)
        if wrong.any():
            yield f"{int(wrong.sum())} rows do not carry the payload of the record matched to them"
        parts = len(bound.policy.partition_by)
        if np.any(sent[:, :parts] != np.array(head.partition, np.int64)):
            yield "it holds records of another partition"

    def _digest_faults(self, certificate: ReadCertificate, path: Path) -> Iterator[str]:
        key = certificate.digest_key
        if certificate.policy_digest != keyed(key, b"p", certified_policy(self.ground.bound.policy)):
            yield "it was made under another policy"
        with path.open("rb") as stream:
            content = b"".join(block.bytes_.getvalue() for block in fastavro.block_reader(stream))
        if certificate.content_digest != keyed(key, b"c", content):
            yield "the release file holds other rows than it vouches for"
        if certificate.box_digest != keyed(key, b"b", self._box_bytes(path, certificate.row)):
            yield "the release file holds other boxes than it vouches for"

    def _box_bytes(self, path: Path, row: np.ndarray) -> bytes:
        with path.open("rb") as stream:
            schema: Any = fastavro.reader(stream).writer_schema
        names = {column.published_name for column in self.ground.bound.quasis}
        fields = [field for field in schema["fields"] if field["name"] in names]
        boxes = fastavro.parse_schema({**schema, "fields": fields, "name": "kanonflow.Boxes"})
        out = io.BytesIO()
        rows = list(avro_records(path))
        for place in row.tolist():
            fastavro.schemaless_writer(out, boxes, rows[place])
        return out.getvalue()

    def _count(self, certificate: ReadCertificate, record: np.ndarray) -> None:
        """Add the draw of a graph to the statistics."""
        if certificate.structure == "classes":
            return
        members = certificate.members
        is_set = np.array([book.is_set for book in self.ground.box_books], bool)
        scores = {
            "own": (members == np.arange(len(members))[:, None]).astype(float),
            "arrival": record[members].astype(float),
            "waiting": self.ground.windows[record][members].astype(float),
            "medoid": medoid_distances(self._points[record].astype(np.int64), is_set, members),
        }
        self.ranks.add(members, certificate.factors, certificate.chosen, scores)


def outside_boxes(
    encoded: EncodedBoxes, boxes: np.ndarray, points: np.ndarray, books: tuple[BoxBook, ...]
) -> np.ndarray:
    """Bool (m,): whether record i, codes int32 (m, d), lies outside of box i, numbers int32 (m, d)."""
    outside = np.zeros(len(points), bool)
    for field, book in enumerate(books):
        box, code = boxes[:, field], points[:, field].astype(np.int64)
        if book.is_set:
            sets = encoded.sets
            width = int(max(sets.codes.max(initial=0), code.max(initial=0))) + 1
            owner = np.repeat(np.arange(len(sets.indptr) - 1), np.diff(sets.indptr))
            inside = np.isin(
                encoded.set_of[field][box].astype(np.int64) * width + code, owner * width + sets.codes
            )
        else:
            inside = (encoded.low[field][box] <= code) & (code <= encoded.high[field][box])
        outside |= ~np.where(code < 0, encoded.nulls[field][box], inside)
    return outside


def records_table(codes: np.ndarray, books: tuple[CodeBook, ...], bound: BoundPolicy) -> pa.Table:
    """Records, codes int32 (n, c), as a table of canonical types. O(n c)."""
    arrays = []
    for column, book in zip(codes.T, books, strict=True):
        kind = book.column.arrow_type
        values = pa.array([_arrow_value(value, kind) for value in book.values] or [None], _plain(kind))
        taken = values.take(pa.array(column, mask=column < 0))
        arrays.append(taken.cast(kind))
    return pa.Table.from_arrays(arrays, schema=bound.canonical_schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    """None for what could not be read, which no certificate holds."""
    if isinstance(value, int) and pa.types.is_decimal(kind):
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -kind.scale))
    return value if isinstance(value, str | bytes | bool | int | float) else None
