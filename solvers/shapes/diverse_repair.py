"""Mends the classes of a start that break the rules for sensitive values, with as few exchanges as it takes.

l-greedy knows hulls only. Where most of its classes meet the rules as they are, those that do not need one or two
members of other values, and joining classes or dealing all of them out anew would throw the good ones away. So a class
that breaks a rule exchanges a member for an individual from near by whose class can spare it: of all such exchanges,
the one that costs least loss for what it mends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.group_loss import (
    NOBODY,
    POOL,
    changed_loss,
    exchanged_counts,
    members,
    move,
    refresh_group,
)
from kanonflow.solvers.partition_search.groups import WAITING, Groups, build_classes
from kanonflow.solvers.partition_search.rules import HOME, TARGET, ValueRules, forget, shortfall
from kanonflow.solvers.search.workspace import EPSILON
from kanonflow.solvers.units.individuals import Individuals

# Newcomers that a class tries in the place of each of its members.
_SHORTLIST = 24
# A class that gave somebody away may be mended after one that needed him; more rounds found nothing on any data set.
_ROUNDS = 2


class _Verdicts(NamedTuple):
    """What is known of individuals with one row, by its value, where one field has rules.

    value: int64 (u,), -1 where it takes more than one value to know what an individual brings. helps: int8 (S,),
    whether a value mends the class at hand: 1, no: 0, not known: -1. spares: bool (c,), whether a
    class can exchange one value for another; exchange: int64 (c,), which ones that was, -1 after it changed.
    """

    value: NDArray[np.int64]
    helps: NDArray[np.int8]
    exchange: NDArray[np.int64]
    spares: NDArray[np.bool_]


def exchanged_until_diverse(
    people: Individuals,
    labels: NDArray[np.int32],
    tour: NDArray[np.int64],
    k: int,
    rules: ValueRules,
    reach: int,
) -> NDArray[np.int32]:
    """Labels int32 (u,) after exchanges between classes that broke a rule and individuals near by; sizes stay.

    No exchange makes a class miss a rule by more than it did. reach: places along the tour in which newcomers are
    sought first; farther where there are none. O(exchanges (reach (d + W) + size d)).
    """
    classes = build_classes(people, labels, k)
    place = np.empty(tour.size, dtype=np.int64)
    place[tour] = np.arange(tour.size)
    known = _Verdicts(
        value=np.where((people.rows == 1) & (rules.kind.size == 1), rules.values[rules.begin, 0], -1).astype(
            np.int64
        ),
        helps=np.full(rules.share.size, -1, dtype=np.int8),
        exchange=np.full(classes.size.size, -1, dtype=np.int64),
        spares=np.zeros(classes.size.size, dtype=np.bool_),
    )
    _exchange_all(people, classes, rules, known, tour, place, reach)
    return classes.label


@kernel
def _exchange_all(
    people: Individuals, classes: Groups, rules: ValueRules, known: _Verdicts, tour: np.ndarray, place: np.ndarray,
    reach: int,
) -> None:  # fmt: skip
    shortlist = np.empty(_SHORTLIST, dtype=np.int64)
    losses = np.empty(_SHORTLIST)
    for _ in range(_ROUNDS):
        for number in range(classes.size.size):
            # Each exchange lowers what is missed, but by as little as it likes.
            for _ in range(2 * classes.size[number] if classes.size[number] >= classes.k[0] else 0):
                forget(rules)
                known.helps[:] = -1
                missing = shortfall_after(people, classes, rules, HOME, number, -1, -1)
                if missing <= 0.0:
                    break
                found, within = 0, min(reach, tour.size)
                # Where a value is rare, those near by have been taken: farther ones are sought only then.
                while found == 0 and within <= tour.size:
                    found = _newcomers(
                        people, classes, rules, known, tour, place, within, number, missing, shortlist, losses
                    )
                    within = within * 4 if within * 4 <= tour.size or within == tour.size else tour.size
                if not _exchange_best(people, classes, rules, known, number, missing, shortlist[:found]):
                    break


@kernel(inner=True)
def shortfall_after(
    people: Individuals, classes: Groups, rules: ValueRules, side: int, number: int, out: int, unit: int
) -> float:
    """``shortfall`` of a class after an exchange, with the rows that each member would keep."""
    _, _, _, fewest = exchanged_counts(people, classes, number, out, unit)
    return shortfall(people, rules, classes.after, classes.head[number], side, number, fewest, out, unit)


@kernel(inner=True)
def _newcomers(
    people: Individuals, classes: Groups, rules: ValueRules, known: _Verdicts, tour: np.ndarray, place: np.ndarray,
    reach: int, number: int, missing: float, shortlist: np.ndarray, losses: np.ndarray,
) -> int:  # fmt: skip
    """Fill the shortlist with those whose joining widens a class least and mends it somewhat; returns how many.

    Their own classes can spare them in exchange for the member whom the class itself misses least.
    """
    size = classes.size[number]
    own_members = members(classes, number)
    middle = np.sort(place[own_members])[size // 2]
    spared, least = own_members[0], np.inf
    for member in own_members:
        without = shortfall_after(people, classes, rules, HOME, number, member, -1)
        if without < least:
            spared, least = member, without
    own, values = known.value[spared], rules.share.size
    found = 0
    for index in range(max(0, middle - reach), min(tour.size, middle + reach + 1)):
        unit = tour[index]
        target = classes.label[unit]
        if target == number or (target >= 0 and classes.size[target] < classes.k[0]):
            continue
        # A call costs as much as a loss, for it counts references to all arrays: mostly it is not needed.
        value = known.value[unit]
        helps = known.helps[value] if value >= 0 else -1
        if helps < 0:
            helps = _helps(people, classes, rules, known, number, missing, unit)
        if helps == 0:
            continue
        if target >= 0:
            known_exchange = value >= 0 and own >= 0 and known.exchange[target] == value * values + own
            if known_exchange and not known.spares[target]:
                continue
            if not known_exchange and not _can_spare(people, classes, rules, known, target, unit, spared):
                continue
        loss = changed_loss(people, classes, np.int64(number), NOBODY, np.int64(unit))
        if found == shortlist.size and loss >= losses[found - 1]:
            continue
        slot = found if found < shortlist.size else found - 1
        found = slot + 1
        while slot > 0 and losses[slot - 1] > loss:
            losses[slot], shortlist[slot] = losses[slot - 1], shortlist[slot - 1]
            slot -= 1
        losses[slot], shortlist[slot] = loss, unit
    return found


@kernel(inner=True)
def _helps(
    people: Individuals, classes: Groups, rules: ValueRules, known: _Verdicts, number: int, missing: float, unit: int
) -> int:  # fmt: skip
    """1 when a class misses less with an individual more, else 0."""
    after = shortfall_after(people, classes, rules, HOME, number, -1, unit)
    helps = 1 if after < missing - EPSILON else 0
    if known.value[unit] >= 0:
        known.helps[known.value[unit]] = helps
    return helps


@kernel(inner=True)
def _can_spare(
    people: Individuals,
    classes: Groups,
    rules: ValueRules,
    known: _Verdicts,
    target: int,
    leaver: int,
    unit: int,
) -> bool:
    """Whether a class misses the rules by no more after an exchange than before."""
    old, new = known.value[leaver], known.value[unit]
    exchange = old * rules.share.size + new if old >= 0 and new >= 0 else -1
    if exchange >= 0 and known.exchange[target] == exchange:
        return known.spares[target]
    after = shortfall_after(people, classes, rules, TARGET, target, leaver, unit)
    spares = after <= 0.0 or after <= shortfall_after(people, classes, rules, TARGET, target, -1, -1)
    if exchange >= 0:
        known.exchange[target], known.spares[target] = exchange, spares
    return spares


@kernel(inner=True)
def _exchange_best(
    people: Individuals, classes: Groups, rules: ValueRules, known: _Verdicts, number: int, missing: float,
    shortlist: np.ndarray,
) -> bool:  # fmt: skip
    """Make the exchange of least added loss for what it mends; False when there is none."""
    best = np.inf
    leaver = newcomer = -1
    for unit in shortlist:
        target = classes.label[unit]
        for member in members(classes, number):
            mended = missing - shortfall_after(people, classes, rules, HOME, number, member, unit)
            if mended <= EPSILON:
                continue
            added = (
                changed_loss(people, classes, np.int64(number), member, np.int64(unit)) - classes.loss[number]
            )
            if target >= 0:
                added += (
                    changed_loss(people, classes, np.int64(target), np.int64(unit), member)
                    - classes.loss[target]
                )
            else:
                added += (people.rows[member] - people.rows[unit]) * WAITING
            if added / mended >= best:
                continue
            if target >= 0 and not _can_spare(people, classes, rules, known, target, unit, member):
                continue
            best = added / mended
            leaver, newcomer = member, unit
    if leaver < 0:
        return False
    target = classes.label[newcomer]
    move(people, classes, leaver, POOL)
    move(people, classes, newcomer, number)
    move(people, classes, leaver, target)
    refresh_group(people, classes, number)
    known.exchange[number] = -1
    if target >= 0:
        refresh_group(people, classes, target)
        known.exchange[target] = -1
    return True
