"""Selective holding: whole classes of the worst loss wait for a later release, by a choice made before any matching.

Why it may be: a class is a component of its own. What the others publish is drawn without it and would be the same if
its people had not been there; of the held class nothing has been published when it is solved again. Which classes wait
follows from their boxes, row counts and deadlines, which whoever knows all quasi-identifiers may know anyway; never
from a matching or from payload (docs/cohorts.md). So it is the same step as ``without_risk`` of ``cohort: strict``.

Why it may pay: sparse regions are where most of the loss sits, and there the rows of another window are missed most.

    hold_worst     which classes wait
    held_until     the last window end at which all rows that were held can still be released
    only_held      what a release at that time, when no window brings others, takes of the waiting rows
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.loss.ncp import class_ncp
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.table import Table
from kanonflow.transforms.warm_state import WarmState
from kanonflow.transforms.window_ledger import HELD_BY_CHOICE, deadlines


class Held(NamedTuple):
    """solution: without the classes that wait; its loss is still the search's. by_choice: bool (n,), their rows,
    rows above the levels of their classes included."""

    solution: Solution
    by_choice: NDArray[np.bool_]


def hold_worst(solution: Solution, table: Table, share: float, may_wait: NDArray[np.bool_]) -> Held:
    """Take the worst classes out of a solution, each whole.

    table, solution: n records in closed classes. share: of all n records, how many may wait by this choice at most.
    may_wait: bool (n,), whether the release of the next window may still take the record.

    Classes go by the NCP of their hulls, the worst first (ties: the lower number first), as long as their records fit
    into the share and their NCP is above the mean of the released rows. A class with a record that may not wait is
    passed over: it goes out now, whole.
    Postcondition: the other classes are as they were; at least one is left. O(n d log n).
    """
    labels = solution.partition.labels
    who = np.arange(labels.size) if table.individuals is None else table.individuals
    inside = labels >= 0
    if not inside.any():
        return Held(solution, np.zeros(labels.size, dtype=np.bool_))
    loss = class_ncp(table, solution.partition)
    rows = np.bincount(labels[inside], minlength=loss.size)
    _, code = np.unique(who, return_inverse=True)
    class_of = np.full(int(code.max()) + 1, -1, dtype=np.int64)
    class_of[code[inside]] = labels[inside]
    # Of an individual of the class all rows count, also those that wait because it has too many.
    whole = class_of[code]
    bound = np.zeros(loss.size, dtype=np.bool_)
    np.logical_or.at(bound, whole[(whole >= 0) & ~may_wait], True)
    size = np.bincount(whole[whole >= 0], minlength=loss.size)
    mean = float(np.average(loss, weights=rows))
    chosen, left = np.zeros(loss.size, dtype=np.bool_), int(share * labels.size)
    for number in np.lexsort([np.arange(loss.size), -loss]):
        if loss[number] <= mean or size[number] > left:
            break
        if not bound[number]:
            chosen[number] = True
            left -= int(size[number])
    if not chosen.any():
        return Held(solution, np.zeros(labels.size, dtype=np.bool_))
    stays = np.where(inside & ~chosen[labels], labels, -1)
    used, dense = np.unique(stays, return_inverse=True)
    partition = Partition((dense - (1 if used[0] < 0 else 0)).astype(np.int32))
    return Held(replace(solution, structure=partition), (whole >= 0) & chosen[whole])


def held_until(state: WarmState, bound: BoundPolicy) -> int | None:
    """The end of the last window whose release can take all rows that wait by choice, in ms; None when none do."""
    policy = bound.policy
    others = only_held(state)
    if state.waiting is None or others is None or policy.window_ms is None or others.all():
        return None
    first = int(deadlines(state.waiting, bound)[~others].min())
    return (first - policy.window_offset_ms) // policy.window_ms * policy.window_ms + policy.window_offset_ms


def only_held(state: WarmState) -> NDArray[np.bool_] | None:
    """The waiting rows that a release of held classes leaves where they are, bool (waiting,); None when no row waits.

    Rows that wait for any other reason: they are a selection, and no release is made for them (decision 012).
    """
    if state.waiting is None:
        return None
    return np.array(state.waiting_reason, dtype=object) != HELD_BY_CHOICE
