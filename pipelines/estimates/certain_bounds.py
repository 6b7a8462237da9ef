"""The least and the most that a mean, a ratio, a quantile or a variance can be, of rows that are in or may be.

Of each row with a value it is known whether it surely is among the rows (S) or may be (P), and the ends a <= x <= b of
its value. An input chooses T within P and a value of each row. Rows that are alike are one entry with a count. Every
bound holds for every choice; it is widened by what adding up doubles may lose.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.estimates.coverage import Float64s, Int64s

MOST = sys.float_info.max
_EPSILON = float(np.finfo(np.float64).eps)
_GOLDEN = (5.0**0.5 - 1) / 2
_STEPS = 40
_CELLS = 100
_CLOSE = 1e-6
_MOST_ENTRIES = 2_000
_ENDS = 250


class Values(NamedTuple):
    """Of the rows that may be in a group and may have a value; (m,) each.

    sure: whether they surely are and have one. low, high: its ends. weight: the share of a row. rows: how many are
    alike.
    """

    sure: NDArray[np.bool_]
    low: Float64s
    high: Float64s
    weight: Float64s
    rows: Int64s

    @property
    def mirrored(self) -> Values:
        """The same of -x."""
        return self._replace(low=-self.high, high=-self.low)


def unit_of_sums(*values: Float64s, rows: int | None = None) -> float:
    """A power of two by which values are divided before they are added up: 1 unless their sum could be no double. rows:
    how many are added up; None: as many as there are."""
    most = max(float(np.abs(each).max(initial=0.0)) for each in values)
    size = max(each.size for each in values) if rows is None else rows
    return 1.0 if most < MOST / 4 / (size + 1) else 2.0 ** (size.bit_length() + 2)


def rounding(low: Float64s, high: Float64s, rows: int) -> float:
    """A bound on what adding up numbers one after the other may lose of their mean; 0 where nothing is lost."""
    most = float(max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)))
    whole = most * rows < 2.0**53 and not np.any(low % 1) and not np.any(high % 1)
    return 0.0 if whole else 4 * _EPSILON * rows * most


def least_ratio(of: Values, per: Values) -> float | None:
    """The least sum x / sum y of two values of the same rows, over all choices whose sum of y is above 0.

    y >= 0. At t every row of S adds a - t y to sum x - t sum y, and a row of P where that is below 0, with the greatest
    y where t >= 0 and else the least. The ratio is the t at which the sum is 0: Newton's steps (Dinkelbach's) go down
    to it from a choice and end, for they take one choice after the other. Nothing bounds it (-inf) where sum x can be
    below 0 and sum y as near to 0 as one likes; None: no sum of y is above 0. O(m) a step, a handful of steps.
    """
    sure, a, rows = of.sure, of.low, of.rows
    forced = float((per.low * rows)[sure].sum())
    below = (a * rows)[sure].sum() + np.minimum(a * rows, 0.0)[~sure].sum() < 0
    if not forced and below and bool((per.low <= 0).any()):
        return -np.inf
    take = np.ones(a.size, np.bool_) if not forced else sure
    t = np.inf
    while True:
        y = per.high if t >= 0 else per.low
        if t < np.inf:
            take = sure | (a - t * y < 0)
        elif not forced and not sure.any():
            # Of no sure row the least is that of one row.
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(a >= 0, a / per.high, a / per.low)
            usable = per.high > 0
            return float(each[usable].min()) if usable.any() else None
        top, bottom = float((a * rows)[take].sum()), float((y * rows)[take].sum())
        if top < 0 and t == np.inf:
            bottom = float((per.low * rows)[take].sum()) or bottom
        if not bottom > 0:
            return None if t == np.inf else t
        if not top / bottom < t:
            return t
        t = top / bottom


def least_mean(values: Values) -> float:
    """The least mean of all sure values and any of the others, of at least one: a ratio to 1 a row, which needs no
    slack where sums are exact."""
    one = np.ones(values.low.size)
    mean = least_ratio(values, values._replace(low=one, high=one))
    assert mean is not None
    return mean


def least_quantile(values: Values, q: Fraction) -> float:
    """The least q-quantile: of n values in order the ceil(q n)-th; where q n is whole, half way to the next one.

    A choice whose ceil(q n)-th is at most x exists if |S below or at x| + (1 - q) |P below or at x| >= q |S|: all of P
    up to x is then the best choice. Let x be the least value that does. Where q n is whole, the choice is that up to x,
    or has the next of P too, which then is the quantile. O(m log m).
    """
    order = np.argsort(values.low, kind="stable")
    low, sure = values.low[order], values.sure[order]
    s, p = np.where(sure, values.rows[order], 0), np.where(sure, 0, values.rows[order])
    above, below = q.numerator, q.denominator
    reached = np.cumsum(s) * below + np.cumsum(p) * (below - above) >= above * int(s.sum())
    x = low[int(np.argmax(reached))]
    upto = low <= x
    n = int(s.sum()) + int(p[upto].sum())
    after = low[sure & ~upto]
    if int((s + p)[upto].sum()) * below > above * n or not after.size:
        return float(x)
    # Half of each first: a sum of two doubles may be none.
    middle = x / 2 + after[0] / 2
    others = low[~sure & ~upto]
    return float(min(middle, others[0])) if others.size else float(middle)


def variance_bounds(values: Values) -> tuple[float, float]:
    """Bounds on the variance sum (x - mean)^2 / (n - 1) of at least two values.

    For every c the sum is at most sum (x - c)^2, and that of the best c is it. So with d the squared distance of c to
    the farther end, upper = min over c of max over T of (sum_S d + sum_T d) / (n - 1), convex in c: a golden section
    finds it, and what it finds holds wherever it stops. lower = min over c and T of the same with d to the nearer end:
    c is sought in intervals, with d to the whole interval, and the interval with the least bound is halved until it is
    within a millionth or 100 were. Of more than 2,000 entries neighbours are one with the ends of all, but for the 250
    least and greatest: O(m log m + steps). Where no row is in doubt both are the variance.
    """
    n = int(values.rows.sum())
    certain = bool(values.sure.all()) and not np.any(values.low != values.high)
    low, high, sure, rows = _in_units(values if certain else _fewer(values))
    most = max(float(np.abs(low).max()), float(np.abs(high).max()))
    scale = math.ldexp(1.0, min(math.frexp(most)[1], 1023))
    low, high = low / scale, high / scale
    first, last = float(low.min()), float(high.max())
    slack = (n + 16) * _EPSILON
    away = 16 * _EPSILON * (last - first)

    def farthest(c: float) -> float:
        return _extreme(np.maximum(np.abs(low - c), np.abs(high - c)) ** 2, sure, rows, most=True)

    def nearest(begin: float, end: float) -> float:
        distance = np.maximum(np.maximum(low - end, begin - high), 0.0)
        return _extreme(distance**2, sure, rows, most=False)

    mean = float((low * rows).sum() / n / 2 + (high * rows).sum() / n / 2)
    upper = farthest(mean) if certain else min(_least_convex(farthest, first, last), farthest(mean))
    lower = upper if certain else _least_of_cells(nearest, first, last)
    with np.errstate(over="ignore"):
        lower, upper = lower * (1 - slack) - away, upper * (1 + slack) + away
        return min(max(lower, 0.0) * scale * scale, MOST), float(upper * scale * scale)


def _fewer(values: Values) -> Values:
    """The same with neighbours put together, which widens what they can be."""
    parts = []
    for sure in (True, False):
        at = np.flatnonzero(values.sure == sure)
        at = at[np.argsort(values.low[at], kind="stable")]
        if at.size > _MOST_ENTRIES:
            middle = np.linspace(_ENDS, at.size - _ENDS, _MOST_ENTRIES - 2 * _ENDS, endpoint=False).astype(
                int
            )
            begins = np.concatenate([np.arange(_ENDS), middle, np.arange(at.size - _ENDS, at.size)])
        else:
            begins = np.arange(at.size)
        if at.size:
            low, high = values.low[at[begins]], np.maximum.reduceat(values.high[at], begins)
            rows, weight = (np.add.reduceat(each[at], begins) for each in (values.rows, values.weight))
            parts.append(Values(np.full(begins.size, sure), low, high, weight, rows))
    return Values(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _in_units(values: Values) -> tuple[Float64s, Float64s, NDArray[np.bool_], Int64s]:
    """Ends, whether sure and counts, with up to two rows of each entry of P by themselves: one of two may be the first
    choice."""
    sure, rows = values.sure, values.rows
    at = np.arange(rows.size)
    once = [np.where(sure, rows, 1), np.where(sure, 0, np.minimum(rows - 1, 1)), np.where(sure, 0, rows - 2)]
    each = np.concatenate([at, at, at])
    counts = np.maximum(np.concatenate(once), 0)
    each, counts = each[counts > 0], counts[counts > 0]
    return values.low[each], values.high[each], sure[each], counts


def _extreme(d: Float64s, sure: NDArray[np.bool_], rows: Int64s, *, most: bool) -> float:
    """The most, or least, of (sum_S d + sum_T d) / (n - 1) with n >= 2: the greatest, or least, d of P one after the
    other."""
    order = np.argsort(-d[~sure] if most else d[~sure], kind="stable")
    rest, counts = d[~sure][order], rows[~sure][order]
    sums = (d * rows)[sure].sum() + np.concatenate([[0.0], np.cumsum(rest * counts)])
    sizes = int(rows[sure].sum()) + np.concatenate([[0], np.cumsum(counts)])
    usable = sizes >= 2
    ratios = sums[usable] / (sizes[usable] - 1)
    return float(ratios.max() if most else ratios.min())


def _least_convex(of: Callable[[float], float], first: float, last: float) -> float:
    one, other = last - _GOLDEN * (last - first), first + _GOLDEN * (last - first)
    at_one, at_other = of(one), of(other)
    best = min(at_one, at_other)
    for _ in range(_STEPS):
        if at_one <= at_other:
            last, other, at_other = other, one, at_one
            one = last - _GOLDEN * (last - first)
            at_one = of(one)
        else:
            first, one, at_one = one, other, at_other
            other = first + _GOLDEN * (last - first)
            at_other = of(other)
        best = min(best, at_one, at_other)
    return float(best)


def _least_of_cells(of: Callable[[float, float], float], first: float, last: float) -> float:
    best, ticket = float(of((first + last) / 2, (first + last) / 2)), count()
    cells = [(float(of(first, last)), next(ticket), first, last)]
    for _ in range(_CELLS):
        bound, _, begin, end = cells[0]
        if bound >= best * (1 - _CLOSE):
            break
        middle = (begin + end) / 2
        heapq.heapreplace(cells, (float(of(begin, middle)), next(ticket), begin, middle))
        heapq.heappush(cells, (float(of(middle, end)), next(ticket), middle, end))
        best = min(best, float(of(middle, middle)))
    return min(cells[0][0], best)
