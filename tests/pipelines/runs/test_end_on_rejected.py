"""The step that reads rows says when too many of the last ones do not fit."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.test_pipeline import TestPipeline

from kanonflow.pipelines.options.options import DEFAULT_RUNNER
from kanonflow.pipelines.run_records.refused_state import LostInputError, RefusedState
from kanonflow.pipelines.runs.end_on_rejected import EndOnRejected
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.anonymize import _ClassifyAndSplit
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import RawBatch, to_ipc
from kanonflow.transforms.rows.unfit import LastRows
from tests.small_feeds import SECRET, Row, bound_feed, feed_policy, row


def batch(bound: BoundPolicy, rows: int, bad: int, **changes: str) -> RawBatch:
    """So many rows of one person, of which some have ``changes``."""
    feed: list[Row] = [row(n, 1, 0.5, **(changes if n < bad else {})) for n in range(rows)]
    table, broken, faults = rows_to_table(feed, bound)
    assert not broken
    return RawBatch("", to_ipc(table), (), faults=faults)


def told(bound: BoundPolicy, *batches: RawBatch) -> list[tuple[int, int]]:
    """What the step says of batches: each time how many rows it judged, and how many are unfit."""
    said: list[tuple[int, int]] = []

    def on_unfit(last: LastRows) -> None:
        said.append((last.rows, last.unfit.total()))

    step = _ClassifyAndSplit(bound, SECRET, on_unfit)
    step.setup()
    for each in batches:
        list(step.process(each))
    return said


def test_a_change_of_format_is_told_once_until_it_is_over() -> None:
    """Above 5% of the last 10,000 rows; and again when it comes again."""
    bound = bound_feed(feed_policy())
    good, bad = batch(bound, 5000, 0), batch(bound, 5000, 5000, when="01.03.2024")
    assert told(bound, good, good, good) == []
    assert told(bound, good, good, bad, bad, good, good, bad) == [(10_000, 5_000), (10_000, 5_000)]


def test_the_limit_is_the_policys() -> None:
    """1: nothing is too much."""
    bound = bound_feed(feed_policy(max_rejected=1))
    assert told(bound, batch(bound, 2000, 2000, age="1,5")) == []
    bound = bound_feed(feed_policy(max_rejected=0))
    assert told(bound, batch(bound, 2000, 1, age="1,5")) == [(2000, 1)]


def test_quasi_identifiers_at_fault_count_of_lasting_cohorts() -> None:
    """Their rows go on, for their people may be known; the input has changed all the same."""
    bound = bound_feed(feed_policy(cohort="lasting"))
    assert told(bound, batch(bound, 2000, 200, age="1,5")) == [(2000, 200)]


@pytest.mark.parametrize(("bad", "over"), [(200, 1), (20, 0)])
def test_gauges_tell(bad: int, over: int) -> None:
    """The share, and whether it is above the limit."""
    bound = bound_feed(feed_policy())
    with TestPipeline(runner=DEFAULT_RUNNER) as pipeline:
        _ = (
            pipeline
            | beam.Create([batch(bound, 2000, bad, age="1,5")])
            | beam.ParDo(_ClassifyAndSplit(bound, SECRET)).with_outputs("rejected", main="parts")
        )
    found = pipeline.result.metrics().query(MetricsFilter().with_namespace("kanonflow"))["gauges"]
    gauges = {gauge.key.metric.name: gauge.result.value for gauge in found}
    assert gauges == {"unfit_over_limit": over, "unfit_millionths": bad * 500}


def test_a_stream_that_was_told_to_ends_with_the_fields(tmp_path: Path) -> None:
    """The worker leaves the reason; whoever waits for the job raises it, with exit code 3."""
    bound = bound_feed(feed_policy())
    last = LastRows()
    last.add(10_000, Counter({("bad_value", "age"): 6_000}))
    end = pickle.loads(pickle.dumps(EndOnRejected(str(tmp_path), bound)))
    state = RefusedState(str(tmp_path))
    state.raise_it()
    end(last)
    end(last)
    assert state.stands()
    with pytest.raises(LostInputError, match=r"6,000 of the last 10,000 rows read \(60\.0%\)") as error:
        state.raise_it()
    assert error.value.exit_code == 3
    assert "bad_value in age: 6,000 rows (60.0%); expected a whole number" in str(error.value)
