"""The step beside the stateful one, in pipelines: bounded input is refused, an unbounded feed counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing.test_stream import TestStream as Stepped
from apache_beam.testing.util import assert_that, equal_to

from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.roster.first_partitions import DividedPeopleError
from kanonflow.transforms.rows.elements import Release, from_ipc
from kanonflow.transforms.secret.seeds import Secret
from tests.small_feeds import Row, feed_policy, row

SECRET = Secret(bytes(range(1, 33)))


def feed(divided: int) -> list[Row]:
    """Twelve people in Bonn and Köln, some of whom come to the other one, too."""
    rows = [row(who, who, 0.1, town=("Bonn", "Köln")[who % 2]) for who in range(12)]
    return rows + [row(20 + who, who, 0.2, town=("Köln", "Bonn")[who % 2]) for who in range(divided)]


def policy(accepted: bool = False, **head: Any) -> Any:
    made = feed_policy(towns=True, cohort=head.pop("cohort", "lasting"), **head)
    if not accepted:
        return made
    risk = tuple(
        replace(field, accept_risk="a test") if field.name == "town" else field for field in made.fields
    )
    return replace(made, fields=risk)


def _written(release: Release, path: str) -> None:
    with open(path, "a") as file:
        file.write(f"{from_ipc(release.ipc).num_rows}\n")


def run_bounded(divided: int, accepted: bool = False) -> tuple[int, int]:
    """The rows released, and the counter."""
    options = PipelineOptions([])
    pipeline = beam.Pipeline(runner="FnApiRunner", options=options)
    _ = pipeline | beam.Create(feed(divided)) | KAnonymize(policy(accepted), SECRET)
    result = pipeline.run()
    told = result.metrics().query(MetricsFilter().with_namespace("kanonflow"))["counters"]
    counters = {each.key.metric.name: each.result for each in told}
    return counters["window_rows_released"], counters.get("people_in_several_partitions", 0)


def test_bounded_input_is_refused_before_a_window_is_due() -> None:
    """In a pipeline of one's own as in ours; nothing is solved."""
    assert run_bounded(0) == (12, 0)
    with pytest.raises(DividedPeopleError, match="3 people have rows in more than one partition"):
        run_bounded(3)


def test_accepted_people_are_counted() -> None:
    """And released."""
    assert run_bounded(3, accepted=True) == (15, 3)


@pytest.mark.parametrize("accepted", [False, True])
def test_an_unbounded_feed_goes_on_and_counts(accepted: bool, tmp_path: Path) -> None:
    """Rows of divided people are released as any others: a feed is not stopped by a person who moved."""
    options = PipelineOptions([])
    options.view_as(StandardOptions).streaming = True
    rows = feed(2)
    stream = Stepped().add_elements(rows[:12]).advance_watermark_to(1).add_elements(rows[12:])
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        made = pipeline | stream.advance_watermark_to_infinity() | KAnonymize(policy(accepted), SECRET)
        assert made.divided is not None
        # By outputs: this runner loses counters, and what a timer makes at the end before a grouping.
        assert_that(made.divided | beam.Map(lambda each: each.new), equal_to([1, 1]))
        _ = made.released | beam.Map(_written, path=str(tmp_path / "released"))
    assert (tmp_path / "released").read_text().split() == ["7", "7"]


@pytest.mark.parametrize("head", [{"cohort": "window"}, {"towns": False}])
def test_others_pay_nothing(head: dict[str, Any]) -> None:
    """Without partitions, or where nothing is promised over releases, the graph of the job has no such step."""
    made = policy(**head) if "cohort" in head else feed_policy(cohort="lasting")
    pipeline = beam.Pipeline(runner="FnApiRunner")
    out = pipeline | beam.Create(feed(0)) | KAnonymize(made, SECRET)
    assert out.divided is None
    names = str(pipeline.to_runner_api().components.transforms)
    assert "first_partitions" not in names
    assert "Undivided" not in names


def test_a_table_is_refused_as_well() -> None:
    """``anonymize_table`` says the same; accepted, it releases."""
    tables = [pa.Table.from_pylist(feed(number)) for number in (0, 1)]
    assert anonymize_table(tables[0], policy(), SECRET, text=True).released.num_rows == 12
    with pytest.raises(DividedPeopleError, match="1 person has rows in more than one partition"):
        anonymize_table(tables[1], policy(), SECRET, text=True)
    assert anonymize_table(tables[1], policy(accepted=True), SECRET, text=True).released.num_rows == 13
