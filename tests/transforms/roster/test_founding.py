"""Founding: everybody of the pool, in cohorts that are large enough, by quasi-identifiers alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.encode import encode, extents
from kanonflow.transforms.roster import founding
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.founding import (
    MOST,
    PART,
    PIECE,
    SAMPLE,
    SAMPLE_LESS,
    SHARES,
    _everybody,
    budget_of,
    found,
    put_together,
)
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import RosterHead
from tests.mixed_people import mixed_bound, mixed_values
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough


def pool_of(people: int, seed: int, **head: object) -> Pool:
    """People with values by chance, all seen in one window."""
    bound, rng = mixed_bound(**head), np.random.default_rng(seed)
    digests = rng.choice(1 << 40, people, replace=False).astype(np.uint64)
    ends = np.full(people, 3_600_000)
    return empty_pool(bound).having_seen(digests, ends, mixed_values(people, rng), bound)


@pytest.mark.parametrize(("people", "size"), [(3, 3), (5, 3), (40, 3), (41, 7), (200, 5)])
def test_everybody_enters_in_a_cohort_that_is_large_enough(people: int, size: int) -> None:
    """Cohorts go on from the roster's numbers, by their first member; corners are theirs; domains hold all values."""
    bound = mixed_bound(cohort_size=size)
    pool = pool_of(people, people, cohort_size=size)
    head = RosterHead(9, "", 0, 0, 12)
    founded = found(pool, head, bound, {}, seed=4, threads=1)
    segment = founded.segment
    assert np.array_equal(segment.people, pool.people)
    members = np.bincount(segment.cohort - 12)
    assert members.min() >= size
    assert members.sum() == people
    _, first = np.unique(segment.cohort, return_index=True)
    assert np.all(np.diff(first) > 0)
    assert segment.after.cohorts == 12 + members.size
    assert founded.domains.keys() == {column.name for column in bound.quasis}
    assert all(extent > 0 for extent in extents(founded.domains, bound).values()) or people < 10
    again = found(pool, head, bound, {}, seed=4, threads=2)
    assert again.segment.to_bytes() == segment.to_bytes(), "threads have no say"


def test_a_clustering_of_the_papers_can_found() -> None:
    """The policy's method is asked; one that leaves people out does not leave them behind."""
    for method in ("k-member", "mondrian", "oka"):
        bound = mixed_bound(solver={"method": method, "threads": 1})
        pool = pool_of(50, 3)
        segment = found(pool, RosterHead(9), bound, {}, seed=4, threads=1).segment
        assert np.bincount(segment.cohort).min() >= 3
        assert segment.people.size == 50


def test_cohorts_are_founded_by_sil_where_it_is_asked_for() -> None:
    """Everybody enters all the same; people lie nearer to the average of their cohort than where NCP was lowered."""
    pool, spread = pool_of(200, 8), {}
    for loss in ("ncp", "sil"):
        bound = mixed_bound(solver={"loss": loss, "threads": 1})
        made = found(pool, RosterHead(9), bound, {}, seed=4, threads=1)
        assert np.bincount(made.segment.cohort).min() >= 3
        assert made.segment.people.size == 200
        table = encode(pool.values, bound, None, made.domains).table
        spread[loss] = sil(table, Partition(made.segment.cohort.astype(np.int32)))
    assert spread["sil"] < spread["ncp"]


def test_who_is_left_out_joins_the_class_that_grows_least() -> None:
    """Two classes far apart, and one person beside the second."""
    bound = mixed_bound()
    values = mixed_values(1, np.random.default_rng(0)).take(pa.array([0] * 7))
    ages = pa.array([20, 20, 20, 90, 90, 90, 88])
    values = values.set_column(0, values.schema.field(0), ages)
    table = encode(values, bound, None, {}).table
    labels = _everybody(table, np.array([0, 0, 0, 1, 1, 1, -1]), 3)
    assert labels[6] == labels[5]
    assert labels[0] != labels[5]
    beside_the_first = ages.take(pa.array([0, 1, 2, 3, 4, 5, 0]))
    table = encode(values.set_column(0, values.schema.field(0), beside_the_first), bound, None, {}).table
    labels = _everybody(table, np.array([0, 0, 0, 1, 1, 1, -1]), 3)
    assert labels[6] == labels[0]


