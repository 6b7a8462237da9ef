"""Sampled windows against the same windows of the whole product's course over the feed (``anonymize_table``).

The slow twin makes every window, with what waits and with the search of the window before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.trials.measured_release import measured, median_widths
from kanonflow.pipelines.trials.trials import (
    NOT_SECRET,
    SampleRelease,
    _kinds,
    _moments,
    feed_windows,
    trial_feed,
    try_policy,
)
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from tests.pipelines.trials.trial_feeds import bound_rows, feed, policy

pytestmark = pytest.mark.thorough

ALL = 10**9
PROTECTIONS: dict[str, dict[str, Any]] = {
    "lasting": {"cohort": "lasting", "intake": 60},
    "window": {"cohort": "window"},
    # A short search is the worse for what it begins with.
    "row": {"protect": "row", "solver": {"seed": 7, "evaluations_per_row": 3000, "threads": 1}},
}


def both(table: Any, head: dict[str, Any], most: int = ALL) -> tuple[SampleRelease, AnonymizedTable]:
    """What the sample says, and the whole feed."""
    made = policy(**head)
    rows, bound = bound_rows(table, made)
    windows = feed_windows(trial_feed(rows, bound), bound, most=most)
    return try_policy(windows, bound), anonymize_table(table, made, NOT_SECRET, threads=1)


def releases(metrics: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """By partition and end of the window."""
    return {(each["partition"], each["window_end"]): each for each in metrics if each["released"]}


def total(metrics: list[dict[str, Any]]) -> float:
    """GCP by rows."""
    rows = [each["rows_released"] for each in metrics]
    return float(np.average([each["gcp"] for each in metrics], weights=rows))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_losses_are_those_of_the_whole_course(protection: str) -> None:
    """Of all windows: the loss is within 5% of the course's, each window's within 30% of its own, the share that is
    rejected within 1%. Of a third of the rows: within 12%."""
    table, head = feed(), PROTECTIONS[protection]
    sample, whole = both(table, head)
    ours, theirs = releases(sample.metrics), releases(whole.metrics)
    assert ours.keys() == theirs.keys()
    truth = total(list(theirs.values()))
    assert total(list(ours.values())) == pytest.approx(truth, rel=0.05)
    for place, one in ours.items():
        assert one["gcp"] == pytest.approx(theirs[place]["gcp"], rel=0.3)
        assert one["rows_released"] == pytest.approx(theirs[place]["rows_released"], rel=0.15)
    found = measured(sample, bound_rows(table, policy(**head))[1])
    assert found.loss == pytest.approx(total(list(ours.values())))
    assert found.rejected == pytest.approx(len(whole.rejected) / table.num_rows, abs=0.01)
    part, _ = both(table, head, table.num_rows // 3)
    some = measured(part, bound_rows(table, policy(**head))[1])
    assert some.loss == pytest.approx(truth, rel=0.12)


def test_cohorts_are_exactly_those_of_a_run() -> None:
    """With the policy's own seed the same people enter at the same time, in cohorts of the same loss; what differs is
    what a window's merging begins with. So the first release, which begins with nothing, is the run's to the bit."""
    sample, whole = both(feed(), PROTECTIONS["lasting"])
    ours, theirs = releases(sample.metrics), releases(whole.metrics)
    assert [each["rows_released"] for each in ours.values()] == [
        theirs[place]["rows_released"] for place in ours
    ]
    first = min(ours, key=lambda place: place[1])
    assert ours[first]["gcp"] == theirs[first]["gcp"]
    assert ours[first]["individuals"] == theirs[first]["individuals"]
    assert any(each.opens for each in sample.tried)
    assert sum(sample.of_kind) == sample.due.num_rows


def test_sampled_windows_stand_for_those_of_their_kind() -> None:
    """A window that opens for those that do; of the others the small for the small. All rows have a kind."""
    sizes = [90, 10, 11, 12, 13, 14, 15, 16, 50, 51, 52, 53, 54]
    at = np.repeat(np.arange(len(sizes)), sizes)
    known = np.where(at == 0, 0, -5)
    moments = _moments(np.zeros(at.size, dtype=np.int64), at, known)
    assert moments.opens.tolist() == [True] + [False] * 12
    kind, of_kind = _kinds(moments, [0, 1, 2, 3, 8, 9, 10])
    assert kind.tolist() == [0] + [1] * 7 + [2] * 5
    assert of_kind == (90, sum(sizes[1:8]), sum(sizes[8:]))
    # Without a window that opens in the sample, nothing is known of these.
    kind, of_kind = _kinds(moments, [1, 8])
    assert kind.tolist() == [-1] + [0] * 12
    assert of_kind == (sum(sizes[1:]),)


def test_who_waits_in_vain_is_known_without_a_solver() -> None:
    """Days with too few people: of cohorts that last, what leaves and what is rejected are the run's, row for row.

    Where a solver holds rows back (people with two rows among others with one), these may be without company later.
    """
    table = feed(people=40, active=0.06, days=40, most=1)
    sample, whole = both(table, {"cohort": "lasting", "max_delay": "3d"})
    assert sample.never == len(whole.rejected) > 0
    ours, theirs = releases(sample.metrics), releases(whole.metrics)
    assert ours.keys() <= theirs.keys()
    assert all(one["rows_released"] == theirs[place]["rows_released"] for place, one in ours.items())
    sample, whole = both(table, {"cohort": "window", "max_delay": "1d"})
    assert 0 < sample.never <= len(whole.rejected) <= sample.never + 0.08 * table.num_rows


def test_partitions_are_released_apart() -> None:
    """Two towns: a window of each, with the people of its town."""
    fields = {"town": {"role": "insensitive"}}
    head = {"partition_by": ["town"], "fields": fields, "cohort": "lasting", "intake": 40}
    sample, whole = both(feed(towns=2, people=300), head)
    ours, theirs = releases(sample.metrics), releases(whole.metrics)
    assert ours.keys() == theirs.keys()
    assert len({partition for partition, _ in ours}) == 2
    assert total(list(ours.values())) == pytest.approx(total(list(theirs.values())), rel=0.05)


def test_one_single_window_is_the_run_itself() -> None:
    """Without windows nothing is sampled, and nothing differs from a run."""
    table = feed(days=3)
    still = {"when": {"role": "identifier"}}
    head: dict[str, Any] = {"window": None, "max_delay": None, "protect": "row", "fields": still}
    sample, whole = both(table, head)
    assert [each["gcp"] for each in sample.metrics] == [
        each["gcp"] for each in whole.metrics if each["released"]
    ]
    bound = bound_rows(table, policy(**head))[1]
    widths = {each.field: each.median for each in measured(sample, bound).fields}
    assert widths == median_widths(whole.released, bound)
    thin, _ = both(table, head, 100)
    assert thin.due.num_rows == 100


def test_held_rows_without_another_window_are_rejected() -> None:
    """With a max_delay below a window nothing that a solver holds back is released later: it is lost, as in a run."""
    table = feed(people=120, days=12)
    head = {"cohort": "window", "max_delay": "12h"}
    sample, whole = both(table, head)
    found = measured(sample, bound_rows(table, policy(**head))[1])
    assert sample.held > 0
    assert found.held == 0.0
    assert found.rejected == pytest.approx(len(whole.rejected) / table.num_rows, rel=0.25)
    assert found.cost > (found.loss or 0.0)
