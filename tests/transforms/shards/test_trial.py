"""Cuts that are tried: the one that loses least wins, at equal evaluations, as a function of the people's values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.tree_cut import TreeCut, even_sample, make_cut
from kanonflow.transforms.roster import founding
from kanonflow.transforms.roster.founding import budget_of, put_together
from kanonflow.transforms.shards import trial
from kanonflow.transforms.shards.trial import BOTH, WAYS, TriedCut, cost_words, refusal, tried_cut
from tests import naive_tree_cut as naive
from tests.mixed_people import mixed_bound
from tests.mixed_tables import mixed_table

POLICY = mixed_bound().policy
SIZE = POLICY.cohorts.cohort_size


def tried(table: Table, shards: int) -> TriedCut:
    """By one seed."""
    return tried_cut(table, POLICY, shards, seed=4, threads=1)


def box_loss(table: Table, labels: NDArray[np.int64]) -> float:
    """Mean NCP of the people's boxes, box by box; a null in a box of numbers costs the whole column."""
    weights = table.weights / table.weights.sum()
    total = 0.0
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        for column, weight in enumerate(weights):
            if column < table.numeric.shape[1]:
                values = table.numeric[own, column]
                mixed = np.isnan(values).any() and not np.isnan(values).all()
                width = 0.0 if np.isnan(values).all() else 1.0 if mixed else float(np.ptp(values))
            else:
                place = column - table.numeric.shape[1]
                several = np.unique(table.categorical[own, place]).size - 1
                width = several / max(int(table.cardinality[place]) - 1, 1)
            total += own.size * float(weight) * width
    return total / labels.size


def founded_in(table: Table, sample: NDArray[np.int64], cut: TreeCut) -> float:
    """The loss of a sample that is founded shard by shard."""
    budget = budget_of(POLICY.solver.evaluations_per_row, sample.size, SIZE, trial.SAMPLE_LESS)
    lost, pieces = 0.0, cut.piece_of(table)[sample]
    for piece in range(cut.pieces):
        own = founding.rows_of(table, sample[pieces == piece])
        labels, _ = put_together(own, POLICY, SIZE, budget, 4, 1)
        lost += own.records * box_loss(own, labels)
    return lost / sample.size


def towns(people: int) -> Table:
    """Where a dear category tells nearly all."""
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, people)
    return Table(
        numeric=rng.random((people, 1)) / 8,
        categorical=np.stack([sex, rng.integers(0, 60, people)], axis=1).astype(np.int32),
        cardinality=np.array([2, 60]),
        weights=np.ones(3),
    )


