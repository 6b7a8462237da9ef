"""A topic that several readers share, on two machines: where they run, and how they stop, go on and are succeeded."""

from __future__ import annotations

import collections
import json
import shutil
import urllib.parse
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.verify_topics import verify
from kanonflow.pipelines.runs.feed_end import stop_file
from tests.flink.stream_runs import StreamRun, policy_text, wait_for
from tests.flink.topic_runs import json_value
from tests.kafka.topics import Topics
from tests.small_feeds import HOUR, START, Row, hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
PARTITIONS = 4
HOURS = 8
FEED = hourly(HOURS, 60, 40)


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if first <= int(str(each["when"])[11:13]) < last]


def readers_of(run: StreamRun) -> list[tuple[str, int]]:
    """Of each parallel instance of the step that reads: its TaskManager, and how many rows it has read."""
    job = run.job_id()
    (vertex,) = (
        each["id"]
        for each in run.cluster.get(f"/jobs/{job}")["vertices"]
        if each["name"].endswith("{Read, KAnonymize}")
    )
    found = []
    for task in run.cluster.get(f"/jobs/{job}/vertices/{vertex}")["subtasks"]:
        path = f"/jobs/{job}/vertices/{vertex}/subtasks/{task['subtask']}/metrics"
        names = [each["id"] for each in run.cluster.get(path) if each["id"].endswith("kanonflow_rows_read")]
        asked = urllib.parse.urlencode({"get": ",".join(names)})
        values = run.cluster.get(f"{path}?{asked}") if names else []
        found.append((str(task["taskmanager-id"]), sum(int(each["value"]) for each in values)))
    return found


def ends_of(run: StreamRun) -> dict[str, int]:
    """The offset that each partition of the topic ended at."""
    ended = json.loads((run.output / "restricted" / "ended").read_text())
    assert "part" not in ended
    return {number: at[0] for number, at in ended["partitions"].items()}


def rows_read(run: StreamRun, all_of_them: int) -> list[int]:
    """What each instance has read, once Flink says that all is; its figures come late."""
    wait_for(lambda: sum(rows for _, rows in readers_of(run)) >= all_of_them, "figures")
    return [rows for _, rows in readers_of(run)]


def test_readers_on_two_machines(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """A stream of one reader goes on with one, whatever the job after its savepoint asks for. The stream behind its end
    has four on both machines, which go on at another parallelism. Each row is out once, and the audits pass."""
    topic = topics.create(PARTITIONS)
    source = f"kafka://{topics.bootstrap}/{topic}?format=json&idle=3s"

    def send(first: int, last: int) -> None:
        for partition in range(PARTITIONS):
            topics.write(topic, map(json_value, hours(first, last)[partition::PARTITIONS]), partition)

    first = StreamRun(cluster, tmp_path / "first", policy_text=policy_text(max_delay="2h"), source=source)
    runs.append(first)
    send(0, 2)
    first.source = f"{source}&readers=1"
    first.start(checkpointing_ms=1_000, parallelism=PARTITIONS)
    first.wait_for_releases(1)
    savepoint = first.stop_with_savepoint()
    first.wait()
    first.source = source
    send(2, 3)
    first.start("--resume", f"--savepoint_path={savepoint}", checkpointing_ms=1_000, parallelism=PARTITIONS)
    first.reaches(START + 2 * HOUR)
    assert sorted(rows_read(first, len(hours(2, 3)))) == [0] * (PARTITIONS - 1) + [len(hours(2, 3))]
    rows = len(hours(0, 3)) // PARTITIONS
    assert main(["stop", str(first.output), "--quiet"]) == 0
    assert first.wait() == 0, first.said()
    assert ends_of(first) == {str(number): rows for number in range(PARTITIONS)}

    second = StreamRun(cluster, tmp_path / "second", policy_text=policy_text(max_delay="2h"), source=source)
    shutil.copy(first.secret, second.secret)
    runs.append(second)
    second.start("--continue", str(first.output), checkpointing_ms=1_000, parallelism=PARTITIONS, quiet=False)
    assert f"{PARTITIONS} readers share its partitions" in second.said()
    send(3, 5)
    second.reaches(START + 4 * HOUR)
    assert rows_read(second, len(hours(3, 5))) == [len(hours(3, 5)) // PARTITIONS] * PARTITIONS
    assert len({machine for machine, _ in readers_of(second)}) == 2
    savepoint = second.stop_with_savepoint()
    second.wait()
    send(5, 6)
    second.start("--resume", f"--savepoint_path={savepoint}", checkpointing_ms=600_000, parallelism=2)
    # From here on three partitions are silent, and time goes on before there is a checkpoint.
    last = hours(6, HOURS)

    def reached() -> bool:
        topics.write(topic, map(json_value, last[:1]), 0)
        del last[:1]
        return second.watermark() >= START + 6 * HOUR

    wait_for(reached, "silent partitions")
    assert second.completed() == 0
    topics.write(topic, map(json_value, last), 0)
    Path(stop_file(str(second.output))).touch()
    second.end_with_checkpoints()
    assert sum(ends_of(second).values()) == len(FEED)
    out: collections.Counter[str] = collections.Counter()
    for run in (first, second):
        out.update([*run.released(), *(reference for reference, _ in run.rejected())])
        report = verify(run.policy, [source], run.output, None)
        assert report.passed, report.render()
    assert out == collections.Counter(str(each["reference"]) for each in FEED)
