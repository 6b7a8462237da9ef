"""What the terminal tells of a job, against a cluster that only answers: state, failures, time, rows, releases."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
import pytest

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.flink.failures import cause_of, restore_refusal
from kanonflow.pipelines.flink.job_watch import (
    GONE_SECONDS,
    LOOK_SECONDS,
    QUIET_SECONDS,
    JobManagerGoneError,
    JobWatch,
    LeftRunning,
)
from kanonflow.pipelines.flink.temporary_folder import private_temporary_folder
from kanonflow.pipelines.options.options import OptionsError, RunOptions, beam_options
from kanonflow.pipelines.run_records.run_directory import NotBegunError, StreamStart
from kanonflow.pipelines.runs import stream
from kanonflow.pipelines.runs.anonymize_files import RunFailedError, beam_log
from kanonflow.pipelines.terminal.stream_notices import StreamNotices
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.lineage.release_lineage import Slot
from tests.small_feeds import feed_policy

pytestmark = pytest.mark.thorough

START = 1_709_251_200_000
FEEDS_ROW = "hunter2"
TRACE = f"""java.util.concurrent.CompletionException: java.lang.RuntimeException: Error received from SDK harness
Caused by: org.apache.beam.vendor.grpc.v1p60p1.io.grpc.StatusRuntimeException: CANCELLED: {FEEDS_ROW}
Traceback (most recent call last):
  File "x.py", line 1, in f
    raise ValueError("{FEEDS_ROW}")
