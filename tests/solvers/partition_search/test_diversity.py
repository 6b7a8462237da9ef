"""l-diversity and t-closeness of partitions: as a slow twin counts them, and in what the search returns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.partition_search.diversity import (
    check_eligible,
    diverse_row_counts,
    failing_classes,
)
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, NotDiverseError, TableError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.sensitive import DISTANCES, KINDS, Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.classes import solve_classes
from kanonflow.solvers.units.individuals import gather_individuals
from kanonflow.solvers.units.row_counts import shared_row_counts
from tests import naive_diversity as naive
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


@st.composite
def field_rules(draw: st.DrawFn, n: int, *, most: int = 2) -> tuple[Sensitive, ...]:
    """One or two sensitive fields of n rows with any rules, also none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    fields = []
    for _ in range(draw(st.integers(1, most))):
        codes = rng.integers(0, draw(st.integers(1, 6)), n) * draw(st.integers(1, 2))
        fields.append(
            Sensitive(
                codes.astype(np.int64),
                draw(st.sampled_from([None, *KINDS])),
                draw(st.sampled_from([2, 3])),
                draw(st.sampled_from([None, *DISTANCES])),
                draw(st.sampled_from([0.1, 0.25, 0.5])),
            )
        )
    return tuple(fields)


@settings(derandomize=True, max_examples=200)
@given(st.data(), st.integers(1, 30), st.integers(0, 2**20))
def test_failing_classes_are_those_of_the_twin(data: st.DataObject, n: int, seed: int) -> None:
    """Waiting rows count nowhere; a number without rows is no class."""
    labels = np.random.default_rng(seed).integers(-1, 4, n).astype(np.int32)
    fields = data.draw(field_rules(n))
    whole = np.flatnonzero(labels >= 0).tolist()
    for number, fails in enumerate(failing_classes(labels, fields)):
        rows = np.flatnonzero(labels == number).tolist()
        assert fails == (bool(rows) and not naive.meets(rows, fields, whole))


def test_the_ordered_distance_knows_the_order() -> None:
    """The example of Li et al. (2007), section 4.2: {3k, 4k, 5k} and {6k, 8k, 11k} among nine incomes."""
    codes = np.array([0, 1, 2, 3, 5, 8, 4, 6, 7])
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2], dtype=np.int32)
    low = Sensitive(codes, distance="ordered", t=0.374)
    assert failing_classes(labels, [low]).tolist() == [True, False, False]
    high = Sensitive(codes, distance="ordered", t=0.166)
    assert failing_classes(labels, [high])[1]
    assert not failing_classes(labels, [Sensitive(codes, distance="ordered", t=0.376)]).any()


def test_what_not_even_all_rows_show_is_refused() -> None:
    """75% of one value: distinct 2 is possible, frequency 2 and entropy 2 are not; the message names no value."""
    codes = np.array([7] * 75 + [3] * 25)
    check_eligible([Sensitive(codes, "distinct", 2), Sensitive(codes, distance="equal", t=0.01)])
    for kind, least in (("frequency", 2), ("entropy", 2), ("distinct", 3)):
        with pytest.raises(NotDiverseError, match="2 values, the most frequent on 75%") as raised:
            check_eligible([Sensitive(codes, kind, least)])
        assert raised.value.exit_code == 3


def test_unknown_rules_are_refused() -> None:
    """A kind, a distance, a negative code, a graph."""
    codes = np.zeros(6, dtype=np.int64)
    with pytest.raises(TableError):
        Sensitive(codes, "frequent", 2)
    with pytest.raises(TableError):
        Sensitive(codes, distance="far", t=0.1)
    with pytest.raises(TableError):
        Sensitive(codes - 1, "distinct", 2)
    with pytest.raises(BudgetError, match="need shape classes"):
        solve(Task(mixed_table(1, 6), 2, seed=1, sensitive=[Sensitive(codes, "distinct", 2)]))


