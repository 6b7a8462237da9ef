"""A partition that is added to a topic while a stream reads it: what becomes of rows that lie in it by then."""

from __future__ import annotations

from kanonflow.pipelines.kafka.progress import PartitionProgress, Silence, TopicProgress, reached
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, row


def at(hour: float) -> int:
    """Milliseconds since 1970, so many hours after START."""
    return START + int(hour * HOUR)


def test_rows_of_a_partition_that_is_found_later() -> None:
    """It holds time back until it has given a row, and takes none back. Of its rows those of released windows go with
    the next release where ``max_delay`` lets them, older ones are rejected as late, the others are in time."""
    step = DrivenPartitions(bound_feed(feed_policy(max_delay="2h")), SECRET)
    alone = TopicProgress({0: PartitionProgress(12, latest_ms=at(5.5))})
    step.send([row(10 * hour + who, who, hour + 0.5) for hour in (3, 4, 5) for who in range(4)])
    progress = alone._replace(latest_ms=reached(alone, ()))
    assert progress.latest_ms == at(5.5)
    step.advance(progress.latest_ms)
    assert [release.window_end for release in step.released] == [at(4), at(5)]

    joined = progress._replace(
        partitions={0: PartitionProgress(16, latest_ms=at(7.5)), 1: PartitionProgress(0)}
    )
    assert reached(joined, ()) == at(5.5)  # the other one goes on, and time does not
    old = [row(100, 7, 0.5), row(101, 8, 4.5), row(102, 9, 5.6)]
    step.send(old)
    joined = joined._replace(partitions={**joined.partitions, 1: PartitionProgress(3, latest_ms=at(5.6))})
    assert reached(joined, ()) == at(5.6)
    older = joined._replace(partitions={**joined.partitions, 1: PartitionProgress(2, latest_ms=at(4.5))})
    assert reached(older, ()) == at(5.5)

    step.send([row(70 + who, who, 7.5) for who in range(4)])
    step.advance(at(7.5))
    (last,) = step.tables()[2:]
    assert sorted(last.column("reference").to_pylist()) == ["r101", "r102", "r50", "r51", "r52", "r53"]
    assert step.refused() == [("r100", "late")]


def test_one_that_stays_silent_holds_time_back_only_for_a_while() -> None:
    """From when it was found on, not from when the topic began to be read."""
    now = [0.0]
    silence = Silence(60_000, lambda: now[0])
    silence.begin([0])
    now[0] = 1000
    silence.begin([0, 1])
    silence.hear(0)
    progress = TopicProgress({0: PartitionProgress(9, latest_ms=at(7)), 1: PartitionProgress(0)}, at(5))
    assert reached(progress, silence.idle([0, 1])) == at(5)
    now[0] += 60
    silence.hear(0)
    assert reached(progress, silence.idle([0, 1])) == at(7)
