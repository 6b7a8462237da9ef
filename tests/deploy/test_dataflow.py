"""The job graph that Dataflow would be handed, batch and streaming, and what is refused before there is one.

A dry run translates as a real run does, and sends nothing. Bucket names are long, for Beam looks short ones up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.feeds.polled_source import Chunk, ReadPolled, _Poll, _Position, _Provider
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.source import KafkaSource
from kanonflow.pipelines.options.options import OptionsError, beam_options
from kanonflow.pipelines.runs.anonymize_files import connect
from kanonflow.pipelines.runs.dataflow_jobs import check_for_dataflow, is_dataflow, only_submits
from kanonflow.pipelines.runs.feed_address import release_sink
from kanonflow.pipelines.runs.secret_sources import ManagedSecret, PinnedSecret, SecretFile, SecretVariable
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.rows.elements import RawBatch, to_ipc
from kanonflow.transforms.secret.seeds import Secret, SecretError, SecretSource
from kanonflow.transforms.windows.bags import BAGS
from kanonflow.transforms.windows.warm_cells import WarmCells
from tests.job_graphs import readable
from tests.small_feeds import bound_feed, feed_policy, row

pytestmark = pytest.mark.thorough

GUIDE = Path(__file__).parents[2] / "docs" / "dataflow.md"
OUTPUT = "gs://demo-bucket-of-releases/out"
KEY = b"mellon, the word that opens the door of the mine"
NAME = "projects/demo-proj/secrets/kanonflow/versions/7"
BY_REFERENCE = PinnedSecret(ManagedSecret(NAME), Secret(KEY).commit())
FLAGS = (
    "--runner=DataflowRunner",
    "--project=demo-proj",
    "--region=us-central1",
    "--job_name=job1",
    "--temp_location=gs://demo-bucket-of-staging/t",
    "--staging_location=gs://demo-bucket-of-staging/s",
    "--sdk_container_image=demo/kanonflow:1",
    "--sdk_location=container",
    "--no_auth",
    "--dry_run=True",
)
PERSON = "somebody-whose-name-is-nobodys-business"
POLICY = feed_policy(towns=True)
SOLVE = "KAnonymize/Solve/ParDo(SolveWindows)"
GATHER = "KAnonymize/GatherRejected/Gather"
END = "End/End"
SINKS = ("WriteReleases/Write/ParDo(_WriteRelease)", "WriteMetrics/Write", "WriteRejected/Write")


@dataclass(frozen=True)
class Nothing:
    """A feed without rows."""

    def open(self) -> Nothing:
        return self

    def read(self, position: bytes, max_rows: int) -> Chunk:
        return Chunk((), position, None, False, True)

    def close(self) -> None:
        """Nothing is open."""


def files() -> beam.PTransform:
    """One batch with one row."""
    table = rows_to_table([row(1, 1, 0.0) | {"who": PERSON}], bound_feed(POLICY)).table
    return beam.Create([RawBatch("", to_ipc(table), ())])


def topic() -> beam.PTransform:
    """A topic as source; nobody is asked for it before the job runs."""
    address = kafka_source_address("kafka://broker:9092/rows?format=json")
    return ReadPolled(KafkaSource(address, bound_feed(POLICY), None), 0)


def translated(
    streaming: bool,
    secret: SecretSource = BY_REFERENCE,
    *,
    topics: bool = False,
    policy: Policy = POLICY,
    unwatched: bool = False,
) -> Any:
    """The job graph as Dataflow gets it. topics: rows come from one, releases go into another."""
    flags = [*FLAGS, *(["--streaming"] if streaming else [])]
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    bound = bound_feed(policy)
    connect(
        pipeline,
        topic() if topics else ReadPolled(Nothing(), 0) if streaming else files(),
        KAnonymize(policy, secret, input_schema=text_schema(policy), text=True, watermark_waits=streaming),
        bound,
        OUTPUT,
        "DataflowRunner",
        streaming=streaming,
        write_releases=release_sink("kafka://broker:9092/out?format=json" if topics else None, bound, "run"),
        unwatched=unwatched,
    )
    return pipeline.run().job.proto_pipeline


@pytest.fixture(scope="module", params=[False, True], ids=["batch", "streaming"])
def graph(request: pytest.FixtureRequest) -> Any:
    """The graph of both kinds of job."""
    return translated(request.param)


def steps(graph: Any) -> dict[str, Any]:
    """Every transform by its full name, which is what --update matches."""
    return {step.unique_name: step for step in graph.components.transforms.values()}


def par_do(step: Any) -> Any:
    """The payload of a ParDo."""
    return api.ParDoPayload.FromString(step.spec.payload)


def downstream(graph: Any, name: str) -> Iterator[Any]:
    """Every leaf behind a step, in no order."""
    leaves = [step for step in steps(graph).values() if not step.subtransforms]
    found, reached = [steps(graph)[name]], set()
    while found:
        outputs = set(found.pop().outputs.values())
        for step in leaves:
            if outputs & set(step.inputs.values()) and step.unique_name not in reached:
                reached.add(step.unique_name)
                found.append(step)
                yield step


def test_the_stateful_step_has_its_cells_and_one_timer(graph: Any) -> None:
    """These names are in the state of running jobs: another one loses what is in it."""
    payload = par_do(steps(graph)[SOLVE])
    bags = {f"bag_{number:02}" for number in range(BAGS)}
    assert set(payload.state_specs) == {"clock", "roster", *bags, *(spec.name for spec in WarmCells.SPECS)}
    kinds = {name: spec.WhichOneof("spec") for name, spec in payload.state_specs.items()}
    assert {name for name, kind in kinds.items() if kind == "bag_spec"} == {
        *bags,
        "roster",
        *(spec.name for spec in WarmCells.SPECS if isinstance(spec, BagStateSpec)),
    }
    assert {kinds["clock"], kinds["warm"]} == {"read_modify_write_spec"}
    ((name, timer),) = payload.timer_family_specs.items()
    assert name.endswith("kanonflow_window_due")
    assert timer.time_domain == api.TimeDomain.EVENT_TIME
    stateful = [
        step.unique_name
        for step in steps(graph).values()
        if step.spec.urn == "beam:transform:pardo:v1" and par_do(step).state_specs
    ]
    assert set(stateful) == {SOLVE, GATHER} | ({END} if "Read/Poll" in steps(graph) else set())


def test_rejected_rows_are_gathered_in_cells_of_their_own(graph: Any) -> None:
    """A stream hands them on as time goes by, a run over files at its end; equal names would share a timer."""
    payload = par_do(steps(graph)[GATHER])
    streaming = "Read/Poll" in steps(graph)
    rows = {"kanonflow_rejected_rows"} if streaming else set()
    assert set(payload.state_specs) == {"kanonflow_rejected_parts"} | rows
    domains = {
        name.rpartition("-")[2]: timer.time_domain for name, timer in payload.timer_family_specs.items()
    }
    ends = [domain for name, domain in domains.items() if "_end" in name]
    assert ends == [api.TimeDomain.EVENT_TIME]
    assert len(domains) == (2 if streaming else 1)


def test_state_is_bytes_and_keys_are_deterministic(graph: Any) -> None:
    """Cells hold our versioned bytes, whatever a later Python thinks of pickles; the key's coder is that of bytes."""
    coders = graph.components.coders
    payload = par_do(steps(graph)[SOLVE])
    for spec in payload.state_specs.values():
        coder = spec.bag_spec.element_coder_id or spec.read_modify_write_spec.coder_id
        assert coders[coder].spec.urn == "beam:coder:bytes:v1"
    (source,) = steps(graph)[SOLVE].inputs.values()
    coder = coders[graph.components.pcollections[source].coder_id]
    while coder.spec.urn != "beam:coder:kv:v1":
        (inner,) = coder.component_coder_ids
        coder = coders[inner]
    assert coders[coder.component_coder_ids[0]].spec.urn == "beam:coder:bytes:v1"


