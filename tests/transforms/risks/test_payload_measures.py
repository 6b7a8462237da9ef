"""Distinct values, values that one individual alone repeats, order in time: against loops, and on feeds made for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.transforms.risks.payload_measures import distinct_share, order_within, own_repeats

CODES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=40)


def naive_own_share(codes: list[int], who: list[int]) -> float:
    """A row at a time."""
    several = [place for place in range(len(who)) if who.count(who[place]) >= 2]
    if not several:
        return 0.0
    own = 0
    for place in several:
        same = [other for other in several if codes[other] == codes[place]]
        own += len(same) > 1 and all(who[other] == who[place] for other in same)
    return own / len(several)


def naive_order(values: list[int], times: list[int], groups: list[int]) -> float:
    """Ranks by counting, a group at a time."""
    r, s = [], []
    for group in sorted(set(groups)):
        own = [place for place in range(len(groups)) if groups[place] == group]
        pairs = []
        for column in (values, times):
            ranks = [
                sum(column[other] < column[place] for other in own)
                + (sum(column[other] == column[place] for other in own) - 1) / 2
                for place in own
            ]
            mean = sum(ranks) / len(own)
            pairs.append([(rank - mean) / len(own) for rank in ranks])
        if any(pairs[0]) and any(pairs[1]):
            r += pairs[0]
            s += pairs[1]
    product = sum(a * b for a, b in zip(r, s, strict=True))
    return product / (sum(a * a for a in r) * sum(b * b for b in s)) ** 0.5 if r else 0.0


@settings(max_examples=100)
@given(CODES)
def test_own_repeats_are_those_of_a_loop(rows: list[tuple[int, int]]) -> None:
    """Any values of any people."""
    codes, who = ([pair[place] for pair in rows] for place in (0, 1))
    found = own_repeats(np.array(codes), np.array(who))
    assert found.share == pytest.approx(naive_own_share(codes, who))


@settings(max_examples=100)
@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=30))
def test_order_is_that_of_a_loop(rows: list[tuple[int, int, int]]) -> None:
    """Any values, times and groups, with ties."""
    values, times, groups = ([line[place] for line in rows] for place in range(3))
    found = order_within(np.array(values), np.array(times), np.array(groups))
    assert found.correlation == pytest.approx(naive_order(values, times, groups), abs=1e-12)


def feed(people: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whose each row is, and a hundred shops at random."""
    rng = np.random.default_rng(1)
    return rng.integers(0, people, rows), rng.integers(0, 100, rows)


def test_an_account_number_is_an_individuals_own() -> None:
    """One to three accounts a person: all rows but those of accounts used once. Shops are everybody's."""
    who, shops = feed(50, 2_000)
    accounts = who * 3 + np.random.default_rng(2).integers(0, 3, who.size) % (1 + who % 3)
    assert own_repeats(accounts, who).share > 0.99
    assert own_repeats(accounts, who).by_chance < 0.05
    assert own_repeats(shops, who).share < 0.01


def test_few_people_repeat_values_by_chance() -> None:
    """Two people, a hundred shops: what they seem to have of their own, chance deals as well."""
    who, shops = feed(2, 150)
    found = own_repeats(shops, who)
    assert found.share > 0.1
    assert found.by_chance == pytest.approx(found.share, abs=0.15)


def test_one_row_each_repeats_nothing() -> None:
    """People with a single row do not count."""
    assert own_repeats(np.arange(5), np.arange(5)) == (0.0, 0.0, 0)


def test_distinct_values() -> None:
    """Of every row its own value, of all the same, of none."""
    assert distinct_share(np.arange(9)) == 1.0
    assert distinct_share(np.zeros(4, dtype=np.int64)) == 0.25
    assert distinct_share(np.empty(0, dtype=np.int64)) == 0.0


def test_a_sequence_number_has_an_order_within_windows() -> None:
    """A counter has it, forwards and backwards; one that only changes from window to window has none."""
    rng = np.random.default_rng(3)
    times = rng.permutation(1_000)
    windows = times // 100
    assert order_within(times * 7 + 3, times, windows).correlation == pytest.approx(1.0)
    assert order_within(-times, times, windows).correlation == pytest.approx(-1.0)
    assert order_within(windows, times, windows).rows == 0
    assert abs(order_within(rng.normal(0, 1, 1_000), times, windows).correlation) < 0.15
