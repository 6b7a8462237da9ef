"""Which sets of whole cohorts can stand behind the groups of a release? An exact cover, with bounds.

Every group has demands: of each payload so many rows, and, once that is not enough, somebody at each end of its box and
k people. Every cohort brings so many of each, at least and at most, to the one group that it stands in:

    demand of group g   low <= sum over the cohorts of g of what each brings <= high
    cohort              in one group of its release if it has a row there for certain, else in at most one

``narrow`` removes pairs that no answer has and finds those that all answers have: bounds of sums, in rounds over
arrays. What it leaves open is answered exactly, as far as a number of steps goes: the sets that fit each group are
listed (``fitting_sets``), and a set stays if some choice of one set a group takes every cohort once
(``possible_sets``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNBOUNDED = 1 << 40
_MOST_ROUNDS = 64


class OutOfStepsError(Exception):
    """The search took as many steps as it was given; what it was asked stays open."""


class Steps:
    """How many steps a search may still take."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self) -> None:
        """One step. Raises OutOfStepsError."""
        if self.left <= 0:
            raise OutOfStepsError
        self.left -= 1


@dataclass(frozen=True)
class Cover:
    """d demands, p pairs of a cohort and a group, e contributions.

    group: int64 (p,). cohort: int64 (p,). certain: bool (c,), whether each cohort is in some group.
    low, high: int64 (d,). owner: int64 (d,), the group of each demand.
    pair, demand: int64 (e,). least, most: int64 (e,), what the pair brings to the demand.
    """

    group: np.ndarray
    cohort: np.ndarray
    certain: np.ndarray
    low: np.ndarray
    high: np.ndarray
    owner: np.ndarray
    pair: np.ndarray
    demand: np.ndarray
    least: np.ndarray
    most: np.ndarray


@dataclass(frozen=True)
class Narrowed:
    """alive: bool (p,), pairs that some answer may have. chosen: bool (p,), those that all answers have. refuted: bool
    (g,), groups with a demand that nothing meets; lost: bool (c,), cohorts that no group takes, or two must have."""

    alive: np.ndarray
    chosen: np.ndarray
    refuted: np.ndarray
    lost: np.ndarray


def narrow(cover: Cover, groups: int, before: Narrowed | None = None) -> Narrowed:
    """Remove and choose pairs until no bound says more. O(contributions) a round; groups: how many there are."""
    count = len(cover.group)
    alive = np.ones(count, bool) if before is None else before.alive.copy()
    chosen = np.zeros(count, bool) if before is None else before.chosen.copy()
    # More than a demand takes, whoever else is there.
    alive[cover.pair[cover.least > cover.high[cover.demand]]] = False
    refuted = np.zeros(groups, bool)
    lost = np.zeros(len(cover.certain), bool)
    for _ in range(_MOST_ROUNDS):
        there = alive[cover.pair]
        mine = chosen[cover.pair] & there
        size = len(cover.low)
        upper = _sums(cover.demand[there], cover.most[there], size)
        lower = _sums(cover.demand[mine], cover.least[mine], size)
        refuted[cover.owner[(upper < cover.low) | (lower > cover.high)]] = True
        open_ = there & ~mine
        at = cover.demand
        over = open_ & (cover.least > (cover.high - lower)[at])
        needed = open_ & (cover.most > (upper - cover.low)[at])
        choices = np.bincount(cover.cohort[alive], minlength=len(cover.certain))
        lost |= cover.certain & (choices == 0)
        only = alive & ~chosen & cover.certain[cover.cohort] & (choices[cover.cohort] == 1)
        taken = np.zeros(count, bool)
        taken[cover.pair[needed]] = True
        taken |= only
        gone = np.zeros(count, bool)
        gone[cover.pair[over]] = True
        chosen |= taken & alive
        has = np.zeros(len(cover.certain), bool)
        has[cover.cohort[chosen]] = True
        gone |= alive & ~chosen & has[cover.cohort]
        gone &= alive
        if not gone.any() and not taken.any():
            break
        alive &= ~(gone & ~chosen)
    lost |= np.bincount(cover.cohort[chosen], minlength=len(cover.certain)) > 1
    return Narrowed(alive, chosen, refuted, lost)


