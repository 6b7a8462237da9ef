"""Work that fails half-way and is done again: on every kind of runner the same bytes, no row lost or published twice.

A failure is injected once, in the middle of a bundle: after a window was solved and before anything of it left the
step; after its release went on to the sink, but not its metrics; or in the sink itself, when the file is there and
nobody knows. A stream's runner puts state back and repeats the bundle. The bounded runner and Beam's job service have
no retries: the run fails, and a second run over the same folder, which is what ``--resume`` is, ends it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.testing import test_stream as stepped
from apache_beam.utils.timestamp import Timestamp

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.release import issue
from kanonflow.transforms.secret.seeds import Keystream
from kanonflow.transforms.sinks import sinks
from kanonflow.transforms.windows.solve_windows import SolveWindows
from tests.pipelines.runs import test_resume
from tests.runners import bounded_pipeline, loopback_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, hourly, row

pytestmark = pytest.mark.thorough

POLICIES = {
    "classes": feed_policy(towns=True, max_delay="2h"),
    "people": feed_policy(towns=True, max_delay="2h", protect="row"),
}
TOWNS = ("Bonn", "Kiel")
HOURS = 5


class InjectedError(Exception):
    """The failure."""


class Failure:
    """Fails at the n-th time that it is asked, and never again."""

    def __init__(self, nth: int) -> None:
        self.asked = 0
        self.nth = nth

    def strike(self) -> None:
        """Raises InjectedError, once."""
        self.asked += 1
        if self.asked == self.nth:
            raise InjectedError("injected")


def after_the_solve(failure: Failure, patch: pytest.MonkeyPatch) -> None:
    """A window is solved and matched; nothing of it has left the step."""
    emit = SolveWindows._emit

    def failing(self: SolveWindows, *told: Any) -> Iterator[Any]:
        (result,) = (each for each in told if hasattr(each, "release"))
        if result.release is not None:
            failure.strike()
        yield from emit(self, *told)

    patch.setattr(SolveWindows, "_emit", failing)


def after_the_release(failure: Failure, patch: pytest.MonkeyPatch) -> None:
    """The release went on, where a runner fuses steps up to its file; its metrics and rejected rows did not."""
    emit = SolveWindows._emit

    def failing(self: SolveWindows, *told: Any) -> Iterator[Any]:
        (result,) = (each for each in told if hasattr(each, "release"))
        outputs = list(emit(self, *told))
        yield outputs[0]
        if result.release is not None:
            failure.strike()
        yield from outputs[1:]

    patch.setattr(SolveWindows, "_emit", failing)


def after_the_file(failure: Failure, patch: pytest.MonkeyPatch) -> None:
    """A file is there under its name, and the sink did not get to say so."""
    create = sinks.create_if_absent

    def failing(*positional: Any, **named: Any) -> Any:
        outcome = create(*positional, **named)
        failure.strike()
        return outcome

    patch.setattr(sinks, "create_if_absent", failing)


FAILURES: dict[str, Callable[[Failure, pytest.MonkeyPatch], None]] = {
    "after the solve": after_the_solve,
    "after the release": after_the_release,
    "after the file": after_the_file,
}


def feed() -> list[Row]:
    """Five hours of two towns, and two rows that no release will take."""
    return [*hourly(HOURS, 9, 12, seed=3, towns=TOWNS), row(100, 1, 5.2), row(101, 2, 5.3)]


def write(records: beam.PCollection, folder: Path, policy: Policy) -> None:
    """Anonymize and write."""
    make_output_directories(str(folder), policy)
    out = records | KAnonymize(policy, SECRET, threads=1)
    written = out.released | sinks.WriteReleases(str(folder), bound_feed(policy))
    out.metrics | sinks.WriteMetrics(str(folder), policy)
    rejected = (out.rejected, written.conflicts) | "All" >> beam.Flatten()
    rejected | sinks.WriteRejected(str(folder))


def on_bounded_runner(folder: Path, policy: Policy) -> None:
    """A batch job."""
    with bounded_pipeline() as pipeline:
        write(pipeline | beam.Create(feed()), folder, policy)


def on_job_service(folder: Path, policy: Policy) -> None:
    """A portable job: Beam's job service, and this process as the worker (LOOPBACK)."""
    with loopback_pipeline() as pipeline:
        write(pipeline | beam.Create(feed()), folder, policy)


