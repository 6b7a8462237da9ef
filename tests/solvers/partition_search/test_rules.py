"""The search's counters of sensitive values: verdicts, gains and prices as a slow twin finds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.group_loss import total_loss
from kanonflow.solvers.partition_search.groups import WAITING, build_classes
from kanonflow.solvers.partition_search.kicks import kick
from kanonflow.solvers.partition_search.moves import best_move, descend
from kanonflow.solvers.partition_search.rules import (
    ValueRules,
    build_rules,
    forget,
    meets,
    part_of_rules,
    shortfall,
)
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.workspace import build_workspace, push
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from kanonflow.solvers.units.nearest_people import nearest_people
from tests import naive, naive_diversity
from tests.mixed_tables import tables
from tests.solvers.partition_search.test_diversity import field_rules
from tests.solvers.shapes.test_diverse_start import salary_rules

pytestmark = pytest.mark.thorough


def rules_of(people: Individuals, fields: Sequence[Sensitive], priority: NDArray[np.int64]) -> ValueRules:
    """With room for everybody in one class."""
    rules = build_rules(people, fields, priority, people.rows.size, 12)
    assert rules is not None
    return rules


@settings(derandomize=True, max_examples=100)
@given(st.data(), tables(individuals=True, k=2, least=6, most=30), st.integers(0, 2**20))
def test_verdicts_are_those_of_the_twin(data: st.DataObject, table: Table, seed: int) -> None:
    """Over a series of questions about two classes with members leaving and coming, at the row counts that follow.

    So is how far a class misses the rules, which is nothing exactly when it meets them.
    """
    people = gather_individuals(table)
    rng = np.random.default_rng(seed)
    fields, priority = data.draw(field_rules(table.records)), rng.integers(0, 3, table.records)
    rules = rules_of(people, fields, priority)
    u = people.rows.size
    cut = int(rng.integers(1, u))
    groups = np.split(rng.permutation(u), [cut])
    after = np.full(u, -1, dtype=np.int32)
    for group in groups:
        after[group[:-1]] = group[1:]
    forget(rules)
    for _ in range(12):
        side, number = int(rng.integers(2)), int(rng.integers(2))
        group = groups[number].tolist()
        if not group:
            continue
        out = int(rng.choice([-1, *group]))
        other = groups[1 - number]
        unit = int(rng.choice(other)) if other.size and rng.integers(2) else -1
        left = [who for who in group if who != out] + ([unit] if unit >= 0 else [])
        if not left:
            continue
        row_count = int(min(people.rows[who] for who in left))
        rows = [
            row
            for who in left
            for row in naive_diversity.first_rows(people.of_row.tolist(), who, row_count, priority.tolist())
        ]
        found = meets(people, rules, after, group[0], side, number, row_count, out, unit)
        whole = list(range(table.records))
        assert found == naive_diversity.meets(rows, fields, whole)
        missing = shortfall(people, rules, after, group[0], side, number, row_count, out, unit)
        assert missing == pytest.approx(naive_diversity.shortfall(rows, fields, whole), abs=1e-7)
        assert (missing <= 0.0) == found


def ruled_naive_loss(
    table: Table,
    people: Individuals,
    labels: NDArray[np.int32],
    k: int,
    fields: Sequence[Sensitive],
    priority: NDArray[np.int64],
) -> float:
    """Rows' loss of all classes and of the pool; a class that breaks a rule waits."""
    numbers = np.unique(table.individuals)
    total = WAITING * float(people.rows[labels == -1].sum())
    for label in set(labels.tolist()) - {-1}:
        own = np.flatnonzero(labels == label)
        row_count = int(people.rows[own].min())
        rows = [
            row
            for who in own
            for row in naive_diversity.first_rows(people.of_row.tolist(), who, row_count, priority.tolist())
        ]
        if own.size >= k and naive_diversity.meets(rows, fields, range(table.records)):
            total += naive.class_loss(table, numbers[own].tolist(), k, WAITING)
        else:
            total += WAITING * float(people.rows[own].sum())
    return total


@settings(derandomize=True, max_examples=40)
@given(st.data(), tables(individuals=True, k=3, least=12, most=30), st.integers(2, 3), st.integers(0, 2**20))
def test_gains_and_prices_are_true_under_rules(data: st.DataObject, table: Table, k: int, seed: int) -> None:
    """A move gains what it says; none better is overlooked; descent and kicks end where they say, never higher."""
    people = gather_individuals(table)
    u = people.rows.size
    rng = np.random.default_rng(seed)
    fields, priority = data.draw(field_rules(table.records)), rng.integers(0, 3, table.records)
    rules = rules_of(people, fields, priority)
    classes = build_classes(people, class_greedy_labels(people, rng.permutation(u), k), k, rules)
    work = build_workspace(u, u + classes.size.size, seed)
    nearest = nearest_people(people, np.arange(u), 5)[0]

    def price(labels: NDArray[np.int32]) -> float:
        return ruled_naive_loss(table, people, labels, k, fields, priority)

    before = price(classes.label)
    loss = ruled_naive_loss(table, people, classes.label, k, fields, priority)
    assert total_loss(people, classes) * table.records == pytest.approx(loss, abs=1e-9)
    for unit in range(0, u, 3):
        gain = best_move(people, classes, nearest, work, unit, rules)
        own = int(classes.label[unit])
        best = 0.0
        for other in nearest[unit][nearest[unit] >= 0]:
            target = int(classes.label[other])
            if target in (own, -1):
                continue
            for partner in np.flatnonzero(classes.label == target):
                labels = classes.label.copy()
                labels[unit], labels[partner] = target, own
                best = max(best, before - price(labels))
        assert gain >= best - 1e-9
        if gain > 0:
            labels = classes.label.copy()
            if work.found[1] >= 0:
                labels[work.found[1]] = own
            labels[unit] = work.found[0]
            assert before - price(labels) == pytest.approx(gain, abs=1e-9)
        push(work, unit)
    change = descend(people, classes, nearest, work, 10**9, rules)
    after = price(classes.label)
    assert after == pytest.approx(before + change, abs=1e-9)
    kick(people, classes, nearest, work, np.arange(u), 0, 3000, None, rules)
    kicked = price(classes.label)
    assert kicked <= after + 1e-9
    loss = ruled_naive_loss(table, people, classes.label, k, fields, priority)
    assert total_loss(people, classes) * table.records == pytest.approx(loss, abs=1e-9)


def test_a_part_of_the_rules_counts_for_itself() -> None:
    """Tallies of two searches side by side are not shared; rules and values are."""
    _people, rules, _ = salary_rules(40, 4)
    part = part_of_rules(rules, np.arange(10, 20))
    assert part is not None
    assert part.values is rules.values
    assert part.begin.tolist() == rules.begin[10:20].tolist()
    assert not np.shares_memory(part.counts, rules.counts)
    assert not np.shares_memory(part.share, rules.share)
