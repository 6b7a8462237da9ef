"""Boxes of released rows and values of records in the same codes, so that "lies in" compares integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.kinds import Box, kind_of
from kanonflow.pipelines.audit.read.values import CodeBook, CodesOf, Unreadable


class BoxBook:
    """Numbers of the distinct boxes of one quasi-identifier, from 0 as they come."""

    def __init__(self, book: CodeBook) -> None:
        self.book = book
        self.kind = kind_of(book.column)
        self.keys: list[Any] = []
        self._boxes: list[Box] = []
        self._number_of = CodesOf(self._number)
        self._rows: list[tuple[int, tuple[str, ...]]] = []
        self._below: dict[str, list[int]] = {}
        self._asked: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether the boxes are sets of values."""
        return self.kind.is_set

    @property
    def labels(self) -> bool:
        """Whether the boxes are nodes of a tree."""
        return self.kind.labels

    @property
    def boxes(self) -> list[Box]:
        """The boxes by number; the values of a label are those that the field's book has by now."""
        if self._ask_rows():
            self._boxes = [self.kind.read(key, self.book, self._below) for key in self.keys]
        return self._boxes

    def needed(self, number: int) -> Sequence[int]:
        """Codes of the values that records in a set must have."""
        return self.kind.needed(self.boxes[number], self.book)

    def numbers(self, cells: Sequence[Any]) -> np.ndarray:
        """Numbers int32 (n,) of released cells: records with min, max, nulls, lists of values, or labels."""
        keys = map(self.kind.key, cells)
        return np.fromiter(map(self._number_of.__getitem__, keys), np.int32, len(cells))

    def children(self, number: int) -> dict[str, list[int]]:
        """The codes of the values below each node right below the label of a box; a leaf is its own only node."""
        if not self.labels:
            raise ValueError("boxes without a tree have no labels")
        self._ask_rows()
        label = self.keys[number]
        below: dict[str, list[int]] = {}
        for code, row in self._rows:
            path = list(dict.fromkeys(row))
            if label in path:
                below.setdefault(path[max(path.index(label) - 1, 0)], []).append(code)
        return below

    def faults(self, numbers: np.ndarray) -> list[str]:
        """What is wrong with the boxes of these numbers, each fault once."""
        boxes = self.boxes
        faults = (boxes[number].fault for number in np.unique(numbers))
        return list(dict.fromkeys(fault for fault in faults if fault is not None))

    def _number(self, key: Any) -> int:
        self._ask_rows()
        self.keys.append(key)
        self._boxes.append(self.kind.read(key, self.book, self._below))
        return len(self._boxes) - 1

    def _ask_rows(self) -> bool:
        """Whether rows came with values that are new to the field."""
        came = list(self.kind.rows(self.book, self._asked))
        self._asked = len(self.book.values)
        for code, row in came:
            for label in dict.fromkeys(row):
                self._below.setdefault(label, []).append(code)
        self._rows += came
        return bool(came)


@dataclass(frozen=True)
class BoxSets:
    """Value sets of set fields, each kept once: set ``s`` is ``codes[indptr[s]:indptr[s + 1]]`` (no null)."""

    indptr: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class EncodedBoxes:
    """Distinct boxes of all fields. For field f and its box number b: ``low[f][b]``, ``high[f][b]`` int32,
    ``nulls[f][b]`` bool, ``set_of[f][b]`` int32 into ``sets`` (-1 for ranges)."""

    low: list[np.ndarray]
    high: list[np.ndarray]
    nulls: list[np.ndarray]
    set_of: list[np.ndarray]
    sets: BoxSets


def encode_records(codes: np.ndarray, books: Sequence[BoxBook]) -> np.ndarray:
    """Codes int32 (n, d) of records, columns as ``books``, with ranks for the codes of range fields."""
    encoded = np.empty_like(codes)
    for field, book in enumerate(books):
        if book.is_set:
            encoded[:, field] = codes[:, field]
        else:
            # The last entry serves null, whose code is -1.
            encoded[:, field] = np.append(_ranks(book.book)[1], -1)[codes[:, field]]
    return encoded


def encode_boxes(books: Sequence[BoxBook]) -> EncodedBoxes:
    """The boxes' ends as ranks among the values of the records, and their sets in one list."""
    low, high, nulls, set_of = [], [], [], []
    indptr, codes = [0], [np.zeros(0, np.int32)]
    for book in books:
        boxes = book.boxes
        count = len(boxes)
        low.append(np.zeros(count, np.int32))
        high.append(np.full(count, -1, np.int32))
        nulls.append(np.array([box.nulls for box in boxes], dtype=bool))
        set_of.append(np.full(count, -1, np.int32))
        if book.is_set:
            set_of[-1][:] = np.arange(len(indptr) - 1, len(indptr) - 1 + count)
            for box in boxes:
                codes.append(np.array(box.codes, np.int32))
                indptr.append(indptr[-1] + len(box.codes))
            continue
        values, _ = _ranks(book.book)
        ranges = [number for number, box in enumerate(boxes) if box.low is not None]
        ends = np.array([(boxes[n].low, boxes[n].high) for n in ranges]).reshape(-1, 2)
        low[-1][ranges] = np.searchsorted(values, ends[:, 0], side="left")
        high[-1][ranges] = np.searchsorted(values, ends[:, 1], side="right") - 1
    return EncodedBoxes(low, high, nulls, set_of, BoxSets(np.array(indptr, np.int64), np.concatenate(codes)))


def outside_boxes(
    encoded: EncodedBoxes, boxes: np.ndarray, points: np.ndarray, books: Sequence[BoxBook]
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


def _ranks(book: CodeBook) -> tuple[np.ndarray, np.ndarray]:
    """The readable values of a range field in order, and the rank int32 of every code.

    What is unreadable ranks above all: no box holds it.
    """
    readable = [code for code, value in enumerate(book.values) if not isinstance(value, Unreadable)]
    values = np.array([book.values[code] for code in readable])
    order = np.argsort(values, kind="stable")
    ranks = np.full(len(book.values), len(readable), np.int32)
    ranks[np.array(readable, np.int64)[order]] = np.arange(len(readable))
    return values[order], ranks