def test_nothing_groups_before_the_timer(graph: Any) -> None:
    """The stateful step does the windowing itself, in the global window, so that no runner drops a late row."""
    grouping = {step.unique_name for step in steps(graph).values() if "group_by_key" in step.spec.urn}
    after = {step.unique_name for step in downstream(graph, SOLVE)}
    assert grouping
    assert grouping <= after
    (source,) = steps(graph)[SOLVE].inputs.values()
    windowing = graph.components.windowing_strategies[
        graph.components.pcollections[source].windowing_strategy_id
    ]
    assert windowing.window_fn.urn == "beam:window_fn:global_windows:v1"


def test_between_the_timer_and_a_sink_there_is_a_boundary_that_drops_nothing(graph: Any) -> None:
    """A Reshuffle each, whose grouping is in the global window and fires always: what is late passes."""
    grouping = {
        step.unique_name: step for step in downstream(graph, SOLVE) if "group_by_key" in step.spec.urn
    }
    outputs = ("StableReleases", "StableMetrics", "StableRejected")
    assert set(grouping) == {f"{name}/Reshuffle/ReshufflePerKey/GroupByKey" for name in outputs}
    for step in grouping.values():
        (source,) = step.inputs.values()
        strategy = graph.components.pcollections[source].windowing_strategy_id
        windowing = graph.components.windowing_strategies[strategy]
        assert windowing.window_fn.urn == "beam:window_fn:global_windows:v1"
        assert windowing.trigger.WhichOneof("trigger") == "always"
    for name in outputs:
        reached = {
            step.unique_name for step in downstream(graph, f"{name}/Reshuffle/ReshufflePerKey/GroupByKey")
        }
        assert reached & set(SINKS)
    reached = {step.unique_name for step in downstream(graph, SOLVE)}
    assert set(SINKS) <= reached


