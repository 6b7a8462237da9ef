"""``kanonflow stop``: what ends a running stream, and what is refused."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition
from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles
from kanonflow.pipelines.feeds.polled_source import _PROVIDER, FeedGoneError, ReadPolled, _Poll
from kanonflow.pipelines.run_records import refused_state
from kanonflow.pipelines.run_records.refused_state import GoneFeedError, RefusedState
from kanonflow.pipelines.run_records.run_directory import RunDirectoryError, lock_directory
from kanonflow.pipelines.runs import stop_stream as stopping
from kanonflow.pipelines.runs.anonymize_files import RunFailedError, connect, kanonymize
from kanonflow.pipelines.runs.feed_end import end_file, stop_file
from kanonflow.pipelines.runs.stop_stream import stop_stream
from kanonflow.pipelines.runs.stream import summarize_stream
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases, OlderStateError, Remake
from kanonflow.transforms.lineage.published_slots import PublishedSlots, refusal_file
from kanonflow.transforms.lineage.release_lineage import Slot
from tests.small_feeds import HOUR, SECRET, bound_feed, feed_policy, hourly


@pytest.fixture
def output(tmp_path: Path) -> str:
    """The directory of a stream whose job is on a cluster."""
    (tmp_path / "restricted").mkdir()
    record = {"job": {"name": "mine", "cluster": "there:8081"}}
    (tmp_path / "restricted" / "run.json").write_text(json.dumps(record))
    return str(tmp_path)


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that were cancelled on a cluster where every job runs."""
    names: list[str] = []
    monkeypatch.setattr(stopping, "is_alive", lambda address, name: True)
    monkeypatch.setattr(stopping, "cancel_jobs", lambda address, name: names.append(name))
    monkeypatch.setattr(stopping, "POLL_SECONDS", 0.0)
    return names


class Ticks:
    """A clock that goes on by ten seconds whenever it is looked at. ends: the file that appears after three looks."""

    def __init__(self, ends: str | None = None) -> None:
        self._looks, self._ends = 0, ends

    def __call__(self) -> float:
        self._looks += 1
        if self._looks == 3 and self._ends is not None:
            Path(self._ends).touch()
        return 10.0 * self._looks


