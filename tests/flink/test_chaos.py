"""One strike of each kind, with a fixed seed. The long form is a command: ``python -m tests.flink.chaos --help``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.kafka.broker import missing_programs
from tests.flink import chaos

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


def test_whatever_dies_every_row_is_out_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Workers, machines, JobManager, broker, disks: released or rejected once, equal to the batch run, audits pass.

    Each process that is killed has made the jobs go back to a checkpoint, or the strike struck nothing.
    """
    if missing := missing_programs():
        pytest.skip(f"no {' and no '.join(missing)} on the path")
    told = tmp_path / "report.json"
    ended = chaos.main(
        [*("--seed", "14", "--freeze", "10", "--folder", str(tmp_path / "c")), "--report", str(told)]
    )
    report = json.loads(told.read_text())
    assert ended == 0, capsys.readouterr().out
    assert report["problems"] == []
    struck = {strike["kind"]: strike for strike in report["strikes"]}
    assert set(struck) | set(report["left_out"]) == set(chaos.KINDS)
    assert set(report["left_out"]) <= set(chaos.NEED_MOUNTS)
    for kind in ("worker", "worker-pool", "task-manager", "frozen-task-manager", "job-manager"):
        assert struck[kind]["restarts"] > 0, kind
    for ledger in report["ledgers"]:
        assert ledger["released"] > 0
        assert ledger["rejected"]["bad_value" if "bad_value" in ledger["rejected"] else "unparseable"] > 0
