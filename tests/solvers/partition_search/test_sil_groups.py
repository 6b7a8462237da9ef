"""The search on closed classes for SIL: its losses are those of the definition, what it finds could be released."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.partition_search.diversity import failing_classes
from kanonflow.solvers.partition_search.group_loss import members as members_in
from kanonflow.solvers.partition_search.group_loss import total_loss
from kanonflow.solvers.partition_search.kicks import kick
from kanonflow.solvers.partition_search.moves import best_move, descend
from kanonflow.solvers.partition_search.sil_groups import SilGroups, SilLoss, changed_loss, sil_loss
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.workspace import build_workspace, push
from kanonflow.solvers.shapes.classes import solve_classes
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from kanonflow.solvers.units.nearest_people import nearest_people
from tests import naive
from tests.mixed_tables import mixed_table, tables
from tests.solvers.partition_search.test_class_state import members_of

pytestmark = pytest.mark.thorough

HAIR = 1e-6
arguments = given(tables(individuals=True, k=3, least=9, most=24), st.integers(2, 3), st.integers(0, 2**20))
whole = given(tables(trees=True, individuals=True, k=4, most=40), st.integers(2, 4), st.integers(0, 2**20))


def prepare(table: Table, seed: int) -> tuple[Individuals, SilLoss, NDArray[np.int64]]:
    """Individuals, their loss, and the priority of the rows."""
    priority = np.random.default_rng(seed).integers(0, 3, table.records)
    people = gather_individuals(table)
    return people, sil_loss(table, people, priority), priority


def some_classes(people: Individuals, k: int, seed: int) -> NDArray[np.int32]:
    """Random labels, some in the pool."""
    u = people.rows.size
    labels = np.random.default_rng(seed).integers(-1, max(u // k, 1), u).astype(np.int32)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    labels[np.isin(labels, np.flatnonzero(sizes > 2 * k))] = -1
    return labels


def naive_loss(
    table: Table, labels: NDArray[np.int32], k: int, priority: NDArray[np.int64], waiting: float
) -> float:
    """Rows' loss of all classes and of the pool, afresh."""
    classes = (members_of(table, labels, label) for label in set(labels.tolist()) - {-1})
    total = sum(naive.class_sil(table, members, k, priority.tolist(), waiting) for members in classes)
    outside = members_of(table, labels, -1)
    return total + waiting * float(np.isin(table.individuals, outside).sum())


@settings(derandomize=True, max_examples=60)
@arguments
def test_losses_are_those_of_the_definition(table: Table, k: int, seed: int) -> None:
    """Of classes, of the whole, and after anybody or nobody left and anybody or nobody came."""
    people, loss, priority = prepare(table, seed)
    labels = some_classes(people, k, seed)
    classes = loss.state(people, labels, k)
    waiting = naive.sil_waiting(table) + HAIR
    assert classes.waiting[0] == pytest.approx(waiting, rel=1e-12)
    expected = naive_loss(table, labels, k, priority, waiting)
    assert total_loss(people, classes) * table.records == pytest.approx(expected, abs=1e-9)
    numbers = np.unique(table.individuals).tolist()
    for label in range(classes.size.size):
        members = members_in(classes, np.int64(label)).tolist()
        for out in (-1, *members):
            stay = [unit for unit in members if unit != out]
            for unit in [-1, *np.flatnonzero(labels != label)[:4].tolist()]:
                after = [numbers[member] for member in [*stay, *([unit] if unit >= 0 else [])]]
                found = changed_loss(people, classes, label, out, unit)
                assert found == pytest.approx(
                    naive.class_sil(table, after, k, priority.tolist(), waiting), abs=1e-9
                )
        if members:
            assert classes.loss[label] == changed_loss(people, classes, label, -1, -1)


@settings(derandomize=True, max_examples=40)
@arguments
def test_no_released_row_costs_more_than_one_that_waits(table: Table, k: int, seed: int) -> None:
    """Whatever classes there are: so the search holds nobody back but for unequal row counts."""
    people, loss, _ = prepare(table, seed)
    labels = some_classes(people, k, seed)[people.of_row]
    assert sil(table, Partition(labels)) <= loss.waiting + 1e-12


