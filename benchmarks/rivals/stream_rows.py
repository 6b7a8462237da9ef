"""What the stream anonymizers share: rows as kernels read them, boxes that grow, and what a stream published.

Loss and boxes are those of our solvers (``units/features.py``): weighted coordinates, a null that costs the whole
attribute when it is mixed with numbers, one bit a category.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.features import NULL_COORDINATE, WORD_BITS, normalized_weights

OWN, REUSED, SUPPRESSED = 0, 1, 2
"""How a row went out: with the class it was in, with the box of an earlier class, or with nothing but its payload."""


class StreamRows(NamedTuple):
    """n rows in the order of arrival.

    numeric: float64 (n, dn), weighted coordinates. weight: float64 (dn,), the cost of a whole numeric attribute.
    bits: int64 (n, dc), the bit of each categorical value. price: float64 (dc,), of a value beyond the first.
    bit_weight: float64 (W, 64), the same by bit. who: int64 (n,), whom each row belongs to.
    """

    numeric: NDArray[np.float64]
    weight: NDArray[np.float64]
    bits: NDArray[np.int64]
    price: NDArray[np.float64]
    bit_weight: NDArray[np.float64]
    who: NDArray[np.int64]


class Boxes(NamedTuple):
    """Hulls of m classes. low, high: float64 (m, dn). words: uint64 (m, W). loss: float64 (m,), NCP in [0, 1]."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]
    loss: NDArray[np.float64]


class StreamRelease(NamedTuple):
    """What became of n rows.

    box: int64 (n,), number of the box that each row was published with, -1 for suppressed ones. at: int64 (n,), the
    position of the newest row that had arrived by then. how: int8 (n,), OWN, REUSED or SUPPRESSED. boxes: all of them.
    """

    box: NDArray[np.int64]
    at: NDArray[np.int64]
    how: NDArray[np.int8]
    boxes: Boxes

    @property
    def losses(self) -> NDArray[np.float64]:
        """NCP of what each row was published as, float64 (n,); 1 for suppressed rows."""
        if self.boxes.loss.size == 0:
            return np.ones(self.box.size)
        return np.where(self.box >= 0, self.boxes.loss[np.maximum(self.box, 0)], 1.0)

    @property
    def delays(self) -> NDArray[np.int64]:
        """How many rows arrived after each row until it was published, int64 (n,)."""
        return self.at - np.arange(self.at.size)


