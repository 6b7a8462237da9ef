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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.bound_proof import BoundProof, proven_bound
from kanonflow.solvers.bounds.restricted_master import RestrictedMaster
from kanonflow.solvers.rivals.greedy_pricing import SECONDS, greedy_slots
from kanonflow.solvers.rivals.pricing import SLOTS_PER_ANCHOR, Nodes, build_nodes, price_anchors
from kanonflow.solvers.units.distinct_rows import Units

# Anchors priced between two looks at the clock.
CHUNK = 16
SMOOTHING = 0.5
# Nodes of one anchor's walk. Beyond k = 5 most walks that do not end soon never do.
NODES = 20_000
NODES_BEYOND = 500
REFERENCE_K = 5


@dataclass(frozen=True)
class PricingLimits:
    """What ends the column generation; all of them are counts, so that it repeats.

    exact, heuristic: most passes of each kind. nodes: of the walk of one anchor in an exact pass, None for
    NODES up to k = REFERENCE_K and fewer beyond. candidates: for
    one anchor's slots in a heuristic one. enough: a heuristic pass that finds fewer new slots than this share of the
    units is followed by an exact one. gap: stop when the bound is within this share of the program's value.
    """

    exact: int = 30
    heuristic: int = 120
    nodes: int | None = None
    candidates: int = 100
    enough: float = 0.01
    gap: float = 0.0005


@dataclass(frozen=True)
class LinearBound:
    """proof: of the best bound. value: GCP of the program over the slots known, at least the full program's.

    slots: int32 (m, k) of units, and x: float64 (m,), how often the program takes each.
    passes: exact passes made. nodes: visited in all. trace: (passes, nodes, value, best bound) after each exact pass.
    deadline_struck: the clock ended it.
    """

    proof: BoundProof
    value: float
    slots: NDArray[np.int32]
    x: NDArray[np.float64]
    passes: int
    nodes: int
    trace: tuple[tuple[int, int, float, float], ...]
    deadline_struck: bool


class _Until:
    """When to stop."""

    def __init__(self, deadline: float | None, clock: Callable[[], float]) -> None:
        self._deadline = deadline
        self._clock = clock
        self._half = None if deadline is None else 0.5 * (clock() + deadline)

    def struck(self) -> bool:
        """Whether the deadline is over."""
        return self._deadline is not None and self._clock() >= self._deadline

    def late(self) -> bool:
        """Whether half of the time is over."""
        return self._half is not None and self._clock() >= self._half

    def left(self) -> float | None:
        """Seconds until the deadline."""
        return None if self._deadline is None else self._deadline - self._clock()