def greedy_state(
    table: Table, k: int, seed: int
) -> tuple[Individuals, SilGroups, NDArray[np.int64], NDArray[np.int32]]:
    """Classes of k as l-greedy grows them along a random order, the rows' priority, and who is near whom."""
    people, loss, priority = prepare(table, seed)
    u = people.rows.size
    labels = class_greedy_labels(people, np.random.default_rng(seed).permutation(u), k)
    return people, loss.state(people, labels, k), priority, nearest_people(people, np.arange(u), 5)[0]


@settings(derandomize=True, max_examples=30)
@arguments
def test_moves_gain_what_they_say_and_kicks_never_raise_the_loss(table: Table, k: int, seed: int) -> None:
    """A descent changes the loss by what it says, a kick does not raise it; the state is that of the labels."""
    people, classes, priority, nearest = greedy_state(table, k, seed)
    waiting, u = naive.sil_waiting(table) + HAIR, people.rows.size
    work = build_workspace(u, u + classes.size.size, seed)
    before = naive_loss(table, classes.label, k, priority, waiting)
    for unit in range(u):
        gain = best_move(people, classes, nearest, work, unit)
        assert gain >= 0
        if gain > 0:
            labels = classes.label.copy()
            home, target, partner = labels[unit], int(work.found[0]), int(work.found[1])
            if partner >= 0:
                labels[partner] = home
            labels[unit] = target
            after = naive_loss(table, labels, k, priority, waiting)
            assert before - after == pytest.approx(gain, abs=1e-9)
        push(work, unit)
    change = descend(people, classes, nearest, work, 10**9)
    after = naive_loss(table, classes.label, k, priority, waiting)
    assert change <= 0
    assert after - before == pytest.approx(change, abs=1e-9)
    kick(people, classes, nearest, work, np.arange(u), 0, 4000)
    kicked = naive_loss(table, classes.label, k, priority, waiting)
    assert kicked <= after + 1e-9
    assert total_loss(people, classes) * table.records == pytest.approx(kicked, abs=1e-9)


def naive_total(table: Table, solution: Solution) -> float:
    """SIL of a partition over all rows, those that wait among them."""
    leaves, labels = table.by_leaves(), solution.partition.labels
    groups = [np.flatnonzero(labels == label).tolist() for label in range(solution.partition.classes)]
    waiting = float((labels < 0).mean())
    return waiting * naive.sil_waiting(leaves) + (1 - waiting) * naive.sil(leaves, groups)


@settings(derandomize=True, max_examples=60)
@whole
def test_a_solution_could_be_released(table: Table, k: int, seed: int) -> None:
    """The loss is the definition's, at most what the search says and at most the start's; there is no bound."""
    priority = np.random.default_rng(seed).integers(0, 3, table.records)
    solution = solve(
        Task(table, k, shape="classes", loss="sil", budget=Budget(200.0), seed=5, priority=priority)
    )
    solution.partition.check(k, table.individuals)
    assert solution.loss == pytest.approx(naive_total(table, solution), abs=1e-9)
    found = [loss for _, loss in solution.trace]
    assert found == sorted(found, reverse=True) or np.diff(found).max() <= 1e-9
    assert solution.loss <= found[-1] + 1e-9 <= solution.start_loss + 2e-9
    assert solution.lower_bound == 0.0
    if (np.unique(table.individuals, return_counts=True)[1] == 1).all():
        # The price of waiting is a hair above what is reported.
        assert solution.loss == pytest.approx(found[-1], abs=HAIR)


