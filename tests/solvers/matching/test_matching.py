"""Random 1-factorizations: every part against its naive twin, the whole against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.matching.components import component_labels
from kanonflow.solvers.matching.kempe import _flip_cycles, kempe_rounds
from kanonflow.solvers.matching.matching import random_factor, random_factorization, uniform_below
from kanonflow.solvers.matching.peeling import peel
from kanonflow.solvers.matching.random_words import shuffled, shuffled_within
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.transforms.secret.seeds import Keystream
from tests import naive_matchings
from tests.regular_graphs import rewired, ring, searched, side_by_side

graphs = st.builds(
    lambda parts, k, swaps, seed: rewired(side_by_side(*(ring(k + part, k) for part in parts)), swaps, seed),
    parts=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    k=st.integers(1, 7),
    swaps=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
)


def stream(number: int) -> Keystream:
    """The keystream of a numbered key."""
    return Keystream(number.to_bytes(32, "big"))


class Fixed:
    """A given list of words, handed out from the start."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words
        self.used = 0

    def words(self, count: int) -> np.ndarray:
        self.used += count
        return self._words[self.used - count : self.used]

    def permutation(self, n: int) -> np.ndarray:
        return shuffled(n, self.words(n))


def assert_factorization(members: np.ndarray, factors: np.ndarray) -> None:
    """Each factor is a permutation, and each slot meets each of its members in exactly one factor."""
    n, k = members.shape
    assert factors.shape == (k, n)
    assert all(sorted(factor) == list(range(n)) for factor in factors.tolist())
    assert all(sorted(factors[:, slot].tolist()) == sorted(members[slot].tolist()) for slot in range(n))


@settings(derandomize=True)
@given(graphs, st.integers(0, 2**64))
def test_a_factorization_splits_the_edges(members: np.ndarray, key: int) -> None:
    """k disjoint perfect matchings that use every edge once, the same for the same words."""
    factors = random_factorization(members, stream(key))
    assert_factorization(members, factors)
    assert np.array_equal(factors, random_factorization(members, stream(key)))


@settings(derandomize=True)
@given(graphs, st.integers(0, 2**64))
def test_a_factor_is_a_perfect_matching_along_edges(members: np.ndarray, key: int) -> None:
    """Every slot gets one of its members, every record is used once, equal words give an equal factor."""
    factor = random_factor(members, stream(key))
    assert sorted(factor.tolist()) == list(range(len(members)))
    assert all(record in members[slot] for slot, record in enumerate(factor))
    assert np.array_equal(factor, random_factor(members, stream(key)))


@settings(derandomize=True)
@given(graphs)
def test_components_agree_with_flood_fill(members: np.ndarray) -> None:
    """Union-find finds the components of the slots-and-records graph."""
    assert component_labels(members).tolist() == naive_matchings.component_labels(members)


@settings(derandomize=True)
@given(graphs, st.integers(0, 2**64))
def test_peeling_agrees_with_explicit_walks(members: np.ndarray, key: int) -> None:
    """The first peeled matching is the one that walks written out as lists lead to, loops cut out."""
    n, k = members.shape
    supply = stream(key).words(60 * n * k + 1000)
    order = naive_matchings.shuffled(list(range(n)), [int(word) for word in supply[:n]])
    words = [int(word) for word in supply[n:]]
    expected = naive_matchings.walk_matching(members.tolist(), order, words)
    fixed = Fixed(supply)
    fixed.words = lambda count: _generous(fixed, count, n)  # type: ignore[method-assign]
    assert peel(members, fixed)[0].tolist() == expected


def _generous(fixed: Fixed, count: int, n: int) -> np.ndarray:
    """Hand out all words at once where a walk asks for some, so that no walk is cut short."""
    return fixed._words[:n] if count == n else fixed._words[n:]


