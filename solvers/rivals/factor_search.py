"""Factor search: take one member out of each of many neighbouring slots, and put them back at least cost.

What is taken out is a random 1-factor of the graph between these slots and their members; which member goes back
where is an assignment problem, solved exactly. So the loss never rises, and rotations of any length are found at once.
Doka's Hungarian (S2; S0) is this step used constructively, k - 1 times, without revisiting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.slot_loss import admits, replaced_loss, swap
from kanonflow.solvers.search.workspace import EPSILON
from kanonflow.solvers.units.distinct_rows import Units

# Slots of one assignment: dense, so its cost grows with the square and its solution with nearly the cube.
CHUNK_SLOTS = 300
SWEEPS_PER_PLACE = 4
# More than any sum of losses: what may not stand in a slot is never assigned while the old order is possible.
FORBIDDEN = 1e6


@kernel
def factor_costs(units: Units, slots: Any, chosen: np.ndarray, place: np.ndarray, cost: np.ndarray) -> None:
    """Loss of each chosen slot with each taken unit in its open place, float64 (c, c); FORBIDDEN where not legal."""
    for i in range(chosen.size):
        for j in range(chosen.size):
            unit = slots.members[chosen[j], place[j]]
            if admits(slots, chosen[i], place[i], units.individual[unit], units.limit[unit]):
                cost[i, j] = replaced_loss(units.features, slots, chosen[i], place[i], unit)
            else:
                cost[i, j] = FORBIDDEN


@kernel
def put_back(units: Units, slots: Any, chosen: np.ndarray, place: np.ndarray, taken: np.ndarray) -> None:
    """Slot ``chosen[i]`` gets the unit that ``chosen[taken[i]]`` gave, by swaps of places."""
    # held[i]: whose unit stands in slot i now; where[j]: in which slot the unit of slot j stands now.
    held = np.arange(chosen.size)
    where = np.arange(chosen.size)
    for i in range(chosen.size):
        at = where[taken[i]]
        if at != i:
            swap(units.features, slots, chosen[i], place[i], chosen[at], place[at])
            held[at], where[held[i]] = held[i], at
            held[i], where[taken[i]] = taken[i], i


def factor_search(
    units: Units,
    slots: Any,
    tour: NDArray[np.int64],
    *,
    sweeps: int,
    seed: int,
    chunk: int = CHUNK_SLOTS,
) -> int:
    """Lower the loss of a state (slot_loss.py) in place; returns the evaluations made.

    tour: int64 (n,), slots in an order in which neighbours are near. Each sweep cuts it elsewhere into stretches of
    ``chunk`` slots, takes a random member out of each and assigns them anew. Postcondition: a legal graph whose loss
    is not higher. O(sweeps n (chunk d + chunk^2)).
    """
    # Loaded here: it takes half a second, and few solvers want it.
    from scipy.optimize import linear_sum_assignment

    n, k = slots.members.shape
    generator = np.random.default_rng(seed)
    evaluations = 0
    for _ in range(sweeps):
        stretches = np.roll(tour, int(generator.integers(n)))
        for chosen in np.array_split(stretches, max(1, round(n / chunk))):
            place = generator.integers(0, k, chosen.size)
            cost = np.empty((chosen.size, chosen.size))
            factor_costs(units, slots, chosen, place, cost)
            evaluations += cost.size
            _, taken = linear_sum_assignment(cost)
            gain = float(np.trace(cost) - cost[np.arange(chosen.size), taken].sum())
            if gain > EPSILON * chosen.size:
                put_back(units, slots, chosen, place, taken)
    return evaluations
