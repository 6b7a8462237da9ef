"""Moves and kicks on closed classes: gains are true, the loss never rises."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.partition_search.group_loss import move, total_loss
from kanonflow.solvers.partition_search.groups import WAITING, Groups, build_classes
from kanonflow.solvers.partition_search.kicks import kick
from kanonflow.solvers.partition_search.moves import FRESH, best_move, descend
from kanonflow.solvers.partition_search.ruin import build_ruin
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.workspace import Workspace, build_workspace, push
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from kanonflow.solvers.units.nearest_people import nearest_people
from tests import naive
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough

arguments = given(
    tables(trees=True, individuals=True, k=3, least=12, most=40), st.integers(2, 3), st.integers(0, 2**20)
)


class Search(NamedTuple):
    """Individuals in classes of k, and what their search needs."""

    people: Individuals
    classes: Groups
    nearest: NDArray[np.int32]
    work: Workspace


def prepare(table: Table, k: int, seed: int) -> Search:
    """Random classes of k."""
    people = gather_individuals(table)
    u = people.rows.size
    rng = np.random.default_rng(seed)
    classes = build_classes(people, class_greedy_labels(people, rng.permutation(u), k), k)
    return Search(
        people,
        classes,
        nearest_people(people, np.arange(u), 5)[0],
        build_workspace(u, u + classes.size.size, seed, log=512),
    )


def naive_loss(table: Table, labels: NDArray[np.int32], k: int) -> float:
    """Rows' loss of all classes and of the pool, afresh."""
    numbers = np.unique(table.individuals)
    total = sum(
        naive.class_loss(table, numbers[labels == label].tolist(), k, WAITING) for label in set(labels) - {-1}
    )
    return total + WAITING * float(np.isin(table.individuals, numbers[labels == -1]).sum())


@settings(derandomize=True, max_examples=40)
@arguments
def test_a_move_gains_what_it_says(table: Table, k: int, seed: int) -> None:
    """The loss falls by the gain; the partner of a swap stands in the class that is meant."""
    people, classes, nearest, work = prepare(table, k, seed)
    for unit in range(people.rows.size):
        gain = best_move(people, classes, nearest, work, unit)
        assert gain >= 0
        if gain > 0:
            home, target, partner = int(classes.label[unit]), int(work.found[0]), int(work.found[1])
            labels = classes.label.copy()
            before = naive_loss(table, labels, k)
            if partner >= 0:
                assert labels[partner] == target or target == FRESH
                labels[partner] = home if target != FRESH else labels.max() + 1
            labels[unit] = target if target != FRESH else labels.max() + (partner < 0)
            after = naive_loss(table, labels, k)
            assert before - after == pytest.approx(gain, abs=1e-9)


@settings(derandomize=True, max_examples=30)
@arguments
def test_no_better_move_is_left_out(table: Table, k: int, seed: int) -> None:
    """The gain is the best of all moves to the classes of the neighbours and the pool, each tried afresh."""
    people, classes, nearest, work = prepare(table, k, seed)
    room = int(classes.room)
    unit = seed % people.rows.size
    labels = classes.label.copy()
    home = labels[unit]
    before = naive_loss(table, labels, k)
    moves = [(-1, -1)]
    pairs = []
    for other in nearest[unit][nearest[unit] >= 0].tolist():
        target = labels[other]
        if target == home:
            continue
        if target >= 0 and np.count_nonzero(labels == target) > k == 2:
            alone = labels.copy()
            alone[[unit, other]] = labels.max() + 1
            pairs.append(alone)
        partners = [other] if target < 0 else np.flatnonzero(labels == target).tolist()
        moves += [(target, partner) for partner in partners]
        if target >= 0 and len(partners) < room:
            moves.append((target, -1))
    best = max(0.0, *(before - naive_loss(table, after, k) for after in pairs), 0.0)
    for target, partner in moves:
        after = labels.copy()
        after[unit] = target
        if partner >= 0:
            after[partner] = home
        best = max(best, before - naive_loss(table, after, k))
    assert best_move(people, classes, nearest, work, unit) == pytest.approx(best, abs=1e-9)


