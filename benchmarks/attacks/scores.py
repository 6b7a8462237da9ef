"""Fixed scores of a row's candidates: the ways in which the true record might stand out among them.

A score is a function (release, rng) -> float64 (m, width); the attack guesses the candidate of the smallest score.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.attacks.attacked_release import AttackedRelease

Score = Callable[[AttackedRelease], NDArray[np.float64]]


def to_medoid(release: AttackedRelease) -> NDArray[np.float64]:
    """Sum of a candidate's distances to the others: who is in the middle of the slot."""
    members = release.candidates
    between = release.distances[members[:, :, None], members[:, None, :]]
    return np.where(release.valid[:, None, :], between, 0.0).sum(axis=2)


def to_farthest(release: AttackedRelease) -> NDArray[np.float64]:
    """Largest distance to another candidate: who is nearest to the middle of the box, by its farthest end."""
    members = release.candidates
    between = release.distances[members[:, :, None], members[:, None, :]]
    return np.where(release.valid[:, None, :], between, 0.0).max(axis=2)


def file_place(release: AttackedRelease) -> NDArray[np.float64]:
    """The n-th row of the file is the n-th record that came: ranks apart."""
    ranks = np.argsort(np.argsort(release.arrival, kind="stable"))
    rows = np.arange(release.truth.size)[:, None] * (ranks.size / max(release.truth.size, 1))
    return np.abs(ranks[release.candidates] - rows)


def place_in_box(release: AttackedRelease, of_record: NDArray[np.int64]) -> NDArray[np.float64]:
    """The e-th row of those with one box is the e-th of their candidates by ``of_record``: ranks apart."""
    _, group = np.unique(np.sort(release.candidates, axis=1), axis=0, return_inverse=True)
    row = np.empty(group.size)
    order = np.argsort(group.ravel(), kind="stable")
    ordered = group.ravel()[order]
    row[order] = np.arange(order.size) - np.searchsorted(ordered, ordered)
    values = np.where(release.valid, of_record[release.candidates].astype(np.float64), np.inf)
    ranks = np.argsort(np.argsort(values, axis=1, kind="stable"), axis=1)
    return np.abs(ranks - row[:, None])


def arrival_in_box(release: AttackedRelease) -> NDArray[np.float64]:
    """``place_in_box`` by arrival."""
    return place_in_box(release, release.arrival)


def quasi_in_box(release: AttackedRelease) -> NDArray[np.float64]:
    """``place_in_box`` by the order of quasi-identifiers, which is how records are numbered."""
    return place_in_box(release, np.arange(release.people.size))


def first_to_come(release: AttackedRelease) -> NDArray[np.float64]:
    """Arrival: the candidate that came first."""
    return release.arrival[release.candidates].astype(np.float64)


def first_by_quasi(release: AttackedRelease) -> NDArray[np.float64]:
    """The candidate that comes first in the order of quasi-identifiers."""
    return release.candidates.astype(np.float64)


def longest_waiting(release: AttackedRelease) -> NDArray[np.float64]:
    """The candidate of the oldest window."""
    return release.own_window[release.candidates].astype(np.float64)


def guesses(release: AttackedRelease, score: Score, rng: np.random.Generator) -> NDArray[np.int64]:
    """The candidate of the smallest score of each row, ties at random; int64 (m,)."""
    values = np.where(release.valid, score(release), np.inf)
    ties = values == values.min(axis=1, keepdims=True)
    chosen = np.where(ties, rng.random(values.shape), -1.0).argmax(axis=1)
    return release.candidates[np.arange(chosen.size), chosen]


def mixed_windows(release: AttackedRelease) -> NDArray[np.bool_]:
    """Rows whose candidates are of more than one window, bool (m,)."""
    windows = release.own_window[release.candidates]
    first = windows[:, :1]
    return ((windows != first) & release.valid).any(axis=1)
