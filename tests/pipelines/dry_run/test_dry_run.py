"""Dry runs against the whole product's course over the feed (``anonymize_table``), which makes every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.dry_run.dry_run import NEVER, NOT_SECRET, DryRun, cohorts_of, dry_run
from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.dry_run.measures import measured, median_widths
from kanonflow.pipelines.dry_run.stretch import Budget, Stretch, entries_of, stretch_of
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from tests.pipelines.dry_run.trial_feeds import bound_rows, feed, policy

pytestmark = pytest.mark.thorough

ALL = Budget(10**9, 10**9)
PROTECTIONS: dict[str, dict[str, Any]] = {
    "lasting": {"cohort": "lasting", "intake": 60},
    "window": {"cohort": "window"},
    # A short search is the worse for what it begins with.
    "row": {"protect": "row", "solver": {"seed": 7, "evaluations_per_row": 3000, "threads": 1}},
}


def played(table: Any, head: dict[str, Any], budget: Budget = ALL, **how: bool) -> tuple[DryRun, Stretch]:
    """What the dry run says, and of what."""
    rows, bound = bound_rows(table, policy(**head))
    own = feed_of(rows, bound)
    stretch = stretch_of(own, bound.policy, budget, **how)
    return dry_run(own, bound, stretch), stretch


def whole(table: Any, head: dict[str, Any]) -> AnonymizedTable:
    """The whole feed."""
    return anonymize_table(table, policy(**head), NOT_SECRET, threads=1)


def releases(metrics: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """By partition and end of the window."""
    return {(each["partition"], each["window_end"]): each for each in metrics if each["released"]}


def total(metrics: list[dict[str, Any]]) -> float:
    """GCP by rows."""
    rows = [each["rows_released"] for each in metrics]
    return float(np.average([each["gcp"] for each in metrics], weights=rows))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_whole_dry_run_is_a_run(protection: str) -> None:
    """Release by release, to the bit; what is rejected and what is put off, too."""
    table, head = feed(), PROTECTIONS[protection]
    run, stretch = played(table, head)
    truth = whole(table, head)
    ours, theirs = releases([each.metrics for each in run.releases]), releases(truth.metrics)
    assert ours.keys() == theirs.keys()
    assert all(ours[place]["gcp"] == theirs[place]["gcp"] for place in theirs)
    assert run.released.num_rows == truth.released.num_rows
    assert run.rejected == pytest.approx(len(truth.rejected) / table.num_rows)
    assert stretch.played.all()
    assert 0.5 < run.at_once <= 1.0
    bound = bound_rows(table, policy(**head))[1]
    widths = {each.field: each.median for each in measured(run, table, queries=0).fields}
    assert widths == median_widths(truth.released, bound)


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_stretch_says_what_the_whole_feed_loses(protection: str) -> None:
    """A third of the rows, whole windows in a row: the loss is within 6%."""
    table, head = feed(days=60), PROTECTIONS[protection]
    run, stretch = played(table, head, Budget(table.num_rows // 3, 20))
    assert stretch.counted.sum() < table.num_rows / 2
    truth = total([each for each in whole(table, head).metrics if each["released"]])
    assert run.mean("gcp") == pytest.approx(truth, rel=0.06)
    weights = sum(each.weight * each.metrics["rows_released"] for each in run.releases)
    assert weights == pytest.approx(table.num_rows, rel=0.05)


def test_cohorts_are_those_of_a_run_wherever_the_stretch_is() -> None:
    """With everybody played: the same people enter with the same window, in cohorts of the same sizes."""
    table, head = feed(), PROTECTIONS["lasting"]
    rows, bound = bound_rows(table, policy(**head))
    own = feed_of(rows, bound)
    all_of_it, _ = played(table, head)
    some, stretch = played(table, head, Budget(table.num_rows // 4, 5), everybody=True)
    assert stretch.played.sum() < 0.7 * table.num_rows
    theirs, ours = cohorts_of(all_of_it, own), cohorts_of(some, own)
    assert (ours.entered == theirs.entered).all()
    assert np.array_equal(ours.cohort, theirs.cohort)
    assert ours.intakes == theirs.intakes
    assert ((ours.cohort < 0) == (ours.entered == NEVER)).all()
    assert np.array_equal(np.bincount(ours.cohort[ours.cohort >= 0]), ours.sizes)


def test_entries_alone_make_the_same_cohorts() -> None:
    """Where nothing else is asked, less is played; who is asked for may be a part of the feed, by number."""
    table, head = feed(), PROTECTIONS["lasting"]
    rows, bound = bound_rows(table, policy(**head))
    own = feed_of(rows, bound)
    all_of_it, stretch = played(table, head)
    entries = entries_of(own, bound.policy)
    assert entries.played.sum() < 0.5 * stretch.played.sum()
    run = dry_run(own, bound, entries)
    assert run.windows == ()
    theirs, ours = cohorts_of(all_of_it, own), cohorts_of(run, own)
    assert np.array_equal(ours.cohort, theirs.cohort)
    assert ours.loss == pytest.approx(theirs.loss)
    some = own.of(own.who % 3 == 1)
    assert np.array_equal(cohorts_of(run, some).cohort, theirs.cohort[np.isin(own.person, some.person)])


def test_of_many_rows_of_a_person_some_are_left() -> None:
    """Everybody stays in each of his windows, and a row stands for those that are left out."""
    table = feed(days=14, most=30)
    run, stretch = played(table, PROTECTIONS["lasting"], Budget(table.num_rows // 3, 20))
    assert stretch.every > 1
    truth = total([each for each in whole(table, PROTECTIONS["lasting"]).metrics if each["released"]])
    assert run.mean("gcp") == pytest.approx(truth, rel=0.05)


def test_partitions_are_released_apart() -> None:
    """Two towns: a window of each, with the people of its town."""
    fields = {"town": {"role": "insensitive"}}
    head = {"partition_by": ["town"], "fields": fields, "cohort": "lasting", "intake": 40}
    table = feed(towns=2, people=300)
    run, _ = played(table, head)
    ours, theirs = releases([each.metrics for each in run.releases]), releases(whole(table, head).metrics)
    assert ours.keys() == theirs.keys()
    assert len({partition for partition, _ in ours}) == 2
    assert total(list(ours.values())) == pytest.approx(
        total(list(theirs.values())), rel=1e-12
    )  # another order


def test_a_window_alone_is_thinned_out() -> None:
    """Of a window that has more rows than may be, about so many are played."""
    still = {"when": {"role": "identifier"}}
    head: dict[str, Any] = {"window": None, "max_delay": None, "protect": "row", "fields": still}
    table = feed(days=3)
    run, stretch = played(table, head, Budget(100, 1, 100))
    assert run.released.num_rows == stretch.played.sum()
    assert 60 < stretch.played.sum() < 140


def test_rows_without_another_window_are_rejected() -> None:
    """With a max_delay below a window nothing that a solver holds back is released later: it is lost, as in a run. Also
    what waits after the last window of a stretch, or of one window nothing would be."""
    table = feed(people=120, days=12)
    head = {"cohort": "window", "max_delay": "12h"}
    run, _ = played(table, head)
    assert run.rejected == pytest.approx(len(whole(table, head).rejected) / table.num_rows)
    assert run.rejected > 0
    one, stretch = played(table, head, Budget(table.num_rows // 10, 1))
    assert stretch.windows == 1
    assert one.rejected == pytest.approx(run.rejected, rel=0.6)
