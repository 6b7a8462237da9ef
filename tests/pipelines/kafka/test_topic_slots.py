"""Releases that go to a topic obey the same slots as files; no broker is needed to see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.pvalue import TaggedOutput

from kanonflow.pipelines.kafka import sink as kafka_sink
from kanonflow.pipelines.kafka.address import kafka_sink_address
from kanonflow.pipelines.kafka.release_topic import _Bucket
from kanonflow.transforms.files.create_if_absent import Outcome
from kanonflow.transforms.rows.elements import Release, from_ipc, to_ipc
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, row

pytest.importorskip("confluent_kafka")


class Topic:
    """A topic that takes what it gets, once a name."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def write(self, release_id: str, digest: str, values: list[bytes]) -> Outcome:
        """As ``ReleaseTopic.write``."""
        if release_id not in self.digests:
            self.digests[release_id] = digest
            return Outcome.CREATED
        return Outcome.SAME if self.digests[release_id] == digest else Outcome.DIFFERENT

    def holds(self, release_id: str, digest: str) -> bool:
        """As ``ReleaseTopic.holds``."""
        return self.digests.get(release_id) == digest


def test_a_topic_gets_no_release_that_does_not_go_on_from_what_is_there(tmp_path: Path) -> None:
    """The second line of states makes nothing at t: its release at t+1 is withheld, and so is the next one. What is in
    the topic since before the partition was parked comes again without being a conflict; with other rows it is one."""
    bound = bound_feed(feed_policy(people=True, max_delay="2h"))
    topic = Topic()
    address = kafka_sink_address("kafka://nowhere:9092/out?format=avro")
    sink = kafka_sink._WriteRelease(address, bound, "run", str(tmp_path), 0)
    sink._topic = topic  # type: ignore[assignment]

    def written(release: Release) -> bool:
        (output,) = sink.process(release)
        return not isinstance(output, TaggedOutput)

    rows = [row(number, number, 0.5) for number in range(4)]
    step = DrivenPartitions(bound, SECRET)
    step.send(rows)
    step.finish()
    assert [written(release) for release in step.released] == [True]
    other = DrivenPartitions(bound, SECRET)
    other.send(rows[:2])
    other.advance(START + HOUR)
    other.send([row(10 * hour + who, 10 * hour + who, hour + 0.5) for hour in (1, 2) for who in range(4)])
    other.finish()
    assert [written(release) for release in other.released] == [False, False]
    assert set(topic.digests) == {step.released[0].release_id}
    (first,) = step.released
    assert written(first), "its rows are out, and not withheld"
    assert not written(first._replace(ipc=to_ipc(from_ipc(first.ipc).slice(1))))
    assert not written(first._replace(release_id="another")), "the partition is parked"
    assert set(topic.digests) == {first.release_id}


def test_who_was_shut_out_and_does_not_know_it_looks_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that somebody else has taken over since: "not there" out of its own memory would be wrong."""
    there: dict[str, str] = {}
    monkeypatch.setattr(_Bucket, "_take_over", lambda self: object())
    monkeypatch.setattr(_Bucket, "_read_markers", lambda self: self._markers.update(there))

    def commit(self: _Bucket, producer: object, release_id: str, digest: str, values: list[bytes]) -> None:
        there.update({"run": self._run, release_id: digest})

    monkeypatch.setattr(_Bucket, "_commit", commit)
    address = kafka_sink_address("kafka://nowhere:9092/out?format=avro")
    first, second = (_Bucket(address, 0, "a run") for _ in range(2))
    assert first.digest_of("one") is None
    assert second.write("one", "d1", []) is Outcome.CREATED
    assert (first.digest_of("one"), first.digest_of("two")) == ("d1", None)