@settings(derandomize=True, max_examples=40)
@arguments
def test_a_descent_lowers_the_loss_by_what_it_says(table: Table, k: int, seed: int) -> None:
    """The change is true and at most 0, the state is that of the labels."""
    people, classes, nearest, work = prepare(table, k, seed)
    for unit in range(people.rows.size):
        push(work, unit)
    before = naive_loss(table, classes.label, k)
    change = descend(people, classes, nearest, work, 10**9)
    assert change <= 0
    assert naive_loss(table, classes.label, k) - before == pytest.approx(change, abs=1e-9)
    assert total_loss(people, classes) * table.records == pytest.approx(
        naive_loss(table, classes.label, k), abs=1e-9
    )


@settings(derandomize=True, max_examples=40)
@arguments
def test_kicks_never_raise_the_loss(table: Table, k: int, seed: int) -> None:
    """Whatever a kick tears up is mended or put back; the state is that of the labels."""
    people, classes, nearest, work = prepare(table, k, seed)
    u = people.rows.size
    before = naive_loss(table, classes.label, k)
    following = kick(people, classes, nearest, work, np.arange(u), 0, 4000, build_ruin(people))
    after = naive_loss(table, classes.label, k)
    assert 0 <= following < u
    assert after <= before + 1e-9
    assert total_loss(people, classes) * table.records == pytest.approx(after, abs=1e-9)


@pytest.mark.parametrize("seed", [1, 3, 6])
def test_kicks_of_large_classes_stay_within_the_undo_log(seed: int) -> None:
    """k = 140: a class of 280 is dissolved and put back, and nothing is written beyond the log."""
    u, k = 560, 140
    table = mixed_table(1, u, kinds=40, cardinality=(3,))
    people = gather_individuals(replace(table, individuals=np.arange(u)))
    classes = build_classes(people, (np.arange(u) % 2).astype(np.int32), k)
    work = build_workspace(u, u + classes.size.size, seed)
    rows = work.log.shape[0]
    behind = np.full((rows + 4 * u, 4), -7, dtype=work.log.dtype)
    work = work._replace(log=behind[:rows])
    nearest = nearest_people(people, np.arange(u), 5)[0]
    before = total_loss(people, classes)
    kick(people, classes, nearest, work, np.arange(u), 0, 50_000)
    assert np.all(behind[rows:] == -7)
    assert total_loss(people, classes) <= before + 1e-9
    assert total_loss(people, classes) == pytest.approx(
        total_loss(people, build_classes(people, classes.label, k))
    )


def test_the_pool_takes_who_costs_more_than_waiting() -> None:
    """Of three in a class of k = 2, the one whose single row makes the others' ten wait leaves."""
    individuals = np.repeat([0, 1, 2], [10, 10, 1])
    table = Table(
        np.where(individuals == 2, 1.0, 0.0)[:, None],
        np.empty((21, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        individuals,
    )
    people = gather_individuals(table)
    classes = build_classes(people, np.zeros(3, dtype=np.int32), 2)
    work = build_workspace(3, 40, 1)
    nearest = nearest_people(people, np.arange(3), 2)[0]
    assert best_move(people, classes, nearest, work, 2) == pytest.approx(3 + 18 - 1, abs=1e-4)
    assert work.found[:2].tolist() == [-1, -1]
    move(people, classes, 2, -1)
    assert classes.size[0] == 2


def test_who_waits_is_placed_before_a_short_budget_ends() -> None:
    """Many alike people, an odd one in each corner: nobody waits where a class of the same values is there to join."""
    numbers = np.arange(155)
    corners = (numbers % 4)[:, None] / 120.0
    table = Table(
        corners, (numbers % 2)[:, None].astype(np.int32), np.array([2]), np.ones(2), individuals=numbers
    )
    for seed in range(3):
        answer = solve(Task(table, 2, shape="classes", budget=Budget(20.0), seed=seed))
        assert (answer.partition.labels >= 0).all()
