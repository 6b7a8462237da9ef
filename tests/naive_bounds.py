"""Slow, obvious twins of the LP bound: every slot there is, one linear program, one look at each slot."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import Units
from tests import naive
from tests.mixed_tables import unit_rows


def slot_loss(table: Table, units: Units, slot: tuple[int, ...]) -> float:
    """Loss of the box of a slot of units."""
    rows = unit_rows(units)
    return naive.box_loss(table, [rows[unit] for unit in slot])


def all_slots(units: Units, k: int) -> list[tuple[int, ...]]:
    """Every multiset of k units that one slot may hold."""
    every = itertools.combinations_with_replacement(range(units.weight.size), k)
    return [slot for slot in every if naive.may_stand_together(units, list(slot))]


def least_lp_loss(table: Table, units: Units, k: int) -> float:
    """The value of the linear program over all slots, over n."""
    slots = all_slots(units, k)
    losses = [slot_loss(table, units, slot) for slot in slots]
    times = np.array([[slot.count(unit) for slot in slots] for unit in range(units.weight.size)])
    found = linprog(losses, A_eq=times, b_eq=units.weight * k, bounds=(0, None), method="highs")
    assert found.status == 0
    return found.fun / int(units.weight.sum())


def least_reduced_cost(table: Table, units: Units, k: int, dual: np.ndarray) -> float:
    """The least of c(S) - (sum of duals over S) of all slots."""
    return min(
        slot_loss(table, units, slot) - sum(dual[unit] for unit in slot) for slot in all_slots(units, k)
    )


def least_by_anchor(table: Table, units: Units, k: int, dual: np.ndarray, order: list[int]) -> list[float]:
    """For each unit in turn: the least reduced cost of the slots whose member of best rank in ``order`` it is."""
    rank = {unit: place for place, unit in enumerate(order)}
    least = [np.inf] * len(order)
    for slot in all_slots(units, k):
        anchor = min(slot, key=rank.__getitem__)
        cost = slot_loss(table, units, slot) - sum(dual[unit] for unit in slot)
        least[anchor] = min(least[anchor], cost)
    return least


def rounded_slots(
    units: Units, slots: np.ndarray, x: np.ndarray, k: int, seed: int
) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """Slots taken for the program's x, whole or in part, in order; and the places that each unit still needs."""
    need = {unit: int(weight) * k for unit, weight in enumerate(units.weight)}
    taken: list[tuple[int, ...]] = []
    n = int(units.weight.sum())

    def room(slot: list[int]) -> int:
        return min(need[unit] // slot.count(unit) for unit in slot)

    def take(slot: list[int]) -> None:
        taken.append(tuple(slot))
        for unit in slot:
            need[unit] -= 1

    for slot, share in zip(slots.tolist(), x, strict=True):
        for _ in range(min(int(share + 1e-6), room(slot))):
            take(slot)
    rest = np.clip(x - np.floor(x + 1e-6), 0.0, 1.0)
    score = rest + 0.3 * np.random.default_rng(seed).random(x.size)
    ranked = sorted((index for index in range(x.size) if rest[index] > 1e-6), key=lambda at: (-score[at], at))
    for index in ranked:
        if room(slots[index].tolist()) > 0:
            take(slots[index].tolist())
    for least in range(k - 1, 1, -1):
        for index in ranked:
            free = [unit for unit in sorted(set(slots[index].tolist())) if need[unit] > 0]
            if len(taken) < n and len(free) >= least:
                take(free)
    return taken, need
