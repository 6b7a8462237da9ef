"""A proof of the LP bound, and a checker that prices it anew and shares no kernel with the search.

Duality: if ``y'_i`` are numbers, one a unit, so that no slot S (a multiset of k units that one slot may hold) has
``c(S) < sum of y' over S``, then any k-regular graph costs at least ``k sum_i w_i y'_i``: add the inequality up over
its slots, of which each row is in k. A list of numbers proves nothing by itself; the checker looks for a violated slot.

A proof for slots of s units is one for every larger slot too: a box of k members costs as much as each of its
s-subsets at least, so as much as their mean, in which each member counts s/k times. Then ``(s/k) y'`` is feasible for
k, and the bound is the same number, ``s sum_i w_i y'_i``: large slots, which nobody can price, are bounded by small
ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.features import normalized_weights

# Slots may be violated by this much, as doubles are rounded; the bound allows for it.
SLACK = 1e-9


@dataclass(frozen=True)
class BoundProof:
    """A proof that no graph over a table with slots of k records or more has less GCP than ``bound``.

    k: size of the slots that were priced; those of the graph may be larger. dual: float64 (u,), one number a unit,
    units in the order of distinct_rows.group_rows. shift: float64 (u,), >= 0, by how much each unit's dual is lowered:
    the violation of the cheapest slot whose member of largest dual it is.
    bound: ``k sum_i w_i (dual_i - shift_i) / n - SLACK``. program: value of the linear program over the slots that were
    known at the end, over n; no duals prove more than that (for information, not part of the proof).
    """

    k: int
    dual: NDArray[np.float64]
    shift: NDArray[np.float64]
    bound: float
    program: float | None = None


def proven_bound(weight: NDArray[np.int32], k: int, lowered: NDArray[np.float64]) -> float:
    """GCP that the duals ``lowered`` prove, if no slot violates them; weight: int32 (u,), rows a unit."""
    return k * float(weight.astype(np.float64) @ lowered) / max(int(weight.sum()), 1) - SLACK


@kernel(inner=True)
def _violated(
    points: np.ndarray,
    codes: np.ndarray,
    price: np.ndarray,
    who: np.ndarray,
    unit: np.ndarray,
    dual: np.ndarray,
    rows: np.ndarray,
    open_places: int,
    box: np.ndarray,
    seen: np.ndarray,
    owed: float,
) -> bool:
    """Whether a box, with ``open_places`` of the rows added, costs less than the duals of what it holds.

    Branches on the row whose box is the largest of those to be added, so that the others stand before it in ``rows``.
    box: float64 (1 + 2 dn,), loss of the codes, lows, highs. seen: bool (dc, values), codes inside. owed: duals inside.
    """
    dn, dc = points.shape[1], codes.shape[1]
    largest = np.sort(dual[rows])[max(rows.size - open_places + 1, 0) :].sum()
    loss = np.empty(rows.size)
    for p in range(rows.size):
        loss[p] = box[0]
        for j in range(dn):
            x = points[rows[p], j]
            loss[p] += min(max(box[1 + dn + j], x) - min(box[1 + j], x), price[j])
        for j in range(dc):
            if not seen[j, codes[rows[p], j]]:
                loss[p] += price[dn + j]
    near = np.flatnonzero(loss - owed - dual[rows] - largest < -SLACK)
    order = near[np.argsort(loss[near], kind="mergesort")]
    before = np.full(open_places, -np.inf)
    for p in range(order.size):
        row = rows[order[p]]
        twin = p + 1 < order.size and unit[rows[order[p + 1]]] == unit[row]
        if not twin and loss[order[p]] - owed - dual[row] - before[1:].sum() < -SLACK:
            if open_places == 1:
                return True
            grown, held = box.copy(), seen.copy()
            for j in range(dn):
                grown[1 + j] = min(box[1 + j], points[row, j])
                grown[1 + dn + j] = max(box[1 + dn + j], points[row, j])
            for j in range(dc):
                grown[0] += 0.0 if seen[j, codes[row, j]] else price[dn + j]
                held[j, codes[row, j]] = True
            left = rows[order[:p]]
            left = left[who[left] != who[row]]
            if left.size >= open_places - 1 and _violated(
                points, codes, price, who, unit, dual, left, open_places - 1, grown, held, owed + dual[row]
            ):
                return True
        before[0] = dual[row]
        before.sort()
    return False


@kernel
def _violated_anchor(
    points: np.ndarray,
    codes: np.ndarray,
    price: np.ndarray,
    who: np.ndarray,
    unit: np.ndarray,
    dual: np.ndarray,
    ranked: np.ndarray,
    first: int,
    k: int,
    values: int,
) -> bool:
    """Whether a slot of the row ``ranked[first]`` and k - 1 of lower rank is violated."""
    row = ranked[first]
    dn = points.shape[1]
    box = np.zeros(1 + 2 * dn)
    box[1 : 1 + dn] = points[row]
    box[1 + dn :] = points[row]
    seen = np.zeros((codes.shape[1], values), dtype=np.bool_)
    for j in range(codes.shape[1]):
        seen[j, codes[row, j]] = True
    rest = ranked[first + 1 :]
    rest = rest[who[rest] != who[row]]
    return rest.size >= k - 1 and _violated(
        points, codes, price, who, unit, dual, rest, k - 1, box, seen, dual[row]
    )


def check_bound(table: Table, proof: BoundProof) -> float:
    """The proof's bound on the GCP, after it has been proved again; exact, and exponential at worst.

    Raises StructureError when the proof is of other records, states another bound than its duals give, or a
    slot costs less than its members' duals.
    """
    if table.hierarchical:
        raise StructureError("no proof covers hierarchies: their boxes have other prices")
    units = group_rows(table)
    k = proof.k
    if proof.dual.shape != units.weight.shape or proof.shift.shape != units.weight.shape:
        raise StructureError("the proof is of other records: it needs one dual for each distinct record")
    lowered = proof.dual - proof.shift
    bound = proven_bound(units.weight, k, lowered)
    if not np.all(np.isfinite(lowered)) or not abs(bound - proof.bound) <= SLACK:
        raise StructureError("the proof's duals do not give its bound")
    price = normalized_weights(table)
    dn = table.numeric.shape[1]
    # A null lies further away than any number, and no attribute costs more than its weight.
    points = np.where(np.isnan(table.numeric), 3.0, table.numeric) * price[:dn]
    price[dn:] /= np.maximum(table.cardinality - 1, 1)
    dual = lowered[units.of_row]
    ranked = np.lexsort((units.of_row, -proof.dual[units.of_row]))
    who = np.arange(table.records) if table.individuals is None else table.individuals
    values = int(table.cardinality.max(initial=1))
    unit = units.of_row.astype(np.int64)
    for first in range(table.records):
        if first > 0 and unit[ranked[first - 1]] == unit[ranked[first]]:
            continue
        if _violated_anchor(points, table.categorical, price, who, unit, dual, ranked, first, k, values):
            raise StructureError("the proof is refused: a slot costs less than its members' duals")
    return bound
