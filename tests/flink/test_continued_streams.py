"""A stream that was stopped, and another that goes on behind it under a changed policy: no row is read twice."""

from __future__ import annotations

import collections
import json
import shutil
from pathlib import Path

import fastavro
import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.audit.read.carried_state import carried_facts
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.verify_topics import verify
from tests.flink.stream_runs import StreamRun, policy_text, records
from tests.flink.topic_runs import json_value
from tests.kafka.topics import Topics
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 6
STOPPED = 3
EVERYBODY = [row(9000 + who, who, 0) for who in range(30)]
NEWCOMERS = [row(9100, 100, 2.995), row(9101, 101, 2.995), row(9102, 100, 4.5)]
"""Two are too few for k = 3; the last row can be out only together with who was seen by the first stream alone."""
FEED = sorted([*hourly(HOURS, 40, 30), *EVERYBODY, *NEWCOMERS], key=lambda each: str(each["when"]))


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if first <= int(str(each["when"])[11:13]) < last]


def run_json(run: StreamRun) -> dict[str, object]:
    """What the run says of itself."""
    return dict(json.loads((run.output / "restricted" / "run.json").read_text()))


def once(*runs: StreamRun) -> None:
    """Every row of FEED is released or rejected, by one of the runs, once."""
    found: collections.Counter[str] = collections.Counter()
    for run in runs:
        found.update([*run.released(), *(reference for reference, _ in run.rejected())])
    assert found == collections.Counter(str(each["reference"]) for each in FEED)
    assert all(run.releases() for run in runs)


def goes_on_with_the_pool(first: StreamRun, second: StreamRun) -> None:
    """The second began with what the first left: the two who had no cohort then have one."""
    (left,) = (first.output / "restricted" / "carried").glob("*.state")
    cohorts = second.output / "restricted" / "cohorts" / left.stem
    assert (cohorts / "carried.state").read_bytes() == left.read_bytes()
    _, pool = carried_facts(left)
    assert pool.size == 2
    assert set(pool.view("<i8").tolist()) <= {person["person"] for person in people_of(cohorts)}
    assert "r9102" in second.released()


def people_of(cohorts: Path) -> list[dict[str, object]]:
    """Whoever is in the cohorts of a partition."""
    found: list[dict[str, object]] = []
    for path in cohorts.glob("*.people.avro"):
        with path.open("rb") as stream:
            found += [person for person in fastavro.reader(stream) if isinstance(person, dict)]
    return found


def behind(first: StreamRun, cluster: SessionCluster, folder: Path, source: str) -> StreamRun:
    """A stream of its own directory under a changed policy, with the secret of the first."""
    run = StreamRun(cluster, folder, policy_text=policy_text(max_delay="1h", k=2), source=source)
    shutil.copy(first.secret, run.secret)
    return run


