"""What a class shows of its sensitive values, as the search changes it: counters, and whether the rules are met.

A class keeps as many rows of each member as its member of fewest has (``state``), and which ones is known
beforehand: the first in the order of priority. So the search judges exactly the rows that would be released. A class
that breaks a rule is priced like one with fewer than k members: all of its rows wait. Then no move makes a class that
would be released break a rule unless waiting were cheaper, and a start that breaks some is repaired by the search.

A tally holds the counts of one class; a move adds and takes off the rows of two individuals, each in O(1) with the
number of distinct values, the largest count (through the number of values at each count), sum c ln c and the distance
from the release's shares. Only a class that gains or loses rows as a whole needs a distance over all values again.
The rules' formulas stand in ``diversity.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.diversity import TOLERANCE
from kanonflow.solvers.problem.sensitive import DISTANCES, KINDS, Sensitive
from kanonflow.solvers.units.individuals import Individuals

HOME, TARGET = 0, 1
_NOBODY = -1


class ValueRules(NamedTuple):
    """The rules over f sensitive fields with S values in all, two tallies, and the offers of one scan.

    begin: int64 (u,), where each individual's rows begin in values: int32 (n, f), codes in the order in which rows
    are kept, from offset[f] on: int64 (f + 1,). kind, distance: int64 (f,), 1 + place in KINDS and DISTANCES, 0 for
    none; least, most: float64 (f,), their l and t. share: float64 (S,), q_v of each field.
    Tallies, first axis 2: counts: int64 (2, S). at_count: int64 (2, f, C), values at each count. different, peak:
    int64 (2, f). mixed: float64 (2, f), sum c ln c. spread: float64 (2, f), sum |c_v - norm q_v|.
    loaded: int32 (2, C), rows counted. state: int64 (2, 4): class or -1, rows a member, rows loaded, norm.
    offer_gain: float64 (M,), offer: int64 (M, 2), target and partner; offers: int64 (1,).
    """

    begin: NDArray[np.int64]
    values: NDArray[np.int32]
    offset: NDArray[np.int64]
    kind: NDArray[np.int64]
    least: NDArray[np.float64]
    distance: NDArray[np.int64]
    most: NDArray[np.float64]
    share: NDArray[np.float64]
    counts: NDArray[np.int64]
    at_count: NDArray[np.int64]
    different: NDArray[np.int64]
    peak: NDArray[np.int64]
    mixed: NDArray[np.float64]
    spread: NDArray[np.float64]
    loaded: NDArray[np.int32]
    state: NDArray[np.int64]
    offer_gain: NDArray[np.float64]
    offer: NDArray[np.int64]
    offers: NDArray[np.int64]


def build_rules(
    people: Individuals, fields: Sequence[Sensitive], priority: NDArray[np.int64], room: int, neighbours: int
) -> ValueRules | None:
    """The rules of these fields, None without any. room: most members of a class. neighbours: classes a scan sees.

    priority: int64 (n,), of an individual's rows those with smaller values (then smaller row number) are kept first.
    O(n log n).
    """
    if not fields:
        return None
    order = np.lexsort([priority, people.of_row])
    sizes = [max(field.values, 1) for field in fields]
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes = np.stack([field.codes + first for field, first in zip(fields, offset, strict=False)], axis=1)
    f = len(fields)
    most_rows = min((room + 2) * int(people.rows.max(initial=1)), people.of_row.size) + 2
    offers = 2 + neighbours * (room + 2)
    return ValueRules(
        begin=np.cumsum(people.rows) - people.rows,
        values=codes[order].astype(np.int32),
        offset=offset,
        kind=np.array([0 if one.kind is None else 1 + KINDS.index(one.kind) for one in fields]),
        least=np.array([float(one.l) for one in fields]),
        distance=np.array(
            [0 if one.distance is None else 1 + DISTANCES.index(one.distance) for one in fields]
        ),
        most=np.array([float(one.t) for one in fields]),
        share=np.concatenate(
            [
                np.bincount(one.codes, minlength=s) / one.codes.size
                for one, s in zip(fields, sizes, strict=True)
            ]
        ),
        counts=np.zeros((2, int(offset[-1])), dtype=np.int64),
        at_count=np.zeros((2, f, most_rows), dtype=np.int64),
        different=np.zeros((2, f), dtype=np.int64),
        peak=np.zeros((2, f), dtype=np.int64),
        mixed=np.zeros((2, f)),
        spread=np.zeros((2, f)),
        loaded=np.zeros((2, most_rows), dtype=np.int32),
        state=np.full((2, 4), _NOBODY, dtype=np.int64) * np.array([1, 0, 0, 0]),
        offer_gain=np.zeros(offers),
        offer=np.zeros((offers, 2), dtype=np.int64),
        offers=np.zeros(1, dtype=np.int64),
    )


def part_of_rules(rules: ValueRules | None, chosen: NDArray[np.int64]) -> ValueRules | None:
    """The rules for some of the individuals, with tallies of their own: for a search beside others."""
    if rules is None:
        return None
    own = (
        *("counts", "at_count", "different", "peak", "mixed", "spread", "loaded", "state"),
        *("offer_gain", "offer", "offers", "share"),
    )
    return rules._replace(begin=rules.begin[chosen], **{name: getattr(rules, name).copy() for name in own})


@kernel(inner=True, counting=False)
def _times_log(count: int) -> float:
    return count * math.log(count) if count > 1 else 0.0


@kernel(inner=True, counting=False)
def _count(rules: ValueRules, side: int, row: int, step: int) -> None:
    """Add a row to a tally (step 1) or take it off (-1). O(f)."""
    norm = rules.state[side, 3]
    for f in range(rules.kind.size):
        code = rules.values[row, f]
        old = rules.counts[side, code]
        new = old + step
        if old == 0 or new == 0:
            rules.different[side, f] += 1 if old == 0 else -1
        # Only what a rule of this field reads: a logarithm costs more than all the rest.
        if rules.kind[f] == 2:
            rules.mixed[side, f] += _times_log(new) - _times_log(old)
        elif rules.kind[f] == 3:
            if old > 0:
                rules.at_count[side, f, old] -= 1
            if new > 0:
                rules.at_count[side, f, new] += 1
            if new > rules.peak[side, f] or (
                old == rules.peak[side, f] and rules.at_count[side, f, old] == 0
            ):
                rules.peak[side, f] = new
        if rules.distance[f] == 1:
            rules.spread[side, f] += abs(new - norm * rules.share[code]) - abs(old - norm * rules.share[code])
        rules.counts[side, code] = new


@kernel(inner=True, counting=False)
def _load(
    people: Individuals,
    rules: ValueRules,
    after: np.ndarray,
    first: int,
    side: int,
    number: int,
    row_count: int,
) -> None:
    """Count the first ``row_count`` rows of each member of a class, after clearing what was there. O(rows f)."""
    for index in range(rules.state[side, 2]):
        for f in range(rules.kind.size):
            code = rules.values[rules.loaded[side, index], f]
            rules.at_count[side, f, rules.counts[side, code]] = 0
            rules.counts[side, code] = 0
    total = 0
    unit = np.int64(first)
    while unit >= 0:
        total += min(row_count, people.rows[unit])
        unit = np.int64(after[unit])
    rules.state[side, 0], rules.state[side, 1] = number, row_count
    rules.state[side, 2], rules.state[side, 3] = total, total
    for f in range(rules.kind.size):
        rules.different[side, f] = rules.peak[side, f] = 0
        # Nothing counted yet: sum |0 - norm q_v| = norm, for shares sum to 1.
        rules.mixed[side, f], rules.spread[side, f] = 0.0, float(total)
    index = 0
    unit = np.int64(first)
    while unit >= 0:
        for row in range(rules.begin[unit], rules.begin[unit] + min(row_count, people.rows[unit])):
            _count(rules, side, row, 1)
            rules.loaded[side, index] = row
            index += 1
        unit = np.int64(after[unit])


@kernel(inner=True, counting=False)
def _distance(rules: ValueRules, side: int, f: int, rows: int) -> float:
    """Equal or ordered distance of a tally's shares from the release's. O(values), O(1) where spread is right."""
    if rules.distance[f] == 1 and rules.state[side, 3] == rows:
        return rules.spread[side, f] / (2.0 * rows)
    total = ahead = 0.0
    shown = 0
    for code in range(rules.offset[f], rules.offset[f + 1]):
        if rules.share[code] > 0.0 or rules.counts[side, code] > 0:
            gap = rules.counts[side, code] / rows - rules.share[code]
            ahead += gap
            shown += 1
            total += abs(gap) if rules.distance[f] == 1 else abs(ahead)
    return total / 2.0 if rules.distance[f] == 1 else total / max(shown - 1, 1)


@kernel(inner=True, counting=False)
def _judge(rules: ValueRules, side: int, rows: int) -> bool:
    """Whether a tally of that many rows meets every rule."""
    met = True
    for f in range(rules.kind.size):
        if rules.kind[f] == 1:
            met = met and rules.different[side, f] >= rules.least[f]
        elif rules.kind[f] == 2:
            entropy = math.log(rows) - rules.mixed[side, f] / rows
            met = met and entropy >= math.log(rules.least[f]) - TOLERANCE
        elif rules.kind[f] == 3:
            met = met and rules.peak[side, f] * rules.least[f] <= rows
        if met and rules.distance[f] > 0:
            met = _distance(rules, side, f, rows) <= rules.most[f] + TOLERANCE
    return met


@kernel(inner=True, counting=False)
def _exchange(
    people: Individuals, rules: ValueRules, side: int, row_count: int, leaver: int, unit: int
) -> int:
    """Count the kept rows of one individual off a tally and those of another on; rows that it holds then."""
    rows = rules.state[side, 2]
    if leaver >= 0:
        gone = min(row_count, people.rows[leaver])
        for index in range(gone):
            _count(rules, side, rules.begin[leaver] + index, -1)
        rows -= gone
    if unit >= 0:
        come = min(row_count, people.rows[unit])
        for index in range(come):
            _count(rules, side, rules.begin[unit] + index, 1)
        rows += come
    return rows


@kernel(counting=False)
def meets(
    people: Individuals, rules: ValueRules, after: np.ndarray, first: int, side: int, number: int,
    row_count: int, out: int, unit: int,
) -> bool:  # fmt: skip
    """Whether a class meets the rules after the member ``out`` left and ``unit`` came; -1 for nobody.

    first, after: the chain of its members before. row_count: rows that each member keeps afterwards. The tally of
    ``side`` is reused when it
    holds this class at this row count; the caller forgets it (``forget``) when a class changed. O(rows of the two),
    else O(rows of the class).
    """
    if rules.state[side, 0] != number or rules.state[side, 1] != row_count:
        _load(people, rules, after, first, side, number, row_count)
    met = _judge(rules, side, _exchange(people, rules, side, row_count, out, unit))
    _exchange(people, rules, side, row_count, unit, out)
    return met


@kernel(counting=False)
def shortfall(
    people: Individuals, rules: ValueRules, after: np.ndarray, first: int, side: int, number: int,
    row_count: int, out: int, unit: int,
) -> float:  # fmt: skip
    """How far a class is from meeting the rules after an exchange, 0 when it meets them; arguments as in ``meets``.

    Each rule adds what it misses its limit by, as a share of it: values, entropy, rows of the most frequent value
    above rows / l, distance. Only to compare exchanges by: ``meets`` decides.
    """
    if rules.state[side, 0] != number or rules.state[side, 1] != row_count:
        _load(people, rules, after, first, side, number, row_count)
    rows = _exchange(people, rules, side, row_count, out, unit)
    missing = 0.0
    for f in range(rules.kind.size):
        if rules.kind[f] == 1:
            missing += max(0.0, rules.least[f] - rules.different[side, f]) / rules.least[f]
        elif rules.kind[f] == 2 and rules.least[f] > 1.0:
            entropy = math.log(rows) - rules.mixed[side, f] / rows
            missing += max(0.0, 1.0 - TOLERANCE - entropy / math.log(rules.least[f]))
        elif rules.kind[f] == 3:
            missing += max(0.0, rules.peak[side, f] * rules.least[f] - rows) / rows
        if rules.distance[f] > 0:
            missing += max(0.0, _distance(rules, side, f, rows) - rules.most[f] - TOLERANCE)
    _exchange(people, rules, side, row_count, unit, out)
    return missing


@kernel(counting=False)
def forget(rules: ValueRules) -> None:
    """Classes have changed: what the tallies hold is none of them any more."""
    rules.state[0, 0] = rules.state[1, 0] = -1
