"""The runner's metrics of a run say what its metrics records say."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter

from kanonflow.pipelines.terminal.progress import read_metrics
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.files.output_directories import metrics_directory
from kanonflow.transforms.sinks.sinks import WriteMetrics
from kanonflow.transforms.windows import gauges as window_gauges
from kanonflow.transforms.windows import wanted_left
from kanonflow.transforms.windows.gauges import NAMESPACE, WindowGauges
from kanonflow.transforms.windows.wanted_left import WantedLeft
from tests.small_feeds import HOUR, SECRET, START, Row, feed_policy, hourly, row

TOWNS = ("Bonn", "Kiel")
RECORD = {
    "rows_new": 7,
    "rows_waited": 2,
    "rows_released": 0,
    "rows_waiting": 4,
    "rows_rejected": {"late": 3, "duplicate_event": 2},
    "released": False,
    "solve_ms": 0.0,
    "publish_ms": 0.0,
    "gcp": None,
    "individuals": 0,
    "deadline_struck": False,
}
RELEASED = RECORD | {
    "released": True,
    "rows_released": 50,
    "solve_ms": 1200.4,
    "publish_ms": 299.6,
    "gcp": 0.1234567,
    "individuals": 30,
    "deadline_struck": True,
}


class Cell:
    """A metric that notes what it is told."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def inc(self, value: int = 1) -> None:
        self.values.append(value)

    set = update = inc


class Noted:
    """Stands for Beam's ``Metrics``; all metrics by name, and of which kind each is."""

    def __init__(self) -> None:
        self.cells: dict[str, tuple[str, Cell]] = {}

    def _cell(self, kind: str, namespace: str, name: str) -> Cell:
        assert namespace == "kanonflow"
        known, cell = self.cells.setdefault(name, (kind, Cell()))
        assert known == kind, name
        return cell

    def counter(self, namespace: str, name: str) -> Cell:
        return self._cell("counter", namespace, name)

    def gauge(self, namespace: str, name: str) -> Cell:
        return self._cell("gauge", namespace, name)

    def distribution(self, namespace: str, name: str) -> Cell:
        return self._cell("distribution", namespace, name)

    def values(self) -> dict[str, int]:
        """The sum of each counter and distribution, the last value of each gauge."""
        return {
            name: cell.values[-1] if kind == "gauge" else sum(cell.values)
            for name, (kind, cell) in self.cells.items()
        }


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """What the gauges tell the runner."""
    metrics = Noted()
    monkeypatch.setattr(window_gauges, "Metrics", metrics)
    return metrics


def test_a_release_is_measured_against_the_wall_clock(noted: Noted) -> None:
    """Latency: when its release was ready; lag: when its window fired. Loss in millionths, also weighted by rows."""
    gauges = WindowGauges(now=lambda: (START + HOUR + 5_000) / 1000)
    gauges.finished(RELEASED, START + HOUR)
    assert noted.values() == {
        "windows": 1,
        "window_rows_new": 7,
        "window_rows_released": 50,
        "window_rows_rejected": 5,
        "window_rows_rejected_late": 3,
        "window_rows_rejected_duplicate_event": 2,
        "window_rows_taken_up": 2,
        "window_rows_held": 4,
        "window_rows_waiting": 4,
        "window_lag_ms": 3_500,
        "window_latency_ms": 5_000,
        "window_latency_ms_sum": 5_000,
        "windows_released": 1,
        "window_loss_millionths": 123_457,
        "window_loss_millionths_sum": 123_457,
        "window_solve_ms": 1_200,
        "window_solve_ms_sum": 1_200,
        "window_publish_ms": 300,
        "window_publish_ms_sum": 300,
        "window_individuals": 30,
        "window_individuals_sum": 30,
        "window_lost_row_millionths": 123_457 * 50,
        "windows_cut_by_deadline": 1,
    }


def test_people_who_enter_are_counted_with_cohorts_that_last(noted: Noted) -> None:
    """Other policies have nobody who enters; in the middle of an epoch a jump says that ids are written otherwise."""
    gauges = WindowGauges()
    gauges.finished(RELEASED | {"people_entered": None}, None)
    assert "window_people_entered" not in noted.cells
    gauges.finished(RELEASED | {"people_entered": 7}, None)
    gauges.finished(RELEASED | {"people_entered": 0}, None)
    assert noted.values()["window_people_entered"] == 7


def test_what_released_nothing_has_a_ledger_and_a_lag_only(noted: Noted) -> None:
    """A loss of 0 or a latency of a window without a release would make the means better than they are."""
    WindowGauges(now=lambda: (START + HOUR + 5_000) / 1000).finished(RECORD, START + HOUR)
    assert noted.values()["window_lag_ms"] == 5_000
    assert {name for name in noted.cells if "loss" in name or "latency" in name or "_ms_sum" in name} == set()
    assert "windows_released" not in noted.cells


def test_without_windows_nothing_is_late(noted: Noted) -> None:
    """The one window ends with the feed, at no time of the clock."""
    WindowGauges().finished(RELEASED, None)
    assert not {"window_lag_ms", "window_latency_ms"} & set(noted.cells)


