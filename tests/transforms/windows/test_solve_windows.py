"""The stateful step: its bags, its timer, its outputs, driven by hand and on every kind of runner."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing import test_stream as stepped
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.sinks.sinks import WriteMetrics, WriteRejected, WriteReleases
from tests.driven_partitions import DrivenPartitions, SteppedPartitions
from tests.runners import bounded_pipeline, loopback_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, hourly, row

pytestmark = pytest.mark.thorough

DELAYED = feed_policy(max_delay="2h")
TOWNS = ("Bonn", "Kiel")


def driven(policy: Policy) -> DrivenPartitions:
    """The step over a policy."""
    return DrivenPartitions(bound_feed(policy), SECRET)


def people(first: int, count: int, hour: float) -> list[Row]:
    """One row each of ``count`` people; the references begin at ``first``."""
    return [row(first + number, number, hour) for number in range(count)]


def test_forty_windows_share_sixteen_bags() -> None:
    """All of them pending at once: each release has the rows of its own hour and no others."""
    step = driven(feed_policy(protect="row"))
    feed = hourly(40, 8, 30)
    step.send(feed[::2])
    step.send(feed[1::2])
    step.finish()
    assert len(step.released) == 40
    for hour, (release, table) in enumerate(zip(step.released, step.tables(), strict=True)):
        assert release.window_end == START + (hour + 1) * HOUR
        hours = {int(name[1:]) // 8 for name in table.column("reference").to_pylist()}
        assert hours == {hour}


def test_a_release_leaves_the_rows_of_later_windows_in_its_bag() -> None:
    """Windows n, n + 16 and n + 32 share a bag; late rows of window n - 1 join them there."""
    step = driven(DELAYED)
    step.send(people(0, 4, 0.5))
    step.advance(START + HOUR)
    step.send([*people(10, 4, 1.5), *people(20, 4, 17.5), *people(30, 4, 33.5)])
    step.send([row(40, 8, 0.6)])
    step.advance(START + 2 * HOUR)
    assert len(step.published()) == 9
    assert step.in_bags() == 8
    step.finish()
    assert [table.num_rows for table in step.tables()] == [4, 5, 4, 4]


def test_a_late_row_that_finds_no_release_is_rejected_at_its_deadline() -> None:
    """Rows of a later window that share its bag stay there, and go out in their own hour."""
    step = driven(DELAYED)
    step.send(people(0, 4, 0.5))
    step.advance(START + HOUR)
    step.send(people(20, 4, 17.5))
    step.send([row(40, 8, 0.6)])
    step.advance(START + 3 * HOUR - 1)
    assert not step.refused()
    step.advance(START + 3 * HOUR)
    assert step.refused() == [("r40", "late")]
    assert step.in_bags() == 4
    step.finish()
    assert [table.num_rows for table in step.tables()] == [4, 4]


def test_late_rows_wait_behind_an_expiry_for_the_next_release() -> None:
    """A late batch is read when the first deadline comes; what is not due yet still joins the next release."""
    step = driven(feed_policy(max_delay="4h"))
    step.send([*people(0, 4, 0.5), *people(10, 4, 2.5)])
    step.advance(START + 3 * HOUR)
    step.send([row(40, 8, 0.6)])
    step.send([row(41, 8, 1.6)])
    step.advance(START + 5 * HOUR)
    assert step.refused() == [("r40", "late")]
    assert step.waiting() == 1
    step.send(people(50, 4, 5.5))
    step.finish()
    assert "r41" in step.tables()[-1].column("reference").to_pylist()
    assert step.released[-1].window_start == START + HOUR


def test_an_expiry_leaves_the_rows_of_the_window_that_is_open() -> None:
    """Late rows lie in the bag of the window to come, beside its own rows; only the late ones are due."""
    step = driven(feed_policy(max_delay="90m"))
    step.send(people(0, 4, 1.5))
    step.advance(START + 2 * HOUR)
    step.send([row(40, 8, 0.6), *people(20, 4, 2.2)])
    step.advance(START + 2 * HOUR + HOUR // 2)
    assert step.refused() == [("r40", "late")]
    assert (step.waiting(), step.in_bags()) == (0, 4)
    step.finish()
    assert [table.num_rows for table in step.tables()] == [4, 4]


def test_windows_stay_open_for_out_of_orderness() -> None:
    """A row that comes within it is not late."""
    step = driven(feed_policy(out_of_orderness="10m"))
    step.send(people(0, 4, 0.5))
    step.advance(START + HOUR + 599_999)
    assert not step.released
    step.send([row(9, 9, 0.9)])
    step.advance(START + HOUR + 600_000)
    assert len(step.published()) == 5


def test_rows_that_nothing_may_take_are_refused_with_files_of_their_own() -> None:
    """Without max_delay a late batch is refused at once; two equal batches have two names, a retry the same one."""
    step = driven(feed_policy())
    step.send(people(0, 4, 0.5))
    step.advance(START + HOUR)
    before = step.copy()
    for _ in range(2):
        step.send([row(5, 5, 0.7)])
        before.send([row(5, 5, 0.7)])
    assert step.refused() == [("r5", "late")] * 2
    assert len({rejected.name for rejected in step.rejected}) == 2
    assert before.rejected == step.rejected
    assert all(rejected.name for rejected in step.rejected)


def test_state_is_dropped_when_nobody_used_it_for_state_ttl() -> None:
    """Warm state goes, the timer with it; the release counter stays, so that no slot is used again."""
    step = driven(feed_policy(state_ttl="5h"))
    step.send(people(0, 6, 0.5))
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    assert cells.state().cohorts.people.size == 6
    step.advance(START + 6 * HOUR - 1)
    assert cells.warm.value is not None
    step.advance(START + 6 * HOUR)
    assert (cells.warm.value, cells.due.at) == (None, None)
    step.send(people(10, 6, 9.5))
    step.finish()
    assert [record["release_no"] for record in step.metrics] == [0, 0]
    assert not step.metrics[1]["warm"]


def test_cohorts_forget_whoever_stayed_away_for_state_ttl() -> None:
    """A busy partition forgets single people, and the classes they were in."""
    step = driven(feed_policy(state_ttl="3h"))
    step.send(people(0, 6, 0.5))
    for hour in range(1, 6):
        step.send([row(10 * hour + number, 20 + number, hour + 0.5) for number in range(4)])
    step.advance(START + 6 * HOUR)
    (cells,) = step.cells.values()
    cohorts = cells.state().cohorts
    assert cohorts.people.size == 4
    assert min(end for end, _, _ in cohorts.history) >= START + 3 * HOUR


def test_a_finished_feed_leaves_nothing_behind() -> None:
    """At the end of input no timer is armed, no row waits, no bag holds any."""
    step = driven(feed_policy(max_delay="3h", towns=True))
    for hour in (3, 1, 2, 0):
        step.send([each for each in hourly(4, 5, 9, towns=TOWNS) if int(each["reference"][1:]) // 5 == hour])
        step.advance(START + (hour + 1) * HOUR)
    step.finish()
    assert (step.waiting(), step.in_bags()) == (0, 0)
    assert all(cells.due.at is None for cells in step.cells.values())


def test_every_output_has_a_name_of_its_own() -> None:
    """No release slot is used twice, no file of metrics or rejected rows overwrites another."""
    step = driven(feed_policy(max_delay="1h", towns=True))
    feed = hourly(8, 6, 5, towns=TOWNS)
    for start in range(0, len(feed), 12):
        step.send(feed[start : start + 12])
        step.advance(START + (start // 6 + 2) * HOUR)
        step.send(
            [{**each, "reference": f"late {each['reference']}"} for each in feed[max(0, start - 6) : start]]
        )
    step.finish()
    for names in (
        [release.release_id for release in step.released],
        [record["release_id"] for record in step.metrics],
        [rejected.name for rejected in step.rejected],
        [(record["partition"], record["window_end"], record["release_no"]) for record in step.metrics],
    ):
        assert max(Counter(names).values()) == 1


def test_a_timer_that_fires_without_a_cause_does_nothing() -> None:
    """Runners may fire a timer that was cleared."""
    step = driven(feed_policy())
    step.send(people(0, 4, 0.5))
    step.finish()
    (key,) = step.cells
    before = step.copy()
    step.fire(key)
    assert len(step.released) == 1
    assert step.cells[key].clock.value == before.cells[key].clock.value


def in_memory(rows: Sequence[Row], folder: Path, policy: Policy) -> None:
    """The releases of the step alone, without Beam, written by the sinks' own functions."""
    step = SteppedPartitions(bound_feed(policy), SECRET)
    step.send(rows)
    step.finish()
    make_output_directories(str(folder), policy)
    with bounded_pipeline() as pipeline:
        releases = pipeline | "Releases" >> beam.Create(step.released, reshuffle=False)
        releases | WriteReleases(str(folder), bound_feed(policy))
        rejected = [RejectedRows(*each) for each in step.rejected]
        pipeline | "Rejected" >> beam.Create(rejected, reshuffle=False) | WriteRejected(str(folder))


