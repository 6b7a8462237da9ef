"""Population methods: alignment, moves, mending, the black hole; a warm star; the literal form."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.kab_search import best_restart
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals import stars
from kanonflow.solvers.rivals.black_hole import (
    BlackHoleParameters,
    StarProblem,
    black_hole_result,
    fitness,
    random_star,
)
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.stars import (
    aligned,
    dissolved,
    mended_at_random,
    mended_by_clustering,
    moved,
    moved_as_printed,
)
from kanonflow.solvers.units.individuals import gather_individuals
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough

label_lists = st.lists(st.integers(-1, 3), min_size=8, max_size=8)


def problem(table: Table, k: int) -> StarProblem:
    """Individuals of a table."""
    people = gather_individuals(table)
    return StarProblem(people, np.arange(people.rows.size), k, table.attributes)


def dense(labels: list[int]) -> np.ndarray:
    """Labels from 0, -1 outside."""
    return (np.unique([-1, *labels], return_inverse=True)[1][1:] - 1).astype(np.int32)


@settings(derandomize=True)
@given(label_lists, label_lists)
def test_aligned_labels_agree_as_often_as_any_renaming(one: list[int], other: list[int]) -> None:
    """The same classes under names that agree with the target for as many units as possible."""
    labels, target = dense(one), dense(other)
    renamed = aligned(labels, target)
    assert len({*zip(labels.tolist(), renamed.tolist(), strict=True)}) == np.unique(labels).size
    assert np.array_equal(renamed < 0, labels < 0)
    best = max(
        sum(label >= 0 and names[label] == wanted for label, wanted in zip(labels, target, strict=True))
        for names in itertools.permutations(range(4))
    )
    assert ((renamed == target) & (labels >= 0)).sum() == best


def test_aligned_without_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many classes: pairs with most units in common first. Equal classes under other names get the target's names."""
    monkeypatch.setattr(stars, "LARGEST_ASSIGNMENT", 1)
    target = np.random.default_rng(1).integers(0, 9, 60).astype(np.int32)
    assert np.array_equal(aligned((8 - target).astype(np.int32), target), target)


@settings(derandomize=True)
@given(label_lists, label_lists, st.integers(0, 99))
def test_a_move_takes_ids_of_either_star(one: list[int], other: list[int], seed: int) -> None:
    """Each unit has its own aligned id or the black hole's; as printed, an id between both, rounded."""
    labels, target = dense(one), dense(other)
    place = moved(labels, target, np.random.default_rng(seed))
    assert np.all((place == target) | (place == aligned(labels, target)))
    labels, target = np.maximum(labels, 0), np.maximum(target, 0)
    printed = moved_as_printed(labels, target, np.random.default_rng(seed))
    assert np.all((printed >= np.minimum(labels, target)) & (printed <= np.maximum(labels, target)))


def test_small_classes_and_second_units_of_an_individual_are_taken_out() -> None:
    """Class 0 names person 0 twice and keeps 2 others; class 1 is below k = 2."""
    labels = np.array([0, 0, 0, 1, -1], dtype=np.int32)
    left, outside = dissolved(labels, np.array([0, 0, 1, 2, 3]), 2)
    assert left.tolist() == [0, -1, 0, -1, -1]
    assert outside.tolist() == [1, 3, 4]


@settings(derandomize=True, max_examples=40)
@given(tables(least=10, most=30, individuals=False), st.integers(2, 4), st.integers(0, 99), st.booleans())
def test_mended_stars_are_classes_of_k(table: Table, k: int, seed: int, clustered: bool) -> None:
    """Whatever the labels, everybody stands in a class of k individuals, and classes that stood still do."""
    people = gather_individuals(table)
    who = np.arange(table.records)
    labels = np.random.default_rng(seed).integers(-1, 5, table.records).astype(np.int32)
    ways = [mended_at_random(who, k, labels, seed), mended_by_clustering(people, who, k, labels, seed)]
    mended = ways[clustered]
    assert mended.min() >= 0
    assert np.bincount(mended).min() >= k
    for label in range(5):
        members = np.flatnonzero(labels == label)
        assert members.size < k or np.unique(mended[members]).size == 1


@settings(derandomize=True)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=9), st.integers(2, 4), st.integers(0, 99))
def test_random_stars_hold_nobody_twice(counts: list[int], k: int, seed: int) -> None:
    """Rows of people who have several: classes of k that name each once, or a refusal when there are none."""
    who = np.repeat(np.arange(len(counts)), counts)
    if max(counts) * k > who.size:
        with pytest.raises(InfeasibleError):
            random_star(who, k, seed)
        return
    labels = random_star(who, k, seed)
    assert np.bincount(labels).min() >= k
    assert len({*zip(labels.tolist(), who.tolist(), strict=True)}) == who.size


