"""Whom the boxes of matching records have to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kanonflow.pipelines.audit.read.boxes import BoxBook, EncodedBoxes, outside_boxes
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.records.record_file import ReadMatchingRecord
from kanonflow.pipelines.audit.records.record_structure import covered


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
