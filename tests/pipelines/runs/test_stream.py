"""``kanonflow stream``: what is refused before anything runs, what the job graph holds, and how a feed ends."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import Timestamp

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles
from kanonflow.pipelines.feeds.polled_source import (
    _PROVIDER,
    BUNDLE_SECONDS,
    PAUSE_SECONDS,
    Chunk,
    ReadPolled,
    _Poll,
)
from kanonflow.pipelines.flink import flags as flink_flags
from kanonflow.pipelines.flink import jobs as flink_jobs
from kanonflow.pipelines.options.options import OptionsError, stream_flags
from kanonflow.pipelines.runs import stream
from kanonflow.pipelines.runs.anonymize_files import connect, kanonymize
from kanonflow.pipelines.runs.feed_address import DirectoryFeed, feed_address, stream_places
from kanonflow.pipelines.runs.feed_end import Silence, TellEnd, end_file
from kanonflow.pipelines.runs.stream import summarize_stream
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.sinks.durable_boundary import STABLE_INPUT, durable_boundary
from tests.flink.stream_runs import policy_text
from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("runner", "flags", "said"),
    [
        ("FnApiRunner", [], "cannot run a feed without end"),
        ("PortableRunner", [], "takes no checkpoints"),
        ("FlinkRunner", ["--checkpointing_interval=0"], "a stream needs them"),
        ("FlinkRunner", ["--checkpointing_interval=-1"], "a stream needs them"),
        ("FlinkRunner", ["--checkpointing_interval", "often"], "a stream needs them"),
    ],
)
def test_runs_that_could_not_commit_are_refused(runner: str, flags: list[str], said: str) -> None:
    """A runner without checkpoints, or Flink with none."""
    with pytest.raises(OptionsError, match=said):
        stream_flags(runner, flags)


def test_a_stream_on_flink_gets_what_it_needs() -> None:
    """Checkpoints, an embedded cluster with this process as worker; what is given stays."""
    flags = stream_flags("FlinkRunner", ["--checkpointing_interval=500"])
    assert "--streaming" in flags
    assert "--environment_type=LOOPBACK" in flags
    assert flink_flags.flag_value(flags, "--checkpointing_interval") == "500"
    cluster = stream_flags("FlinkRunner", ["--flink_master", "host:8081"])
    assert "--environment_type=LOOPBACK" not in cluster
    assert flink_flags.flag_value(cluster, "--checkpointing_interval") == "10000"
    assert flink_jobs.cluster_address(cluster) == "host:8081"
    assert flink_jobs.cluster_address(flags) is None


def test_a_job_in_this_process_cannot_be_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An embedded cluster ends with the command."""
    arguments = ["--policy", str(tmp_path / "p"), "--source", str(tmp_path), "--output", str(tmp_path / "o")]
    assert main(["stream", *arguments, "--detach"]) == 2
    assert "--flink_master" in capsys.readouterr().err


def test_flags_of_the_job_server_are_told_apart() -> None:
    """With and without ``=``, and a value that follows."""
    own, others = flink_flags.split_flink_flags(
        [
            "--savepoint_path",
            "file:/s",
            "--parallelism=2",
            "--object_reuse",
            "--max_bundle_size=3",
            "--streaming",
        ]
    )
    assert own == ["--savepoint_path", "file:/s", "--object_reuse", "--max_bundle_size=3"]
    assert others == ["--parallelism=2", "--streaming"]


def test_files_are_no_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``anonymize --streaming`` would wait for the end of time without a boundary."""
    assert main([*anonymize(tmp_path), "--streaming"]) == 2
    assert "kanonflow stream" in capsys.readouterr().err


def test_flink_flags_are_unknown_to_other_runners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They would change nothing there, without a word."""
    assert main([*anonymize(tmp_path), "--checkpointing_interval=5"]) == 2
    assert "unknown flag --checkpointing_interval" in capsys.readouterr().err


def anonymize(folder: Path) -> list[str]:
    """Arguments whose files need not exist."""
    return [
        "anonymize",
        "--policy",
        str(folder / "p"),
        "--input",
        str(folder / "i"),
        "--output",
        str(folder / "o"),
    ]


def test_raw_data_has_a_place_of_its_own(tmp_path: Path) -> None:
    """A topic needs ``--restricted``, a directory has its own."""
    topic = "kafka://localhost:9092/t?format=json"
    with pytest.raises(OptionsError, match="--restricted"):
        stream_places(topic, None)
    with pytest.raises(OptionsError, match="OUT/restricted"):
        stream_places(str(tmp_path), str(tmp_path))
    assert stream_places(topic, str(tmp_path)).topic == topic
    assert stream_places(str(tmp_path / "a/"), None).directory == str(tmp_path / "a")