def write(records: beam.PCollection, folder: Path, policy: Policy) -> None:
    """Anonymize and write."""
    make_output_directories(str(folder), policy)
    out = records | KAnonymize(policy, SECRET, threads=1)
    out.released | WriteReleases(str(folder), bound_feed(policy))
    out.metrics | WriteMetrics(str(folder), policy)
    out.rejected | WriteRejected(str(folder))


def on_bounded_runner(rows: Sequence[Row], folder: Path, policy: Policy) -> None:
    """A batch job."""
    with bounded_pipeline() as pipeline:
        write(pipeline | beam.Create(rows), folder, policy)


def on_job_service(rows: Sequence[Row], folder: Path, policy: Policy) -> None:
    """A portable job, through gRPC."""
    with loopback_pipeline() as pipeline:
        write(pipeline | beam.Create(rows), folder, policy)


def on_stream(rows: Sequence[Row], folder: Path, policy: Policy) -> None:
    """A stream: the rows of each hour backwards, then the watermark moves on by an hour."""
    on_steps([[*hour_of(rows, hour)[::-1]] for hour in range(9)], folder, policy)


def hour_of(rows: Sequence[Row], hour: int) -> list[Row]:
    """The rows of one hour of a feed that begins at START."""
    return [each for each in rows if f"T{hour:02}:" in str(each["when"])]


