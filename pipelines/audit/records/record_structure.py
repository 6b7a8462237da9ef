"""The equations of a matching record: regular, distinct individuals, disjoint perfect matchings, closed classes.

Each function returns what is wrong, in words; nothing for a structure that could be released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kanonflow.pipelines.audit.read.boxes import BoxBook, EncodedBoxes, outside_boxes
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.records.record_file import ReadMatchingRecord


def structure_faults(
    matching_record: ReadMatchingRecord, who: np.ndarray, k: int, *, counts_shared: bool = True
) -> Iterator[str]:
    """What is wrong with members, factors, and the matching. who: int64 (n,), whose record each is; k: the policy's.

    counts_shared: of classes, whether k of each must share every number of rows; else k must have rows.
    O(n k log k).
    """
    if matching_record.k < k:
        yield f"its k is {matching_record.k}, below the policy's {k}"
    if not np.array_equal(np.sort(matching_record.matched), matching_record.kept):
        yield "its matching is not perfect: a record is published twice, or not at all"
    if not np.array_equal(np.sort(matching_record.row), np.arange(len(matching_record.matched))):
        yield "its places are not the rows of a release"
    if matching_record.structure == "graph":
        yield from _slot_faults(matching_record, who)
        if not np.array_equal(matching_record.factors[matching_record.chosen], matching_record.matched):
            yield "the published matching is not the chosen factor"
    else:
        yield from _class_faults(matching_record, who, k, counts_shared)


def covered(matching_record: ReadMatchingRecord) -> tuple[np.ndarray, np.ndarray]:
    """Whom boxes must hold: pairs (place, record), int64 each; of places that share a box the first stands for all."""
    kept = matching_record.kept
    if matching_record.structure == "graph":
        return np.repeat(kept, matching_record.members.shape[1]), matching_record.members.ravel()
    return shared_places(matching_record)[0], kept


def shared_places(matching_record: ReadMatchingRecord) -> tuple[np.ndarray, np.ndarray]:
    """Places that must have equal boxes: for every place the first one of its class, and all places."""
    places = np.arange(len(matching_record.matched))
    if matching_record.structure == "graph":
        return places, places
    labels = matching_record.groups[matching_record.kept]
    _, first_of, label = np.unique(labels, return_index=True, return_inverse=True)
    return first_of[label], places


def _slot_faults(matching_record: ReadMatchingRecord, who: np.ndarray) -> Iterator[str]:
    """Of slots over records: ``who`` int64, whose each of them is."""
    members, factors = matching_record.members, matching_record.factors
    slots, degree = members.shape
    if not np.array_equal(np.bincount(members.ravel(), minlength=slots), np.full(slots, degree)):
        yield f"a record is not a member of exactly {degree} slots"
    people = np.sort(who[members], axis=1)
    if np.any(people[:, 1:] == people[:, :-1]):
        yield "a slot has fewer than k individuals"
    if not np.array_equal(np.sort(factors, axis=1), np.tile(np.arange(slots), (degree, 1))):
        yield "a factor is no perfect matching"
    if not np.array_equal(np.sort(factors.T, axis=1), np.sort(members, axis=1)):
        yield "its factors are not disjoint matchings along the edges of its graph"


def _class_faults(
    matching_record: ReadMatchingRecord, who: np.ndarray, k: int, counts_shared: bool
) -> Iterator[str]:
    kept, groups = matching_record.kept, matching_record.groups
    if not np.array_equal(groups[matching_record.matched], groups[kept]):
        yield "a row carries the payload of another class"
    pairs, rows = np.unique(np.column_stack([who[kept], groups[kept]]), axis=0, return_counts=True)
    if len(np.unique(pairs[:, 0])) != len(pairs):
        yield "an individual stands in two classes"
    if not counts_shared:
        _, people = np.unique(pairs[:, 1], return_counts=True)
        if len(people) and people.min() < k:
            yield f"a class has rows of fewer than k = {k} individuals"
        return
    _, shared = np.unique(np.column_stack([pairs[:, 1], rows]), axis=0, return_counts=True)
    if len(shared) and shared.min() < k:
        yield f"fewer than k = {k} individuals of a class share a number of rows"


class Boxes(NamedTuple):
    """of_row: int32 (m, d), number of each released row's box of each field; points: codes of the records of the
    input, as boxes are encoded."""

    encoded: EncodedBoxes
    books: Sequence[BoxBook]
    of_row: np.ndarray
    points: np.ndarray

    def outside(self, boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Bool (e,): which points do not lie in the box beside them."""
        return outside_boxes(self.encoded, boxes, points, self.books)


class Recorded(NamedTuple):
    """A matching record of release ``number``. record: int64 (n,), the record of the input that each of its is; rows:
    those of the release."""

    number: int
    told: ReadMatchingRecord
    record: np.ndarray
    rows: slice


class Members(Protocol):
    """counts_shared: whether k people of a class must share every number of rows; else k must have rows."""

    counts_shared: bool

    def faults(self, boxes: Boxes, of: Recorded) -> Iterator[str]:
        """What is wrong with it. O(n d) but for sorting."""

    def judge_boxes(self, findings: Findings) -> None:
        """What takes all matching records."""


class NoMembers:
    """It is not known whose boxes they are."""

    counts_shared = False

    def faults(self, boxes: Boxes, of: Recorded) -> Iterator[str]:
        """As of ``Members``."""
        yield from ()

    def judge_boxes(self, findings: Findings) -> None:
        """As of ``Members``."""


class HeldMembers(NoMembers):
    """The records of the slot, or of the class."""

    counts_shared = True

    def faults(self, boxes: Boxes, of: Recorded) -> Iterator[str]:
        """As of ``Members``."""
        own = boxes.of_row[of.rows][of.told.row]
        place, member = covered(of.told)
        outside = boxes.outside(own[place], boxes.points[of.record[member]])
        if outside.any():
            yield f"{len(np.unique(place[outside]))} boxes do not hold all of their members"