def on_stream(folder: Path, policy: Policy) -> None:
    """A stream, hour by hour, on a runner that repeats a bundle that failed."""
    stream = stepped.TestStream()
    for hour in range(HOURS + 1):
        end = START + (hour + 1) * HOUR
        rows = [each for each in feed() if f"T{hour:02}:" in str(each["when"])]
        stream.add_elements(rows, event_timestamp=Timestamp(end // 1000 - 1))
        stream.advance_watermark_to(Timestamp(end // 1000 + 1))
    with streaming_pipeline() as pipeline:
        write(pipeline | stream.advance_watermark_to_infinity(), folder, policy)


Run = Callable[[Path, Policy], None]
WITHOUT_RETRIES: dict[str, Run] = {"bounded": on_bounded_runner, "job service": on_job_service}


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The records of all files of a kind."""
    found: list[dict[str, Any]] = []
    for path in sorted((folder / kind).glob("*.avro")):
        with path.open("rb") as stream:
            found += fastavro.reader(stream)  # type: ignore[arg-type]
    return found


def files(folder: Path) -> dict[str, bytes]:
    """What a run published or rejected; metrics hold times, so of them only the names."""
    found = {}
    for kind in ("release", "restricted/rejected", "restricted/metrics"):
        for path in (folder / kind).iterdir():
            data = b"" if kind.endswith("metrics") else path.read_bytes()
            # Each run is an epoch of its own.
            found[f"{kind}/{path.name}"] = re.sub(rb'"epoch": ?"[0-9a-f]{16}"', b"", data)
    return found


def check_ledger(folder: Path) -> None:
    """Each row of the feed was released or rejected, once; the metrics of all windows add up to that."""
    released = [each["reference"] for each in records(folder, "release")]
    rejected = [each["row"]["reference"] for each in records(folder, "restricted/rejected")]
    assert Counter(released + rejected) == Counter(each["reference"] for each in feed())
    metrics = records(folder, "restricted/metrics")
    assert len({record["release_id"] for record in metrics}) == len(metrics)
    totals = {name: sum(record[name] for record in metrics) for name in ("rows_new", "rows_released")}
    assert totals == {"rows_new": len(feed()), "rows_released": len(released)}
    assert sum(sum(record["rows_rejected"].values()) for record in metrics) == len(rejected)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files of runs without a failure, by shape."""
    found = {}
    for shape, policy in POLICIES.items():
        folder = tmp_path_factory.mktemp("undisturbed") / shape
        on_bounded_runner(folder, policy)
        check_ledger(folder)
        found[shape] = files(folder)
        assert sum(name.startswith("release/") for name in found[shape]) >= 8
    return found


@pytest.mark.parametrize("shape", POLICIES)
@pytest.mark.parametrize("point", FAILURES)
@pytest.mark.parametrize("runner", WITHOUT_RETRIES)
def test_a_failed_run_that_is_repeated_is_byte_identical(
    runner: str,
    point: str,
    shape: str,
    undisturbed: dict[str, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the failed run left stands as it was; the second run adds what is missing, and nothing twice."""
    failure = Failure(3)
    FAILURES[point](failure, monkeypatch)
    run, policy = WITHOUT_RETRIES[runner], POLICIES[shape]
    with pytest.raises(Exception, match="injected"):
        run(tmp_path, policy)
    assert failure.asked >= 3
    left = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.avro")}
    assert {f"{path.parent.relative_to(tmp_path)}/{path.name}" for path in left} <= set(undisturbed[shape])
    assert len(left) < len(undisturbed[shape])
    run(tmp_path, policy)
    assert files(tmp_path) == undisturbed[shape]
    assert {path: path.stat().st_mtime_ns for path in left} == left
    check_ledger(tmp_path)


@pytest.mark.parametrize("shape", POLICIES)
@pytest.mark.parametrize("point", FAILURES)
def test_a_bundle_that_is_repeated_is_byte_identical(
    point: str,
    shape: str,
    undisturbed: dict[str, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The runner puts the state back and repeats the bundle: one run, the same files as without the failure."""
    failure = Failure(3)
    FAILURES[point](failure, monkeypatch)
    on_stream(tmp_path, POLICIES[shape])
    assert failure.asked > 3
    assert files(tmp_path) == undisturbed[shape]
    check_ledger(tmp_path)


def test_a_retry_that_draws_anew_publishes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What these tests would see of a publisher with fresh randomness: the second run makes other bytes, none of which
    comes out; the rows of the second version are rejected as a conflict, and the first files stay."""
    monkeypatch.setattr(issue, "publish_keystream", lambda *_: Keystream(os.urandom(32)))
    policy = POLICIES["people"]
    on_bounded_runner(tmp_path, policy)
    first = files(tmp_path)
    on_bounded_runner(tmp_path, policy)
    second = files(tmp_path)
    assert {name: second[name] for name in first} == first
    assert second != first
    reasons = {each["reason"] for each in records(tmp_path, "restricted/rejected")}
    assert "release_conflict" in reasons


@pytest.mark.parametrize("point", FAILURES)
def test_a_command_that_failed_resumes(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command over a file: it fails, is run again with --resume, and is the run that did not fail."""
    write_feed(FeedShape(rows=600, days=6, seed=3), tmp_path)
    (tmp_path / "p.yaml").write_text(test_resume.POLICY)
    (tmp_path / "secret").write_bytes(bytes(range(100, 140)))
    (tmp_path / "secret").chmod(0o600)
    assert cli.main(test_resume.arguments(tmp_path, "undisturbed")) == cli.DONE
    FAILURES[point](Failure(3), monkeypatch)
    assert cli.main(test_resume.arguments(tmp_path, "failed")) == cli.RUN_FAILED
    assert "InjectedError" in capsys.readouterr().err
    assert files(tmp_path / "failed") != files(tmp_path / "undisturbed")
    assert cli.main([*test_resume.arguments(tmp_path, "failed"), "--resume"]) == cli.DONE
    assert files(tmp_path / "failed") == files(tmp_path / "undisturbed")
