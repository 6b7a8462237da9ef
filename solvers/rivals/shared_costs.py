"""A bound on how cheaply r more members can join a box: what a new value costs is shared by those who need it.

A value that a set T of joining units adds to the box costs its price once, however many of T have it. Give each unit
that has it a share, so that no r shares of one value sum to more than 1; then T costs at least the sum of what its
units pay, and the best T is simply the r units of largest (dual - payment). Any shares give a valid bound (they are the
multipliers of a Lagrangian relaxation). They begin as an r-th each, whatever the number of candidates, and are raised,
round by round, for the units that were chosen: they are those who pay too little. Numeric attributes: a side of the box
is a value whose price is how far a unit reaches beyond it; the furthest of T pays for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import lowest_bit
from kanonflow.solvers.units.features import Features


class Shares(NamedTuple):
    """Scratch of one node. a: values a unit may add, at most narrow attributes + dn.

    value: int32 (room, a), which values each candidate adds: bits of words, then sides of numeric attributes.
    price: float64 (room, a). weight: float64 (room, a), the candidate's share before division by the value's total:
    float64 (values,), the sum of its r largest weights, which are largest: float64 (values, k), descending. adds: int32
    (room,), values added. paid: float64 (room,), what cannot be shared.
    worth: float64 (room,), dual - payment; best, chosen: float64 and int32 (k,), the largest and whose they are.
    """

    value: NDArray[np.int32]
    price: NDArray[np.float64]
    weight: NDArray[np.float64]
    total: NDArray[np.float64]
    largest: NDArray[np.float64]
    adds: NDArray[np.int32]
    paid: NDArray[np.float64]
    worth: NDArray[np.float64]
    best: NDArray[np.float64]
    chosen: NDArray[np.int32]


def build_shares(features: Features, room: int, k: int) -> Shares:
    """Scratch for up to ``room`` candidates."""
    narrow = features.codes.shape[1] - features.wide.shape[1]
    most = max(narrow + features.numeric.shape[1], 1)
    values = 64 * features.words.shape[1] + 2 * features.numeric.shape[1]
    return Shares(
        value=np.zeros((room, most), dtype=np.int32),
        price=np.zeros((room, most)),
        weight=np.ones((room, most)),
        total=np.zeros(values),
        largest=np.zeros((values, k)),
        adds=np.zeros(room, dtype=np.int32),
        paid=np.zeros(room),
        worth=np.zeros(room),
        best=np.zeros(k),
        chosen=np.zeros(k, dtype=np.int32),
    )


@kernel(inner=True, forceinline=True)
def clear_shares(shares: Shares) -> None:
    """Begin a node."""
    for value in range(shares.total.size):
        shares.total[value] = 0.0


@kernel(inner=True, forceinline=True)
def _add(shares: Shares, p: int, value: int, price: float) -> None:
    at = shares.adds[p]
    shares.value[p, at] = value
    shares.price[p, at] = price
    shares.weight[p, at] = 1.0
    shares.total[value] += 1.0
    shares.adds[p] = at + 1


@kernel(inner=True, forceinline=True)
def share_values(
    features: Features,
    shares: Shares,
    p: int,
    unit: int,
    low: np.ndarray,
    high: np.ndarray,
    words: np.ndarray,
    depth: int,
    one_side: bool,
) -> float:
    """Enter the values that candidate p adds to the box in row ``depth``; returns what they cost it alone.

    one_side: nulls are among the candidates, so that both sides together may cost no more than one.
    """
    shares.adds[p] = 0
    alone = 0.0
    for w in range(features.words.shape[1]):
        new = features.words[unit, w] & ~words[depth, w]
        while new:
            bit = lowest_bit(new)
            _add(shares, p, 64 * w + bit, features.bit_weight[w, bit])
            alone += features.bit_weight[w, bit]
            new &= new - np.uint64(1)
    for j in range(features.numeric_weight.size):
        x = features.numeric[unit, j]
        weight = features.numeric_weight[j]
        width = min(high[depth, j] - low[depth, j], weight)
        price = min(max(high[depth, j], x) - min(low[depth, j], x), weight) - width
        if price > 0.0:
            side = 0 if one_side or x < low[depth, j] else 1
            _add(shares, p, 64 * features.words.shape[1] + 2 * j + side, price)
            alone += price
    return alone


@kernel(inner=True, forceinline=True)
def _begin_totals(shares: Shares, r: int) -> None:
    """Every weight is 1: the r largest of a value are as many ones as there are candidates with it."""
    for value in range(shares.total.size):
        shares.total[value] = min(shares.total[value], r)
        for t in range(r):
            shares.largest[value, t] = 1.0 if t < shares.total[value] else 0.0


@kernel(inner=True, forceinline=True)
def _raise_weight(shares: Shares, value: int, before: float, after: float, r: int) -> None:
    """Let a weight of a value rise; which candidate's it is does not matter, equal weights stand for each other."""
    at = r - 1
    if before >= shares.largest[value, at]:
        while at > 0 and shares.largest[value, at] != before:
            at -= 1
    elif after <= shares.largest[value, at]:
        return
    while at > 0 and shares.largest[value, at - 1] < after:
        shares.largest[value, at] = shares.largest[value, at - 1]
        at -= 1
    shares.largest[value, at] = after
    total = 0.0
    for t in range(r):
        total += shares.largest[value, t]
    shares.total[value] = total


@kernel(inner=True, forceinline=True)
def cheapest_join(
    shares: Shares,
    dual: np.ndarray,
    units: np.ndarray,
    depth: int,
    filled: int,
    r: int,
    bar: float,
    rounds: int,
) -> float:
    """No r of the candidates join for less than this, their duals taken off: least (payments - duals).

    units: int32, candidates in row ``depth``. Ends as soon as the bound reaches ``bar``. O(rounds filled (a + r)).
    """
    reached = -np.inf
    _begin_totals(shares, r)
    for turn in range(rounds):
        for t in range(r):
            shares.best[t] = -np.inf
        total = 0.0
        for p in range(filled):
            worth = dual[units[depth, p]] - shares.paid[p]
            for a in range(shares.adds[p]):
                worth -= shares.price[p, a] * shares.weight[p, a] / shares.total[shares.value[p, a]]
            shares.worth[p] = worth
            if worth > shares.best[r - 1]:
                at = r - 1
                while at > 0 and shares.best[at - 1] < worth:
                    shares.best[at] = shares.best[at - 1]
                    shares.chosen[at] = shares.chosen[at - 1]
                    at -= 1
                shares.best[at] = worth
                shares.chosen[at] = p
        for t in range(r):
            total += shares.best[t]
        reached = max(reached, -total)
        if reached >= bar:
            return reached
        step = 2.0 / (1.0 + 0.3 * turn)
        for t in range(r):
            p = shares.chosen[t]
            for a in range(shares.adds[p]):
                before = shares.weight[p, a]
                shares.weight[p, a] = before + step * before
                _raise_weight(shares, shares.value[p, a], before, shares.weight[p, a], r)
    return reached


@kernel(inner=True, forceinline=True)
def join_with(shares: Shares, p: int, r: int) -> float:
    """No r of the candidates, p among them, join for less than this; after ``cheapest_join``, by its last shares."""
    total = 0.0
    for t in range(r - 1):
        total += shares.best[t]
    return -total - min(shares.worth[p], shares.best[r - 1])
