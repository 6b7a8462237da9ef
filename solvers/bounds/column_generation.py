"""The LP lower bound on the GCP of k-regular graphs, by column generation.

    minimize sum over S of c(S) x_S,   subject to sum over S of mult_i(S) x_S = k w_i,   x >= 0

over all multisets S of k units that a slot may hold (a graph is a whole x, so the least value is a lower bound). The
program starts from slots that searches have met; slots of negative reduced cost are added until there are none, or
the gap or the limits end it. Pricing is heuristic (few candidates an anchor) while that finds enough, exact after.

Every exact pass gives a valid bound: lower the dual of each anchor, the last in rank first, by the violation of the
cheapest of its slots (or by a bound of it, where the nodes did not suffice); then no slot is violated.
Heuristic passes price at a moving mean of the program's duals, which a vertex far off cannot throw about (in the
manner of Wentges' smoothing); exact passes at the program's own, for there the bound meets its value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.certificate import Certificate, certified_bound
from kanonflow.solvers.bounds.pricing import SLOTS_PER_ANCHOR, Nodes, build_nodes, price_anchors
from kanonflow.solvers.bounds.restricted_master import RestrictedMaster
from kanonflow.solvers.distinct_rows import Units

# Anchors priced between two looks at the clock.
CHUNK = 64
SMOOTHING = 0.5


@dataclass(frozen=True)
class PricingLimits:
    """What ends the column generation; all of them are counts, so that it repeats.

    exact, heuristic: most passes of each kind. nodes: of the walk of one anchor in an exact pass, heuristic_nodes and
    candidates: in a heuristic one. enough: a heuristic pass that finds fewer new slots than this share of the units
    is followed by an exact one. gap: stop when the bound is within this share of the program's value.
    """

    exact: int = 30
    heuristic: int = 120
    nodes: int = 20_000
    heuristic_nodes: int = 150
    candidates: int = 60
    enough: float = 0.01
    gap: float = 0.0005


@dataclass(frozen=True)
class LinearBound:
    """certificate: of the best bound. value: GCP of the program over the slots known, at least the full program's.

    slots: int32 (m, k) of units, and x: float64 (m,), how often the program takes each.
    passes: exact passes made. nodes: visited in all. trace: (passes, nodes, value, best bound) after each exact pass.
    deadline_struck: the clock ended it.
    """

    certificate: Certificate
    value: float
    slots: NDArray[np.int32]
    x: NDArray[np.float64]
    passes: int
    nodes: int
    trace: tuple[tuple[int, int, float, float], ...]
    deadline_struck: bool


class _Generation:
    """One run: the program, the best duals, and what has been spent."""

    def __init__(self, units: Units, k: int, limits: PricingLimits, struck: Callable[[], bool]) -> None:
        self.units = units
        self.k = k
        self.limits = limits
        self.struck = struck
        self.master = RestrictedMaster(units, k)
        self.nodes = 0
        self.rows = int(units.weight.sum())
        self.scratch: Nodes = build_nodes(units.features, self.rows, k)
        zero = np.zeros(units.weight.size)
        self.best = Certificate(k, zero, zero, certified_bound(units.weight, k, zero))
        self.centre: NDArray[np.float64] | None = None

    def price(self, dual: NDArray[np.float64], exact: bool) -> tuple[int, NDArray[np.float64]]:
        """One pass over all anchors; returns the new slots and the lowered duals (none of worth if heuristic)."""
        limits = self.limits
        lowered = dual.copy()
        order = np.argsort(-dual, kind="stable")
        slots = np.empty((CHUNK * SLOTS_PER_ANCHOR, self.k), dtype=np.int32)
        new = 0
        for last in range(order.size, 0, -CHUNK):
            late = self.struck()
            if late and not exact:
                break
            most = 1 if late else limits.nodes if exact else limits.heuristic_nodes
            written, nodes, _ = price_anchors(
                self.units,
                self.scratch,
                lowered,
                order,
                max(last - CHUNK, 0),
                last,
                self.k,
                most,
                self.rows if exact else limits.candidates,
                slots,
            )
            self.nodes += nodes
            new += self.master.add(slots[:written])
            if not exact:
                lowered = dual.copy()
        return new, lowered

    def take(self, dual: NDArray[np.float64], lowered: NDArray[np.float64]) -> None:
        """Keep the duals of an exact pass if their bound is the best."""
        bound = certified_bound(self.units.weight, self.k, lowered)
        if bound > self.best.bound:
            self.best = Certificate(self.k, dual.copy(), dual - lowered, bound)

    def heuristic_pass(self, dual: NDArray[np.float64]) -> int:
        """Price near a moving mean of the duals, at the duals themselves if that finds little."""
        self.centre = dual if self.centre is None else SMOOTHING * self.centre + (1 - SMOOTHING) * dual
        new = self.price(self.centre, False)[0]
        if new < self.limits.enough * dual.size:
            new += self.price(dual, False)[0]
        return new

    def exact_pass(self, dual: NDArray[np.float64]) -> int:
        """Price every anchor and keep the bound if it is the best."""
        new, lowered = self.price(dual, True)
        self.take(dual, lowered)
        return new


def linear_bound(
    units: Units,
    slots: NDArray[np.int32],
    k: int,
    *,
    limits: PricingLimits | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> LinearBound:
    """The LP bound over k-multisets of units, as far as the limits allow.

    slots: int32 (m, k) of units to start from, which must contain a legal graph. deadline: a time of ``clock``; the
    pass it strikes in is ended with the bounds of the roots, so what is returned is valid at any time.
    Worst case exponential in k; each pass O(u^2 d) at least.
    """
    limits = limits if limits is not None else PricingLimits()
    run = _Generation(units, k, limits, lambda: deadline is not None and clock() >= deadline)
    run.master.add(slots)
    value, dual, x = run.master.solve()
    known = run.master.slots
    trace: list[tuple[int, int, float, float]] = []
    passes = heuristics = 0
    while passes < limits.exact and not run.struck():
        while heuristics < limits.heuristic and not run.struck():
            new = run.heuristic_pass(dual)
            heuristics += 1
            value, dual, x = run.master.solve()
            known = run.master.slots
            if new < limits.enough * units.weight.size:
                break
        new = run.exact_pass(dual)
        passes += 1
        trace.append((passes, run.nodes, value / run.rows, run.best.bound))
        if new == 0 or value / run.rows - run.best.bound <= limits.gap * value / run.rows:
            break
        value, dual, x = run.master.solve()
        known = run.master.slots
    return LinearBound(run.best, value / run.rows, known, x, passes, run.nodes, tuple(trace), run.struck())
