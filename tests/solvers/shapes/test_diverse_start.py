"""Starts, neighbours and shares for the search under rules: dealt by value, joined where that helps."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.diversity import failing_classes
from kanonflow.solvers.partition_search.groups import build_classes
from kanonflow.solvers.partition_search.released_shares import released_shares
from kanonflow.solvers.partition_search.rules import ValueRules, build_rules
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.shapes.diverse_start import (
    dealt_by_value,
    diverse_greedy_labels,
    diverse_neighbours,
    merged_until_diverse,
)
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from kanonflow.solvers.units.nearest_people import nearest_people
from tests.mixed_tables import mixed_table


def salary_rules(n: int, k: int) -> tuple[Individuals, ValueRules, NDArray[np.int64]]:
    """A quarter of the rows has another value than the rest, all of it at one end of the tour."""
    people = gather_individuals(mixed_table(2, n))
    codes = (np.arange(n) < n // 4).astype(np.int64)
    rules = build_rules(people, [Sensitive(codes, "distinct", 2)], np.zeros(n, np.int64), 3 * k, 12)
    assert rules is not None
    return people, rules, codes


def test_classes_dealt_by_value_have_the_shares_of_the_tour() -> None:
    """Sizes k..2k-1, and in each class a quarter of the rare value, within one row."""
    _people, rules, codes = salary_rules(203, 8)
    labels = dealt_by_value(rules, np.arange(203), 8, 1)
    sizes = np.bincount(labels)
    assert sizes.min() >= 8
    assert sizes.max() < 16
    rare = np.bincount(labels, weights=codes)
    assert np.abs(rare - sizes / 4).max() <= 1


def test_failing_classes_are_joined_with_the_next() -> None:
    """Classes along the tour in which the value never changes but at one border: only that pair can be mended."""
    people, rules, _codes = salary_rules(64, 4)
    labels = (np.arange(64) // 4).astype(np.int32)
    merged = merged_until_diverse(people, labels, np.arange(64), 4, rules)
    border = merged[15]
    assert border == merged[16]
    assert np.bincount(merged).max() <= 12
    assert (np.unique(merged) == np.arange(merged.max() + 1)).all()
    assert merged_until_diverse(people, labels, np.arange(64), 4, None) is labels


def test_neighbours_include_others_of_another_value() -> None:
    """The nearest first, missing ones at the end, m // 2 more with the other value where there are any."""
    people, rules, codes = salary_rules(80, 4)
    order = np.random.default_rng(1).permutation(80)
    near = nearest_people(people, order, 6)[0]
    assert diverse_neighbours(people, order, 80, None, near) is near
    nearest = diverse_neighbours(people, order, 80, rules, near)
    assert nearest.shape == (80, 9)
    assert (nearest[:, :6] == near).all()
    for unit in range(80):
        others = nearest[unit, 6:]
        assert (codes[others] != codes[unit]).all()
        assert unit not in nearest[unit]


def test_the_cold_start_mends_what_l_greedy_breaks() -> None:
    """l-greedy alone breaks the rule in many classes; without rules it is returned as it is."""
    people, rules, codes = salary_rules(200, 5)
    tour = np.arange(200)
    plain = class_greedy_labels(people, tour, 5)
    assert (diverse_greedy_labels(people, tour, 5, None) == plain).all()
    field = Sensitive(codes, "distinct", 2)
    start = diverse_greedy_labels(people, tour, 5, rules)
    assert failing_classes(plain, [field]).sum() >= 8
    # What is still broken the search mends, or it waits.
    assert failing_classes(start, [field]).sum() <= 1
    assert (start >= 0).mean() > 0.95


def test_shares_are_those_of_the_rows_that_classes_keep() -> None:
    """Everybody keeps as many rows as the member of fewest; a class that breaks a rule shares nothing."""
    table = mixed_table(6, 40, people=13)
    people = gather_individuals(table)
    codes = np.random.default_rng(4).integers(0, 3, 40)
    field = Sensitive(codes, "distinct", 2, "equal", 0.6)
    rules = build_rules(people, [field], np.zeros(40, np.int64), 13, 12)
    assert rules is not None
    labels = (np.arange(13) // 4).astype(np.int32)
    labels[12] = -1
    classes = build_classes(people, labels, 3, rules)
    assert released_shares(people, classes, rules)
    kept: Counter[int] = Counter()
    for number in range(3):
        own = np.flatnonzero(labels == number)
        level = people.rows[own].min()
        rows = [row for unit in own for row in np.flatnonzero(people.of_row == unit)[:level]]
        if classes.loss[number] < people.rows[own].sum():
            kept.update(codes[rows].tolist())
    assert kept
    assert np.allclose(rules.share, [kept[code] / kept.total() for code in range(3)])
    assert not released_shares(people, classes, rules)
