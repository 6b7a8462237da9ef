"""Streams of an older build, to see what becomes of them under this one. The archives beside were made so:

    git worktree add /tmp/older 26c8339 && cd /tmp/older && make .venv/.installed-test
    PYTHONPATH=/tmp/older .venv/bin/python REPOSITORY/tests/flink/older_streams/make.py FOLDER

with that build's own code, tests and cluster. ``stopped.tar.xz`` is a directory's stream that ``kanonflow stop`` ended,
``running.tar.xz`` one that was stopped with a savepoint while a window was open and rows waited, ``topic.tar.xz`` a
topic's stream that ``kanonflow stop`` ended, releases in files. Each holds ``feed/`` (of the topic its messages, a file
a partition), ``out/``, ``policy.yaml``, ``secret``, ``was.json`` (the folder and the topic of then), the second also
``savepoint/``. The feed of this module goes on where theirs end.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

import yaml

from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker
from kanonflow.pipelines.cli import main
from tests.flink.stream_runs import StreamRun, policy_text
from tests.flink.topic_runs import json_value
from tests.kafka.topics import Topics
from tests.small_feeds import HOUR, START, Row, hourly

HOURS = 8
READ_HOURS = 4
"""What the older build read; the rest of the feed is for this one."""
TOWNS = ("Bonn", "Kiel")
FEED = [each | {"town": TOWNS[int(str(each["who"])[1:]) % 2]} for each in hourly(HOURS, 40, 40)]


def policy() -> str:
    """The small feeds' policy with cohorts that last, two partitions and event ids."""
    text = policy_text(partition_by=["town"], cohort="lasting", max_delay="2h", intake=12)
    values = yaml.safe_load(text)
    values["fields"]["event"] = {"role": "event_id"}
    return str(yaml.safe_dump(values, sort_keys=False))


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if first <= int(str(each["when"])[11:13]) < last]


def make(folder: Path) -> None:
    """The three archives, into ``folder``."""
    folder.mkdir(parents=True)
    with SessionCluster(folder / "flink", task_managers=1, slots=2) as cluster:
        _archive(_stopped(cluster, folder / "stopped"))
        _archive(_running(cluster, folder / "running"))
        broker = Broker(folder / "broker")
        broker.start()
        try:
            with Topics(broker.bootstrap) as topics:
                _archive(_topic(cluster, folder / "topic", topics))
        finally:
            broker.kill()


def _stopped(cluster: SessionCluster, folder: Path) -> Path:
    run = StreamRun(cluster, folder, policy_text=policy())
    for hour in range(READ_HOURS):
        run.put(hours(hour, hour + 1))
    run.start(checkpointing_ms=1_000)
    run.wait_for_releases(2)
    assert main(["stop", str(run.output), "--quiet"]) == 0
    assert run.wait() == 0
    return folder


def _running(cluster: SessionCluster, folder: Path) -> Path:
    run = StreamRun(cluster, folder, policy_text=policy())
    for hour in range(READ_HOURS):
        run.put(hours(hour, hour + 1))
    run.start(checkpointing_ms=1_000)
    run.reaches(START + (READ_HOURS - 1) * HOUR)
    run.wait_for_releases(2)
    shutil.copytree(run.stop_with_savepoint().removeprefix("file:"), folder / "savepoint")
    assert run.wait() == 0
    return folder


def _topic(cluster: SessionCluster, folder: Path, topics: Topics) -> Path:
    topic = topics.create(2)
    source = f"kafka://{topics.bootstrap}/{topic}?format=json"
    run = StreamRun(cluster, folder, policy_text=policy(), source=source)
    for partition in range(2):
        messages = [json_value(each) for each in hours(0, READ_HOURS)[partition::2]]
        topics.write(topic, messages, partition)
        (run.feed / f"{partition}.jsonl").write_bytes(b"".join(each + b"\n" for each in messages))
    run.start(checkpointing_ms=1_000)
    run.wait_for_releases(2)
    assert main(["stop", str(run.output), "--quiet"]) == 0
    assert run.wait() == 0
    (folder / "was.json").write_text(json.dumps({"topic": topic}))
    return folder


def _archive(folder: Path) -> None:
    was = folder / "was.json"
    told = json.loads(was.read_text()) if was.exists() else {}
    was.write_text(json.dumps({"folder": str(folder), **told}))
    for name in ("stream.log", "out/restricted/beam.log", "out/restricted/lock"):
        (folder / name).unlink(missing_ok=True)
    with tarfile.open(folder.with_suffix(".tar.xz"), "w:xz") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder), recursive=False)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
