"""Streams from Kafka to Kafka on a cluster: poison, silence, machines that die while a release is being written.

After each: every row is released or rejected, once, and no release's slot is used twice. A broker that dies is in
test_chaos.py, and for readers and writers alone in tests/kafka.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.commands.verify_topics import verify
from tests.flink.stream_runs import StreamRun, accounts, policy_text, records, wait_for
from tests.flink.test_faults import restart
from tests.flink.topic_runs import SCHEMA, TopicRun, avro_value, json_value, typed_policy, wait_for_end
from tests.kafka.topics import Topics
from tests.pipelines.kafka.registry_stub import stub_registry
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 8
FEED = hourly(HOURS, 60, 40)


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if f"{first:02d}" <= str(each["when"])[11:13] < f"{last:02d}"]


def test_a_topic_that_is_there(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """Plain Avro in, JSON out, poison in between; the audit passes over both topics."""
    schema = tmp_path / "event.avsc"
    schema.write_text(json.dumps(SCHEMA))
    run = TopicRun(
        cluster,
        tmp_path / "run",
        topics,
        policy=typed_policy(),
        reading=f"format=avro&schema={schema}&until=end",
        writing="format=json",
        value=avro_value,
        partitions=2,
    )
    runs.append(run)
    half = len(FEED) // 2
    run.send(FEED[:half:2], 0)
    run.send(FEED[1:half:2], 1)
    poison = [row(9001, 1, 0.5) | {"who": None}, row(9002, 1, 0.5, when=None)]
    topics.write(run.rows_topic, [b"", None, b"\x00poison", avro_value(FEED[0]) + b"\x00"], 1)
    run.send([FEED[half], *poison], 0)
    run.send(FEED[half + 1 :: 2], 1)
    run.send(FEED[half + 2 :: 2], 0)
    run.begin(checkpointing_ms=500)
    wait_for_end(run)
    nothing = [row(0, 0, 0, reference="")] * 4
    reasons = accounts(run, [*FEED, *poison, *nothing])
    assert reasons["unparseable"] == 4
    assert len(run.releases()) == HOURS
    report = verify(run.policy, [run.source], run.output, run.target)
    assert report.passed, report.render()
    assert report.figures.broken == 4


def test_what_a_live_stream_withstands(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """A partition goes silent; the machines die while releases are being written."""
    with stub_registry() as registry:
        registered = f"format=registry&registry={registry.url}"
        run = TopicRun(
            cluster,
            tmp_path / "run",
            topics,
            policy=policy_text(max_delay="2h"),
            reading="format=json&idle=2s",
            writing=registered,
            value=json_value,
            partitions=2,
        )
        runs.append(run)
        run.send(hours(0, 1)[::2], 0)
        run.send(hours(0, 1)[1::2], 1)
        run.begin(checkpointing_ms=2_000)

        # From here on the second partition is silent.
        run.trickle(hours(1, 2), START + HOUR)
        run.send(hours(2, 4))
        run.wait_for_releases(3)

        # Several releases come with one checkpoint; the machines die when the first of them is in the topic.
        before = run.written()
        run.send(hours(4, HOURS))
        wait_for(lambda: run.written() > before, "a release being written")
        restart(cluster, run)
        run.send([row(9000 + who, who, HOURS + 0.5) for who in range(12)], 0)
        run.send([row(9100 + who, who, HOURS + 0.5) for who in range(12)], 1)
        run.reaches(START + HOURS * HOUR)
        run.wait_for_releases(HOURS)
        open_rows_stay_inside(run)


def open_rows_stay_inside(run: TopicRun) -> None:
    """Rows in = released + rejected + waiting, each once, and none of the window that is open is out."""
    out = [*run.released(), *(reference for reference, _ in run.rejected())]
    last = max(records(run.output / "restricted" / "metrics"), key=lambda record: record["window_end"])
    assert len(out) == len(set(out)) == len(FEED) - last["rows_waiting"]
    assert set(out) <= {row["reference"] for row in FEED}
