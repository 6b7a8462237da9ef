"""Cutting a table into parts of near records, each small enough to be solved by itself.

The cuts are those of a k-d tree, but even ones: a part with rows for p parts is cut at ``p // 2`` p-ths of its rows,
along the attribute whose values differ most on average (as in ``kd_tree``). Records with equal values are put in
order by the other attributes, so the cut may go through them and is still one between unlike records.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import NULL_COORDINATE, normalized_weights
from kanonflow.solvers.units.trimming import row_limit

EVEN = 0.1
"""A cut that misses its place by no more than this share of a part is taken without a look at other attributes."""


SLACK = 100
"""Individuals are not cut, so parts of them are planned this share (a hundredth) smaller than the limit."""


class _Units(NamedTuple):
    """What is not cut: the rows of an individual, or a row.

    values: float64 or int32 (u,), a column each, weighted coordinates or codes. price: float64 (d,), of a second
    value of a categorical column, 0 for numeric ones. rows: int64 (u,). kept: int64 (u,), rows that a graph has
    room for.
    """

    values: list[NDArray[Any]]
    price: NDArray[np.float64]
    rows: NDArray[np.int64]
    kept: NDArray[np.int64]


def cut_near(table: Table, limit: int, k: int, *, distinct: bool) -> list[NDArray[np.int64]]:
    """The records of each part, ascending int64 arrays, in an order in which near parts follow each other.

    limit: rows of a part, more only where the next conditions ask for it. All records of an individual are in one
    part. Every part of several has at least k individuals; with ``distinct`` none of them holds more than a k-th of
    the part's rows, as far as that is so in the whole table (rows beyond it would have to wait).

    The result follows from the table alone, its order included; the order decides between records with equal values.
    An individual stands where its middle record does. O(n d log n log(n / limit)).
    """
    units, of_row = _units(table, k, distinct)
    parts: list[NDArray[np.int64]] = []
    planned = table.records
    if table.individuals is not None:
        planned += planned // SLACK
    uncut = [(np.arange(units.rows.size), -(-planned // limit))]
    while uncut:
        part, count = uncut.pop()
        rows = int(units.rows[part].sum())
        count = max(count, -(-rows // limit))
        share = count // 2
        halves = _halves(units, part, count, limit, k, distinct) if rows > limit else None
        if halves is None:
            parts.append(part)
        else:
            uncut += [(halves[1], count - share), (halves[0], share)]
    number = np.empty(units.rows.size, dtype=np.int64)
    for index, part in enumerate(parts):
        number[part] = index
    numbers = number[of_row]
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.cumsum(np.bincount(numbers, minlength=len(parts)))[:-1])


def _units(table: Table, k: int, distinct: bool) -> tuple[_Units, NDArray[np.int64]]:
    """The units, and the one of each row."""
    of_row = np.arange(table.records)
    if table.individuals is not None:
        _, of_row = np.unique(table.individuals, return_inverse=True)
    rows = np.bincount(of_row)
    middle = np.argsort(of_row, kind="stable")[np.cumsum(rows) - (rows + 1) // 2]
    weights = normalized_weights(table)
    values: list[NDArray[Any]] = []
    for column, weight in enumerate(weights[: table.numeric.shape[1]]):
        numbers = table.numeric[middle, column]
        values.append(np.where(np.isnan(numbers), NULL_COORDINATE, numbers) * weight)
    values += [table.categorical[middle, column] for column in range(table.categorical.shape[1])]
    price = np.zeros(weights.size)
    price[table.numeric.shape[1] :] = weights[table.numeric.shape[1] :] / np.maximum(table.cardinality - 1, 1)
    kept = np.minimum(rows, row_limit(rows, k)) if distinct else rows
    return _Units(values, price, rows, kept), of_row


def _halves(
    units: _Units, part: NDArray[np.int64], count: int, limit: int, k: int, distinct: bool
) -> list[NDArray[np.int64]] | None:
    """The units on both sides of the best cut of what is to become ``count`` parts; None when it cannot be cut."""
    if part.size < 2 * k:
        return None
    total, share = int(units.rows[part].sum()), count // 2
    ranked = np.argsort([-_spread(units, part, column) for column in range(len(units.values))], kind="stable")
    best: list[NDArray[np.int64]] | None = None
    nearest = total * count
    for column in ranked:
        # lexsort takes the last key first; it is stable, so units with equal values stay in the table's order.
        keys = [units.values[other][part] for other in ranked[::-1] if other != column]
        ordered = part[np.lexsort([*keys, units.values[column][part]])]
        left = np.cumsum(units.rows[ordered])[:-1]
        possible = _possible(units.kept[ordered], k, distinct)
        if not possible.any():
            continue
        # Counted in parts of the limit, so that halves do not need more of them than the whole.
        fits = possible & (left <= share * limit) & (total - left <= (count - share) * limit)
        gaps = np.where(fits if fits.any() else possible, np.abs(count * left - share * total), total * count)
        cut = int(np.argmin(gaps))
        if gaps[cut] < nearest:
            best, nearest = [ordered[: cut + 1], ordered[cut + 1 :]], int(gaps[cut])
        if nearest <= EVEN * total:
            break
    return best


def _spread(units: _Units, part: NDArray[np.int64], column: int) -> float:
    """Expected difference of two units of a part in one column."""
    values = units.values[column][part]
    if values.dtype.kind == "f":
        return 1.4 * float(np.abs(values - values.mean()).mean())
    shares = np.bincount(values) / values.size
    return (1.0 - float((shares**2).sum())) * float(units.price[column])


def _possible(kept: NDArray[np.int64], k: int, distinct: bool) -> NDArray[np.bool_]:
    """Whether a cut behind each unit but the last leaves both sides with what k needs, bool (u - 1,)."""
    places = np.arange(1, kept.size)
    possible = (places >= k) & (kept.size - places >= k)
    if distinct:
        for side in (slice(None), slice(None, None, -1)):
            enough = (np.maximum.accumulate(kept[side]) * k <= np.cumsum(kept[side]))[:-1]
            possible &= enough[side]
    return possible