@settings(derandomize=True, max_examples=100)
@given(st.data(), tables(individuals=True, k=3, least=9, most=30), st.integers(0, 2**20))
def test_row_counts_leave_only_classes_that_meet_the_rules(
    data: st.DataObject, table: Table, seed: int
) -> None:
    """Row counts only fall, to one for a class or to nothing; who keeps rows shares its count with the class."""
    people = gather_individuals(table)
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 2, people.rows.size).astype(np.int32)
    priority = rng.integers(0, 3, table.records)
    fields = data.draw(field_rules(table.records))
    before = shared_row_counts(people.rows, labels, 3)
    row_counts = diverse_row_counts(before, labels, people.of_row, people.rows, priority, fields)
    assert (row_counts <= before).all()
    kept = {
        number: [
            row
            for unit in np.flatnonzero(labels == number)
            for row in naive.first_rows(people.of_row.tolist(), unit, row_counts[unit], priority.tolist())
        ]
        for number in (0, 1)
    }
    whole = kept[0] + kept[1]
    for number, rows in kept.items():
        assert not rows or naive.meets(rows, fields, whole)
        own = labels == number
        same = (row_counts[own] == before[own]).all()
        assert same or np.unique(row_counts[own]).size == 1


@settings(derandomize=True, max_examples=60)
@given(st.data(), tables(individuals=True, k=3, least=9, most=50), st.integers(2, 3), st.integers(0, 2**20))
def test_every_class_of_a_solution_meets_the_rules(
    data: st.DataObject, table: Table, k: int, seed: int
) -> None:
    """With exactly the rows that are released; a solution that cannot be is refused before."""
    rng = np.random.default_rng(seed)
    fields = data.draw(field_rules(table.records))
    priority = rng.integers(0, 3, table.records)
    u = np.unique(table.individuals).size
    warm = WarmClasses(rng.integers(-1, 3, u)) if rng.integers(2) else None
    if u < k:
        return
    try:
        solution = solve_classes(
            Task(
                table,
                k,
                budget=Budget(200.0),
                seed=5,
                priority=priority,
                sensitive=fields,
                warm=warm,
                shape="classes",
            )
        )
    except NotDiverseError:
        assert not naive.meets(range(table.records), fields, range(table.records))
        return
    solution.partition.check(k, table.individuals)
    labels = solution.partition.labels
    whole = np.flatnonzero(labels >= 0).tolist()
    for number in range(solution.partition.classes):
        assert naive.meets(np.flatnonzero(labels == number).tolist(), fields, whole)
    again = solve_classes(
        Task(
            table,
            k,
            budget=Budget(200.0),
            seed=5,
            priority=priority,
            sensitive=fields,
            warm=warm,
            shape="classes",
        )
    )
    assert (again.partition.labels == labels).all()


def test_rows_without_individuals_form_classes() -> None:
    """Each row is its own individual; the search under rules improves on its start, and the plain one on it."""
    table = mixed_table(3, 600)
    codes = np.random.default_rng(1).choice(3, 600, p=[0.4, 0.35, 0.25]).astype(np.int64)
    field = Sensitive(codes, "frequency", 2, "equal", 0.3)
    plain = solve_classes(Task(table, 4, budget=Budget(500.0), seed=1, shape="classes"))
    ruled = solve_classes(Task(table, 4, budget=Budget(500.0), seed=1, sensitive=[field], shape="classes"))
    assert failing_classes(plain.partition.labels, [field]).any()
    assert not failing_classes(ruled.partition.labels, [field]).any()
    assert (ruled.partition.labels >= 0).mean() > 0.9
    assert plain.loss <= ruled.loss < ruled.start_loss


def test_a_window_in_stretches_meets_the_rules() -> None:
    """Large windows are searched in parts with gates of their own."""
    n = 10_500
    table = mixed_table(5, n, numeric=1, cardinality=(3,))
    codes = np.random.default_rng(2).integers(0, 4, n)
    field = Sensitive(codes, "entropy", 2.5, "ordered", 0.2)
    labels = solve_classes(
        Task(table, 5, budget=Budget(40.0), seed=1, threads=2, sensitive=[field], shape="classes")
    )
    assert not failing_classes(labels.partition.labels, [field]).any()
    assert (labels.partition.labels >= 0).mean() > 0.9