def test_no_step_but_the_boundary_asks_for_more_than_dataflow_has(graph: Any) -> None:
    """Stable input is what Flink is asked for; Dataflow's Reshuffle is stable, and refuses the requirement."""
    assert not any("stable_input" in requirement for requirement in graph.requirements)


def test_the_graph_holds_the_secrets_name_and_not_the_secret(graph: Any) -> None:
    """Dataflow stores the graph and shows parts of it in its console. By value, the secret would be in it."""
    text = readable(graph)
    assert NAME.encode() in text
    assert not any(form in text for form in (KEY, KEY.hex().encode(), b"mellon"))
    with pytest.raises(SecretError, match="would hold the secret itself"):
        translated(False, Secret(KEY))


def test_a_rotated_job_has_the_same_steps_and_none_of_the_secrets() -> None:
    """What an update with a new version matches by name is all there; the graph names both versions."""
    old, new = ManagedSecret(NAME), ManagedSecret(NAME.replace("/7", "/8"))
    later = b"friend, which is what one says to the door as well"
    rotated = PinnedSecret(new, Secret(later, 8).commit(), 8, (PinnedSecret(old, Secret(KEY).commit(), 7),))
    before, after = translated(True), translated(True, rotated)
    assert set(steps(before)) == set(steps(after))
    assert set(par_do(steps(before)[SOLVE]).state_specs) == set(par_do(steps(after)[SOLVE]).state_specs)
    text = readable(after)
    assert old.name.encode() in text
    assert new.name.encode() in text
    assert not any(key in text or key.hex().encode() in text for key in (KEY, later))


def test_topics_translate_and_stand_behind_the_same_boundary() -> None:
    """Source and sink are topics: nothing is asked of a broker, and only stable releases reach the sink."""
    graph = translated(True, topics=True)
    sink = "WriteReleases/Write/ParDo(_WriteRelease)"
    boundary = "StableReleases/Reshuffle/ReshufflePerKey/GroupByKey"
    assert sink in {step.unique_name for step in downstream(graph, boundary)}
    assert "Read/Poll" in steps(graph)
    assert not any("stable_input" in requirement for requirement in graph.requirements)


def test_display_data_tells_classes_and_functions_only(graph: Any) -> None:
    """What the console shows of a step: no row, no secret's name, no path."""
    shown = [data for step in steps(graph).values() for data in step.display_data]
    labels = {api.LabelledPayload.FromString(data.payload).label for data in shown}
    assert labels <= {"Transform Function", "Window Function", "Splittable Function", "Fn Wrapper"}, labels
    text = b"\n".join(data.payload for data in shown)
    assert b"SolveWindows" in text
    assert not any(part.encode() in text for part in (PERSON, "kanonflow/versions", "gs://", "town", "Bonn"))


def test_the_guide_names_the_steps_that_an_update_matches(graph: Any) -> None:
    """The contract of --update, row by row of the guide's table: a step, or a folder of steps, that is there."""
    section = GUIDE.read_text().partition("## Update")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(named) == 7
    streaming = any(name == "Read/Poll" for name in steps(graph))
    for name in named:
        if streaming or not name.startswith(("Read/", "End/")):
            assert name in steps(graph), name


@pytest.mark.parametrize("streaming", [True, False])
def test_the_end_is_told_behind_every_sink(streaming: bool) -> None:
    """By the job itself: a stream's, and that of a run over files whose launcher only submits it."""
    graph = translated(streaming, policy=feed_policy(towns=True, cohort="lasting"), unwatched=True)
    names = [*SINKS, "KAnonymize/Carry/Write", "KAnonymize/Solve/ParDo(SolveWindows)"]
    for name in [*names, *(["Read/Poll"] if streaming else [])]:
        assert {END, "End/Write"} <= {step.unique_name for step in downstream(graph, name)}, name
    if not streaming:
        watched = translated(False, policy=feed_policy(towns=True, cohort="lasting"))
        assert END not in steps(watched)