def test_a_topic_has_no_files_to_have_a_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 before anything is there; the message says where a topic's format stands."""
    (tmp_path / "p.yaml").write_text(policy_text())
    (tmp_path / "in").mkdir()
    given = ["--policy", str(tmp_path / "p.yaml"), "--source", str(tmp_path / "in"), "--unmeasured"]
    given += ["--output", "kafka://localhost:9092/t?format=json", "--restricted", str(tmp_path / "r")]
    assert main(["stream", *given, "--release-format", "parquet"]) == 2
    assert "--release-format parquet: --output is a topic" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_addresses_of_sources(tmp_path: Path) -> None:
    """Every mistake of a topic's at once; a directory that is not there, that is empty, that has one good file."""
    with pytest.raises(InputError) as caught:
        feed_address("kafka://localhost/?format=xml&idle=x")
    for part in ("localhost", "topic", "format", "idle"):
        assert part in str(caught.value)
    policy = feed_policy()
    with pytest.raises(InputError, match="no such directory"):
        DirectoryFeed(str(tmp_path / "none")).open(policy)
    with pytest.raises(InputError, match="--schema"):
        DirectoryFeed(str(tmp_path)).open(policy)
    (tmp_path / "a.csv").write_bytes(b"")
    (tmp_path / "b.csv").write_text("who,when\n1,2\n")
    assert DirectoryFeed(str(tmp_path)).open(policy).schema.columns.names == ["who", "when"]
    example = tmp_path / "example.csv"
    example.write_text("when,age\n1,2\n")
    feed = DirectoryFeed(str(tmp_path), str(example)).open(policy)
    assert feed.schema.columns.names == ["when", "age"]


def test_sinks_stand_behind_a_boundary() -> None:
    """On Flink as a stream: releases, metrics and rejected rows pass a step that requires stable input, after a cut.

    And no such step is anywhere near the stateful one, whose timers it would hold back.
    """
    steps = graph("FlinkRunner", streaming=True)
    stable = {name for name, payload in steps.items() if payload.requires_stable_input}
    assert {name.split("/")[0] for name in stable} == {
        "Stable",
        "End",
    }
    assert not [name for name in stable if steps[name].timer_family_specs or steps[name].state_specs]
    assert not any(
        payload.requires_stable_input for payload in graph("FlinkRunner", streaming=False).values()
    )
    assert not any(payload.requires_stable_input for payload in graph("FnApiRunner", streaming=True).values())


def test_matching_records_go_with_their_releases() -> None:
    """Asked for, they come from the sink of the releases, behind their boundary; else no step writes any."""
    steps = graph("FlinkRunner", streaming=True, matching_records=True)
    stable = {name.split("/")[0] for name, payload in steps.items() if payload.requires_stable_input}
    assert "Stable" in stable
    assert [name for name in steps if name.startswith("WriteMatchingRecords/")]
    assert not [name for name in graph("FlinkRunner", streaming=True) if "MatchingRecord" in name]


@pytest.mark.parametrize(("runner", "apart"), [("FlinkRunner", True), ("FnApiRunner", False)])
def test_on_flink_an_impulse_stands_apart(runner: str, apart: bool) -> None:
    """Only a native reshuffle takes an impulse, so that Flink's ids of operators are those of every parallelism."""
    steps = job_graph(runner, streaming=True).components.transforms.values()
    impulses = {
        name
        for step in steps
        if step.spec.urn == "beam:transform:impulse:v1"
        for name in step.outputs.values()
    }
    takers = [step for step in steps if impulses & set(step.inputs.values()) and not _is_inside(step, steps)]
    assert len(impulses) == len(takers) == 2
    assert {step.spec.urn == "beam:transform:reshuffle:v1" for step in takers} == {apart}


def _is_inside(step: Any, steps: Any) -> bool:
    """Whether a step is part of a reshuffle, which the runner replaces as a whole."""
    return any(
        step.unique_name.startswith(f"{each.unique_name}/")
        for each in steps
        if each.spec.urn == "beam:transform:reshuffle:v1"
    )


