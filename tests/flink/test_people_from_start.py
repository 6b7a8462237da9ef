"""People whom a file names, in a stream: they enter with its first release, and its state has who is expected."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from tests.flink.stream_runs import StreamRun, accounts, policy_text
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 4
PEOPLE = 40
FEED: list[Row] = hourly(HOURS, 40, 30)


def segments(run: StreamRun) -> list[int]:
    """How many people entered with each release that took somebody in."""
    found = []
    for path in sorted(run.output.glob("restricted/cohorts/*/*.people.avro")):
        with path.open("rb") as stream:
            found.append(sum(1 for _ in fastavro.reader(stream)))
    return found


def test_a_stream_knows_people_from_a_file_before_and_after_a_savepoint(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is released before the savepoint, so its state has whom the stream expects; every row is there once, all
    forty enter together though ten never have a row, and the audit passes in full. Another file is refused."""
    run = StreamRun(cluster, tmp_path / "run", policy_text=policy_text(max_delay="1h", people="people.csv"))
    runs.append(run)
    names = sorted({str(each["who"]) for each in FEED})
    quasi = [row(0, who, 0) for who in range(PEOPLE)]
    assert {str(each["who"]) for each in quasi} > set(names)
    fields = [name for name in quasi[0] if name not in ("when", "amount", "reference", "mcc")]
    lines = [",".join(fields), *(",".join(str(each[name]) for name in fields) for each in quasi)]
    (run.folder / "people.csv").write_text("\n".join(lines) + "\n")
    run.put([each for each in FEED if int(str(each["when"])[11:13]) < 1])
    run.start(checkpointing_ms=1_000)
    run.reaches(START)
    state = run.stop_with_savepoint()
    assert run.wait() == 0
    assert not run.releases()

    (run.folder / "people.csv").write_text("\n".join(lines[:-1]) + "\n")
    policy = ["--policy", str(run.policy), "--source", str(run.feed), "--output", str(run.output)]
    given = [*policy, "--secret-file", str(run.secret), "--unmeasured", "--resume", "--runner", "FlinkRunner"]
    flags = [each for each in cluster.flags(1_000) if not each.startswith("--runner")]
    capsys.readouterr()
    assert main(["stream", *given, *flags, "--savepoint_path", state]) == 2
    assert "the file of people (people) is another one" in capsys.readouterr().err
    (run.folder / "people.csv").write_text("\n".join(lines) + "\n")

    run.start("--resume", f"--savepoint_path={state}", checkpointing_ms=1_000)
    for hour in range(1, HOURS):
        run.put([each for each in FEED if int(str(each["when"])[11:13]) == hour])
    run.reaches(START + (HOURS - 1) * HOUR)
    run.end()
    accounts(run, FEED)
    assert segments(run) == [PEOPLE]
    files = ["--input", str(run.feed / "*.csv")]
    audited = ["verify", "--policy", str(run.policy), *files, "--secret-file", str(run.secret), "--strict"]
    assert main([*audited, "--release", str(run.output)]) == 0