def test_who_searches_sil_finds_less_of_it() -> None:
    """Than who searches NCP, with one row an individual and with several."""
    table = mixed_table(4, 400, nulls=0.0)
    for individuals in (np.arange(400), np.arange(400) // 2):
        named = replace(table, individuals=individuals)
        found = {
            loss: solve(Task(named, 3, shape="classes", loss=loss, budget=Budget(500.0), seed=1))
            for loss in ("ncp", "sil")
        }
        assert found["sil"].loss < 0.95 * sil(named, found["ncp"].partition)
        assert found["sil"].loss < 0.95 * found["sil"].start_loss


def test_further_rows_that_draw_the_average_away_wait() -> None:
    """Several row counts would keep nine rows more of two individuals, at the far end from everybody else's rows."""
    individuals = np.concatenate([np.arange(40), np.repeat([40, 41], 10)])
    first = np.concatenate([np.ones(40, dtype=bool), np.tile(np.arange(10) == 0, 2)])
    numeric = np.where(first, 0.0, 1.0)
    numeric[:8] = 1.0 / 8.0
    table = Table(
        numeric[:, None], np.empty((60, 0), np.int32), np.empty(0, np.int64), np.ones(1), individuals
    )
    people = gather_individuals(table)
    loss = sil_loss(table, people, np.zeros(60, dtype=np.int64))
    labels = np.zeros(42, dtype=np.int32)
    row_counts = np.where(people.rows == 10, 10, 1)
    assert loss.row_counts(people, labels, row_counts).tolist() == [1] * 42
    prices = [
        loss.total(table, Partition(np.where(kept, 0, -1).astype(np.int32)))
        for kept in (np.ones(60, dtype=bool), first)
    ]
    assert prices[1] < prices[0]
    near = replace(table, numeric=np.where(first, numeric, 0.0)[:, None])
    alike = sil_loss(near, people, np.zeros(60, dtype=np.int64))
    assert alike.row_counts(people, labels, row_counts).tolist() == row_counts.tolist()


def test_classes_for_sil_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched in parts: one or two threads give the same classes, as does a repetition."""
    monkeypatch.setattr("kanonflow.solvers.shapes.classes.PART_SIZE", 300)
    table = mixed_table(3, 2000, people=800, cardinality=(6, 80))
    found = [
        solve(Task(table, 4, shape="classes", loss="sil", budget=Budget(60.0), seed=3, threads=threads))
        for threads in (1, 2, 1)
    ]
    assert all(np.array_equal(other.partition.labels, found[0].partition.labels) for other in found[1:])
    assert found[0].loss < found[0].start_loss
    found[0].partition.check(4, table.individuals)


@settings(derandomize=True, max_examples=20)
@given(st.integers(0, 2**20))
def test_rules_and_old_classes_go_with_sil(seed: int) -> None:
    """What is released meets the rules; of an old and a new start the cheaper is taken, in SIL."""
    table = mixed_table(seed, 60, people=40, k=4)
    rng = np.random.default_rng(seed)
    rule = Sensitive(rng.integers(0, 4, 60), "distinct", 2, "equal", 0.6)
    old = WarmClasses(rng.integers(-1, 6, np.unique(table.individuals).size))
    for warm in (None, old):
        solution = solve(
            Task(
                table,
                3,
                shape="classes",
                loss="sil",
                budget=Budget(100.0),
                seed=1,
                sensitive=[rule],
                warm=warm,
            )
        )
        solution.partition.check(3, table.individuals)
        assert not failing_classes(solution.partition.labels, [rule]).any()
        assert solution.loss == pytest.approx(naive_total(table, solution), abs=1e-9)
    solution = solve(Task(table, 3, shape="classes", loss="sil", budget=Budget(60.0), seed=1, warm=old))
    assert solution.warm_loss is not None
    assert solution.cold_loss is not None
    assert solution.start_loss == pytest.approx(min(solution.warm_loss, solution.cold_loss))


@pytest.mark.parametrize("start", ["k-member", "kab", "one-class"])
def test_starts_are_measured_in_sil(start: str) -> None:
    """By themselves, also where an old window is given; KAB's own comparison of stars is in GCP and is not told."""
    table = mixed_table(7, 60, people=60)
    old = WarmClasses(np.arange(np.unique(table.individuals).size) // 4)
    solution = solve_classes(
        Task(table, 3, shape="classes", start=start, loss="sil", budget=Budget(10.0), seed=1, warm=old),
        search=False,
    )
    assert solution.loss == pytest.approx(naive_total(table, solution), abs=1e-9)
    assert solution.warm_loss is None
    assert solution.cold_loss is None
