"""The table at the end, and the progress display."""

import datetime as dt
import io
import time
from pathlib import Path

import pytest

from kanonflow.pipelines.terminal.progress import MetricsFollower, progress, work_words
from kanonflow.pipelines.terminal.summary import _still_waiting, summarize
from kanonflow.schemas.avro_schema import metrics_schema
from kanonflow.transforms.release.done_here import Done
from kanonflow.transforms.sinks.sinks import records_file
from tests.pass_through import metrics_record

DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def test_rows_that_still_wait_are_those_of_the_last_step() -> None:
    """Of each partition the latest window counts, whatever the order of the files."""
    metrics = [
        metrics_record("c", partition="1", window_end=DAY + dt.timedelta(2), release_no=2, rows_waiting=3),
        metrics_record("b", partition="1", window_end=DAY + dt.timedelta(2), release_no=1, rows_waiting=9),
        metrics_record("a", partition="1", window_end=DAY, rows_waiting=8),
        metrics_record("d", partition="2", rows_waiting=4),
    ]
    summary = summarize({"rows_read": 12, "rows_released": 3, "rows_rejected_late": 2}, metrics, 1.0)
    assert summary.rows_waiting == 7
    assert summary.rows_missing == 0
    assert summary.problems() == ()


def test_losses_are_means_over_released_rows() -> None:
    """Each window weighs as many rows as it released; windows that released nothing do not count."""
    metrics = [
        metrics_record("a", rows_released=30, gcp=0.1, lower_bound=0.05),
        metrics_record("b", rows_released=10, gcp=0.5, lower_bound=None),
        metrics_record("c", rows_released=0, released=False, gcp=None),
    ]
    summary = summarize({}, metrics, 1.0)
    assert summary.gcp == pytest.approx(0.2)
    assert summary.lower_bound == pytest.approx(0.05)
    assert "mean GCP 0.2000 never below 0.0500" in " ".join(summary.render().split())


def test_a_bound_that_says_nothing_is_not_told() -> None:
    """No loss is below 0."""
    metrics = [metrics_record("a", rows_released=30, gcp=0.1, lower_bound=0.00004)]
    assert "never below" not in summarize({}, metrics, 1.0).render()


def test_problems_name_their_numbers() -> None:
    """Lost rows and conflicts are problems."""
    summary = summarize({"rows_read": 5, "rows_released": 3, "release_conflict": 1}, [], 1.0)
    assert any("5 rows read, but 3 released" in problem for problem in summary.problems())
    assert any("1 release(s) exist already" in problem for problem in summary.problems())
    refused = summarize({"rows_read": 5, "rows_rejected_gate_refused": 5}, [], 1.0)
    assert any("the gate refused 5 rows" in problem for problem in refused.problems())


def test_shares_are_of_all_rows_at_hand() -> None:
    """Those that the run before left count, too: nothing is released of more rows than there were."""
    metrics = [metrics_record("a", rows_released=12)]
    counters = {"rows_read": 8, "rows_carried_in": 8, "rows_released": 12, "rows_rejected_late": 4}
    told = summarize(counters, metrics, 1.0).render()
    assert "12 (75.0%)" in told
    assert "4 (25.0%)" in told


def test_the_table_has_shares_of_time() -> None:
    """Reading, solving and publishing, each as seconds and as a share of the whole."""
    table = summarize({"read_microseconds": 500_000}, [metrics_record("a", solve_ms=1000.0)], 2.0).render()
    assert "0.5 s (25.0%)" in table
    assert "1.0 s (50.0%)" in table


def test_the_times_add_up_to_the_run() -> None:
    """What no part took is the rest, not the runner's alone; where parts are longer than the run, there is none."""
    metrics = [metrics_record("a", solve_ms=1000.0, publish_ms=200.0)]
    counters = {"read_microseconds": 300_000, "write_microseconds": 100_000}
    table = summarize(counters, metrics, 2.0).render()
    assert "  write        0.1 s (5.0%)" in table
    assert "  rest         0.4 s (20.0%)" in table
    resumed = summarize(counters, metrics, 1.0).render()
    assert "rest" not in resumed
    assert "  solve        1.0 s (of all workers, and of earlier runs)" in resumed


def test_the_follower_sees_each_window_once(tmp_path: Path) -> None:
    """Only complete files with the final name are read, and each once."""
    follower = MetricsFollower(tmp_path)
    assert follower.poll() == []
    data = records_file([metrics_record("a", rows_released=3)], metrics_schema(), "a")
    (tmp_path / ".a.avro.1.tmp").write_bytes(data[:10])
    (tmp_path / "a.avro").write_bytes(data)
    assert [record["rows_released"] for record in follower.poll()] == [3]
    assert follower.poll() == []


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_rows_windows_and_loss_on_a_terminal(tmp_path: Path) -> None:
    """What a window releases while the run goes on appears; nothing is shown in a pipe or when quiet."""
    shown, piped, quiet = _Terminal(), io.StringIO(), _Terminal()
    data = records_file([metrics_record("a", rows_released=1234)], metrics_schema(), "a")
    with progress(tmp_path, shown), progress(tmp_path, piped), progress(tmp_path, quiet, quiet=True):
        (tmp_path / "a.avro").write_bytes(data)
        time.sleep(0.8)
    assert "1,234 rows in 1 releases" in shown.getvalue()
    assert "GCP 0.1235" in shown.getvalue()
    assert piped.getvalue() == quiet.getvalue() == ""


def test_progress_is_told_before_anything_is_written() -> None:
    """Rows that were read, and windows that were solved, in this process; what a cluster does is told by its files."""
    assert work_words(Done(), Done(), "", "") == "begins"
    assert work_words(Done(20_000), Done(), "", "") == "20,000 rows read"
    assert work_words(Done(20_000, 2, 700), Done(0, 1, 300), "0.1", "") == (
        "20,000 rows read  700 rows in 2 releases  GCP 0.1"
    )
    assert (
        work_words(Done(), Done(0, 1, 300), "0.1", "9 people in")
        == "300 rows in 1 releases  GCP 0.1  9 people in"
    )


def test_of_a_slot_that_was_withheld_once_the_published_record_counts() -> None:
    """In whatever order the files are listed: what waits is what waited after the release that is out."""
    out = metrics_record("a", rows_waiting=3)
    withheld = metrics_record("a", rows_waiting=7, released=False)
    assert _still_waiting([out, withheld]) == _still_waiting([withheld, out]) == 3
