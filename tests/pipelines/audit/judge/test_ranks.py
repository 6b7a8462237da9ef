"""The rank statistics: against a slow twin, exact on honest draws, and loud on fixed ones."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from kanonflow.pipelines.audit.judge.ranks import (
    ALARM,
    RankCounts,
    component_totals,
    medoid_distances,
    ranks_within,
    slot_components,
)
from kanonflow.solvers.matching.matching import random_factorization, uniform_below
from kanonflow.transforms.secret.seeds import Keystream
from tests.regular_graphs import rewired, ring, side_by_side


def keystream(number: int) -> Keystream:
    """A keystream of its own for each number."""
    return Keystream(number.to_bytes(32, "big"))


def scores(members: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Four scores: who is the slot's own record, its number, a coarse and a random one."""
    own = (members == np.arange(len(members))[:, None]).astype(float)
    return {
        "own": own,
        "arrival": members.astype(float),
        "waiting": members // 3.0,
        "medoid": random.random(members.shape),
    }


@pytest.mark.parametrize("k", [2, 3, 5])
def test_totals_match_a_slow_twin(k: int) -> None:
    """Summed ranks of each factor in each component, slot by slot."""
    members = side_by_side(ring(k, k), rewired(ring(4 * k, k), 20, 1), ring(2 * k + 1, k))
    factors = random_factorization(members, keystream(k))
    values = np.random.default_rng(k).integers(0, 4, members.shape).astype(float)
    component = slot_components(members)
    totals = component_totals(members, factors, component, ranks_within(values))
    slow = np.zeros_like(totals)
    for slot, named in enumerate(members):
        for factor in range(k):
            mine = values[slot, named.tolist().index(factors[factor, slot])]
            below, equal = (values[slot] < mine).sum(), (values[slot] == mine).sum()
            slow[factor, component[slot]] += below + (equal - 1) / 2
    assert np.allclose(totals, slow)


def test_the_medoid_is_nearest_to_itself() -> None:
    """Three records on a line and in two towns: the middle one is the medoid, the other town is one further."""
    points = np.array([[0, 0], [5, 0], [10, 1]])
    found = medoid_distances(points, np.array([False, True]), np.array([[0, 1, 2]]))
    assert np.allclose(found, [[0.5, 0.0, 1.5]])
    near = np.array([[0], [1], [1]])
    assert np.allclose(medoid_distances(near, np.array([False]), np.array([[0, 1, 2]])), [[1.0, 0.0, 0.0]])
    missing = np.array([[0], [-1], [-1]])
    assert np.allclose(medoid_distances(missing, np.array([False]), np.array([[0, 1, 2]])), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("k", [2, 3, 5])
def test_honest_draws_pass(k: int) -> None:
    """Sixty graphs of several components, drawn as the recipe does: no alarm (chance of one below 1e-6), although in
    each component one draw decides all slots."""
    random, counts = np.random.default_rng(3), RankCounts()
    for number in range(60):
        members = side_by_side(ring(k, k), ring(4 * k, k), rewired(ring(5 * k, k), 30, number))
        words = keystream(1000 * k + number)
        factors = random_factorization(members, words)
        counts.add(members, factors, uniform_below(k, words), scores(members, random))
    assert counts.draws >= 180
    assert counts.p_value()[0] > ALARM


@pytest.mark.parametrize("fixed", ["own", "arrival"])
def test_a_chosen_factor_is_found(fixed: str) -> None:
    """In each of 40 graphs the factor that has most slots with their own record, or that follows the arrival: every
    such choice is the largest of three (3^-40)."""
    random, counts = np.random.default_rng(4), RankCounts()
    for number in range(40):
        members = rewired(ring(9, 3), 20, number)
        factors = random_factorization(members, keystream(number))
        told = scores(members, random)
        totals = component_totals(members, factors, np.zeros(9, np.int64), ranks_within(told[fixed]))
        counts.add(members, factors, int(np.argmax(totals[:, 0])), told)
    value, named = counts.p_value()
    assert value < ALARM
    assert named == fixed


def test_the_p_value_is_the_exact_tail() -> None:
    """Ten draws of three, eight of them of one rank: the binomial tail times 24 tests."""
    counts = RankCounts()
    counts.counts[3] = np.array([[8, 1, 1], [4, 3, 3], [4, 3, 3], [4, 3, 3]])
    tail = sum(comb(10, n) * 2 ** (10 - n) for n in (8, 9, 10)) / 3**10
    assert counts.p_value() == (pytest.approx(24 * tail), "own")


def test_no_draws_are_no_alarm() -> None:
    """Without a graph there is nothing to test."""
    assert RankCounts().p_value() == (1.0, "own")
