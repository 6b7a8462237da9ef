"""Exchanges that mend a start under rules: what each class then misses, and that shortcuts change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.diversity import failing_classes
from kanonflow.solvers.partition_search.group_loss import total_loss
from kanonflow.solvers.partition_search.groups import build_classes
from kanonflow.solvers.partition_search.rules import build_rules
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.diverse_repair import exchanged_until_diverse
from kanonflow.solvers.shapes.diverse_start import dealt_by_value, merged_until_diverse
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from tests import naive_diversity
from tests.mixed_tables import mixed_table, tables
from tests.solvers.partition_search.test_diversity import field_rules

pytestmark = pytest.mark.thorough


def missed(
    people: Individuals, labels: NDArray[np.int32], fields: list[Sensitive], priority: list[int]
) -> list[float]:
    """How far each class misses the rules with the rows that the search judges it by."""
    found = []
    for number in range(labels.max() + 1):
        own = np.flatnonzero(labels == number)
        level = int(people.rows[own].min())
        rows = [
            row
            for unit in own
            for row in naive_diversity.first_rows(people.of_row.tolist(), unit, level, priority)
        ]
        found.append(naive_diversity.shortfall(rows, fields, list(range(people.of_row.size))))
    return found


@settings(derandomize=True, max_examples=40)
@given(st.data(), tables(individuals=True, k=2, least=6, most=30), st.integers(0, 2**20))
def test_no_class_misses_more_and_sizes_stay(data: st.DataObject, table: Table, seed: int) -> None:
    """Individuals of several rows, any rules: whoever exchanges, classes keep their sizes and the pool its own."""
    people = gather_individuals(table)
    rng = np.random.default_rng(seed)
    fields, priority = data.draw(field_rules(table.records)), rng.integers(0, 3, table.records)
    u = people.rows.size
    rules = build_rules(people, fields, priority, u, 12)
    assert rules is not None
    tour = rng.permutation(u)
    labels = class_greedy_labels(people, tour, 2)
    mended = exchanged_until_diverse(people, labels, tour, 2, rules, 1 + seed % u)
    assert (np.bincount(mended + 1) == np.bincount(labels + 1)).all()
    before = missed(people, labels, fields, priority.tolist())
    after = missed(people, mended, fields, priority.tolist())
    assert all(new <= old + 1e-7 for old, new in zip(before, after, strict=True))


def test_what_is_known_of_a_value_changes_nothing() -> None:
    """A second field without a limit forbids the shortcut for one row of one field: the exchanges are the same."""
    table = replace(mixed_table(5, 240), individuals=np.arange(240))
    people = gather_individuals(table)
    rng = np.random.default_rng(5)
    tour = rng.permutation(240)
    labels = class_greedy_labels(people, tour, 5)
    codes = rng.choice(4, 240, p=[0.7, 0.1, 0.1, 0.1])
    anything = Sensitive(codes, "distinct", 1)
    for rule in (Sensitive(codes, "distinct", 3), Sensitive(codes, distance="equal", t=0.25)):
        found = []
        for fields in ([rule], [rule, anything]):
            rules = build_rules(people, fields, np.zeros(240, np.int64), 30, 12)
            assert rules is not None
            found.append(exchanged_until_diverse(people, labels, tour, 5, rules, 20))
        assert (found[0] == found[1]).all()
        assert failing_classes(found[0], [rule]).sum() < failing_classes(labels, [rule]).sum()


def test_few_exchanges_cost_little() -> None:
    """A rare value that is spread evenly: every class gets it, for less than by joining classes or dealing them out."""
    table = replace(mixed_table(8, 600, nulls=0), individuals=np.arange(600))
    people = gather_individuals(table)
    codes = (np.random.default_rng(8).random(600) < 0.25).astype(np.int64)
    rule = Sensitive(codes, "distinct", 2)
    rules = build_rules(people, [rule], np.zeros(600, np.int64), 60, 12)
    assert rules is not None
    tour = np.argsort(table.numeric[:, 0], kind="stable")
    labels = class_greedy_labels(people, tour, 10)
    mended = exchanged_until_diverse(people, labels, tour, 10, rules, 600)
    assert failing_classes(labels, [rule]).any()
    assert not failing_classes(mended, [rule]).any()
    others = (labels, dealt_by_value(rules, tour, 10, 4), dealt_by_value(rules, tour, 10, 1))
    joined = [merged_until_diverse(people, some, tour, 10, rules) for some in others]
    losses = [total_loss(people, build_classes(people, some, 10, rules)) for some in (mended, *joined)]
    assert losses[0] < 0.9 * min(losses[1:])