def graph(runner: str, *, streaming: bool, matching_records: bool = False) -> dict[str, Any]:
    """The ParDo payloads of the job graph, by name."""
    proto = job_graph(runner, streaming=streaming, matching_records=matching_records)
    assert (STABLE_INPUT in proto.requirements) == (runner == "FlinkRunner" and streaming)
    found = {}
    for step in proto.components.transforms.values():
        if step.spec.urn == "beam:transform:pardo:v1":
            found[step.unique_name] = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
    return found


def job_graph(runner: str, *, streaming: bool, matching_records: bool = False) -> Any:
    """What the runner is handed."""
    policy = feed_policy()
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([]))
    connect(
        pipeline,
        ReadPolled(ArrivingFiles("/nowhere", bound_feed(policy)), 0),
        kanonymize(bound_feed(policy), SECRET, watermark_waits=True, matching_records=matching_records),
        bound_feed(policy),
        "/nowhere/out",
        runner,
        streaming=streaming,
        matching_records=matching_records,
    )
    return pipeline.to_runner_api()


@pytest.mark.parametrize("matching_records", [False, True])
def test_the_solving_task_keeps_its_name(matching_records: bool) -> None:
    """Flink names a task by its steps if they stand in one part of the pipeline, else by the parts: alerts and the
    terminal look for "Solve". A step joins the task before it unless somebody who reads the same rows cannot."""
    steps = job_graph(
        "FlinkRunner", streaming=True, matching_records=matching_records
    ).components.transforms.values()
    solve = next(step for step in steps if step.unique_name.endswith("Solve/ParDo(SolveWindows)"))
    fused, outputs = {solve.unique_name}, list(solve.outputs.values())
    while outputs:
        output = outputs.pop()
        readers = [step for step in steps if output in step.inputs.values() and not step.subtransforms]
        if all(_joins(step, steps) for step in readers):
            fused |= {step.unique_name for step in readers}
            outputs += [name for step in readers for name in step.outputs.values()]
    assert len(fused) > 5
    assert {name.partition("/")[0] for name in fused} == {"KAnonymize"}
    # Time reaches the end of the feed without a row: a step of its own would be sent every release once more.
    assert "KAnonymize/Silence/Keyed" in fused


def _joins(step: Any, steps: Any) -> bool:
    """Whether a step can run in the task of what it reads from."""
    if step.spec.urn == "beam:transform:pardo:v1":
        payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
        return not (payload.state_specs or payload.timer_family_specs or _is_inside(step, steps))
    joining = ("beam:transform:flatten:v1", "beam:transform:window_into:v1")
    return step.spec.urn in joining and not _is_inside(step, steps)


class Once:
    """A feed of one chunk."""

    def open(self) -> Once:
        return self

    def read(self, position: bytes, max_rows: int) -> Chunk:
        return Chunk((), b"end", None, more=False, done=True)

    def close(self) -> None:
        pass


