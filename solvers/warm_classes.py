"""The classes of the window before as a start: who stays with whom, and what it costs to part them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.individuals import Individuals, part_of_people
from kanonflow.solvers.search.class_gate import Gate
from kanonflow.solvers.search.class_state import POOL, WAITING, Classes, build_classes
from kanonflow.solvers.starts.class_greedy import class_greedy_labels


class WarmClasses(NamedTuple):
    """labels: int64 (u,), the old class of each individual of the table (sorted distinct), -1 for newcomers.

    keep: whether those whose class still has k present members may not leave it. stability: what it costs when such
    an individual stands in another class, per row, where a row that waits costs 1; 0 leaves the search free.
    """

    labels: NDArray[np.int64]
    keep: bool
    stability: float = 0.0


class Ties(NamedTuple):
    """What holds individuals in classes.

    movable: bool (u,), who may leave a class. home, tie: as in ``ClassScratch``."""

    movable: NDArray[np.bool_]
    home: NDArray[np.int32]
    tie: NDArray[np.float64]

    def of(self, chosen: NDArray[np.int64], numbers: NDArray[np.int32]) -> Ties:
        """The ties of some individuals among some of the classes, whose numbers (sorted) become 0, 1, ..."""
        home = np.searchsorted(numbers, self.home[chosen]).astype(np.int32)
        here = np.isin(self.home[chosen], numbers[numbers >= 0])
        home -= np.int32(numbers.size > 0 and numbers[0] < 0)
        return Ties(
            self.movable[chosen],
            np.where(here, home, POOL).astype(np.int32),
            np.where(here, self.tie[chosen], 0.0),
        )

    def renumbered(self, numbers: NDArray[np.int64]) -> Ties:
        """numbers: int64 (c,), the new number of each class, -1 for those that are gone, with the ties to them."""
        home = np.where(self.home >= 0, numbers[np.maximum(self.home, 0)], POOL).astype(np.int32)
        return Ties(self.movable, home, np.where(home >= 0, self.tie, 0.0))


def no_ties(u: int) -> Ties:
    """Everybody may go anywhere for nothing."""
    return Ties(np.ones(u, dtype=np.bool_), np.full(u, POOL, dtype=np.int32), np.zeros(u))


def ties_to(
    labels: NDArray[np.int32], stay: NDArray[np.bool_], rows: NDArray[np.int64], warm: WarmClasses
) -> Ties:
    """Those who stay are tied to their class, by the weight or, with ``keep``, for good."""
    if warm.keep:
        return no_ties(labels.size)._replace(movable=~stay)
    home = np.where(stay, labels, POOL).astype(np.int32)
    return no_ties(labels.size)._replace(home=home, tie=np.where(stay, warm.stability * rows, 0.0))


def _row_losses(people: Individuals, classes: Classes) -> NDArray[np.float64]:
    """What a row of each individual costs in its class, float64 (u,): the class's loss by its rows."""
    each = classes.loss / np.maximum(classes.counts[:, 0], 1)
    return np.where(classes.label >= 0, each[np.maximum(classes.label, 0)], WAITING)


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
    tour: NDArray[np.int64],
    k: int,
    warm: WarmClasses,
    cold: Classes,
    gate: Gate | None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Labels int32 (u,) that go on from the old classes, and who is still in one of them, bool (u,).

    An old class is taken over while k of it are here and, unless classes are kept, while it costs its members no more
    than the cold classes do with all their ties broken. O(u d + l-greedy of the others).
    """
    old = warm.labels.copy()
    # One count more than there are labels, so that -1 has one to read when nobody returned.
    present = np.bincount(old[old >= 0], minlength=int(old.max(initial=-1)) + 2)
    old[(old >= 0) & (present[old] < k)] = -1
    # A class of more than 3k has no room for moves; its last members by number look for another.
    order = np.lexsort([np.arange(old.size), old])
    begins = np.searchsorted(old[order], old[order])
    old[order[(np.arange(old.size) - begins >= 3 * k) & (old[order] >= 0)]] = -1
    if not warm.keep and (old >= 0).any():
        _, dense = np.unique(old, return_inverse=True)
        labels = (dense - int((old < 0).any())).astype(np.int32)
        kept = build_classes(people, labels, k, gate)
        saved = people.rows * (_row_losses(people, cold) + warm.stability - _row_losses(people, kept))
        worth = np.bincount(labels[labels >= 0], weights=saved[labels >= 0])
        old[(labels >= 0) & (worth[labels] < 0.0)] = -1
    return _grouped_afresh(people, tour, k, old), old >= 0
