"""What a released matching tells, over 20,000 keys: nothing beyond 1/k, and little after one known match."""

from __future__ import annotations

import functools
from collections import Counter
from math import factorial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from kanonflow.solvers.matching.matching import random_factor
from kanonflow.transforms.secret.seeds import Secret, publish_keystream
from tests import naive_matchings
from tests.regular_graphs import ring, searched, side_by_side

pytestmark = pytest.mark.thorough

KEYS = 20_000
FALSE_ALARM = 1e-4
SECRET = Secret(bytes(range(32)))
GRAPHS = {
    "optimized, k=3": searched(12, 3, 3),
    "optimized, k=5": searched(16, 5, 1),
    "complete, k=3": ring(3, 3),
    "complete, k=5": ring(5, 5),
    "complete, k=7": ring(7, 7),
}
COMPLETE = [name for name in GRAPHS if name.startswith("complete")]


def published(members: NDArray[np.int32], keys: int) -> NDArray[np.int32]:
    """The published matching under each of so many keys, int32 (keys, n)."""
    factors = [random_factor(members, publish_keystream(SECRET, str(key), b"", b"")) for key in range(keys)]
    return np.stack(factors)


@functools.cache
def published_by_name(name: str) -> NDArray[np.int32]:
    """20,000 published matchings of one of the graphs."""
    return published(GRAPHS[name], KEYS)


def posteriors(
    members: NDArray[np.int32], factors: NDArray[np.int32]
) -> dict[tuple[int, int, int, int], float]:
    """(slot, record, other slot, other record) -> how often the second pair is matched when the first is."""
    found = {}
    for slot, records in enumerate(members):
        for record in records:
            known = factors[factors[:, slot] == record]
            for other in range(len(members)):
                if other != slot:
                    for candidate, count in Counter(known[:, other].tolist()).items():
                        found[slot, int(record), other, candidate] = count / len(known)
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_every_edge_is_equally_likely(name: str) -> None:
    """Each slot shows each of its k members in 1/k of 20,000 keys: a chi-square with k-1 degrees a slot.

    False alarm: at most 1e-4 a graph (1e-4 / n a slot) if the keys were drawn anew.
    """
    members = GRAPHS[name]
    n, k = members.shape
    limit = chi2.isf(FALSE_ALARM / n, k - 1)
    for slot, records in enumerate(members):
        seen = np.bincount(published_by_name(name)[:, slot], minlength=n)
        assert seen.sum() == seen[records].sum()
        assert ((seen[records] - KEYS / k) ** 2 / (KEYS / k)).sum() < limit


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_components_mix_for_prime_k(name: str) -> None:
    """K_{3,3}, K_{5,5}, K_{7,7}: all 6 and all 120 matchings occur, equally often (false alarm 1e-4), and
    after one known match every other posterior is at most 1.3 / (k - 1)."""
    members, factors = GRAPHS[name], published_by_name(name)
    k = members.shape[1]
    if k <= 5:
        counts = np.array(list(Counter(map(tuple, factors.tolist())).values()))
        expected = KEYS / factorial(k)
        assert counts.size == factorial(k)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, factorial(k) - 1)
    assert max(posteriors(members, factors).values()) <= 1.3 / (k - 1)


def test_one_known_match_leaves_the_others_open() -> None:
    """On optimized graphs of one component a known match never settles another one, unless every perfect
    matching of the graph that has the first has the second too (which no choice among matchings can help)."""
    members = GRAPHS["optimized, k=3"]
    possible = posteriors(members, naive_matchings.perfect_matchings(members))
    found = posteriors(members, published_by_name("optimized, k=3"))
    assert max(value for pair, value in found.items() if possible[pair] < 1) < 0.95
    assert sum(value == 1 for value in possible.values()) <= 2
    assert max(posteriors(GRAPHS["optimized, k=5"], published_by_name("optimized, k=5")).values()) < 0.5


@pytest.mark.parametrize(("n", "k", "most"), [(11, 5, 0.45), (25, 5, 0.5), (13, 7, 0.35)])
def test_rings_of_prime_degree_mix(n: int, k: int, most: float) -> None:
    """Flipping cycles leaves the obvious factorization of a ring as it is, and one known match would give all
    away; from freshly drawn matchings a known match leaves every other posterior well below 1."""
    members = ring(n, k)
    assert max(posteriors(members, published(members, 4_000)).values()) < most


def test_components_are_matched_independently() -> None:
    """Two complete components: their 36 joint matchings are equally likely (false alarm 1e-4)."""
    factors = published(side_by_side(ring(3, 3), ring(3, 3)), 7_200)
    counts = np.array(list(Counter(map(tuple, factors.tolist())).values()))
    assert counts.size == 36
    assert ((counts - 200) ** 2 / 200).sum() < chi2.isf(FALSE_ALARM, 35)


def test_unequal_components_tell_nothing_about_each_other() -> None:
    """Two rings: what is matched in the first does not change the odds in the second (false alarm 1e-4)."""
    factors = published(side_by_side(ring(4, 3), ring(5, 3)), 6_000)
    table = np.zeros((3, 3))
    np.add.at(table, (factors[:, 0], factors[:, 4] - 4), 1)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert ((table - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, 4)


def test_two_crossing_edges_are_matched_together() -> None:
    """A limit of graphs, stated: two complete components joined by one exchange are joined by two edges, and
    every perfect matching has both or neither; each is still published with probability 1/k."""
    members = side_by_side(ring(5, 5), ring(5, 5))
    members[0, 0], members[5, 0] = members[5, 0], members[0, 0]
    factors = published(members, 3_000)
    first, second = factors[:, 0] == 5, factors[:, 5] == 0
    assert np.array_equal(first, second)
    assert abs(first.mean() - 0.2) < 0.03
