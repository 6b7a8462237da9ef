"""The classes of the window before as a start: who stays with whom."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.group_loss import POOL, ClassLoss
from kanonflow.solvers.partition_search.rules import ValueRules
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, part_of_people


def _row_losses(people: Individuals, classes: Any) -> NDArray[np.float64]:
    """What a row of each individual costs in its class, float64 (u,): the class's loss by its rows."""
    each = classes.loss / np.maximum(classes.total[:, 0], 1)
    return np.where(classes.label >= 0, each[np.maximum(classes.label, 0)], classes.waiting[0])


def _grouped_afresh(
    people: Individuals, tour: NDArray[np.int64], k: int, old: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Labels: dense numbers of the old classes, and l-greedy classes of those who have none.

    So the warm start is not charged for newcomers.
    """
    stay = old >= 0
    rest = tour[~stay[tour]]
    fresh = class_greedy_labels(part_of_people(people, rest), np.arange(rest.size), k)
    _, dense = np.unique(old[stay], return_inverse=True)
    labels = np.full(old.size, POOL, dtype=np.int32)
    labels[stay] = dense
    labels[rest] = np.where(fresh >= 0, fresh + int(labels.max(initial=-1)) + 1, POOL)
    return labels


def warm_labels(
    people: Individuals,
    loss: ClassLoss,
    tour: NDArray[np.int64],
    k: int,
    warm: WarmClasses,
    cold: Any,
    rules: ValueRules | None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Labels int32 (u,) that go on from the old classes, and who is still in one of them, bool (u,).

    An old class is taken over while k of it are here, and while it costs its members no more than the cold classes do.
    cold: the state of those, of ``loss``.
    O(u d + l-greedy of the others).
    """
    old = warm.labels.copy()
    # One count more than there are labels, so that -1 has one to read when nobody returned.
    present = np.bincount(old[old >= 0], minlength=int(old.max(initial=-1)) + 2)
    old[(old >= 0) & (present[old] < k)] = -1
    # A class of more than 3k has no room for moves; its last members by number look for another.
    order = np.lexsort([np.arange(old.size), old])
    begins = np.searchsorted(old[order], old[order])
    old[order[(np.arange(old.size) - begins >= 3 * k) & (old[order] >= 0)]] = -1
    if (old >= 0).any():
        _, dense = np.unique(old, return_inverse=True)
        labels = (dense - int((old < 0).any())).astype(np.int32)
        kept = loss.state(people, labels, k, rules)
        saved = people.rows * (_row_losses(people, cold) - _row_losses(people, kept))
        worth = np.bincount(labels[labels >= 0], weights=saved[labels >= 0])
        old[(labels >= 0) & (worth[labels] < 0.0)] = -1
    return _grouped_afresh(people, tour, k, old), old >= 0
