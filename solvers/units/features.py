"""The quasi-identifiers as kernels read them: weighted coordinates, packed bits, codes.

A box costs ``sum_j w_j NCP_j`` with ``sum_j w_j = 1`` (S0, eq. 1-4; the weighted mean is GCP of one slot):

* numeric j: ``min(w_j, max - min)`` over coordinates already multiplied by w_j. A null sits at ``3 w_j``, so a
  box that mixes null and numbers costs the full w_j and one of nulls alone costs 0.
* narrow categorical j (|A_j| <= 64): each value is one bit of a 64-bit word (several attributes share a word);
  a value beyond the first costs ``w_j / (|A_j| - 1)``, looked up by bit, so only bits that change are visited.
* wide categorical j: codes, compared with the other members' codes.
* hierarchy j: a numeric attribute of leaves in depth-first order, whose range costs what the lowest node above it
  costs (``leaf_orders.range_cost``, which is what every kernel asks for the cost of a range).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.leaf_orders import LeafOrders, build_orders

WORD_BITS = 64
NULL_COORDINATE = 3.0


class Features(NamedTuple):
    """Arrays of u units (distinct rows) for the kernels.

    numeric: float64 (u, dn), weighted coordinates. numeric_weight: float64 (dn,).
    words: uint64 (u, W), one bit set per narrow attribute. bit_weight: float64 (W, 64).
    wide: int32 (u, dw). wide_weight: float64 (dw,).
    codes: int32 (u, dc), all categorical codes. code_weight: float64 (dc,), price of a value beyond the first.
    orders: the hierarchies among the numeric attributes, None when there are none.
    """

    numeric: NDArray[np.float64]
    numeric_weight: NDArray[np.float64]
    words: NDArray[np.uint64]
    bit_weight: NDArray[np.float64]
    wide: NDArray[np.int32]
    wide_weight: NDArray[np.float64]
    codes: NDArray[np.int32]
    code_weight: NDArray[np.float64]
    orders: LeafOrders | None = None


def normalized_weights(table: Table) -> NDArray[np.float64]:
    """The attribute weights scaled to sum 1, float64 (d,)."""
    return table.weights / table.weights.sum()


def value_prices(table: Table) -> NDArray[np.float64]:
    """What each value beyond the first costs, float64 (dc,)."""
    return normalized_weights(table)[table.numeric.shape[1] :] / np.maximum(table.cardinality - 1, 1)


def _first_bits(cardinality: NDArray[np.int64], attributes: NDArray[np.int64]) -> NDArray[np.int64]:
    """First bit of each attribute's run; runs of up to 64 share words first-fit, longer ones start a word."""
    first = np.zeros(attributes.size, dtype=np.int64)
    used: list[int] = []
    for position in sorted(range(attributes.size), key=lambda p: -int(cardinality[attributes[p]])):
        size = int(cardinality[attributes[position]])
        index = next((i for i, filled in enumerate(used) if filled + size <= WORD_BITS), len(used))
        if index == len(used):
            used.append(0)
        first[position] = index * WORD_BITS + used[index]
        if size <= WORD_BITS:
            used[index] += size
        else:
            used[index:] = [WORD_BITS] * (size // WORD_BITS) + [size % WORD_BITS]
    return first


def weighted_coordinates(
    table: Table, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], LeafOrders | None]:
    """Coordinates of the numeric attributes, float64 (u, dn), and the hierarchies among them. O(u dn log u)."""
    values = table.numeric[rows]
    weights = normalized_weights(table)[: values.shape[1]]
    plain = np.where(np.isnan(values), NULL_COORDINATE, values) * weights
    if not table.hierarchical:
        return np.ascontiguousarray(plain), None
    leaves, orders = build_orders(values, table.heights, weights)
    return np.ascontiguousarray(np.where(orders.size > 0, leaves, plain)), orders


def build_features(table: Table, rows: NDArray[np.int64], *, narrow_limit: int = WORD_BITS) -> Features:
    """Features of the given rows (one a unit). O(u d).

    narrow_limit: attributes with more values are wide; those with more than 64 values that are not take several
    words (class search wants every attribute as bits, because an individual may have several values).
    """
    numeric_weight = normalized_weights(table)[: table.numeric.shape[1]].copy()
    numeric, orders = weighted_coordinates(table, rows)
    per_value = value_prices(table)
    narrow = np.flatnonzero(table.cardinality <= narrow_limit)
    broad = np.flatnonzero(table.cardinality > narrow_limit)
    first = _first_bits(table.cardinality, narrow)
    ends = first + table.cardinality[narrow]
    width = int(-(-ends.max() // WORD_BITS)) if narrow.size else 0
    codes = np.ascontiguousarray(table.categorical[rows], dtype=np.int32)
    words = np.zeros((rows.size, width), dtype=np.uint64)
    bit_weight = np.zeros(width * WORD_BITS)
    for attribute, begin, end in zip(narrow, first, ends, strict=True):
        bits = codes[:, attribute].astype(np.uint64) + np.uint64(begin)
        bit = np.uint64(1) << bits % np.uint64(WORD_BITS)
        if end - begin <= WORD_BITS:
            # They share a word.
            words[:, begin // WORD_BITS] |= bit
        else:
            words[np.arange(rows.size), bits // np.uint64(WORD_BITS)] |= bit
        bit_weight[begin:end] = per_value[attribute]
    return Features(
        numeric=numeric,
        numeric_weight=numeric_weight,
        words=words,
        bit_weight=bit_weight.reshape(width, WORD_BITS),
        wide=np.ascontiguousarray(codes[:, broad]),
        wide_weight=per_value[broad].copy(),
        codes=codes,
        code_weight=per_value,
        orders=orders,
    )