def test_the_gauges_travel() -> None:
    """With the step, to the workers."""
    pickle.loads(pickle.dumps(WindowGauges()))


def run(output: Path, rows: list[Row], **head: Any) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Metrics of the runner by kind and name, and the metrics records, of a bounded run."""
    policy = feed_policy(**head)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    done = pipeline | beam.Create(rows) | KAnonymize(policy, SECRET)
    _ = done.metrics | WriteMetrics(str(output), policy)
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
    kinds = {
        kind: {each.key.metric.name: each.result for each in found[kind]}
        for kind in ("counters", "gauges", "distributions")
    }
    files = sorted(Path(metrics_directory(str(output))).glob("*.avro"))
    return kinds, [dict(record) for file in files for record in read_metrics(file.read_bytes())]


def test_a_run_adds_up_over_windows_and_partitions(tmp_path: Path) -> None:
    """Counters are the sums over all metrics records, and with what was refused before them the whole ledger."""
    feed = hourly(4, 20, 9, seed=3, towns=TOWNS)
    alone = [row(1_000, 77, 0.5, town="Ulm"), row(1_001, 78, 1.5, town="Ulm")]
    broken = [row(1_002, 1, 1) | {"when": "soon"}, feed[0] | {"reference": "again"}]
    kinds, records = run(tmp_path, [*feed, *alone, *broken], towns=True, events=True, max_delay="1h")
    counters = kinds["counters"]
    sums: Counter[str] = Counter()
    for record in records:
        sums.update({f"window_rows_rejected_{name}": n for name, n in record["rows_rejected"].items()})
        sums["window_rows_new"] += record["rows_new"]
        sums["window_rows_released"] += record["rows_released"]
        sums["window_rows_held"] += record["rows_waiting"]
        sums["window_rows_taken_up"] += record["rows_waited"]
        sums["windows_released"] += record["released"]
    assert sums["window_rows_rejected_too_few_peers"] == 2
    assert sums["window_rows_rejected_duplicate_event"] == 1
    assert {name: counters[name] for name in sums} == dict(sums)
    assert counters["windows"] == len(records)
    assert counters["window_rows_held"] == counters["window_rows_taken_up"] > 0
    assert counters["rows_valid"] == counters["window_rows_new"] == len(feed) + 3
    assert counters["rows_valid"] == counters["window_rows_released"] + counters["window_rows_rejected"]
    released = [record for record in records if record["released"]]
    loss = kinds["distributions"]["window_loss_millionths"]
    assert loss.count == len(released) == counters["windows_released"]
    assert loss.sum == counters["window_loss_millionths_sum"]
    assert loss.max == round(max(record["gcp"] for record in released) * 1_000_000)
    assert kinds["distributions"]["window_latency_ms"].count == len(released)
    # Of one of the last windows: which one, the runner decides when partitions finish together.
    assert kinds["gauges"]["window_rows_waiting"].value in {record["rows_waiting"] for record in records}
    assert kinds["gauges"]["window_lag_ms"].value > 0


def test_no_name_tells_whose_data_it_is(tmp_path: Path) -> None:
    """Names are fixed words: no partition, id or value of a record in them."""
    kinds, _ = run(tmp_path, hourly(2, 12, 9, towns=TOWNS), towns=True)
    names = {name for kind in kinds.values() for name in kind}
    assert len(names) > 15
    assert all(re.fullmatch(r"(rows|windows?|unfit|payload|state)(_[a-z]+)*", name) for name in names), names
    assert not [name for name in names for town in TOWNS if town.lower() in name]


def test_the_real_metrics_have_the_kinds_that_are_used() -> None:
    """``Noted`` stands for nothing that Beam does not have."""
    for kind in ("counter", "gauge", "distribution"):
        assert callable(getattr(Metrics, kind))


def test_a_stream_says_once_that_fewer_are_left_than_wanted_and_again_where_it_is_worse(
    noted: Noted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Over the partitions of a worker; both gauges follow; and it stops nothing."""
    monkeypatch.setattr(wanted_left, "Metrics", noted)
    clause = {"known_windows": {"count": 3, "wanted": 0.99}}
    alarm = WantedLeft(feed_policy(cohort="lasting", against=clause))
    plain = WantedLeft(feed_policy(cohort="lasting", against={"known_windows": {"count": 3}}))
    said = []
    for key, below in ((b"a", 1), (b"b", 9), (b"b", 10), (b"b", 20), (b"b", 20)):
        told = {"reader": "3 windows with rows", "below_k": below, "people": 500, "at_least": False}
        for each in (alarm, plain):
            each.finished(key, {"epoch_against": told})
        each.finished(key, {"epoch_against": None})
        said.append(len(caplog.messages))
    assert said == [0, 0, 1, 2, 2]
    assert "wanted 99% of the people released left with k" in caplog.messages[0]
    assert "98.9% of the 1000 of this worker" in caplog.messages[0]
    assert noted.values() == {"against_left_millionths": 979_000, "against_under_wanted": 1}
