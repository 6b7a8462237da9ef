"""Weighted coordinates, packed bits and codes say what the table says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import Features, build_features, normalized_weights
from kanonflow.solvers.units.neighbours import pair_loss
from tests import naive

EVERY_ATTRIBUTE = int(np.iinfo(np.int64).max)


def codes_table(cardinality: list[int], seed: int = 1, n: int = 60) -> Table:
    """Random codes over whole domains, the last value of each included."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in cardinality], axis=1)
    codes[0] = np.array(cardinality) - 1
    return Table(
        np.empty((n, 0)),
        codes.astype(np.int32),
        np.array(cardinality),
        rng.integers(1, 5, len(cardinality)).astype(float),
    )


def features_of(table: Table, narrow_limit: int = 64) -> Features:
    """Features of all rows."""
    return build_features(table, np.arange(table.records), narrow_limit=narrow_limit)


def bits(features: Features, unit: int) -> set[tuple[int, int]]:
    """(word, bit) pairs that are set."""
    return {
        (w, bit)
        for w, word in enumerate(features.words[unit].tolist())
        for bit in range(64)
        if word >> bit & 1
    }


@settings(derandomize=True, max_examples=40)
@given(
    st.lists(st.sampled_from([1, 2, 3, 31, 63, 64, 65, 128, 200]), min_size=1, max_size=6),
    st.sampled_from([2, 64, 100, EVERY_ATTRIBUTE]),
    st.integers(0, 2**32 - 1),
)
def test_two_rows_share_a_bit_for_each_value_they_share(sizes: list[int], limit: int, seed: int) -> None:
    """Every value of every narrow attribute has a bit of its own, whoever shares the word; others are wide."""
    table = codes_table(sizes, seed, 20)
    features = features_of(table, limit)
    narrow = [j for j, size in enumerate(sizes) if size <= limit]
    wide = [j for j, size in enumerate(sizes) if size > limit]
    assert features.wide.tolist() == table.categorical[:, wide].tolist()
    for a in range(table.records):
        assert len(bits(features, a)) == len(narrow)
        for b in range(a):
            shared = sum(table.categorical[a, j] == table.categorical[b, j] for j in narrow)
            assert len(bits(features, a) & bits(features, b)) == shared


@pytest.mark.parametrize(
    ("sizes", "narrow_limit", "words"),
    [
        ([1], 64, 1),
        ([2] * 32, 64, 1),
        ([2] * 33, 64, 2),
        ([63, 1], 64, 1),
        ([63, 2], 64, 2),
        ([64, 64], 64, 2),
        ([65], 64, 0),
        ([65], EVERY_ATTRIBUTE, 2),
        ([128], EVERY_ATTRIBUTE, 2),
        ([200, 56], EVERY_ATTRIBUTE, 4),
        ([200, 60], EVERY_ATTRIBUTE, 5),
        ([1, 2, 63, 64, 65, 200], 64, 3),
    ],
)
def test_attributes_share_words(sizes: list[int], narrow_limit: int, words: int) -> None:
    """Small domains share a word, larger ones take as many as they need, wide ones none."""
    assert features_of(codes_table(sizes), narrow_limit).words.shape == (60, words)


@pytest.mark.parametrize("narrow_limit", [2, 64, EVERY_ATTRIBUTE])
@pytest.mark.parametrize("sizes", [[1], [2], [63], [64], [65], [200], [1, 2, 63, 64, 65, 200], [3] * 30])
def test_the_price_of_a_second_value_is_that_of_the_definition(sizes: list[int], narrow_limit: int) -> None:
    """Two rows cost their NCP, whether attributes are bits of one word, of several, or codes."""
    table = codes_table(sizes)
    features = features_of(table, narrow_limit)
    for a in range(0, 60, 7):
        for b in range(0, 60, 5):
            assert pair_loss(features, a, b) == pytest.approx(naive.box_loss(table, [a, b]), abs=1e-12)


def test_weights_are_scaled_to_one() -> None:
    """normalized_weights sums to 1 in the proportions given; numbers carry their weight, nulls stand aside."""
    table = Table(
        np.array([[0.5, np.nan], [1.0, 0.25]]),
        np.zeros((2, 1), np.int32),
        np.array([4]),
        np.array([1.0, 2.0, 5.0]),
    )
    assert normalized_weights(table).tolist() == [0.125, 0.25, 0.625]
    features = features_of(table)
    assert features.numeric.tolist() == [[0.0625, 0.75], [0.125, 0.0625]]
    assert features.code_weight.tolist() == [0.625 / 3]


def test_rows_are_chosen_and_may_repeat() -> None:
    """One unit a given row, in the given order."""
    table = codes_table([5, 70])
    some = build_features(table, np.array([7, 3, 7]))
    whole = features_of(table)
    assert some.words.tolist() == whole.words[[7, 3, 7]].tolist()
    assert some.codes.tolist() == table.categorical[[7, 3, 7]].tolist()
