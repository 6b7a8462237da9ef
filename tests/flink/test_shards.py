"""A stream whose one partition is cut into shards: strangers wait for theirs in the state of the route, through a
savepoint to another parallelism, and what comes out is what a table in memory comes to."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.chains.shards_record import asked_plan
from kanonflow.pipelines.cli import main
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.secret.seeds import Secret
from tests.flink.stream_runs import StreamRun, accounts, policy_text
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 5
NAMED = 40
FEED: list[Row] = hourly(HOURS, 60, 64)


def hour_of(each: Row) -> int:
    """Of the day."""
    return int(str(each["when"])[11:13])


def boxes(rows: list[dict[str, Any]]) -> Counter[str]:
    """Released rows without what is drawn by chance: payload stands anywhere in its group."""
    return Counter(
        repr([value for name, value in sorted(each.items()) if isinstance(value, dict)]) for each in rows
    )


def test_strangers_wait_for_a_shard_through_a_savepoint(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Every row once, each person in one shard; the audit passes in full, and a table in memory says the same."""
    run = StreamRun(cluster, tmp_path / "run", policy_text=policy_text(max_delay="2h", people="people.csv"))
    runs.append(run)
    quasi = [row(0, who, 0) for who in range(NAMED)]
    fields = [name for name in quasi[0] if name not in ("when", "amount", "reference", "mcc")]
    lines = [",".join(fields), *(",".join(str(each[name]) for name in fields) for each in quasi)]
    people = run.folder / "people.csv"
    people.write_text("\n".join(lines) + "\n")
    run.put([each for each in FEED if hour_of(each) < 1])
    plan = run.folder / "plan.json"
    given = ["--policy", str(run.policy), "--input", str(run.feed / "*.csv")]
    assert main(["plan", *given, "--shards", "3", "--output", str(plan), "--accept-small"]) == 0

    run.start("--plan", str(plan), checkpointing_ms=1_000)
    run.reaches(START)
    state = run.stop_with_savepoint()
    assert run.wait() == 0
    run.start("--resume", f"--savepoint_path={state}", checkpointing_ms=1_000, parallelism=2)
    for hour in range(1, HOURS):
        run.put([each for each in FEED if hour_of(each) == hour])
    run.reaches(START + (HOURS - 1) * HOUR)
    run.end()
    accounts(run, FEED)

    shards: dict[str, set[int]] = {}
    for path in run.output.glob("restricted/cohorts/*/*.people.avro"):
        with path.open("rb") as stream:
            own = {record["person"] for record in fastavro.reader(stream)}  # type: ignore[index, call-overload]
        shards.setdefault(path.parent.name, set()).update(own)
    written = json.loads((run.output / "restricted/plan.json").read_text())
    assert set(shards) == set(written["partitions"][0]["keys"])
    assert sum(map(len, shards.values())) == len(set().union(*shards.values())) > NAMED

    found = asked_plan(str(plan), "", None, resume=False)
    assert found is not None
    named = pa.Table.from_pylist(list(csv.DictReader(people.open())))
    table = pa.Table.from_pylist([{name: str(value) for name, value in each.items()} for each in FEED])
    secret = Secret.from_file(str(run.secret))
    made = anonymize_table(table, run.policy, secret, text=True, people=named, plan=found[0])
    released: list[dict[str, Any]] = []
    for path in run.output.glob("release/*.avro"):
        with path.open("rb") as stream:
            released += list(fastavro.reader(stream))  # type: ignore[arg-type]
    assert boxes(released) == boxes(made.released.to_pylist())

    audited = ["verify", *given, "--secret-file", str(run.secret), "--strict", "--release", str(run.output)]
    assert main(audited) == 0