def test_a_drain_tells_where_it_cut_the_feed() -> None:
    """What is left of the feed is cut off before it is read, and its position goes the way of an end."""
    read = _Poll(Nothing(), 0)
    left = _Provider().truncate(b"feed", _Position(b"17", False))
    coder = _Provider().restriction_coder()
    assert left is not None
    left = coder.decode(coder.encode(left))
    estimator = ManualWatermarkEstimator(None)
    tracker = _Provider().create_tracker(left)
    (told,) = read.process(b"feed", tracker, estimator)
    assert (told.tag, told.value.value) == ("ends", b"17")
    assert tracker.check_done()
    assert estimator.current_watermark() == MAX_TIMESTAMP
    assert _Provider().truncate(b"feed", tracker.current_restriction()) is None


@dataclass(frozen=True)
class Few(Nothing):
    """A feed of six people in one window, which ends."""

    def read(self, position: bytes, max_rows: int) -> Chunk:
        table = rows_to_table([row(who, who, 0.0) for who in range(6)], bound_feed(POLICY)).table
        return Chunk(((0, RawBatch("few", to_ipc(table), ())),), b"six", 0, False, True)


def test_a_stream_of_dataflows_form_leaves_its_end(tmp_path: Path) -> None:
    """Run by a local runner: the mark holds the position, as of a stream on Flink."""
    policy = feed_policy(towns=True)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        connect(
            pipeline,
            ReadPolled(Few(), 0),
            KAnonymize(
                policy, Secret(KEY), input_schema=text_schema(policy), text=True, watermark_waits=True
            ),
            bound_feed(policy),
            str(tmp_path),
            "DataflowRunner",
            streaming=True,
        )
    assert (tmp_path / "restricted" / "ended").read_bytes() == b"six"
    assert list((tmp_path / "release").iterdir())


def test_what_dataflow_cannot_do_is_refused_at_once() -> None:
    """A local output, local inputs, a secret of this machine, workers without kanonflow, at-least-once."""
    flags = ["--project=demo-proj", "--dataflow_service_options=streaming_mode_at_least_once"]
    with pytest.raises(OptionsError) as caught:
        check_for_dataflow(beam_options(flags), "out", ["in/*.csv", "gs://b/x.csv"], SecretFile("/etc/key"))
    message = str(caught.value)
    for words in (
        "--restricted out is on",
        "in/*.csv is on",
        "--secret-manager",
        "--sdk_container_image",
        "at_least_once is refused",
        "--temp_location is missing",
    ):
        assert words in message
    assert "gs://b/x.csv" not in message
    with pytest.raises(OptionsError, match="--secret-manager"):
        check_for_dataflow(beam_options(FLAGS), OUTPUT, [], None)
    check_for_dataflow(beam_options(FLAGS), OUTPUT, ["gs://b/x", "kafka://h:1/t"], ManagedSecret(NAME))


@pytest.mark.parametrize(
    "command",
    [
        ["anonymize", "--policy", "{}/no.yaml", "--input", "{}/no.csv", "--output", "{}/out"],
        [
            "anonymize",
            "--policy",
            "{}/no.yaml",
            "--input",
            "{}/no.csv",
            "--output",
            "{}/out",
            "--second-release",
        ],
        ["stream", "--policy", "{}/no.yaml", "--source", "{}/feed", "--output", "{}/out"],
        [
            "stream",
            "--policy",
            "{}/no.yaml",
            "--source",
            "kafka://127.0.0.1:1/t?format=json",
            "--output",
            "{}/out",
        ],
        ["demo", "--output", "{}/out"],
    ],
    ids=["files", "second", "directory", "topic", "demo"],
)
def test_a_refusal_comes_before_anything_is_touched(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy and the input are not there, and nobody notices: arguments alone are judged, all of them.

    No directory is made and no secret resolved.
    """

    def resolved(*_: object) -> Secret:
        raise AssertionError("a secret was resolved")

    for kind in (SecretFile, SecretVariable, ManagedSecret):
        monkeypatch.setattr(kind, "resolve", resolved)
    line = [part.format(tmp_path) for part in command]
    line += ["--runner", "DataflowRunner", "--secret-env", "NOBODYS_SECRET"]
    assert main(line) == 2
    said = capsys.readouterr().err
    for words in (
        f"--restricted {tmp_path}/out is on",
        "--secret-manager",
        "--sdk_container_image",
        "--project is",
    ):
        assert words in said
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_submits_and_ends() -> None:
    """The template's launcher names a place for the job graph; everybody else waits for the job."""
    assert only_submits(beam_options([*FLAGS, "--template_location=gs://demo-bucket-of-staging/job"]))
    assert not only_submits(beam_options(FLAGS))
    assert [
        is_dataflow(name) for name in ("DataflowRunner", "dataflow", "a.b.DataflowRunner", "FlinkRunner")
    ] == [
        True,
        True,
        True,
        False,
    ]
