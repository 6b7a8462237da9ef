"""The ids by which timers in savepoints name their steps are those of the first builds, whatever the graph."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2

from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles
from kanonflow.pipelines.feeds.polled_source import PolledSource, ReadPolled
from kanonflow.pipelines.flink.stable_ids import keep_ids
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.source import KafkaSource
from kanonflow.pipelines.runs.anonymize_files import connect, kanonymize
from kanonflow.pipelines.runs.feed_address import release_sink
from kanonflow.pipelines.runs.secret_sources import SecretFile
from kanonflow.transforms.roster.continued_cohorts import ContinuedCohorts
from kanonflow.transforms.shards.make_plan import make_plan
from tests.small_feeds import bound_feed, feed_policy
from tests.transforms.shards.mixed_shards import mixed_bound, mixed_people

TOPIC = "kafka://a:1/t?format=json"


def timers(pipeline: beam.Pipeline) -> dict[str, str]:
    """The ids of the steps with timers, by their labels."""
    found = {}
    transforms = pipeline.to_runner_api().components.transforms
    for name, transform in transforms.items():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            if payload.timer_family_specs:
                found[transform.unique_name] = name
    return found


@pytest.mark.parametrize("cohort", ["lasting", "window"])
@pytest.mark.parametrize("matching_records", [False, True])
@pytest.mark.parametrize("topics", [False, True])
def test_every_step_with_a_timer_keeps_its_id(
    tmp_path: Path, topics: bool, matching_records: bool, cohort: str
) -> None:
    """As a graph of build 26c8339 had them; a new step with a timer has to be written down there, too."""
    bound = bound_feed(feed_policy(cohort=cohort))
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(40)))
    secret.chmod(0o600)
    pipeline = beam.Pipeline("FlinkRunner", options=PipelineOptions(["--streaming"]))
    keep_ids(pipeline, matching_records=matching_records)
    source: PolledSource = ArrivingFiles("/nowhere", bound)
    if topics:
        source = KafkaSource(kafka_source_address(TOPIC), bound)
    connect(
        pipeline,
        ReadPolled(source, 0),
        kanonymize(bound, SecretFile(str(secret)), watermark_waits=True, matching_records=matching_records),
        bound,
        str(tmp_path / "out"),
        "FlinkRunner",
        streaming=True,
        matching_records=matching_records,
        write_releases=release_sink(TOPIC if topics else None, bound, "run", str(tmp_path / "out")),
    )
    assert timers(pipeline) == {
        "KAnonymize/Solve/ParDo(SolveWindows)": "ref_AppliedPTransform_KAnonymize-Solve-ParDo-SolveWindows-_16",
        "KAnonymize/GatherRejected/Gather": "ref_AppliedPTransform_KAnonymize-GatherRejected-Gather_25",
        "End/End": f"ref_AppliedPTransform_End-End_{75 if matching_records else 73}",
    }


def test_the_route_to_shards_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Strangers wait there in a savepoint, and no number of the graph may name it."""
    bound = mixed_bound("age", "job")
    rows, digests = mixed_people(bound, 60, 1)
    plan = make_plan(rows, digests, bound, 2).plan
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(40)))
    secret.chmod(0o600)
    pipeline = beam.Pipeline("FlinkRunner", options=PipelineOptions(["--streaming"]))
    keep_ids(pipeline, matching_records=False)
    continued = ContinuedCohorts(str(tmp_path), bound, 5)
    connect(
        pipeline,
        ReadPolled(ArrivingFiles("/nowhere", bound), 0),
        kanonymize(bound, SecretFile(str(secret)), watermark_waits=True, continued=continued, plan=plan),
        bound,
        str(tmp_path / "out"),
        "FlinkRunner",
        streaming=True,
        matching_records=False,
    )
    route = "ref_AppliedPTransform_KAnonymize-Route-Strangers_of_shards"
    ids = timers(pipeline)
    assert ids["KAnonymize/Route/Strangers"] == route
    assert ids["KAnonymize/Solve/ParDo(SolveWindows)"].endswith("_16")
