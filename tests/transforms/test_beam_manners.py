"""What Beam asks of a transform: types of all that comes out, an error handler, and nothing secret in what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing import test_stream as stepped
from apache_beam.testing.util import assert_that
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.error_handling import CollectingErrorHandler, ErrorHandler
from apache_beam.typehints import typehints
from apache_beam.utils.timestamp import Timestamp

from kanonflow.pipelines.runs.secret_sources import SecretFile, SecretVariable
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.elements import MatchingRecord, RejectedRows, Release
from kanonflow.transforms.secret.seeds import Secret, SecretSource
from kanonflow.transforms.sinks.beam_rows import REJECTED_ROW
from kanonflow.transforms.sinks.matching_record_sink import WriteMatchingRecords
from kanonflow.transforms.sinks.sinks import WriteMetrics, WriteRejected, WriteReleases
from tests.runners import bounded_pipeline, loopback_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, hourly, row

KEY = bytes(range(60, 92))
"""Letters, digits and signs: it would be seen as it is, and as hexadecimal."""


def test_every_output_says_what_it_holds() -> None:
    """Of every public transform; ``Any`` stands only in the values of metrics, which are of many types."""
    policy = feed_policy()
    pipeline = beam.Pipeline(runner="FnApiRunner")
    out = pipeline | beam.Create(hourly(1, 5, 5)) | KAnonymize(policy, SECRET)
    written = out.released | WriteReleases("out", out.bound)
    found = {
        **out._asdict(),
        "rows": out.rows,
        **{f"written {name}": each for name, each in written._asdict().items()},
        "metrics' files": out.metrics | WriteMetrics("out", policy),
        "rejected files": out.rejected | WriteRejected("out"),
        "matching records' files": written.matching_records | WriteMatchingRecords("out"),
    }
    metrics = typehints.Mapping[str, typehints.Any]
    told = {name: each.element_type for name, each in found.items() if name != "rows"}
    assert told == {
        "released": Release,
        "metrics": metrics,
        "rejected": RejectedRows,
        "written released": str,
        "written conflicts": RejectedRows,
        "written metrics": metrics,
        "written matching_records": MatchingRecord,
        "metrics' files": str,
        "rejected files": str,
        "matching records' files": str,
    }
    names = [name for name, _ in out.rows.element_type._fields]
    assert names[:5] == ["release_id", "window_start", "window_end", "age", "job"]
    assert out.rows is out.rows
    assert out.rows.producer.full_label == "KAnonymize/Rows/Make"


def test_rows_of_two_transforms_stand_beside_each_other() -> None:
    """Their steps have names of their own, also within a transform of somebody else."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    feed = pipeline | beam.Create(hourly(1, 5, 5))
    first = feed | "First" >> KAnonymize(feed_policy(), SECRET)
    second = feed | "Second" >> KAnonymize(feed_policy(), SECRET)
    assert [each.rows.producer.full_label for each in (first, second)] == [
        "First/Rows/Make",
        "Second/Rows/Make",
    ]


