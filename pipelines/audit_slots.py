"""Which slots the rows of one release can be, when every individual's number of rows is known (``audit_levels``)."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

MOST_CANDIDATES = 200_000
"""Pairs of a box and a candidate above which the program is not set up: the bounds must do."""
MOST_SECONDS = 60.0


class Verdict(Enum):
    """What is known about a release whose counts are known."""

    SHOWN = "shown"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True)
class Fit:
    """Individuals and boxes of one release.

    ``boxes`` int64 (b,): row groups. ``people``: number of individuals with records that may be there. ``box``,
    ``person`` int64 (e,): pairs such that the box holds every record that the person must have in the release.
    ``low``, ``high`` int64 (e,): how many rows the person can have under the box. ``settled``: no record may stand in
    another release; then ``low`` = ``high``. ``least`` int64 (people,): rows that each must have.
    """

    boxes: np.ndarray
    people: int
    box: np.ndarray
    person: np.ndarray
    low: np.ndarray
    high: np.ndarray
    settled: bool
    least: np.ndarray


def explained(fit: Fit, sizes: np.ndarray, k: int) -> Verdict:
    """Whether slots with k members of equal row count explain a settled release, and conceal everybody.

    sizes: int64 (b,), rows with each box. See ``audit_levels`` for the program and why its answer is right.
    """
    rows = fit.least
    keep = _shared(fit, rows, k)
    box, person = fit.box[keep], fit.person[keep]
    if len(np.unique(person)) < fit.people or len(np.unique(box)) < len(sizes):
        return Verdict.REFUTED
    if len(box) > MOST_CANDIDATES:
        return Verdict.OPEN
    kinds, kind = np.unique(np.column_stack([box, rows[person]]), axis=0, return_inverse=True)
    program = _Program(kinds, kind.reshape(-1), person, rows, sizes)
    slots = program.solve(np.zeros(len(kinds)))
    if slots is None:
        return Verdict.REFUTED if program.infeasible else Verdict.OPEN
    if concealed(*_expanded(slots, kind.reshape(-1), person), fit.people, k):
        return Verdict.SHOWN
    other = program.solve(-(slots == 0).astype(float))
    alone = len(np.unique(kinds[slots > 0, 0])) == int((slots > 0).sum())
    unique = alone and other is not None and not other[slots == 0].any()
    return Verdict.REFUTED if unique else Verdict.OPEN


def _shared(fit: Fit, rows: np.ndarray, k: int) -> np.ndarray:
    """Pairs, bool (e,), of a box and a candidate whose number of rows k candidates of the box have."""
    key = fit.box * (int(rows.max(initial=0)) + 1) + rows[fit.person]
    _, place, count = np.unique(key, return_inverse=True, return_counts=True)
    return count[place.reshape(-1)] >= k


class _Program:
    """The mixed-integer program. Variables: slots of each kind (box, count), then the share of each pair."""

    def __init__(
        self, kinds: np.ndarray, kind: np.ndarray, person: np.ndarray, rows: np.ndarray, sizes: np.ndarray
    ) -> None:
        pairs, count = len(kind), len(kinds)
        ones = np.ones
        filled = csr_array((kinds[:, 1], (kinds[:, 0], np.arange(count))), shape=(len(sizes), count))
        dealt = csr_array((ones(pairs), (kind, np.arange(pairs))), shape=(count, pairs))
        once = csr_array((ones(pairs), (person, np.arange(pairs))), shape=(len(rows), pairs))
        minus = csr_array((-ones(count), (np.arange(count), np.arange(count))), shape=(count, count))
        self._matrix = vstack(
            [
                hstack([filled, csr_array((len(sizes), pairs))]),
                hstack([minus, dealt]),
                hstack([csr_array((len(rows), count)), once]),
            ]
        ).tocsr()
        self._right = np.concatenate([sizes, np.zeros(count), ones(len(rows))]).astype(float)
        self._count, self._pairs = count, pairs
        self.infeasible = False

    def solve(self, cost: np.ndarray) -> np.ndarray | None:
        """Slots of each kind, int64 (kinds,), of least cost; None when there are none or the time is up."""
        whole = np.concatenate([np.ones(self._count), np.zeros(self._pairs)])
        found = milp(
            np.concatenate([cost, np.zeros(self._pairs)]),
            integrality=whole,
            bounds=Bounds(0, np.inf),
            constraints=LinearConstraint(self._matrix, self._right, self._right),
            options={"time_limit": MOST_SECONDS},
        )
        self.infeasible = found.status == 2
        return None if found.status != 0 else np.rint(found.x[: self._count]).astype(np.int64)


def _expanded(slots: np.ndarray, kind: np.ndarray, person: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges (slot, individual) when each kind of slot stands as often as it occurs; int64 each."""
    begin = np.cumsum(slots) - slots
    copies = slots[kind]
    edge = np.repeat(np.arange(len(kind)), copies)
    within = np.arange(len(edge)) - (np.cumsum(copies) - copies)[edge]
    return begin[kind[edge]] + within, person[edge]


def concealed(slot: np.ndarray, person: np.ndarray, n: int, k: int) -> bool:
    """Whether n slots and n individuals have a perfect matching, and each of them k edges that some such matching uses.

    slot, person: int64 (e,), the edges. O(e sqrt(n)).
    """
    candidates = csr_array((np.ones(len(slot), np.int8), (slot, person)), shape=(n, n))
    partner = maximum_bipartite_matching(candidates, perm_type="column")
    if (partner < 0).any():
        return False
    # A slot points to its candidates, and a person to the slot that the matching gives it: contracted to slots.
    owner = np.empty(n, np.int64)
    owner[partner] = np.arange(n)
    follows = coo_array((np.ones(len(slot), np.int8), (slot, owner[person])), shape=(n, n))
    _, component = connected_components(follows.tocsr(), directed=True, connection="strong")
    allowed = component[slot] == component[owner[person]]
    per_slot = np.bincount(slot[allowed], minlength=n)
    per_person = np.bincount(person[allowed], minlength=n)
    return bool(per_slot.min(initial=k) >= k and per_person.min(initial=k) >= k)


def shared_counts(low: np.ndarray, high: np.ndarray, size: int, k: int) -> np.ndarray:
    """Numbers of rows up to ``size`` that at least k of those with ranges low..high can have; ascending int64."""
    change = np.zeros(size + 2, np.int64)
    able = (low <= high) & (low <= size)
    np.add.at(change, low[able], 1)
    np.add.at(change, np.minimum(high[able], size) + 1, -1)
    counts = np.flatnonzero(np.cumsum(change)[: size + 1] >= k)
    return counts[counts > 0]
