"""Boxes of released rows and values of records in the same codes, so that "lies in" compares integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.values import (
    CodeBook,
    CodesOf,
    Unreadable,
    domain_ends,
    outside_domain,
    read_object,
)
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy_fields import QuasiType

_RANGE = itemgetter("min", "max", "nulls")


@dataclass(frozen=True)
class Box:
    """One box of one field. low, high: the closed range, None for none. codes: the set's values as codes of
    the field's book. nulls: it holds null. fault: what is wrong with it by itself."""

    low: Any = None
    high: Any = None
    codes: tuple[int, ...] = ()
    nulls: bool = False
    fault: str | None = None


class BoxBook:
    """Numbers of the distinct boxes of one quasi-identifier, from 0 as they come."""

    def __init__(self, book: CodeBook) -> None:
        self.book = book
        quasi = book.column.field.quasi
        self.tree = None if quasi is None else quasi.hierarchy
        self.is_set = quasi is not None and quasi.type in (QuasiType.CATEGORICAL, QuasiType.HIERARCHY)
        self.boxes: list[Box] = []
        self.labels: list[str | None] = []
        self._number_of = CodesOf(self._number)
        self._below: dict[str, list[str]] = {}
        for row in () if self.tree is None else self.tree.rows:
            for label in dict.fromkeys(row):
                self._below.setdefault(label, []).append(row[0])

    def numbers(self, cells: Sequence[Any]) -> np.ndarray:
        """Numbers int32 (n,) of released cells: records with min, max, nulls, lists of values, or labels."""
        if self.tree is not None:
            return np.fromiter((self._number_of[(cell,)] for cell in cells), np.int32, len(cells))
        keys = map(tuple, cells) if self.is_set else map(_RANGE, cells)
        return np.fromiter(map(self._number_of.__getitem__, keys), np.int32, len(cells))

    def children(self, number: int) -> list[list[int]]:
        """The codes of the values below each node right below the label of a box; a leaf is its own only node."""
        if self.tree is None:
            raise ValueError("boxes without a hierarchy have no labels")
        label = self.labels[number]
        below: dict[str, list[str]] = {}
        for row in self.tree.rows:
            path = list(dict.fromkeys(row))
            if label in path:
                below.setdefault(path[max(path.index(label) - 1, 0)], []).append(row[0])
        return [self.book.codes_of_texts(leaves).tolist() for leaves in below.values()]

    def faults(self, numbers: np.ndarray) -> list[str]:
        """What is wrong with the boxes of these numbers, each fault once."""
        told = (self.boxes[number].fault for number in np.unique(numbers))
        return list(dict.fromkeys(fault for fault in told if fault is not None))

    def _number(self, key: tuple[Any, ...]) -> int:
        if self.tree is not None:
            self.labels.append(key[0])
            self.boxes.append(self._read_label(key[0], self.tree))
        else:
            self.boxes.append(self._read_set(key) if self.is_set else self._read_range(*key))
        return len(self.boxes) - 1

    def _read_range(self, low: Any, high: Any, nulls: bool) -> Box:
        column = self.book.column
        if low is None and high is None:
            return Box(nulls=bool(nulls), fault=None if nulls else "a box that holds nothing")
        low, high = read_object(low, column.arrow_type), read_object(high, column.arrow_type)
        if None in (low, high) or isinstance(low, Unreadable) or isinstance(high, Unreadable) or low > high:
            return Box(fault="a range without two ends in order")
        fault = None
        if column.domain is not None:
            bottom, top = domain_ends(column)
            fault = None if bottom <= low and high <= top else "a range beyond the declared domain"
        return Box(low, high, nulls=bool(nulls), fault=fault)

    def _read_set(self, values: tuple[Any, ...]) -> Box:
        codes = self.book.codes_of_objects(values, len(values)).tolist()
        known = tuple(sorted({code for code in codes if code >= 0}))
        fault = None
        if not codes:
            fault = "a box that holds nothing"
        elif len(set(codes)) < len(codes):
            fault = "a set that names a value twice"
        elif not _in_order(values):
            fault = "a set out of order"
        elif any(outside_domain(self.book.values[code], self.book.column) for code in known):
            fault = "a set with values beyond the declared domain"
        return Box(codes=known, nulls=-1 in codes, fault=fault)

    def _read_label(self, label: str | None, tree: Hierarchy) -> Box:
        """A node as the set of the values below it; nulls lie under the root, and under no label at all."""
        if label is None:
            return Box(nulls=True)
        below = self._below.get(label, [])
        if not below:
            return Box(fault="a label that its hierarchy does not have")
        codes = self.book.codes_of_texts(below).tolist()
        return Box(codes=tuple(sorted(set(codes))), nulls=label == tree.root)


def _in_order(values: Sequence[Any]) -> bool:
    """Whether null stands first and the others by size; text by its bytes, which is the order of its characters."""
    rest = values[1:] if values and values[0] is None else values
    return None not in rest and all(one < other for one, other in pairwise(rest))


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
        count = len(book.boxes)
        low.append(np.zeros(count, np.int32))
        high.append(np.full(count, -1, np.int32))
        nulls.append(np.array([box.nulls for box in book.boxes], dtype=bool))
        set_of.append(np.full(count, -1, np.int32))
        if book.is_set:
            set_of[-1][:] = np.arange(len(indptr) - 1, len(indptr) - 1 + count)
            for box in book.boxes:
                codes.append(np.array(box.codes, np.int32))
                indptr.append(indptr[-1] + len(box.codes))
            continue
        values, _ = _ranks(book.book)
        ranges = [number for number, box in enumerate(book.boxes) if box.low is not None]
        ends = np.array([(book.boxes[n].low, book.boxes[n].high) for n in ranges]).reshape(-1, 2)
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