def test_a_pipeline_without_rows_has_no_step_for_them() -> None:
    """It would decode every release."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(hourly(1, 5, 5)) | KAnonymize(feed_policy(), SECRET)
    assert "Rows" not in str(pipeline.to_runner_api(use_fake_coders=True))


@pytest.mark.thorough
def test_rejected_rows_go_to_an_error_handler() -> None:
    """Each as a row; the releases and the rejected output are what they are without one."""
    bad = row(900, 1, 0.5, age="old")
    with bounded_pipeline() as pipeline:
        feed = pipeline | beam.Create([*hourly(3, 9, 12, seed=2), bad])
        with ErrorHandler(_Keep()) as handler:
            out = feed | KAnonymize(feed_policy(max_delay="1h"), SECRET).with_error_handler(handler)
        kept = handler.output()
        assert kept.element_type == REJECTED_ROW
        assert kept.windowing == feed.windowing
        assert_that(kept, _reports_age)
        groups = out.rejected | beam.Map(lambda each: len(each.records))
        assert_that(groups, _some, label="rejected")


class _Keep(beam.PTransform):
    def expand(self, errors: beam.PCollection) -> beam.PCollection:
        return errors | beam.Filter(lambda each: True)


def _reports_age(found: list[Any]) -> None:
    wrong = [each for each in found if each.field == "age"]
    assert [each.row["age"] for each in wrong] == ["old"]
    assert len(found) > 1


def _some(found: list[Any]) -> None:
    assert sum(found) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("runner", [bounded_pipeline, loopback_pipeline], ids=["bounded", "job service"])
def test_rows_cross_processes(runner: Any) -> None:
    """Coded by their schema, behind a Reshuffle; ranges have names there too."""
    with runner() as pipeline:
        out = (
            pipeline | beam.Create(hourly(3, 9, 12, seed=2)) | KAnonymize(feed_policy(max_delay="1h"), SECRET)
        )
        told = out.rows | beam.Reshuffle() | beam.Map(lambda row: (row.reference, row.age.min <= row.age.max))
        assert_that(told, _many_in_order)


def _many_in_order(found: list[Any]) -> None:
    assert len(dict(found)) == len(found) > 15
    assert all(ordered for _, ordered in found)


@pytest.mark.thorough
def test_rows_of_a_stream_stand_in_the_window_of_their_release() -> None:
    """Also in one that a timer made."""
    stream = stepped.TestStream()
    for hour, some in enumerate([[row(number, number, 0.5) for number in range(5)], [], [row(10, 1, 2.5)]]):
        stream.add_elements(some)
        stream.advance_watermark_to(Timestamp((START + (hour + 1) * HOUR) // 1000 + 1))
    with streaming_pipeline() as pipeline:
        out = pipeline | stream.advance_watermark_to_infinity() | KAnonymize(feed_policy(), SECRET)
        assert_that(out.rows | beam.ParDo(_WithHour()), _five_of_the_first_hour)


class _WithHour(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        yield element.reference, (window.start.micros // 1000 - START) // HOUR


def _five_of_the_first_hour(found: list[Any]) -> None:
    assert sorted(found) == [(f"r{number}", 0) for number in range(5)]


def test_an_error_handler_must_be_closed_and_may_be_none() -> None:
    """As Beam's own transforms have it."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    feed = pipeline | beam.Create([])
    _ = feed | KAnonymize(feed_policy(), SECRET).with_error_handler(None)
    _ = feed | "Watched" >> KAnonymize(feed_policy(), SECRET).with_error_handler(CollectingErrorHandler())
    with pytest.raises(RuntimeError, match="requires the output to be retrieved"):
        pipeline.run()


def shown(transform: beam.PTransform) -> dict[str, Any]:
    """What the transform and its steps show to a runner, by key."""
    return {item.key: item.value for item in DisplayData.create_from(transform).items}


def test_display_data_tells_the_policy() -> None:
    """Which one, and what it promises."""
    told = shown(KAnonymize(feed_policy(), SECRET))
    assert {**told, "policy_digest": None} == {
        "policy": "test",
        "policy_digest": None,
        "k": 3,
        "protect": "individual",
        "window": "1h",
    }
    other = shown(KAnonymize(feed_policy(max_delay="1h"), SECRET))
    assert told["policy_digest"] != other["policy_digest"]
    assert shown(KAnonymize(feed_policy(window=None), SECRET))["window"] == "none"


@pytest.mark.parametrize("kind", ["key", "file", "variable"])
def test_nothing_that_is_shown_holds_the_secret_or_its_place(kind: str, tmp_path: Path) -> None:
    """Neither the transform's display data, nor that of any step that it consists of."""
    place = tmp_path / "my-secret"
    source: SecretSource = {
        "key": Secret(KEY),
        "file": SecretFile(str(place)),
        "variable": SecretVariable("MY_SECRET"),
    }[kind]
    pipeline = beam.Pipeline(runner="FnApiRunner")
    out = pipeline | beam.Create(hourly(1, 5, 5)) | KAnonymize(bound_feed(feed_policy()), source)
    _ = out.released | WriteReleases("out", out.bound)
    _ = out.rows
    visitor = _Displays()
    pipeline.visit(visitor)
    assert any(item.key == "policy_digest" for item in visitor.items)
    assert len(visitor.items) > 10
    text = " ".join(f"{item.key} {item.value} {item.label} {item.url}" for item in visitor.items)
    graph = pipeline.to_runner_api()
    data = b" ".join(
        each.SerializeToString()
        for step in graph.components.transforms.values()
        for each in step.display_data
    )
    assert b"policy_digest" in data
    for never in (KEY.decode(), KEY.hex(), str(KEY), str(place), "my-secret", "MY_SECRET"):
        assert never not in text
        assert never.encode() not in data


class _Displays(beam.pipeline.PipelineVisitor):
    """Collects what every step shows."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def enter_composite_transform(self, transform_node: Any) -> None:
        self.visit_transform(transform_node)

    def visit_transform(self, transform_node: Any) -> None:
        if transform_node.transform is not None:
            self.items += DisplayData.create_from(transform_node.transform).items
