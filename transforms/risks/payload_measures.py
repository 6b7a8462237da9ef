"""Three measures of a payload column that need no slots: distinct values, one individual's own values, order in time.

Columns are int64 codes (equal values, equal codes) or float64 numbers; nulls have been left out by the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.columns.sort_keys import dense_ranks

Codes = NDArray[np.int64]


def distinct_share(codes: Codes) -> float:
    """Distinct values / rows, 0 without rows. A value of its own on every row: 1."""
    return float(np.unique(codes).size / codes.size) if codes.size else 0.0


class OwnRepeats(NamedTuple):
    """share: of the rows that carry a value which is on another row of the same individual and on none of anybody else.

    by_chance: the same after the individuals were dealt anew over the rows. rows: of individuals with two or more,
    which are the ones that count.
    """

    share: float
    by_chance: float
    rows: int


def own_repeats(codes: Codes, who: Codes, seed: int = 0) -> OwnRepeats:
    """How much a value says "the same person again". who: int64 (n,). O(n log n).

    1: an account number, a device, a customer's alias. Few people repeat a value by themselves at random; with few
    rows or few people some do, which ``by_chance`` tells.
    """
    several = np.bincount(who, minlength=1)[who] >= 2
    codes, who = codes[several], who[several]
    if codes.size == 0:
        return OwnRepeats(0.0, 0.0, 0)
    dealt = np.random.default_rng(seed).permutation(who)
    return OwnRepeats(_own_share(codes, who), _own_share(codes, dealt), int(codes.size))


def _own_share(codes: Codes, who: Codes) -> float:
    _, code = np.unique(codes, return_inverse=True)
    first = np.full(int(code.max()) + 1, np.iinfo(np.int64).max)
    last = np.full(first.size, -1)
    np.minimum.at(first, code, who)
    np.maximum.at(last, code, who)
    own = (first == last) & (np.bincount(code) >= 2)
    return float(own[code].mean())


class Order(NamedTuple):
    """correlation: of ranks within groups, in [-1, 1]. rows: of groups with two or more different values and times."""

    correlation: float
    rows: int


def order_within(values: NDArray[np.generic], times: NDArray[np.generic], groups: Codes) -> Order:
    """``order_along`` of the ranks of both. O(n log n)."""
    return order_along(ranks_within(values, groups), ranks_within(times, groups))


class Ranks(NamedTuple):
    """Mean ranks within groups, less their mean, divided by the group's size. group: int64 (n,), numbered from 0.

    centred: float64 (n,). squares: float64 (groups,), sums of their squares.
    """

    group: Codes
    centred: NDArray[np.float64]
    squares: NDArray[np.float64]


def ranks_within(values: NDArray[np.generic], groups: Codes) -> Ranks:
    """The ranks of values (n,) within groups int64 (n,). O(n log n)."""
    _, group = np.unique(groups, return_inverse=True)
    centred = _centred_ranks(values, group, np.bincount(group))
    return Ranks(group, centred, np.bincount(group, weights=centred * centred).astype(np.float64))


def order_along(values: Ranks, times: Ranks) -> Order:
    """Spearman's rank correlation of values and times within the same groups, pooled over them. O(n).

    sum over groups of sum (r - mean r)(s - mean s) / sqrt(sum (r - mean r)^2 sum (s - mean s)^2), r and s being mean
    ranks within the group divided by its size. What only changes from group to group counts as no order.
    """
    varied = (values.squares * times.squares > 0)[values.group]
    r, s = values.centred[varied], times.centred[varied]
    if r.size == 0:
        return Order(0.0, 0)
    # Not by BLAS: its threads wait for each other, and sum up in another order on other machines.
    rs, rr, ss = (float(np.einsum("i,i", one, other)) for one, other in ((r, s), (r, r), (s, s)))
    return Order(rs / float(np.sqrt(rr * ss)), int(r.size))


def _centred_ranks(values: NDArray[np.generic], group: Codes, size: Codes) -> NDArray[np.float64]:
    """Mean ranks within each group, less their mean, divided by the group's size; float64 (n,)."""
    if not np.issubdtype(values.dtype, np.integer):
        _, values = np.unique(values, return_inverse=True)
    pair = dense_ranks([group, values])
    length = np.bincount(pair)
    first = np.cumsum(length) - length
    place = (first + (length - 1) / 2)[pair] - (np.cumsum(size) - size)[group]
    return (place - (size[group] - 1) / 2) / size[group]
