"""The streaming benchmark: a small replay on a cluster comes to its end with exact accounts and all its results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import stream


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_small_replay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every row is accounted for, the audit passes, and tables, timeline and plots are written."""
    results = tmp_path / "results"
    small = ["--rows", "3000", "--days", "2", "--methods", "l-greedy", "--checkpointing-ms", "1000"]
    where = ["--work", str(tmp_path), "--results", str(results), "--date", "2024-03-01"]
    assert stream.main(["replay", *small, *where]) == 0, capfd.readouterr()
    record = json.loads((results / "stream_replay.json").read_text())
    assert record["skipped"] == []
    assert record["command"].startswith("python -m benchmarks.stream ")
    tables = {table["title"]: table["rows"] for table in record["tables"]}
    (rows,) = tables["Rows"]
    assert rows["rows released"] + rows["rows rejected"] == rows["rows"] == 3000
    assert rows["accounts exact"] is True
    assert rows["verify passed"] is True
    assert {each["process"] for each in tables["Memory, MB"]} >= {
        "task-manager",
        "python-worker",
        "job-manager",
    }
    assert tables["Checkpoints"][0]["complete"] > 0
    # Flink says its watermark up to two seconds late: a release of a job this small may stand before it.
    latencies = tables["From the end of a window to its release, s"]
    assert latencies
    assert all(each["releases"] > 0 and each["p50"] > -2.5 for each in latencies)
    assert all(each["p50"] > 0 for each in latencies if each["from"] == "arrival of the closing row")
    (run,) = json.loads((results / "stream_replay_timeline.json").read_text())
    assert run["rows"]["released"][-1][1] == rows["rows released"]
    assert {"rows", "memory", "checkpoints", "latency"} <= {
        path.stem.removeprefix("stream_replay_") for path in results.glob("*.svg")
    }
    assert str(tmp_path) not in (results / "stream_replay.md").read_text()
