"""Streams that an older build began (``older_streams/make.py``): they go on, or are refused by name before a word is
written, and the audit judges what they left."""

from __future__ import annotations

import collections
import json
import tarfile
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from tests.flink.older_streams.make import FEED, HOURS, READ_HOURS, hours
from tests.flink.stream_runs import StreamRun, accounts
from tests.flink.topic_runs import json_value
from tests.kafka.topics import Topics

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
TYPE = ("--individual-type", "string")
"""It did not write down what an id is; without the flag a run that continues it is asked for it."""
ARCHIVES = Path(__file__).parent / "older_streams"


def unpacked(name: str, folder: Path) -> Path:
    """What the older build left, as if its directory had been moved here."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "secret").chmod(0o600)
    path = folder / "out" / "restricted" / "run.json"
    path.parent.chmod(0o700)
    told = json.loads(path.read_text())
    if "directory" in told["input"][0]:
        told["input"] = [{"directory": str(folder / "feed")}]
    path.write_text(json.dumps(told))
    return folder


def there(folder: Path) -> dict[str, bytes]:
    """Every file, by its path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def the_run(cluster: SessionCluster, folder: Path) -> StreamRun:
    """The stream of an unpacked folder."""
    policy = (folder / "policy.yaml").read_text()
    run = StreamRun(cluster, folder, policy_text=policy)
    run._files = READ_HOURS
    return run


@pytest.mark.parametrize("name", ["stopped", "running"])
def test_the_audit_judges_what_an_older_build_left(name: str, tmp_path: Path) -> None:
    """The stopped stream passes as it did; the running one as one that goes on."""
    folder = unpacked(name, tmp_path)
    given = ("--policy", str(folder / "policy.yaml"), "--release", str(folder / "out"))
    rows = ("--input", str(folder / "feed" / "*.csv"), "--secret-file", str(folder / "secret"))
    assert main(["verify", *given, *rows, *(["--waiting"] if name == "running" else [])]) == 0


def test_an_older_savepoint_goes_on(cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path) -> None:
    """State, waiting rows, roster and slots of the older build: every row is out once, and the audit passes."""
    folder = unpacked("running", tmp_path)
    run = the_run(cluster, folder)
    runs.append(run)
    before = run.releases()
    run.start("--resume", f"--savepoint_path={(folder / 'savepoint').as_uri()}", checkpointing_ms=1_000)
    for hour in range(READ_HOURS, HOURS):
        run.put(hours(hour, hour + 1))
    run.end()
    assert before.items() <= run.releases().items()
    assert len(run.releases()) > len(before)
    accounts(run, FEED)
    given = ("--policy", str(run.policy), "--release", str(run.output))
    assert main(["verify", *given, "--input", str(run.feed / "*.csv"), "--secret-file", str(run.secret)]) == 0


def test_the_directory_of_an_older_stream_is_not_read_again(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """It did not write down what it read: the same directory is refused by name and nothing is written; new files in
    another directory go on in the same epoch, and no row is out twice."""
    folder = unpacked("stopped", tmp_path / "older")
    older = the_run(cluster, folder)
    same = StreamRun(cluster, tmp_path / "same", policy_text=older.policy.read_text(), source=str(older.feed))
    runs.append(same)
    before = there(folder)
    same.start("--continue", str(older.output), *TYPE, awaited=False)
    assert same.wait() == 2
    assert "an earlier build did not write down how far" in same.said()
    assert "in another directory" in same.said()
    assert there(folder) == before
    assert not same.output.exists()

    newer = StreamRun(cluster, tmp_path / "newer", policy_text=older.policy.read_text())
    runs.append(newer)
    for hour in range(READ_HOURS, HOURS):
        newer.put(hours(hour, hour + 1))
    newer.start("--continue", str(older.output), *TYPE, checkpointing_ms=1_000)
    newer.end()
    out = collections.Counter([*older.released(), *newer.released()])
    assert max(out.values()) == 1
    assert newer.released()


def test_the_topic_of_an_older_stream_is_read_from_where_one_says(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """Refused without a place to begin; with from= it goes on there, and no row is out twice."""
    folder = unpacked("topic", tmp_path / "older")
    older = the_run(cluster, folder)
    topic = topics.create(2, name=json.loads((folder / "was.json").read_text())["topic"])
    ends = []
    for partition in range(2):
        lines = (folder / "feed" / f"{partition}.jsonl").read_bytes().splitlines()
        topics.write(topic, lines, partition)
        ends.append(len(lines))
    source = f"kafka://{topics.bootstrap}/{topic}?format=json&until=end"
    run = StreamRun(cluster, tmp_path / "newer", policy_text=older.policy.read_text(), source=source)
    runs.append(run)
    run.start("--continue", str(older.output), *TYPE, awaited=False)
    assert run.wait() == 2
    assert "from=PARTITION:OFFSET" in run.said()
    assert not run.output.exists()
    for partition in range(2):
        topics.write(topic, map(json_value, hours(READ_HOURS, HOURS)[partition::2]), partition)
    run.source += f"&from=0:{ends[0]},1:{ends[1]}"
    run.start("--continue", str(older.output), *TYPE, checkpointing_ms=1_000)
    assert run.wait() == 0, run.said()
    out = collections.Counter([*older.released(), *run.released()])
    assert max(out.values()) == 1
    assert set(run.released()) <= {str(each["reference"]) for each in hours(READ_HOURS, HOURS)}
    assert run.released()