def on_steps(steps: Sequence[Sequence[Row]], folder: Path, policy: Policy) -> None:
    """A stream: before the n-th hour ends, the rows of step n arrive."""
    stream = stepped.TestStream()
    for hour, rows in enumerate(steps):
        end = START // 1000 + (hour + 1) * 3600
        if rows:
            stream.add_elements(list(rows), event_timestamp=Timestamp(end - 1))
        stream.advance_watermark_to(Timestamp(end + 1))
    with streaming_pipeline() as pipeline:
        write(pipeline | stream.advance_watermark_to_infinity(), folder, policy)


def files(folder: Path, kind: str) -> dict[str, bytes]:
    """What a run wrote."""
    return {path.name: path.read_bytes() for path in (folder / kind).glob("*.avro")}


Run = Callable[[Sequence[Row], Path, Policy], None]
RUNS: dict[str, Run] = {"bounded": on_bounded_runner, "stream": on_stream, "job service": on_job_service}
POLICIES = {
    "classes": feed_policy(towns=True, max_delay="2h"),
    "people": feed_policy(towns=True, max_delay="2h", protect="row"),
}


@pytest.mark.parametrize("shape", POLICIES)
@pytest.mark.parametrize("run", RUNS)
def test_every_runner_gives_the_same_releases(shape: str, run: str, tmp_path: Path) -> None:
    """Batch, stream and portable job write the files that the step makes in memory, byte for byte."""
    policy = POLICIES[shape]
    feed = hourly(5, 9, 12, seed=3, towns=TOWNS)
    feed += [row(100, 1, 5.2), row(101, 2, 5.3)]
    in_memory(feed, tmp_path / "expected", policy)
    RUNS[run](feed, tmp_path / "run", policy)
    expected = files(tmp_path / "expected", "release")
    assert len(expected) >= 8
    assert files(tmp_path / "run", "release") == expected
    rejected = files(tmp_path / "run", "restricted/rejected")
    assert rejected == files(tmp_path / "expected", "restricted/rejected")
    assert rejected


def test_a_stream_with_late_rows_does_what_the_step_does(tmp_path: Path) -> None:
    """Late rows join the next release or are rejected, on a runner with a watermark of its own."""
    policy = feed_policy(max_delay="1h", protect="row")
    feed = hourly(4, 7, 12, seed=5)
    steps = [hour_of(feed, hour) for hour in range(4)]
    steps[2] = [*steps[2], row(200, 20, 1.5), row(201, 21, 0.5)]
    step = driven(policy)
    for hour, rows in enumerate(steps):
        step.send(rows)
        step.advance(START + (hour + 1) * HOUR + 1000)
    step.finish()
    assert step.refused() == [("r201", "late")]
    assert "r200" in step.tables()[2].column("reference").to_pylist()
    on_steps(steps, tmp_path, policy)
    assert set(files(tmp_path, "release")) == {f"{release.release_id}.avro" for release in step.released}
    assert set(files(tmp_path, "restricted/rejected")) == {f"{each.name}.avro" for each in step.rejected}


def test_the_step_shows_no_secret_and_no_value(caplog: pytest.LogCaptureFixture) -> None:
    """Not in its representation, its display data or a log line of a run."""
    with caplog.at_level(logging.DEBUG), contextlib.suppress(RuntimeError):
        step = driven(dataclasses.replace(feed_policy()))
        step.send(people(0, 4, 0.5))
        step.finish()
    display = beam.transforms.display.DisplayData.create_from(beam.ParDo(step.step))
    shown = caplog.text + repr(step.step) + str(vars(step.step)) + str(display.items)
    assert bytes(range(7, 39)).hex() not in shown
    assert repr(bytes(range(7, 39)))[2:-1] not in shown
    assert "p3" not in caplog.text
