"""The linear program over the slots known so far, solved again from its last basis as slots are added (HiGHS).

minimize sum over S of c(S) x_S,   subject to sum over S of mult_i(S) x_S = k w_i for each unit i,   x >= 0
"""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features

# Relative tolerance of the first-order method. At 1e-4 it takes three times as long, and graphs rounded are no better.
ROUGH = 1e-3
# It takes 80 to 600 (Adult, generated tables of 4 to 23 attributes); what it has after so many rounds as well.
ROUGH_ITERATIONS = 1000


def slot_losses(features: Features, slots: NDArray[np.int32]) -> NDArray[np.float64]:
    """Loss of the box of each slot, float64 (m,); slots: int32 (m, k) of units. O(m k d)."""
    total = np.zeros(slots.shape[0])
    for j, weight in enumerate(features.numeric_weight):
        values = features.numeric[slots, j]
        total += np.minimum(values.max(axis=1) - values.min(axis=1), weight)
    for j, price in enumerate(features.code_weight):
        codes = np.sort(features.codes[slots, j], axis=1)
        total += price * (codes[:, 1:] != codes[:, :-1]).sum(axis=1)
    return total


class RestrictedMaster:
    """The program over a growing set of slots.

    slots: int32 (m, k), each sorted, in the order in which they came. value: least total loss over the slots that were
    known at the last solution, infinite before the first; dual: float64 (u,), its duals. Deterministic but for a limit
    of time: one thread, dual or primal simplex as HiGHS chooses, no presolve (it would lose the basis).

    roughly: by a first-order method (PDLP, to ROUGH or ROUGH_ITERATIONS) instead, so that x holds the equations only
    nearly: in a tenth of the time (Adult, k = 5, slots of four searches: 2.2 -> .18 s at 5,000 rows, 16 -> .94 s at
    30,162; wide tables 12 to 34 s -> .1 to .4 s), and as good to round.
    """

    def __init__(self, units: Units, k: int, *, roughly: bool = False) -> None:
        self._units = units
        self._known: set[bytes] = set()
        self.slots = np.empty((0, k), dtype=np.int32)
        self.value = np.inf
        self.dual = np.zeros(units.weight.size)
        self._x = np.empty(0)
        self._enough = [highspy.HighsModelStatus.kOptimal]
        if roughly:
            self._enough.append(highspy.HighsModelStatus.kIterationLimit)
        self._highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("solver", "pdlp" if roughly else "simplex"),
            *((("kkt_tolerance", ROUGH), ("pdlp_iteration_limit", ROUGH_ITERATIONS)) if roughly else ()),
        ):
            self._highs.setOptionValue(option, value)
        places = units.weight.astype(np.float64) * k
        empty = np.empty(0, dtype=np.int32)
        none = np.zeros(places.size, dtype=np.int32)
        self._highs.addRows(places.size, places, places, 0, none, empty, np.empty(0))

    def add(self, slots: NDArray[np.int32], losses: NDArray[np.float64] | None = None) -> int:
        """Add slots, int32 (m, k) of units; known ones are skipped. Returns how many were new.

        losses: float64 (m,), of the slots; None: those of their boxes, which tables with hierarchies do not have.
        """
        ordered = np.sort(slots, axis=1).astype(np.int32)
        fresh = []
        for index, slot in enumerate(ordered):
            name = slot.tobytes()
            if name not in self._known:
                self._known.add(name)
                fresh.append(index)
        if not fresh:
            return 0
        new = ordered[fresh]
        price = slot_losses(self._units.features, new) if losses is None else losses[fresh]
        first = np.ones(new.shape, dtype=bool)
        first[:, 1:] = new[:, 1:] != new[:, :-1]
        at = np.flatnonzero(first)
        times = np.diff(np.append(at, new.size)).astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(first.sum(axis=1))[:-1]]).astype(np.int32)
        count = new.shape[0]
        self._highs.addCols(
            count,
            price,
            np.zeros(count),
            np.full(count, highspy.kHighsInf),
            at.size,
            starts,
            new.ravel()[at].astype(np.int32),
            times,
        )
        self.slots = np.concatenate([self.slots, new])
        return count

    def solve(self, seconds: float | None = None) -> bool:
        """Find value, dual and x over the known slots; False, and they stay as they were, where it took too long.

        seconds: most of them, by HiGHS's own clock.
        """
        left = highspy.kHighsInf if seconds is None else self._highs.getRunTime() + max(seconds, 0.0)
        self._highs.setOptionValue("time_limit", left)
        self._highs.run()
        solved = self._highs.getModelStatus() in self._enough
        if solved:
            found = self._highs.getSolution()
            self.value = float(self._highs.getInfo().objective_function_value)
            self.dual = np.array(found.row_dual)
            self._x = np.array(found.col_value)
        return solved

    @property
    def x(self) -> NDArray[np.float64]:
        """How often the program takes each known slot, float64 (m,); 0 where it came after the last solution."""
        return np.concatenate([self._x, np.zeros(self.slots.shape[0] - self._x.size)])