@pytest.mark.parametrize("sample", [200, 20_000])
@pytest.mark.parametrize(
    "table",
    [towns(400), *(mixed_table(seed, 400, cardinality=(3, 6), numeric=seed % 3) for seed in range(4))],
)
def test_the_cut_that_loses_least_wins(table: Table, sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses are those of the sample in the shards of each cut, counted box by box; sizes are of everybody."""
    monkeypatch.setattr(trial, "SAMPLE", sample)
    found = tried(table, 4)
    rows = even_sample(table, sample)
    assert found.sample == rows.size == min(sample, 400)
    budget = budget_of(POLICY.solver.evaluations_per_row, rows.size, SIZE, trial.SAMPLE_LESS)
    cohorts, _ = put_together(founding.rows_of(table, rows), POLICY, SIZE, budget, 4, 1)
    assert found.whole == pytest.approx(box_loss(founding.rows_of(table, rows), cohorts))
    cuts = {name: make_cut(table, rows, cohorts, 4, **how) for name, how in WAYS.items()}
    for name, cut in cuts.items():
        assert found.losses[name] == pytest.approx(founded_in(table, rows, cut)), name
    assert found.losses[found.name] == min(found.losses.values())
    assert found.cut == cuts[found.name]
    least, most = naive.limits(400, 4)
    assert sum(found.people) == 400
    assert least <= min(found.people) <= max(found.people) <= most
    assert found.people == tuple(np.bincount(found.cut.piece_of(table), minlength=found.cut.pieces).tolist())


def test_each_way_differs_and_each_can_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells alone have no test but pivots, tests alone no cells; equal losses keep the rule as it was measured."""
    table, winners = towns(400), set()
    for loser in (*WAYS, None):
        number = iter(range(100))

        def lost(*_: object, loser: str | None = loser, number: object = number) -> float:
            way = list(WAYS)[next(number) // 4]  # type: ignore[call-overload]
            return 0.5 if loser is None else 0.4 if way == loser else 0.6

        monkeypatch.setattr(trial, "_lost", lost)
        winners.add((loser, tried(table, 4).name))
    assert winners == {*((name, name) for name in WAYS), (None, BOTH)}
    cohorts, _ = put_together(table, POLICY, SIZE, Budget(50), 4, 1)
    cells, tests = (
        make_cut(table, np.arange(400), cohorts, 8, **WAYS[name]) for name in ("cells alone", "tests alone")
    )
    assert cells.columns == (0,)
    assert {type(node.test).__name__ for node in cells.nodes} == {"Pivot", "NoneType"}
    assert tests.columns == ()
    assert {"Threshold", "Codes"} & {type(node.test).__name__ for node in tests.nodes}


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_people_has_no_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same people in another order are cut alike, equal ones among them, and everything is told alike."""
    monkeypatch.setattr(trial, "SAMPLE", 150)
    table = mixed_table(seed, 300, cardinality=(3, 6), kinds=40)
    order = np.random.default_rng(seed).permutation(300)
    again = tried(replace(table, numeric=table.numeric[order], categorical=table.categorical[order]), 3)
    assert again == tried(table, 3)


def test_all_are_tried_at_equal_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody of the sample once in one piece and once in each cut, by the same number a person."""
    people: list[int] = []
    budgets: set[Budget] = set()

    def seen(
        table: Table, policy: object, size: int, budget: Budget, *rest: int
    ) -> tuple[NDArray[np.int64], float]:
        people.append(table.records)
        budgets.add(budget)
        return put_together(table, POLICY, size, budget, *rest)

    monkeypatch.setattr(trial, "put_together", seen)
    monkeypatch.setattr(trial, "SAMPLE", 200)
    tried(mixed_table(3, 400, cardinality=(3, 6)), 4)
    assert sum(people) == 200 * (1 + len(WAYS))
    assert budgets == {Budget(20 / trial.SAMPLE_LESS)}


def test_a_sample_has_people_enough_for_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many shards more people are tried: with less than a cohort a shard all cuts would lose everything."""
    monkeypatch.setattr(trial, "SAMPLE", 20)
    found = tried(towns(900), 20)
    assert found.sample == 20 * founding.SHARES * SIZE < 900
    assert max(found.losses.values()) < 0.3


def test_a_shard_without_a_cohort_loses_all_of_it() -> None:
    """Its people would find no box at all."""
    found = tried(towns(4), 2)
    assert found.people == (2, 2)
    assert found.losses[found.name] == 1.0


def test_small_shards_are_refused_or_told() -> None:
    """Less than a cohort always, few people unless that is accepted; what the rest costs is said."""
    few, words = refusal((250, SIZE - 1), SIZE, accept_small=True), refusal((249, 900), SIZE)
    assert few is not None
    assert f"{SIZE - 1} people, fewer than a cohort" in few
    assert words is not None
    assert "249 people" in words
    assert "--accept-small" in words
    assert refusal((249, 900), SIZE, accept_small=True) is None
    assert refusal((250, 900), SIZE) is None
    assert refusal((SIZE, SIZE), SIZE, accept_small=True) is None
    told = cost_words((5_000, 999))
    assert told is not None
    assert "999 people" in told
    assert cost_words((1_000, 5_000)) is None
