"""The commands of docs/operations.md and docs/kafka.md, as they stand there, on a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.flink.job_server_jar import job_server_jar
from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker
from tests.flink.stream_runs import StreamRun, accounts, policy_text, wait_for
from tests.flink.test_faults import passes
from tests.small_feeds import Row, hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "operations.md").read_text()
KAFKA = (ROOT / "docs" / "kafka.md").read_text()
HOURS = 5
FEED = hourly(HOURS, 60, 40)


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if first <= int(str(each["when"])[11:13]) < last]


def test_detach_read_metrics_stop_and_go_on(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """``--detach`` leaves the job to its cluster, curl reads its metrics, ``flink stop`` gives the savepoint.

    A window of more rows than ``max_window_rows`` is released in parts, and is told of in Flink's REST API.
    """
    run = StreamRun(cluster, tmp_path, policy_text=policy_text(max_window_rows=30, cohort="window"))
    runs.append(run)
    run.put(hours(0, 2))
    run.start("--detach", checkpointing_ms=1_000)
    assert run.wait() == 0
    assert f"submitted as {run.name}" in (run.folder / "stream.log").read_text()
    run.put(hours(2, 3))
    run.wait_for_releases(1)
    wait_for(lambda: read_rows(cluster, run) > 0, "the metric that the runbook asks for")
    wait_for(lambda: all_there(run.metric_names()), "the metrics of a window in Flink's REST API")

    savepoint = stop(cluster, run)
    run.put(hours(3, HOURS))
    run.start("--resume", f"--savepoint_path={savepoint}", checkpointing_ms=1_000)
    run.end()
    accounts(run, FEED)
    assert len(run.releases()) > HOURS
    passes(run)


def test_the_trial_in_the_guide_to_kafka(broker: Broker, tmp_path: Path) -> None:
    """Every line of it, in a folder of its own, and the figures under it. broker: that Java and Maven are there."""
    trial = KAFKA.partition("## A broker for trials")[2]
    (fill,) = re.findall(r"```python\n(.*?)```", trial, re.DOTALL)
    first, then = re.findall(r"```sh\n(.*?)```", trial, re.DOTALL)
    (tmp_path / "fill.py").write_text(fill)
    for name in ("deploy", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    up, down = first.replace("/tmp/broker", str(tmp_path / "broker")).strip().splitlines()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def here(command: str) -> str:
        return shell(f"cd {tmp_path}; set -e; {command}", PATH=path)

    try:
        port = here(up).strip().rpartition(":")[2]
        said = here(then.replace("PORT", port))
    finally:
        here("python -m deploy.flink.session down || true")
        here(down)
    told = re.search(r"gives (\d) releases? of about ([\d,]+) of the ([\d,]+) rows", trial)
    assert told is not None
    releases, about, rows = (int(figure.replace(",", "")) for figure in told.groups())
    found = [re.search(rf"^{name} +(\S+)$", said, re.MULTILINE) for name in FIGURES]
    made, released, rejected = (int(each[1].replace(",", "")) for each in found if each is not None)
    assert (made, released + rejected) == (releases, rows)
    assert abs(released - about) < 60
    assert "PASSED" in said.upper()


FIGURES = ("releases", "rows released", "rows rejected")


def read_rows(cluster: SessionCluster, run: StreamRun) -> float:
    """What the runbook's two curl commands say of ``rows_read``; 0 until both know it, for it may come in between."""
    (block,) = re.findall(r"```sh\n(curl .*?)```", RUNBOOK, re.DOTALL)
    job = cluster.get(f"/jobs/{run.job_id()}")
    (vertex,) = (each["id"] for each in job["vertices"] if "KAnonymize}" in each["name"])
    for name, value in (("JOBMANAGER:8081", cluster.rest), ("JOB/", f"{run.job_id()}/"), ("VERTEX", vertex)):
        block = block.replace(name, value)
    there, asked = re.split(r"\n(?=curl)", block.strip())
    names = {each["id"] for each in json.loads(shell(there))}
    found = json.loads(shell(asked))
    if not found or found[0]["id"] not in names:
        return 0
    return float(found[0]["sum"])


def all_there(names: set[str]) -> bool:
    """Whether Flink shows what a window told of itself."""
    wanted = (
        *("windows_released", "window_rows_new", "window_rows_released", "window_rows_held"),
        *("window_lost_row_millionths", "window_solve_ms_sum", "window_rows_waiting", "window_lag_ms"),
    )
    return all(any(name.endswith(f"kanonflow_{each}") for name in names) for each in wanted)


def stop(cluster: SessionCluster, run: StreamRun) -> str:
    """Flink's own command, as the runbook has it; the savepoint."""
    (told,) = set(re.findall(r"`flink (stop --savepointPath DIR JOB)`", RUNBOOK))
    arguments = told.replace("DIR", (cluster.state / "savepoints").as_uri()).replace("JOB", run.job_id())
    flink = f"java -cp {job_server_jar()} org.apache.flink.client.cli.CliFrontend"
    said = shell(f"{flink} {arguments}", FLINK_CONF_DIR=str(cluster.state / "conf"))
    found = re.search(r"Savepoint completed\. Path: (\S+)", said)
    assert found is not None, said
    return found[1]


def shell(command: str, **environment: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