def _sums(at: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(at, weights=values, minlength=size).astype(np.int64)


@dataclass(frozen=True)
class Wish:
    """What one group still asks for. low, high: by demand. brings: of each cohort that may be in it, and is in no group
    yet, (number, ((demand, least, most), ...))."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    brings: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]


def fitting_sets(wish: Wish, steps: Steps, most: int) -> list[frozenset[int]]:
    """All sets of its cohorts that meet the demands of a group. Raises OutOfStepsError, also for more than ``most``."""
    # Cohorts that bring much come first: what they leave open is little.
    brings = sorted(wish.brings, key=lambda each: (-sum(entry[1] for entry in each[1]), each[0]))
    rest = [[0] * len(wish.low)]
    for _, entries in reversed(brings):
        sums = rest[-1].copy()
        for demand, _, more in entries:
            sums[demand] += more
        rest.append(sums)
    rest.reverse()
    found: list[frozenset[int]] = []
    lower = [0] * len(wish.low)
    upper = [0] * len(wish.low)
    chosen: list[int] = []
    demands = range(len(wish.low))

    def descend(place: int) -> None:
        steps.take()
        after = rest[place]
        for demand in demands:
            if upper[demand] + after[demand] < wish.low[demand]:
                return
        if place == len(brings):
            if len(found) == most:
                raise OutOfStepsError
            found.append(frozenset(chosen))
            return
        number, entries = brings[place]
        if all(lower[demand] + least <= wish.high[demand] for demand, least, _ in entries):
            for demand, least, more in entries:
                lower[demand] += least
                upper[demand] += more
            chosen.append(number)
            descend(place + 1)
            chosen.pop()
            for demand, least, more in entries:
                lower[demand] -= least
                upper[demand] -= more
        descend(place + 1)

    descend(0)
    return found


Sets = list[list[frozenset[int]]]


def possible_sets(sets: Sequence[Sequence[frozenset[int]]], certain: frozenset[int], steps: Steps) -> Sets:
    """Of each group's sets those of some answer: one set a group, no cohort twice, every ``certain`` one once.

    Of a group with more than one two are enough to know that it is open. Empty lists: there is no answer. Raises
    OutOfStepsError: it is not known.
    """
    left = _consistent([list(each) for each in sets], certain)
    if left is None:
        return [[] for _ in sets]
    seen: list[set[frozenset[int]]] = [set() for _ in sets]
    for group in range(len(left)):
        for one in list(left[group]):
            if len(seen[group]) > 1:
                break
            if one in seen[group]:
                continue
            answer = _answer(
                [[one] if place == group else each for place, each in enumerate(left)], certain, steps
            )
            if answer is None:
                left[group].remove(one)
                continue
            for place, own in enumerate(answer):
                seen[place].add(own)
        if not left[group]:
            return [[] for _ in sets]
    return [[one for one in each if one in known] for each, known in zip(left, seen, strict=True)]


def _answer(sets: Sets, certain: frozenset[int], steps: Steps) -> list[frozenset[int]] | None:
    """Some answer; None: there is none. Depth first, the group with the fewest sets first."""
    steps.take()
    left = _consistent([list(each) for each in sets], certain)
    if left is None:
        return None
    unsure = [group for group, each in enumerate(left) if len(each) > 1]
    if not unsure:
        return [each[0] for each in left]
    group = min(unsure, key=lambda each: len(left[each]))
    for one in left[group]:
        found = _answer(
            [[one] if place == group else each for place, each in enumerate(left)], certain, steps
        )
        if found is not None:
            return found
    return None


def _consistent(sets: Sets, certain: frozenset[int]) -> Sets | None:
    """Without sets that share a cohort which another group must have, or lack one that only this group can have."""
    while True:
        changed = False
        holder: dict[int, int] = {}
        takers: dict[int, set[int]] = {number: set() for number in certain}
        for group, each in enumerate(sets):
            if not each:
                return None
            for number in frozenset.intersection(*each):
                if holder.setdefault(number, group) != group:
                    return None
            for one in each:
                for number in one & certain:
                    takers[number].add(group)
        only: dict[int, list[int]] = {}
        for number, groups in takers.items():
            if not groups:
                return None
            if len(groups) == 1:
                only.setdefault(next(iter(groups)), []).append(number)
        for group, each in enumerate(sets):
            needs = only.get(group, [])
            kept = [
                one
                for one in each
                if all(holder.get(number, group) == group for number in one) and all(n in one for n in needs)
            ]
            if len(kept) < len(each):
                sets[group] = kept
                changed = True
        if not changed:
            return sets
