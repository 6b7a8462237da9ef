"""State that no runner could keep is refused in words, before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter

from kanonflow.transforms import anonymize
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.elements import Release
from kanonflow.transforms.windows.state_bytes import StateTooLargeError, most_state_bytes
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, row


def run(**head: Any) -> Any:
    """Ten people in an hour, who wait for an intake, and go with the next."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = [row(number, number % 10, number // 10 + 0.5) for number in range(20)]
    _ = pipeline | beam.Create(rows) | KAnonymize(feed_policy(cohort="lasting", max_delay="1h"), SECRET)
    result = pipeline.run()
    return result.metrics().query(MetricsFilter().with_name("state_bytes"))["gauges"]


def test_a_state_that_is_too_large_ends_the_run_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the partition by its key, what the state is made of, and what to change; nobody's values."""
    monkeypatch.setattr(anonymize, "most_state_bytes", lambda runner: 1000)
    with pytest.raises(StateTooLargeError) as raised:
        run()
    told = str(raised.value)
    assert "10 rows that wait, 10 people who wait for an intake, 0 event ids" in told
    assert "this runner keeps values of 1,000" in told
    assert "A smaller intake or max_delay" in told
    assert "p1" not in told.split()


def test_nothing_of_that_window_goes_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even on a runner that hands a release to the sink before the state is written."""
    monkeypatch.setattr(anonymize, "most_state_bytes", lambda runner: 2000)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = [row(number, number % 10, number // 10 + 0.5) for number in range(20)]
    # Without a delay all enter and go out at once, and the ids of events are what stays.
    policy = feed_policy(cohort="lasting", events=True)
    rows += [row(100 + number, number % 10, 3.5) for number in range(300)]
    made = pipeline | beam.Create(rows) | KAnonymize(policy, SECRET)
    _ = made.released | beam.Map(_note, path=str(tmp_path / "released"))
    with pytest.raises(StateTooLargeError, match="320 event ids"):
        pipeline.run()
    assert (tmp_path / "released").read_text().count("\n") == 2


def _note(release: Release, path: str) -> None:
    with open(path, "a") as file:
        file.write(f"{release.window_end}\n")


def test_the_largest_state_is_a_gauge() -> None:
    """Of a state that waits, and not of the last one, which holds less."""
    (gauge,) = run()
    assert gauge.result.value > 1000


def test_dataflow_keeps_least() -> None:
    """Below what the service takes; a limit that is not there elsewhere."""
    assert most_state_bytes("DataflowRunner") == 64 << 20 < 80_000_000
    assert most_state_bytes("FlinkRunner") == most_state_bytes("FnApiRunner") == 1 << 30


def test_each_window_says_what_its_partition_keeps() -> None:
    """In its record: with people who wait more than after they went; what lies in the cells is that."""
    step = DrivenPartitions(bound_feed(feed_policy(cohort="lasting", max_delay="1h", events=True)), SECRET)
    step.send([row(number, number, 0.5) for number in range(10)])
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    assert step.metrics[-1]["state_bytes"] == sum(cells.sizes())
    step.finish()
    assert [record["rows_waiting"] for record in step.metrics] == [10, 0]
    assert step.metrics[1]["state_bytes"] < step.metrics[0]["state_bytes"]
