"""Slow, obvious twins of the LP bound: every slot there is, one linear program, one look at each slot."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog

from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.table import Table
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