class _Generation:
    """One run: the program, the best duals, and what has been spent."""

    def __init__(
        self,
        units: Units,
        k: int,
        limits: PricingLimits,
        until: _Until,
        floor: NDArray[np.float64] | None = None,
    ) -> None:
        self.units = units
        self.k = k
        self.limits = limits
        self.until = until
        self.master = RestrictedMaster(units, k)
        self.nodes = 0
        self.rows = int(units.weight.sum())
        self.scratch: Nodes = build_nodes(units.features, self.rows, k)
        zero = np.zeros(units.weight.size)
        known = zero if floor is None else floor
        self.best = BoundProof(k, known, zero, proven_bound(units.weight, k, known))
        # Beyond k = 5 the nodes are not expected to suffice at the program's own duals.
        self.unfinished = int(k > REFERENCE_K)
        self.centre: NDArray[np.float64] | None = None
        self.heuristics = 0

    def resolve(self) -> None:
        """Solve the program over all slots known by now, if the time suffices."""
        self.master.solve(self.until.left())

    def price_exactly(self, dual: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """One pass over all anchors; returns the number of new slots and the lowered duals."""
        lowered = dual.copy()
        most = self.limits.nodes
        if most is None:
            most = NODES if self.k <= REFERENCE_K else NODES_BEYOND
        order = np.argsort(-dual, kind="stable")
        slots = np.empty((CHUNK * SLOTS_PER_ANCHOR, self.k), dtype=np.int32)
        new = self.unfinished = 0
        for last in range(order.size, 0, -CHUNK):
            written, nodes, unfinished = price_anchors(
                self.units,
                self.scratch,
                lowered,
                order,
                max(last - CHUNK, 0),
                last,
                self.k,
                1 if self.until.struck() else most,
                slots,
            )
            self.nodes += nodes
            self.unfinished += unfinished
            new += self.master.add(slots[:written])
        return new, lowered

    def price_greedily(self, dual: NDArray[np.float64]) -> int:
        """Slots that greedy growth finds; returns the number of new ones."""
        slots = np.empty((CHUNK * SECONDS, self.k), dtype=np.int32)
        new = 0
        for first in range(0, dual.size, CHUNK):
            if self.until.struck():
                break
            last = min(first + CHUNK, dual.size)
            written = greedy_slots(
                self.units, self.scratch, dual, first, last, self.k, self.limits.candidates, slots
            )
            new += self.master.add(slots[:written])
        return new

    def take(self, dual: NDArray[np.float64], lowered: NDArray[np.float64]) -> None:
        """Keep the duals of an exact pass if their bound is the best."""
        bound = proven_bound(self.units.weight, self.k, lowered)
        if bound > self.best.bound:
            self.best = BoundProof(self.k, dual.copy(), dual - lowered, bound)

    def heuristic_pass(self, dual: NDArray[np.float64]) -> int:
        """Price near a moving mean of the duals, at the duals themselves if that finds little."""
        self.centre = dual if self.centre is None else SMOOTHING * self.centre + (1 - SMOOTHING) * dual
        new = self.price_greedily(self.centre)
        if new < self.limits.enough * dual.size:
            new += self.price_greedily(dual)
        return new

    def heuristic_passes(self) -> None:
        """Price heuristically and solve again while that finds enough.

        Without an exact pass there is no bound: heuristic ones get half of the time, or all if there is to be none.
        """
        over = self.until.late if self.limits.exact > 0 else self.until.struck
        new = self.units.weight.size
        while (
            new >= self.limits.enough * self.units.weight.size
            and self.heuristics < self.limits.heuristic
            and not over()
        ):
            new = self.heuristic_pass(self.master.dual)
            self.heuristics += 1
            self.resolve()

    def exact_pass(self, dual: NDArray[np.float64]) -> bool:
        """Price every anchor and keep the bound if it is the best; whether this settles the program.

        Where the nodes did not suffice in the pass before: half-way to the best duals, about which more can be proved.
        """
        halfway = self.unfinished > 0
        at = dual
        if halfway:
            at = SMOOTHING * (self.best.dual - self.best.shift) + (1 - SMOOTHING) * dual
        new, lowered = self.price_exactly(at)
        self.take(at, lowered)
        return new == 0 and self.unfinished == 0 and not halfway


def linear_bound(
    units: Units,
    slots: NDArray[np.int32],
    k: int,
    *,
    floor: NDArray[np.float64] | None = None,
    limits: PricingLimits | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> LinearBound:
    """The LP bound over k-multisets of units, as far as the limits allow.

    slots: int32 (m, k) of units to start from, which must contain a legal graph. floor: float64 (u,), duals that are
    known to be feasible (a k-th of nearest_neighbour.neighbour_reach), the bound to begin with. deadline: a time of
    ``clock``; the pass it strikes in is ended with the bounds of the roots, so what is returned is valid at any time.
    Worst case exponential in k; each pass O(u^2 d) at least.
    """
    limits = limits if limits is not None else PricingLimits()
    run = _Generation(units, k, limits, _Until(deadline, clock), floor)
    run.master.add(slots)
    run.resolve()
    trace: list[tuple[int, int, float, float]] = []
    settled = False
    while not (settled or run.until.struck()):
        run.heuristic_passes()
        if len(trace) == limits.exact or run.until.struck():
            break
        settled = run.exact_pass(run.master.dual)
        value = run.master.value / run.rows
        trace.append((len(trace) + 1, run.nodes, value, run.best.bound))
        settled = settled or value - run.best.bound <= limits.gap * value
        if not settled:
            run.resolve()
    value = run.master.value / run.rows
    return LinearBound(
        proof=replace(run.best, program=value if np.isfinite(value) else None),
        value=value,
        slots=run.master.slots,
        x=run.master.x,
        passes=len(trace),
        nodes=run.nodes,
        trace=tuple(trace),
        deadline_struck=run.until.struck(),
    )