@pytest.mark.parametrize(("loss", "of"), [("ncp", gcp), ("sil", sil)])
def test_the_loss_is_that_of_everybodys_boxes(loss: str, of: Callable[[Table, Partition], float]) -> None:
    """Also where the search ends with somebody left out, whom it counts as lost whole."""
    bound = mixed_bound(solver={"loss": loss, "threads": 1})
    table = mixed_table(2, 400, cardinality=(3, 6))
    task = Task(table, 3, shape="classes", loss=loss, budget=Budget(0), seed=4)
    solution = solve(task)
    assert solution.partition.labels.min() < 0
    labels, lost = put_together(table, bound.policy, 3, Budget(0), 4, 1)
    assert lost == pytest.approx(of(table, Partition(labels.astype(np.int32))))
    assert lost < solution.loss


def test_nothing_is_searched_for_who_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom the solver has placed stays where he is: a search would move classes as wholes, and be paid for twice."""
    asked: list[int | None] = []
    join = founding.merge_cohorts
    monkeypatch.setattr(founding, "merge_cohorts", lambda task: asked.append(task.evaluations) or join(task))
    from kanonflow.transforms.columns.encode import encode

    values = mixed_values(7, np.random.default_rng(0))
    joined = _everybody(encode(values, mixed_bound(), None, {}).table, np.array([0, 0, 0, 1, 1, 1, -1]), 3)
    assert asked == [0]
    assert len(set(joined[:3].tolist())) == len(set(joined[3:6].tolist())) == 1


def test_a_large_pool_is_founded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody enters all the same; threads have no say, nor has the order in which people were seen; it loses little
    more than at once, and takes fewer evaluations a person."""
    bound, pool = mixed_bound(), pool_of(600, 8)
    whole = found(pool, RosterHead(9), bound, {}, seed=4, threads=1)
    monkeypatch.setattr(founding, "PART", 100)
    monkeypatch.setattr(founding, "PIECE", 100)
    cut = found(pool, RosterHead(9), bound, {}, seed=4, threads=1)
    assert np.array_equal(cut.segment.people, pool.people)
    assert np.bincount(cut.segment.cohort).min() >= 3
    assert cut.segment.to_bytes() != whole.segment.to_bytes()
    assert whole.loss <= cut.loss < 1.4 * whole.loss
    for threads in (2, 5):
        again = found(pool, RosterHead(9), bound, {}, seed=4, threads=threads)
        assert again.segment.to_bytes() == cut.segment.to_bytes()
    order = np.random.default_rng(1).permutation(600)
    ends = np.full(600, 3_600_000)
    other = empty_pool(bound).having_seen(pool.people[order], ends, pool.values.take(pa.array(order)), bound)
    assert (
        found(other, RosterHead(9), bound, {}, seed=4, threads=1).segment.to_bytes() == cut.segment.to_bytes()
    )


def test_a_pool_of_one_part_is_founded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of exactly as many people as a part has: the same cohorts as without the limit, and nothing is cut."""
    whole = found(pool_of(100, 8), RosterHead(9), mixed_bound(), {}, seed=4, threads=1)
    monkeypatch.setattr(founding, "PART", 100)
    monkeypatch.setattr(founding, "make_cut", None)
    again = found(pool_of(100, 8), RosterHead(9), mixed_bound(), {}, seed=4, threads=1)
    assert again.segment.to_bytes() == whole.segment.to_bytes()
    assert (PART, MOST) == (200_000, 4_000_000), "as the guide for operators says"
    assert (PIECE, SAMPLE, SAMPLE_LESS, SHARES) == (16_000, 20_000, 10, 10), "as was measured"


@pytest.mark.parametrize(
    ("piece", "sample", "people", "pieces"),
    [
        (100, 200, 200, 6),
        (100, 70, 70, 6),
        (10, 70, 70, 20),
        (10, 10, 30, 20),
        (599, 70, 70, 1),
        (601, 70, 70, 1),
    ],
)
def test_a_pool_is_cut_by_a_sample_of_it(
    piece: int, sample: int, people: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many pieces as are full, of people for ten cohorts each, as the sample is. It is founded like any other."""
    asked: list[tuple[int, int, int]] = []
    cut = founding.make_cut

    def recorded(table: Table, rows: Any, cohorts: Any, count: int) -> Any:
        asked.append((rows.size, int(np.bincount(cohorts).min()), count))
        return cut(table, rows, cohorts, count)

    monkeypatch.setattr(founding, "PART", 100)
    monkeypatch.setattr(founding, "PIECE", piece)
    monkeypatch.setattr(founding, "SAMPLE", sample)
    monkeypatch.setattr(founding, "make_cut", recorded)
    segment = found(pool_of(600, 8), RosterHead(9), mixed_bound(), {}, seed=4, threads=1).segment
    assert [(rows, count) for rows, _, count in asked] == [(people, pieces)]
    assert asked[0][1] >= 3
    assert np.bincount(segment.cohort).min() >= 3