def test_a_topic_is_read_on_behind_where_its_stream_was_stopped(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """The second stream says where it begins and reads nothing that the first one has; what came into the topic while
    none ran is read; both pass their audits over the one topic."""
    topic = topics.create(2)
    source = f"kafka://{topics.bootstrap}/{topic}?format=json"

    def send(first: int, last: int) -> None:
        for partition in range(2):
            topics.write(topic, map(json_value, hours(first, last)[partition::2]), partition)

    first = StreamRun(cluster, tmp_path / "first", policy_text=policy_text(max_delay="2h"), source=source)
    runs.append(first)
    send(0, STOPPED)
    first.start(checkpointing_ms=1_000)
    first.wait_for_releases(1)
    assert main(["stop", str(first.output), "--quiet"]) == 0
    assert first.wait() == 0
    ended = json.loads((first.output / "restricted" / "ended").read_text())
    assert {number: at[0] for number, at in ended["partitions"].items()} == {"0": 76, "1": 76}
    send(STOPPED, STOPPED + 1)

    second = behind(first, cluster, tmp_path / "second", source)
    runs.append(second)
    second.source += "&from=earliest"
    second.start("--continue", str(first.output), checkpointing_ms=1_000)
    send(STOPPED + 1, HOURS)
    second.reaches(START + (HOURS - 1) * HOUR)
    assert main(["stop", str(second.output), "--quiet"]) == 0
    assert second.wait() == 0
    assert "Begins where the stream before ended: partition 0 at 76, 1 at 76" in second.said()
    once(first, second)
    goes_on_with_the_pool(first, second)
    assert run_json(second)["epoch"] == run_json(first)["epoch"]
    for run in (first, second):
        report = verify(run.policy, [source], run.output, None)
        assert report.passed, report.render()


def test_a_directory_is_read_on_behind_where_its_stream_was_stopped(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same of files, those that lie there still; a run over files that has one of them is refused by its name and
    writes nothing."""
    first = StreamRun(cluster, tmp_path / "first", policy_text=policy_text(max_delay="2h"))
    runs.append(first)
    for hour in range(STOPPED):
        first.put(hours(hour, hour + 1))
    first.start(checkpointing_ms=1_000)
    first.wait_for_releases(1)
    assert main(["stop", str(first.output), "--quiet"]) == 0
    assert first.wait() == 0
    first.put(hours(STOPPED, STOPPED + 1))

    policy = ("--policy", str(first.policy), "--secret-file", str(first.secret))
    output = ("--output", str(tmp_path / "files"), "--continue", str(first.output))
    capsys.readouterr()
    assert main(["anonymize", *policy, "--input", str(first.feed / "*.csv"), *output]) == 2
    said = capsys.readouterr().err
    assert "have read 3 of the 4 files" in said
    assert "part-0000.csv" in said
    assert not (tmp_path / "files").exists()

    second = behind(first, cluster, tmp_path / "second", str(first.feed))
    runs.append(second)
    second.start("--continue", str(first.output), checkpointing_ms=1_000)
    for hour in range(STOPPED + 1, HOURS):
        first.put(hours(hour, hour + 1))
    second.reaches(START + (HOURS - 1) * HOUR)
    assert main(["stop", str(second.output), "--quiet"]) == 0
    assert second.wait() == 0
    assert "3 files were read there and are not read again" in second.said()
    once(first, second)
    goes_on_with_the_pool(first, second)
    assert records(second.output / "release")


def test_a_stream_begins_a_new_epoch_where_another_was_stopped(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """``--renew``: everybody of the first stream is in one cohort of the second from its beginning, what waited is
    released there, and no row of the feed is lost or out twice; both pass their audits."""
    first = StreamRun(cluster, tmp_path / "first", policy_text=policy_text(max_delay="2h"))
    runs.append(first)
    for hour in range(STOPPED):
        first.put(hours(hour, hour + 1))
    first.start(checkpointing_ms=1_000)
    first.wait_for_releases(1)
    assert main(["stop", str(first.output), "--quiet"]) == 0
    assert first.wait() == 0

    second = behind(first, cluster, tmp_path / "second", str(first.feed))
    with second.policy.open("a") as file:
        file.write("renew: {cohorts: searched, accept_risk: nobody has both}\n")
    runs.append(second)
    second.start("--continue", str(first.output), "--renew", checkpointing_ms=1_000)
    for hour in range(STOPPED, HOURS):
        first.put(hours(hour, hour + 1))
    second.reaches(START + (HOURS - 1) * HOUR)
    assert main(["stop", str(second.output), "--quiet"]) == 0
    assert second.wait() == 0
    assert "another begins with its" in second.said()
    assert "(cohorts: searched)" in second.said()
    once(first, second)
    assert run_json(second)["epoch"] != run_json(first)["epoch"]
    before, after = (
        [
            person["person"]
            for folder in run.output.glob("restricted/cohorts/*")
            for person in people_of(folder)
        ]
        for run in (first, second)
    )
    assert set(before) < set(after)
    assert len(set(after)) == len(after)
    files = sorted(first.feed.glob("*.csv"))
    for run, read in ((first, files[:STOPPED]), (second, files[STOPPED:])):
        inputs = [word for path in read for word in ("--input", str(path))]
        given = ["--policy", str(run.policy), "--secret-file", str(run.secret), "--release", str(run.output)]
        assert main(["verify", *given, *inputs]) == 0
