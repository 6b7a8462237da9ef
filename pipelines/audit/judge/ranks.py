"""Was the published matching one of k by chance? Rank statistics over the graphs of all matching records.

A factorization splits every component of a graph into k matchings, each true match as likely to be in one as in
another, and the recipe names the factors of every component anew before it publishes one. So, whatever the
factorization is, the published one is uniform among the k of its component, independently of other components. Take
any fixed score of a matching, ties broken at random: the rank of the published one among the k is uniform on 0..k-1.
That is exact; ranks of the true record within single slots of one component would not be independent (a cycle has two
matchings, and one choice decides all of its slots). In a component the score adds up the rank of every slot's record
among the slot's members,

    own       does record i stand on slot i: the matching fixed to the identity
    arrival   by position in the input
    waiting   by the record's window
    medoid    by the distance of its quasi-identifiers from those of the slot's medoid

Each of the k ranks of each score is a count of fair draws, tested by the exact binomial tails; the smallest p-value
times the number of tails (Bonferroni) is the audit's. An honest run fails with a chance of at most ``ALARM``.

Closed classes have no part in this: their rows differ in nothing but the payload, whose order is that of content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

ALARM = 1e-6
SCORES = ("own", "arrival", "waiting", "medoid")


@dataclass
class RankCounts:
    """Draws so far: for each k the ranks of the published factors, int64 (scores, k). seed: of the ties."""

    seed: int = 0
    counts: dict[int, np.ndarray] = field(default_factory=dict)

    def add(
        self, members: np.ndarray, factors: np.ndarray, chosen: int, scores: Mapping[str, np.ndarray]
    ) -> None:
        """Count one graph. members int64 (s, k), factors int64 (k, s), scores: float64 (s, k) by name, a value for each
        member of each slot. O(s k^2)."""
        degree = members.shape[1]
        component = slot_components(members)
        kept = self.counts.setdefault(degree, np.zeros((len(SCORES), degree), np.int64))
        random = np.random.default_rng(self.seed)
        for place, name in enumerate(SCORES):
            totals = component_totals(members, factors, component, ranks_within(scores[name]))
            ties = random.random(totals.shape)
            mine, other = totals[chosen], np.abs(totals - totals[chosen]) <= 1e-9 * (1 + np.abs(totals))
            below = ((totals < mine) & ~other) | (other & (ties < ties[chosen]))
            kept[place] += np.bincount(below.sum(axis=0), minlength=degree)
        self.seed += 1

    @property
    def draws(self) -> int:
        """Components counted."""
        return int(sum(counts[0].sum() for counts in self.counts.values()))

    def p_value(self) -> tuple[float, str]:
        """The smallest p-value over all ranks of all scores, times their number; and the score it belongs to."""
        # Loaded by who has matching records judged alone.
        from scipy.special import bdtr, bdtrc

        tails = 2 * sum(counts.size for counts in self.counts.values())
        smallest, named = 1.0, SCORES[0]
        for degree, counts in self.counts.items():
            for name, ranks in zip(SCORES, counts, strict=True):
                total = int(ranks.sum())
                low = bdtr(ranks.astype(float), total, 1.0 / degree).min()
                high = np.where(ranks > 0, bdtrc(ranks - 1.0, total, 1.0 / degree), 1.0).min()
                value = float(min(1.0, tails * min(low, high)))
                if value < smallest:
                    smallest, named = value, name
        return smallest, named


def slot_components(members: np.ndarray) -> np.ndarray:
    """The component of each slot, int (s,), from 0."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    slots, degree = members.shape
    edges = (np.repeat(np.arange(slots), degree), slots + members.ravel())
    graph = coo_array((np.ones(members.size, np.int8), edges), shape=(2 * slots, 2 * slots))
    return np.asarray(
        np.unique(connected_components(graph, directed=False)[1][:slots], return_inverse=True)[1]
    )


def ranks_within(values: np.ndarray) -> np.ndarray:
    """The rank of each member's value among those of its slot, float64 (s, k); equal values share their mean rank."""
    lower = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return lower + (equal - 1) / 2.0


def component_totals(
    members: np.ndarray, factors: np.ndarray, component: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """The summed rank of each factor in each component, float64 (k, components)."""
    sorted_ranks = np.take_along_axis(ranks, np.argsort(members, axis=1), axis=1)
    place = np.argsort(np.argsort(factors.T, axis=1), axis=1)
    of_factor = np.take_along_axis(sorted_ranks, place, axis=1)
    return np.stack([np.bincount(component, weights=column) for column in of_factor.T])


def medoid_distances(points: np.ndarray, is_set: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Distance of each member from the medoid of its slot, float64 (s, k).

    points: int (n, d), ranks of ranges and codes of sets. The distance of two records is the sum over fields of
    |difference| / number of ranks, for sets 0 or 1; the medoid is the member with the least sum. O(s k^2 d).
    """
    width = np.maximum(points.max(axis=0, initial=0) - points.min(axis=0, initial=0), 1)
    between = np.zeros((*members.shape, members.shape[1]))
    for column in range(points.shape[1]):
        values = points[members, column]
        gap = np.abs(values[:, :, None] - values[:, None, :])
        between += (gap > 0) if is_set[column] else gap / width[column]
    medoid = np.argmin(between.sum(axis=2), axis=1)
    return between[np.arange(len(members)), medoid]
