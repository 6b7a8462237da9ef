"""Publishers that a careful engineer might write, and that the attacks break. Each keeps k members a row.

None of them is a straw man: each follows a published construction or the usual order of a table tool, and leaves out
one step of the recipe that the product follows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from benchmarks.attacks.attacked_release import AttackedRelease, class_members
from kanonflow.solvers.matching.kempe import kempe_rounds
from kanonflow.solvers.matching.peeling import peel
from kanonflow.solvers.matching.random_words import shuffled

_FORBIDDEN = 1e6


class SeededWords:
    """Random words from numpy's generator and a small seed: fit for a simulation, never for publishing."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words, uint64 (count,)."""
        return self._generator.integers(0, 1 << 64, count, dtype=np.uint64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A random permutation, int64 (n,)."""
        return shuffled(n, self.words(n))


def assignment_graph(distances: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Members (n, k): slot j holds record j and what k - 1 rounds of assignment add to it.

    The construction by perfect matchings (S2; the Hungarian variant), with distances of records as weights. n >= k.
    O(k n^3).
    """
    n = distances.shape[0]
    costs = distances.copy()
    members = [np.arange(n)]
    costs[np.arange(n), members[0]] = _FORBIDDEN
    for _ in range(k - 1):
        _, chosen = linear_sum_assignment(costs)
        costs[np.arange(n), chosen] = _FORBIDDEN
        members.append(chosen)
    return np.stack(members, axis=1)


def one_row_each(release: AttackedRelease) -> AttackedRelease:
    """The records that a publisher who counts rows may take for individuals: the first row of each; no rows yet."""
    first = np.sort(np.unique(release.people, return_index=True)[1])
    nothing = np.empty(0, dtype=np.int64)
    return replace(
        release,
        candidates=np.empty((0, release.k), dtype=np.int64),
        people=release.people[first],
        arrival=release.arrival[first],
        own_window=release.own_window[first],
        distances=release.distances[np.ix_(first, first)] if release.distances.size else release.distances,
        truth=nothing,
        place=nothing,
        file=None,
        quasi=None,
    )


def identity_release(release: AttackedRelease) -> AttackedRelease:
    """Heterogeneous boxes, each record's own payload under its own box, in the order of the input."""
    each = one_row_each(release)
    members = assignment_graph(each.distances, each.k)
    order = np.argsort(each.arrival, kind="stable")
    return replace(each, candidates=members[order], truth=order, place=order)


def ordered_classes_release(release: AttackedRelease) -> AttackedRelease:
    """Classes of k or more consecutive records in the order of their quasi-identifiers, a hull each; the rows stand
    class by class, and in a class in the order of the input."""
    return _classes(release, by_arrival=True)


def sorted_classes_release(release: AttackedRelease) -> AttackedRelease:
    """The same classes; the table is sorted, cut and generalized in place, as a table tool does it."""
    return _classes(release, by_arrival=False)


def _classes(release: AttackedRelease, *, by_arrival: bool) -> AttackedRelease:
    each = one_row_each(release)
    n = each.people.size
    labels = np.minimum(np.arange(n) // each.k, max(n // each.k - 1, 0)).astype(np.int32)
    order = np.lexsort([each.arrival if by_arrival else np.arange(n), labels])
    return replace(each, candidates=class_members(labels, labels[order]), truth=order, place=order)


def stamped_release(release: AttackedRelease) -> AttackedRelease:
    """The real release, but each row says which window it is of: the candidates are those of that window."""
    stamps = release.own_window[release.truth]
    keep = release.valid & (release.own_window[release.candidates] == stamps[:, None])
    return replace(release, candidates=np.where(keep, release.candidates, -1))


def fixed_factorization(members: NDArray[np.int32]) -> NDArray[np.int32]:
    """The factorization that anybody gets who runs the same code on the same graph, int32 (k, n)."""
    return peel(members, SeededWords(0))


def mixed_only(factors: NDArray[np.int32], rounds: int, words: SeededWords) -> NDArray[np.int32]:
    """Kempe rounds on a fixed factorization, without drawing its matchings anew."""
    return kempe_rounds(factors, rounds, words)


def classes_without_levels(people: NDArray[np.int64], k: int) -> NDArray[np.int32]:
    """Closed classes of k or more individuals, all of whose rows are released: int32 label of each record.

    people: int64 (n,), in the order of quasi-identifiers; individuals are taken in the order in which they appear.
    """
    _, first, inverse = np.unique(people, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    blocks = max(first.size // k, 1)
    return np.minimum(rank // k, blocks - 1)[inverse].astype(np.int32)