ValueError: {FEEDS_ROW}
"""
OURS = f"""java.lang.RuntimeException: {FEEDS_ROW}
kanonflow.schemas.errors.InputError: feed: the file a.csv changed while it was read [while running 'Read/Poll']
"""


class Cluster:
    """A JobManager's answers, by path; a path that is not there is a 404."""

    def __init__(self) -> None:
        self.paths: dict[str, Any] = {"/jobs/overview": {"jobs": []}}
        self.address = ""
        self.stop: Callable[[], None] = lambda: None

    def runs(self, state: str = "RUNNING", job: str = "a1") -> None:
        """A job of the name ``mine`` with all that is asked of it."""
        self.paths["/jobs/overview"] = {
            "jobs": [{"jid": job, "name": "mine", "state": state, "start-time": 5}]
        }
        base = f"/jobs/{job}"
        solve, read = {"id": "v1", "name": "[5]KAnonymize/{Solve}"}, {"id": "v2", "name": "[7]{Read}"}
        self.paths |= {
            base: {"state": state, "vertices": [solve, read]},
            f"{base}/exceptions": {"exceptionHistory": {"entries": []}},
            f"{base}/checkpoints": {"latest": {"completed": {"external_path": "file:/c/chk-7"}}},
            f"{base}/vertices/v1/watermarks": [{"value": str(START)}, {"value": str(START + 5)}],
            f"{base}/vertices/v1/subtasks/metrics": [],
            f"{base}/vertices/v2/subtasks/metrics": [{"id": "[7]{Read}.kanonflow_rows_read", "sum": 1234.0}],
        }

    def fails(self, *traces: str) -> None:
        """The job's history of failures."""
        entries = [
            {"exceptionName": "java.lang.Exception", "stacktrace": trace, "timestamp": START + number}
            for number, trace in enumerate(traces)
        ]
        self.paths["/jobs/a1/exceptions"] = {"exceptionHistory": {"entries": entries[::-1]}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One that answers until it is stopped."""
    told = Cluster()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = told.paths.get(urlsplit(self.path).path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.address = f"127.0.0.1:{server.server_address[1]}"

    def stop() -> None:
        server.shutdown()
        server.server_close()

    told.stop = stop
    yield told
    if told.paths:
        server.shutdown()
        server.server_close()


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watch_of(cluster: Cluster | None, folder: Path | None = None) -> tuple[JobWatch, Clock, io.StringIO]:
    """A watch with its clock and its terminal."""
    clock, terminal = Clock(), io.StringIO()
    address = None if cluster is None else cluster.address
    watch = JobWatch("mine", address, folder, terminal, clock=clock, now=lambda: 0.0)
    return watch, clock, terminal


def look(watch: JobWatch, clock: Clock, terminal: io.StringIO, seconds: float = LOOK_SECONDS) -> list[str]:
    """What is told after so long."""
    clock.now += seconds
    before = len(terminal.getvalue())
    watch.look()
    return terminal.getvalue()[before:].splitlines()


def look_for_ever(watch: JobWatch, clock: Clock, terminal: io.StringIO) -> None:
    """Until something is raised."""
    while True:
        look(watch, clock, terminal)


def release(folder: Path, name: str, rows: int, end: int) -> None:
    """A metrics file."""
    fields = [
        {"name": "released", "type": "int"},
        {"name": "rows_released", "type": "int"},
        {"name": "window_end", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ]
    schema = {"type": "record", "name": "M", "fields": fields}
    with (folder / f"{name}.avro").open("wb") as out:
        fastavro.writer(out, schema, [{"released": 1, "rows_released": rows, "window_end": end}])


def test_a_line_comes_on_change_and_now_and_then(cluster: Cluster, tmp_path: Path) -> None:
    """No terminal is needed: state, rows, watermark, releases; what was released before does not count."""
    release(tmp_path, "old", 5, START)
    watch, clock, terminal = watch_of(cluster, tmp_path)
    assert look(watch, clock, terminal) == ["00:00:00 submitted, 0 releases with 0 rows"]
    cluster.runs()
    line = "00:00:00 running, 1,234 rows read since it started, watermark 2024-03-01 00:00:00 UTC, "
    assert look(watch, clock, terminal) == [f"{line}0 releases with 0 rows"]
    assert look(watch, clock, terminal) == []
    assert look(watch, clock, terminal, QUIET_SECONDS) == [f"{line}0 releases with 0 rows"]
    release(tmp_path, "new", 1000, START + 3_600_000)
    last = "the last of the window to 2024-03-01 01:00:00 UTC"
    assert look(watch, clock, terminal) == [f"{line}1 releases with 1,000 rows, {last}"]
    cluster.runs("RESTARTING")
    assert "restarting" in look(watch, clock, terminal)[0]


def test_failures_are_told_once_without_a_value(cluster: Cluster) -> None:
    """Class names and our own messages; Flink's trace holds those of a worker, and they what they like."""
    watch, clock, terminal = watch_of(cluster)
    cluster.runs()
    cluster.fails(TRACE)
    first, _ = look(watch, clock, terminal)
    assert (
        "the job failed at 2024-03-01 00:00:00 UTC: StatusRuntimeException (ValueError in a worker)" in first
    )
    cluster.fails(TRACE, OURS)
    (second,) = look(watch, clock, terminal)
    assert second.endswith("feed: the file a.csv changed while it was read")
    assert look(watch, clock, terminal) == []
    assert FEEDS_ROW not in terminal.getvalue()
    assert cause_of({"exceptionName": "a.b.TimeoutException"}) == "TimeoutException"


def test_a_job_manager_that_is_gone_is_said_in_time(cluster: Cluster) -> None:
    """Within half a minute, with the way back; a short silence is none, and a refusal is an answer."""
    watch, clock, terminal = watch_of(cluster)
    cluster.runs()
    look(watch, clock, terminal)
    cluster.paths["/jobs/overview"] = None
    del cluster.paths["/jobs/a1"]
    for _ in range(20):
        look(watch, clock, terminal)
    cluster.stop()
    cluster.paths = {}
    began = clock.now
    with pytest.raises(JobManagerGoneError) as gone:
        look_for_ever(watch, clock, terminal)
    assert GONE_SECONDS <= clock.now - began <= 30
    assert gone.value.exit_code == 3
    assert "--savepoint_path=file:/c/chk-7" in str(gone.value)
    with pytest.raises(JobManagerGoneError):
        watch.refuse_if_gone(sleep=lambda seconds: setattr(clock, "now", clock.now + seconds))


def test_an_interrupt_says_what_goes_on(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The job, where it is and how to stop it, and exit code 130; never the job of that name that ended before."""
    cluster.runs(job="old")
    watch, _, _ = watch_of(cluster)
    assert "may be on its way" in str(watch.left())
    cluster.runs(job="a1")
    told = watch.left()
    assert f"the job mine goes on at http://{cluster.address}/#/job/a1; stop it with" in str(told)
    nowhere, _, terminal = watch_of(None)
    assert "ended with it" in str(nowhere.left())
    nowhere.elsewhere = True
    assert "the job mine goes on in its service" in str(nowhere.left())
    nowhere.look()
    assert terminal.getvalue() == ""

    def interrupted(*_: Any, **__: Any) -> None:
        raise told

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kanonflow.pipelines.runs.stream.stream_feed", interrupted)
        patch.setattr("kanonflow.pipelines.commands.policy_location.read_policy_at", lambda _: feed_policy())
        code = main(["stream", "--policy", "p", "--source", "feed", "--output", "out", "--unmeasured"])
    assert (code, capsys.readouterr().err) == (130, f"kanonflow: {told}\n")


class Result:
    """A job server's job, which tells of one state after the other; the last one may be an exception."""

    def __init__(self, *states: Any) -> None:
        self.states = list(states)

    @property
    def state(self) -> Any:
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(found, BaseException):
            raise found
        return found

    def wait_until_finish(self) -> None:
        raise RuntimeError(
            "Cannot map checkpoint/savepoint state for operator abc to the new program: hunter2"
        )


@pytest.mark.parametrize(
    ("states", "kind", "said"),
    [
        (["RUNNING", KeyboardInterrupt()], LeftRunning, "goes on at"),
        (
            ["FAILED"],
            RunFailedError,
            "does not begin from the savepoint: the savepoint holds state of a step",
        ),
    ],
)
def test_how_a_stream_that_does_not_end_is_told(
    tmp_path: Path,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    states: list[Any],
    kind: type,
    said: str,
) -> None:
    """Ctrl-C, and a savepoint that Flink refuses, in our words; what is parked is told before the end.

    What the first windows of an earlier job told is not about this one.
    """
    watch, _, _ = watch_of(cluster)
    cluster.runs("FAILED" if states == ["FAILED"] else "RUNNING")
    out = str(tmp_path / "out")
    make_output_directories(out, feed_policy())
    flags = (f"--flink_master={cluster.address}", "--savepoint_path=file:/s")
    options = RunOptions(out, "FlinkRunner", flags, True, True, None, None, None, None, None, None)
    start = StreamStart("topic", {"name": "mine", "cluster": cluster.address}, True, "", lambda _: False)
    monkeypatch.setattr(stream, "only_submits", lambda _: False)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.0)

    class Pipeline:
        options = None

        def run(self) -> Result:
            return Result(*states)

    pipeline: Any = Pipeline()
    terminal = io.StringIO()
    earlier = tmp_path / "out/restricted/measured.json"
    earlier.write_text('{"said": "of another job"}')
    PublishedSlots(out, feed_policy()).park(Slot(b"\x01", 0, 0, "id", "digest", 1), None)
    with pytest.raises(kind, match=said) as raised:
        stream._run_until_end(pipeline, options, start, watch, StreamNotices(out, terminal))
    assert ("01 is parked" in terminal.getvalue()) == (states != ["FAILED"])
    assert not earlier.exists()
    assert not isinstance(raised.value, NotBegunError)
    assert FEEDS_ROW not in str(raised.value)


def test_flinks_refusals_have_our_words() -> None:
    """Each of those that the runbook knows; something else is none."""
    refusals = {
        "Cannot map checkpoint/savepoint state for operator 12": "state of a step",
        "The maximum parallelism (4) with which the latest checkpoint": "pipeline.max-parallelism",
        "Cannot find checkpoint or savepoint file/directory 'x' on file system 'file'.": "--savepoint_path",
        "Cannot find meta data file '_metadata' in directory 'file:/x'": "--savepoint_path",
        "org.apache.flink.util.StateMigrationException: The new state": "job server",
    }
    for text, words in refusals.items():
        assert words in (restore_refusal(text) or "")
    assert restore_refusal("java.lang.OutOfMemoryError") is None


def test_beam_says_nothing_that_is_noise(tmp_path: Path) -> None:
    """A wrong value is one line and not the usage of every flag; flags that another parser knows are no warning."""
    with pytest.raises(OptionsError, match="--parallelism: invalid int value"):
        beam_options(["--parallelism=many"], "FlinkRunner")
    make_output_directories(str(tmp_path), feed_policy())
    with beam_log(str(tmp_path)):
        options = beam_options(["--checkpointing_interval=5", "--parallelism=1"], "FlinkRunner")
        options.get_all_options(display_warnings=True)
        options.get_all_options()
    assert "nparseable" not in (tmp_path / "restricted" / "beam.log").read_text()


def test_temporary_files_have_a_folder_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this process and of the job server, with the process; then everything is as it was."""
    left: list[Any] = []
    monkeypatch.setattr("atexit.register", lambda *how, **further: left.append((how, further)))
    before = tempfile.gettempdir()
    with private_temporary_folder(["--job_name=a"]) as flags:
        folder = tempfile.gettempdir()
        assert flags == (f"--job_server_jvm_properties=-Djava.io.tmpdir={folder}",)
        assert os.environ["TMPDIR"] == folder != before
        tempfile.mkstemp()
    assert tempfile.gettempdir() == before
    ((remove, *arguments), further) = left[0]
    remove(*arguments, **further)
    assert not Path(folder).exists()