def test_fitness_by_hand() -> None:
    """Two classes of two rows, widths 1/4 and 1/2: GCP 3/8. Printed: 4 rows x 1 attribute of it. Below k: + 1."""
    table = Table(
        np.array([[0.0], [0.25], [0.5], [1.0]]), np.empty((4, 0), np.int32), np.empty(0, np.int64), np.ones(1)
    )
    labels = np.array([0, 0, 1, 1], dtype=np.int32)
    assert fitness(problem(table, 2), labels, literal=False) == pytest.approx(0.5 * 0.375)
    assert fitness(problem(table, 2), labels, literal=True) == pytest.approx(0.5 * 1.5)
    assert fitness(problem(table, 3), labels, literal=False) == pytest.approx(0.5 * 1.375)


@pytest.mark.parametrize("result", [black_hole_result, kab_result])
@pytest.mark.parametrize("literal", [False, True])
def test_results_are_classes_of_k_and_repeatable(result, literal: bool) -> None:
    """Literal or not, the answer is k-anonymous; the same seed gives the same star."""
    task = problem(mixed_table(5, 70, nulls=0.1), 4)
    parameters = BlackHoleParameters(literal=literal)
    found = result(task, 3, parameters)
    assert np.bincount(found.labels).min() >= 4
    assert found.labels.min() == 0
    assert np.array_equal(found.labels, result(task, 3, parameters).labels)
    assert found.made == 3 + found.swallowed


def test_the_horizon_swallows() -> None:
    """Normalized fitness lies within R = 1/3 for all stars: both others are replaced in every iteration. 0: nobody."""
    task = problem(mixed_table(5, 70), 4)
    assert kab_result(task, 3).swallowed == 20
    assert kab_result(task, 3, BlackHoleParameters(horizon=0.0)).swallowed == 0
    assert kab_result(task, 3, BlackHoleParameters(stars=1)).made == 1


def test_the_black_hole_is_never_worse_than_the_first_stars() -> None:
    """KAB without an iteration is the best of three restarts, and iterations only improve on it."""
    task = problem(mixed_table(6, 90), 3)
    losses = [
        labels_loss(task.people, kab_result(task, 3, BlackHoleParameters(iterations=rounds)).labels)
        for rounds in (0, 2, 10)
    ]
    assert losses[0] >= losses[1] >= losses[2]
    assert labels_loss(task.people, best_restart(task, 3, 20)) <= labels_loss(
        task.people, best_restart(task, 3, 1)
    )


@pytest.mark.parametrize("wrong", [{"stars": 0}, {"iterations": -1}, {"horizon": -0.5}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """BudgetError."""
    with pytest.raises(BudgetError, match="at least"):
        BlackHoleParameters(**wrong)  # type: ignore[arg-type]


TABLE = replace(mixed_table(2, 90), individuals=np.arange(90))


def test_the_old_classes_are_a_star_of_kab() -> None:
    """Good old classes (searched) win, with a mark in the solution; bad ones do not; newcomers are clustered."""
    searched = solve(Task(TABLE, 3, shape="classes", budget=Budget(2000.0), seed=1))
    old = searched.partition.labels.astype(np.int64)
    old[:3] = -1
    warm = solve(Task(TABLE, 3, shape="classes", warm=WarmClasses(old), seed=1), "kab")
    cold = solve(Task(TABLE, 3, shape="classes", seed=1), "kab")
    assert (warm.start, cold.start) == ("warm", "kab")
    assert warm.loss < cold.loss
    assert warm.warm_loss is not None
    assert warm.cold_loss is not None
    assert warm.loss <= warm.warm_loss < warm.cold_loss
    assert cold.warm_loss is None
    bad = np.random.default_rng(1).permutation(90) % 30
    again = solve(Task(TABLE, 3, shape="classes", warm=WarmClasses(bad), seed=1), "kab")
    assert again.start == "kab"
    again.partition.check(3, TABLE.individuals)


def test_nobody_returned() -> None:
    """Old classes of which nobody is here are no star."""
    warm = WarmClasses(np.full(90, -1))
    solve(Task(TABLE, 3, shape="classes", warm=warm, seed=1), "kab").partition.check(3, TABLE.individuals)