class Tap:
    """A feed that gives ``chunks`` chunks with more to come, and then has nothing for now."""

    def __init__(self, chunks: int) -> None:
        self.left = chunks

    def open(self) -> Tap:
        return self

    def read(self, position: bytes, max_rows: int) -> Chunk:
        self.left -= 1
        return Chunk((), position + b".", 7_000, more=self.left > 0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("chunks", [1, 3])
def test_between_two_bundles_of_a_source_nothing_is_read(chunks: int) -> None:
    """Flink drops the watermark of a bundle whose rest begins at once; it takes whole seconds of delay only."""
    do_fn = _Poll(Tap(chunks), out_of_orderness_ms=1_000)
    tracker = ThreadsafeRestrictionTracker(_PROVIDER.create_tracker(_PROVIDER.initial_restriction(b"feed")))
    watermark = ManualWatermarkEstimator(None)
    assert list(do_fn.process(b"feed", RestrictionTrackerView(tracker), watermark)) == []
    status = tracker.deferred_status()
    assert status is not None
    rest, delay = status
    assert (rest.at, rest.done) == (b"." * chunks, False)
    assert int(delay.micros // 1_000_000) == PAUSE_SECONDS == 1
    assert watermark.current_watermark() == Timestamp(6)


def test_a_bundle_of_a_busy_source_ends_in_time() -> None:
    """Also where there is always more to read."""
    do_fn = _Poll(Tap(10**9), out_of_orderness_ms=0)
    ticks = iter(range(100))
    do_fn._clock = lambda: BUNDLE_SECONDS / 4 * next(ticks)
    tracker = ThreadsafeRestrictionTracker(_PROVIDER.create_tracker(_PROVIDER.initial_restriction(b"feed")))
    list(do_fn.process(b"feed", RestrictionTrackerView(tracker), ManualWatermarkEstimator(None)))
    status = tracker.deferred_status()
    assert status is not None
    assert status[0].at == b"...."


def test_the_end_is_told_once_time_has_ended(tmp_path: Path) -> None:
    """The file appears when every sink's watermark is at the end."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        sinks = tuple((pipeline | f"{n}" >> ReadPolled(Once(), 0)).rows for n in range(2))
        _ = sinks | Silence() | TellEnd(str(tmp_path), lambda: durable_boundary("FnApiRunner"))
        (tmp_path / "restricted").mkdir()
        assert not Path(end_file(str(tmp_path))).exists()
    assert Path(end_file(str(tmp_path))).exists()


def test_a_summary_counts_files(tmp_path: Path) -> None:
    """Released and rejected rows of whatever stands in the output, by reason."""
    feed, output = tmp_path / "feed", tmp_path / "out"
    feed.mkdir()
    policy = feed_policy(max_delay="1h")
    rows = hourly(3, 40, 30)
    names = [name for name in rows[0] if name != "event"]
    lines = [",".join(names), *(",".join(str(row[name]) for name in names) for row in rows), "broken"]
    (feed / "a.csv").write_text("\n".join(lines) + "\n")
    (feed / "_END").touch()
    make_output_directories(str(output), policy)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        connect(
            pipeline,
            ReadPolled(ArrivingFiles(str(feed), bound_feed(policy)), policy.out_of_orderness_ms),
            kanonymize(bound_feed(policy), SECRET, watermark_waits=True),
            bound_feed(policy),
            str(output),
            streaming=True,
        )
    summary = summarize_stream(str(output))
    assert summary.releases == 3
    assert summary.rejected["unparseable"] == 1
    assert summary.rows_released + sum(summary.rejected.values()) == len(rows) + 1
    assert "rows released" in summary.render()
    assert Path(end_file(str(output))).exists()


def test_jobs_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that still run are cancelled; the latest of a name says how it ended."""
    jobs = [
        {"jid": "a", "name": "n", "state": "RUNNING", "start-time": 1},
        {"jid": "b", "name": "n", "state": "CANCELED", "start-time": 2},
        {"jid": "c", "name": "other", "state": "RUNNING", "start-time": 3},
    ]
    asked: list[tuple[str, str]] = []

    def ask(method: str, url: str) -> Any:
        asked.append((method, url))
        return json.loads(json.dumps({"jobs": jobs}))

    monkeypatch.setattr(flink_jobs, "ask", ask)
    assert flink_jobs.cancel_jobs("host:1", "n") == 1
    assert asked[1:] == [("PATCH", "http://host:1/jobs/a?mode=cancel")]
    assert flink_jobs.was_stopped("host:1", "n")
    assert not flink_jobs.was_stopped("host:1", "other")
    assert not flink_jobs.was_stopped("host:1", "nobody")


def test_a_name_that_is_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a feed ends, its job is cancelled by name, and its namesake would be too."""
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed/a.csv").write_text("who,when,age,job,town,amount,reference\n")
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "policy.yaml").write_text(policy_text())
    monkeypatch.setattr(stream, "is_alive", lambda address, name: (address, name) == ("there:8081", "mine"))
    command = ["stream", "--policy", "policy.yaml", "--source", "feed", "--output", "out", "--unmeasured"]
    command += ["--secret-file", "secret", "--runner", "FlinkRunner", "--flink_master=there:8081"]
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--job_name=mine"]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("runner", "flags", "goes_on"),
    [
        ("FlinkRunner", ["--flink_master=there:8081", "--savepoint_path=file:///s"], True),
        ("FlinkRunner", ["--flink_master=there:8081"], False),
        ("FlinkRunner", ["--flink_master=[local]", "--savepoint_path=file:///s"], False),
        ("FlinkRunner", ["--savepoint_path=file:///s"], False),
        ("DataflowRunner", ["--update"], True),
        ("DataflowRunner", ["--savepoint_path=file:///s"], False),
    ],
)
def test_what_counts_as_state(runner: str, flags: list[str], goes_on: bool) -> None:
    """An embedded cluster ignores a savepoint and would read the feed from its beginning."""
    options: Any = argparse.Namespace(rewind=False, runner=runner, beam_flags=tuple(flags))
    assert stream.stream_start(options, "job", None).from_state is goes_on  # type: ignore[arg-type]