def test_a_feed_ends_where_it_is_when_somebody_asks(tmp_path: Path) -> None:
    """A directory without an end marker: all rows there are released or rejected, and the end is told."""
    feed, out = tmp_path / "feed", str(tmp_path / "out")
    feed.mkdir()
    policy = feed_policy(max_delay="1h")
    rows = hourly(3, 40, 30)
    with (feed / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "event"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    make_output_directories(out, policy)
    Path(stop_file(out)).touch()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        source = ArrivingFiles(str(feed), bound_feed(policy))
        connect(
            pipeline,
            ReadPolled(source, policy.out_of_orderness_ms, stop_file(out)),
            kanonymize(bound_feed(policy), SECRET, watermark_waits=True),
            bound_feed(policy),
            out,
            streaming=True,
        )
    summary = summarize_stream(out)
    assert summary.releases == 3
    assert summary.rows_released + sum(summary.rejected.values()) == len(rows)
    assert Path(end_file(out)).exists()


def test_an_end_stays_in_the_position_of_a_directory() -> None:
    """A position without an end is written as it always was."""
    position = ArrivalPosition(latest_ms=3)
    assert "ending" not in json.loads(position.encode())
    reader = ArrivingFiles("nowhere", bound_feed(feed_policy())).open()
    ending = ArrivalPosition.decode(reader.ending(position.encode()))
    assert ending == ArrivalPosition(latest_ms=3, ending=True)


def test_stop_waits_for_the_end_and_cancels_the_job(
    output: str, cancelled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The request is there before the wait; afterwards asking again changes nothing."""
    summary = stop_stream(output, clock=Ticks(end_file(output)))
    assert summary is not None
    assert (summary.releases, cancelled) == (0, ["mine"])
    assert stat.S_IMODE(Path(stop_file(output)).stat().st_mode) == 0o600
    assert main(["stop", output]) == 0
    assert "releases" in capsys.readouterr().out


def test_a_stream_that_does_not_run_cannot_be_stopped(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And no request is left behind: the next job of that directory would end unasked."""
    monkeypatch.setattr(stopping, "is_alive", lambda address, name: False)
    assert main(["stop", output]) == 2
    assert "mine does not run" in capsys.readouterr().err
    assert not Path(stop_file(output)).exists()
    assert main(["stop", str(tmp_path / "elsewhere")]) == 2
    assert "holds no stream" in capsys.readouterr().err


def test_a_job_that_ends_without_its_feed_is_a_failure(
    output: str, cancelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone, or no answer for a minute, or too late: said, and the request stays."""
    answers = iter([True, False])
    monkeypatch.setattr(stopping, "is_alive", lambda address, name: next(answers))
    with pytest.raises(RunFailedError, match="mine is gone, and its feed has not ended"):
        stop_stream(output, clock=Ticks())

    def away(address: str, name: str) -> bool:
        raise OSError

    monkeypatch.setattr(stopping, "is_alive", away)
    with pytest.raises(RunFailedError, match="gave no answer for 60 s"):
        stop_stream(output, clock=Ticks())
    monkeypatch.setattr(stopping, "is_alive", lambda address, name: True)
    with pytest.raises(RunFailedError, match="not ended within 50 s"):
        stop_stream(output, timeout_s=50, clock=Ticks())
    assert Path(stop_file(output)).exists()
    assert cancelled == []


def test_a_job_without_a_cluster_runs_while_its_command_does(output: str) -> None:
    """The directory's lock says so."""
    (Path(output) / "restricted" / "run.json").write_text(json.dumps({"job": {"name": "mine"}}))
    with pytest.raises(RunDirectoryError, match="does not run"):
        stop_stream(output)
    with lock_directory(f"{output}/restricted"), pytest.raises(RunFailedError, match="within 5 s"):
        stop_stream(output, timeout_s=5, clock=Ticks())


class Untouchable:
    """A feed of which nothing may be read."""

    def open(self) -> Untouchable:
        raise AssertionError("nothing may be read under a state that was refused")


def test_a_job_whose_state_was_refused_reads_nothing_and_is_cancelled(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink restarts it, and its first act is to end: nothing is read, time stands still, the job that run.json names
    is cancelled. A cluster that gives no answer, or none at all, leaves it idle."""
    cancelled: list[tuple[str, str]] = []
    monkeypatch.setattr(refused_state, "cancel_jobs", lambda *job: cancelled.append(job))
    bound = bound_feed(feed_policy())
    refusing = EarlierReleases(PublishedSlots(output, bound.policy), Remake.REFUSE)
    refused = RefusedState(output)
    refused.raise_it()
    refusing.slots.take(Slot(b"a", 5 * HOUR, 0, "r", "d", 1))
    with pytest.raises(OlderStateError):
        refusing.refuse_older(b"a", 4 * HOUR)

    def rest_of_a_poll() -> Any:
        tracker = ThreadsafeRestrictionTracker(
            _PROVIDER.create_tracker(_PROVIDER.initial_restriction(b"feed"))
        )
        watermark = ManualWatermarkEstimator(None)
        do_fn = _Poll(Untouchable(), 1_000, stop_file(output), refused)  # type: ignore[arg-type]
        for _ in range(2):
            assert list(do_fn.process(b"feed", RestrictionTrackerView(tracker), watermark)) == []
        assert watermark.current_watermark() is None
        rest, _ = tracker.deferred_status()  # type: ignore[misc]
        return rest

    assert (rest_of_a_poll().at, rest_of_a_poll().done) == (b"", False)
    assert set(cancelled) == {("there:8081", "mine")}

    def away(address: str, name: str) -> int:
        raise OSError

    monkeypatch.setattr(refused_state, "cancel_jobs", away)
    assert rest_of_a_poll().at == b""
    (Path(output) / "restricted" / "run.json").write_text(json.dumps({"job": {"name": "mine"}}))
    assert rest_of_a_poll().at == b""


def test_stop_says_that_the_state_was_refused(
    output: str, cancelled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who comes back to a detached job learns it, with the exit code that the command would have had."""
    Path(refusal_file(output)).write_text(json.dumps({"reason": "older, and what to do"}))
    assert main(["stop", output]) == 3
    assert "older, and what to do" in capsys.readouterr().err
    assert not Path(stop_file(output)).exists()


class Gone:
    """A feed that somebody has deleted: a source and its reader."""

    def open(self) -> Any:
        """Itself."""
        return self

    def read(self, position: bytes, max_rows: int) -> Any:
        """Nothing can be read."""
        raise FeedGoneError("kafka://there/rows, partition 0: it does not exist any more")

    def close(self) -> None:
        """Nothing to close."""


def test_a_feed_that_is_gone_ends_the_job_with_one_sentence(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first attempt fails and leaves the reason; the next one reads nothing and cancels the job, instead of failing
    for ever; the command and ``stop`` say the reason, once, with exit code 3."""
    ended: list[str] = []
    monkeypatch.setattr(refused_state, "cancel_jobs", lambda address, name: ended.append(name))
    monkeypatch.setattr(stopping, "is_alive", lambda address, name: True)
    refused = RefusedState(output)

    def attempt() -> list[Any]:
        tracker = ThreadsafeRestrictionTracker(
            _PROVIDER.create_tracker(_PROVIDER.initial_restriction(b"feed"))
        )
        do_fn = _Poll(Gone(), 1_000, stop_file(output), refused)
        return list(do_fn.process(b"feed", RestrictionTrackerView(tracker), ManualWatermarkEstimator(None)))

    with pytest.raises(FeedGoneError):
        attempt()
    assert ended == []
    assert attempt() == []
    assert ended == ["mine"]
    with pytest.raises(GoneFeedError, match="does not exist any more"):
        refused.raise_it()
    assert main(["stop", output]) == 3
    told = capsys.readouterr().err
    assert told.count("does not exist any more") == 1
    assert "Traceback" not in told