def test_a_cut_knows_values_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """People in another order: of each value as many are in each piece."""
    monkeypatch.setattr(founding, "PIECE", 100)
    bound, pool = mixed_bound(), pool_of(600, 8)
    table = encode(pool.values, bound, None, {}).table
    order = np.random.default_rng(2).permutation(600)
    sets = []
    for each in (table, founding.rows_of(table, order)):
        rows = [each.numeric.tolist(), each.categorical.tolist()]
        parts = founding._pieces(each, bound.policy, 3, 5)
        assert [len(part) for part in parts] == [np.unique(part).size for part in parts]
        assert len(parts) == 6
        sets.append([sorted(repr([rows[0][row], rows[1][row]]) for row in part) for part in parts])
    assert sets[0] == sets[1]


def test_parts_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is searched from a seed of its own, of 63 bits, by one thread; no cohort has people of two; what is lost is
    the mean over people."""
    seen: list[tuple[int, int, int, int, float]] = []
    budgets: list[float] = []

    def solved(table: Table, policy: Any, size: int, budget: Any, seed: int, threads: int) -> Any:
        labels, loss = plain(table, policy, size, budget, seed, threads)
        budgets.append(budget.evaluations_per_row)
        seen.append((seed, threads, np.unique(labels).size, table.records, loss))
        return labels, loss

    plain = founding.put_together
    monkeypatch.setattr(founding, "PART", 100)
    monkeypatch.setattr(founding, "PIECE", 100)
    monkeypatch.setattr(founding, "put_together", solved)
    founded = found(pool_of(600, 8), RosterHead(9, "", 0, 0, 12), mixed_bound(), {}, seed=5, threads=1)
    seeds, threads, classes, people, losses = map(np.array, zip(*seen[1:], strict=True))
    assert seen[0][:2] == (5, 1), "the sample, by the seed of all"
    assert set(budgets[1:]) == {10 * budgets[0]}
    assert len(set(seeds.tolist())) == len(seen) - 1 > 2
    assert 1 << 62 <= int(seeds.max()) < 1 << 63
    assert set(threads.tolist()) == {1}
    assert np.unique(founded.segment.cohort).size == classes.sum()
    assert founded.loss == pytest.approx(float((people * losses).sum()) / 600)
    boxes = founded.segment.corners
    assert boxes.column_names == [COHORT, *(column.name for column in mixed_bound().quasis)]
    assert set(boxes.column(COHORT).to_pylist()) == set(founded.segment.cohort.tolist())


def test_evaluations_a_person_fall_with_a_large_pool() -> None:
    """By the root; below the size of a part nothing changes, and a policy's own number stands."""
    small, part, large, most = (
        budget_of(None, people, 5).evaluations_per_row for people in (1000, PART, 4 * PART, MOST)
    )
    assert small == part == 3500
    assert large == 1750
    assert most is not None
    assert 700 < most < 800
    assert budget_of(20.0, MOST, 5).evaluations_per_row == 20


def test_who_is_known_from_the_start_founds_apart() -> None:
    """No cohort has two kinds: seen, and named by one run or another; each is founded as it would be alone; the loss is
    the mean over people."""
    bound, seen = mixed_bound(), pool_of(60, 8)
    named = pool_of(40, 9)
    pool = seen.expecting(named.people[:15], named.values.slice(0, 15), bound)
    pool = pool.expecting(named.people[15:], named.values.slice(15), bound, 2)
    assert pool.people.size == 100
    founded = found(pool, RosterHead(9, "", 0, 0, 12), bound, {}, seed=5, threads=1)
    cohort, kinds = founded.segment.cohort, [pool.kind == kind for kind in (0, 2, -1)]
    assert [int(kind.sum()) for kind in kinds] == [15, 25, 60]
    assert sum(np.unique(cohort[kind]).size for kind in kinds) == np.unique(cohort).size
    assert np.bincount(cohort - 12).min() >= 3
    assert sorted({*cohort.tolist()}) == [*range(12, 12 + np.unique(cohort).size)]
    table = encode(pool.values, bound, None, {}).table
    alone = [
        founding._labels(founding.rows_of(table, np.flatnonzero(kind)), bound.policy, 3, 5, 1)
        for kind in kinds
    ]
    losses = [count * loss for count, (_, loss) in zip((15, 25, 60), alone, strict=True)]
    assert founded.loss == pytest.approx(sum(losses) / 100)
    for kind, (labels, _) in zip(kinds, alone, strict=True):
        own = cohort[kind]
        assert np.unique(np.column_stack([own, labels]), axis=0).shape[0] == np.unique(own).size
