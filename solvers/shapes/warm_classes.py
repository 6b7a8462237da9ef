"""The classes of the window before as a start: who stays with whom."""

from __future__ import annotations

from collections.abc import Iterator
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


def _without_the_last(old: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The classes with so many members at most: the last ones by number look for another."""
    order = np.lexsort([np.arange(old.size), old])
    begins = np.searchsorted(old[order], old[order])
    kept = old.copy()
    kept[order[(np.arange(old.size) - begins >= most) & (old[order] >= 0)]] = -1
    return kept


def warm_labels(
    people: Individuals,
    loss: ClassLoss,
    tour: NDArray[np.int64],
    k: int,
    warm: WarmClasses,
    cold: Any,
    rules: ValueRules | None,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """Beginnings that go on from the old classes: labels int32 (u,), and who is still in one of them, bool (u,).

    The first takes over every old class while k of it are here: with the same people, what was in hand. The second only
    those that cost their members no more than the cold classes do.
    cold: the state of those, of ``loss``.
    O(u d + l-greedy of the others).
    """
    old = warm.labels.copy()
    # One count more than there are labels, so that -1 has one to read when nobody returned.
    present = np.bincount(old[old >= 0], minlength=int(old.max(initial=-1)) + 2)
    old[(old >= 0) & (present[old] < k)] = -1
    if not (old >= 0).any():
        return
    # Rules for sensitive values are made for classes of 6k, and newcomers join them.
    whole = old if rules is None else _without_the_last(old, 3 * k)
    yield _grouped_afresh(people, tour, k, whole), whole >= 0
    # A class of more than 3k has no room for moves.
    old = _without_the_last(old, 3 * k)
    _, dense = np.unique(old, return_inverse=True)
    labels = (dense - int((old < 0).any())).astype(np.int32)
    kept = loss.state(people, labels, k, rules)
    saved = people.rows * (_row_losses(people, cold) - _row_losses(people, kept))
    worth = np.bincount(labels[labels >= 0], weights=saved[labels >= 0])
    dear = (labels >= 0) & (worth[labels] < 0.0)
    if dear.any() and not np.array_equal(dear, labels >= 0):
        old[dear] = -1
        yield _grouped_afresh(people, tour, k, old), old >= 0