def stream_rows(table: Table) -> StreamRows:
    """The rows of a table. O(n d)."""
    weights = normalized_weights(table)
    dn = table.numeric.shape[1]
    numeric = np.where(np.isnan(table.numeric), NULL_COORDINATE, table.numeric) * weights[:dn]
    price = weights[dn:] / np.maximum(table.cardinality - 1, 1)
    words = -(-table.cardinality // WORD_BITS)
    first = np.concatenate([[0], np.cumsum(words)[:-1]]).astype(np.int64) * WORD_BITS
    bit_weight = np.zeros(int(words.sum()) * WORD_BITS)
    for begin, size, each in zip(first, table.cardinality, price, strict=False):
        bit_weight[begin : begin + size] = each
    who = np.arange(table.records) if table.individuals is None else table.individuals
    return StreamRows(
        np.ascontiguousarray(numeric),
        weights[:dn].copy(),
        table.categorical.astype(np.int64) + first[: table.categorical.shape[1]],
        price,
        bit_weight.reshape(-1, WORD_BITS),
        who.astype(np.int64),
    )


def empty_boxes(count: int, rows: StreamRows) -> Boxes:
    """Room for so many boxes."""
    dn, width = rows.weight.size, rows.bit_weight.shape[0]
    return Boxes(
        np.zeros((count, dn)),
        np.zeros((count, dn)),
        np.zeros((count, width), dtype=np.uint64),
        np.zeros(count),
    )


@numba.njit(cache=True, nogil=True)
def start_box(rows: StreamRows, boxes: Boxes, box: int, row: int) -> None:
    """Make a box that of one row. O(d + W)."""
    for w in range(boxes.words.shape[1]):
        boxes.words[box, w] = np.uint64(0)
    for j in range(rows.weight.size):
        boxes.low[box, j] = rows.numeric[row, j]
        boxes.high[box, j] = rows.numeric[row, j]
    for j in range(rows.price.size):
        bit = rows.bits[row, j]
        boxes.words[box, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    boxes.loss[box] = 0.0


@numba.njit(cache=True, nogil=True)
def copy_box(boxes: Boxes, source: int, others: Boxes, target: int) -> None:
    """Make box ``target`` of others a copy."""
    for j in range(boxes.low.shape[1]):
        others.low[target, j] = boxes.low[source, j]
        others.high[target, j] = boxes.high[source, j]
    for w in range(boxes.words.shape[1]):
        others.words[target, w] = boxes.words[source, w]
    others.loss[target] = boxes.loss[source]


@numba.njit(cache=True, nogil=True)
def enlargement(rows: StreamRows, boxes: Boxes, box: int, row: int) -> float:
    """By how much the NCP of a box that is not empty grows with a row. O(d)."""
    total = 0.0
    for j in range(rows.weight.size):
        low, high, value = boxes.low[box, j], boxes.high[box, j], rows.numeric[row, j]
        if value < low or value > high:
            limit = rows.weight[j]
            total += min(max(high, value) - min(low, value), limit) - min(high - low, limit)
    for j in range(rows.price.size):
        bit = rows.bits[row, j]
        if not (boxes.words[box, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
            total += rows.price[j]
    return total


@numba.njit(cache=True, nogil=True)
def grow(rows: StreamRows, boxes: Boxes, box: int, row: int) -> None:
    """Put a row into a box that is not empty. O(d)."""
    boxes.loss[box] += enlargement(rows, boxes, box, row)
    for j in range(rows.weight.size):
        boxes.low[box, j] = min(boxes.low[box, j], rows.numeric[row, j])
        boxes.high[box, j] = max(boxes.high[box, j], rows.numeric[row, j])
    for j in range(rows.price.size):
        bit = rows.bits[row, j]
        boxes.words[box, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@numba.njit(cache=True, nogil=True)
def pair_loss(rows: StreamRows, a: int, b: int) -> float:
    """NCP of the hull of two rows. O(d)."""
    total = 0.0
    for j in range(rows.weight.size):
        total += min(abs(rows.numeric[a, j] - rows.numeric[b, j]), rows.weight[j])
    for j in range(rows.price.size):
        if rows.bits[a, j] != rows.bits[b, j]:
            total += rows.price[j]
    return total


@numba.njit(cache=True, nogil=True)
def union_growth(rows: StreamRows, boxes: Boxes, a: int, b: int) -> float:
    """By how much the NCP of box a grows when it takes in box b. O(d + W)."""
    total = 0.0
    for j in range(rows.weight.size):
        width = max(boxes.high[a, j], boxes.high[b, j]) - min(boxes.low[a, j], boxes.low[b, j])
        total += min(width, rows.weight[j]) - min(boxes.high[a, j] - boxes.low[a, j], rows.weight[j])
    for w in range(boxes.words.shape[1]):
        total += bits_cost(boxes.words[b, w] & ~boxes.words[a, w], rows.bit_weight, w)
    return total


@numba.njit(cache=True, nogil=True)
def holds_row(rows: StreamRows, boxes: Boxes, box: int, row: int) -> bool:
    """Whether a row lies in a box; one that mixes nulls and numbers holds all of them. O(d)."""
    for j in range(rows.weight.size):
        value, low, high = rows.numeric[row, j], boxes.low[box, j], boxes.high[box, j]
        if (value < low or value > high) and high - low <= rows.weight[j]:
            return False
    for j in range(rows.price.size):
        bit = rows.bits[row, j]
        if not (boxes.words[box, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
            return False
    return True


@numba.njit(cache=True, nogil=True)
def narrowest_holding(rows: StreamRows, boxes: Boxes, first: int, last: int, row: int) -> int:
    """Of boxes first .. last - 1 that hold a row the one of least loss, the earliest of several; -1: none holds it."""
    best = -1
    for box in range(first, last):
        if (best < 0 or boxes.loss[box] < boxes.loss[best]) and holds_row(rows, boxes, box, row):
            best = box
    return best