@settings(derandomize=True)
@given(graphs.filter(lambda members: members.shape[1] > 1), st.integers(0, 2**64))
def test_flipping_agrees_with_listed_cycles(members: np.ndarray, key: int) -> None:
    """The kernel flips exactly the alternating cycles whose coin shows 1."""
    factors = peel(members, stream(key))
    n = members.shape[0]
    coins = stream(key + 1).words(n // 128 + 1)
    bits = np.unpackbits(coins.view(np.uint8), bitorder="little").tolist()
    expected = naive_matchings.flip_cycles(factors[0].tolist(), factors[1].tolist(), bits)
    _flip_cycles(factors[0], factors[1], coins, np.empty(n, np.int32), np.empty(n, np.uint8))
    assert (factors[0].tolist(), factors[1].tolist()) == expected


@settings(derandomize=True)
@given(graphs, st.integers(0, 30), st.integers(0, 2**64))
def test_kempe_rounds_keep_a_factorization(members: np.ndarray, rounds: int, key: int) -> None:
    """Mixed factors still split the edges; what was passed in is unchanged."""
    factors = peel(members, stream(key))
    before = factors.copy()
    assert_factorization(members, kempe_rounds(factors, rounds, stream(key + 1)))
    assert np.array_equal(factors, before)


@settings(derandomize=True)
@given(st.integers(0, 200), st.integers(0, 2**64))
def test_a_shuffle_agrees_with_exact_integers(n: int, key: int) -> None:
    """The high half of a 64 x 31 bit product, computed in 32-bit pieces, is exact."""
    words = stream(key).words(n)
    assert shuffled(n, words).tolist() == naive_matchings.shuffled(
        list(range(n)), [int(word) for word in words]
    )


def test_every_permutation_of_four_is_equally_likely() -> None:
    """24 arrangements over 24,000 shuffles: chi-square with 23 degrees below 58.6 (false alarm 0.005%)."""
    words = stream(4).words(24_000 * 4).reshape(-1, 4)
    _, counts = np.unique([shuffled(4, row) for row in words], axis=0, return_counts=True)
    assert counts.size == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 58.6


@settings(derandomize=True)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 2**64))
def test_shuffling_within_classes_stays_in_them(labels: list[int], key: int) -> None:
    """The result is a permutation of the rows that maps each to one of its own class."""
    array = np.array(labels, dtype=np.int32)
    dealt = shuffled_within(array, stream(key).words(array.size))
    assert sorted(dealt.tolist()) == list(range(array.size))
    assert np.array_equal(array[dealt], array)


def test_shuffling_within_a_class_is_uniform() -> None:
    """Two interleaved classes of 3 and 2 rows: their 12 joint arrangements are equally likely (false alarm
    0.005%: chi-square with 11 degrees below 39.1)."""
    labels = np.array([1, 0, 1, 0, 1], dtype=np.int32)
    words = stream(5).words(12_000 * 5).reshape(-1, 5)
    _, counts = np.unique([shuffled_within(labels, row) for row in words], axis=0, return_counts=True)
    assert counts.size == 12
    assert ((counts - 1000) ** 2 / 1000).sum() < 39.1


def test_a_walk_cut_short_by_the_words_is_started_again() -> None:
    """With words dealt one at a time per slot the matchings still come out complete."""

    class Stingy(Keystream):
        def words(self, count: int) -> np.ndarray:
            return super().words(min(count, 7)) if count > 100 else super().words(count)

    members = searched(30, 3, 1)
    assert_factorization(members, peel(members, Stingy(bytes(32))))


def test_uniform_below_skips_biased_words() -> None:
    """Words in the last, incomplete block of 2^64 are not used."""
    words = np.array([2**64 - 1, 2**64 - 2, 17], dtype=np.uint64)
    assert uniform_below(5, Fixed(words)) == 4
    assert uniform_below(2**63 + 1, Fixed(words)) == 17


def test_a_graph_that_is_not_regular_or_not_simple_is_refused() -> None:
    """StructureError, before anything is drawn."""
    for broken in ([[0, 1], [1, 1]], [[0, 1], [0, 1], [2, 0]], [[0, 3], [1, 0]]):
        with pytest.raises(StructureError):
            random_factorization(np.array(broken, dtype=np.int32), stream(0))


def test_an_empty_graph_has_empty_factors() -> None:
    """No slots, no choices; k is kept."""
    assert random_factorization(np.empty((0, 4), dtype=np.int32), stream(0)).shape == (4, 0)
    assert random_factor(np.empty((0, 4), dtype=np.int32), stream(0)).shape == (0,)
