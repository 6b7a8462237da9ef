"""Positions and event time of a topic, without one."""

from dataclasses import dataclass

from kanonflow.pipelines.kafka.progress import (
    PartitionProgress,
    Silence,
    TopicProgress,
    decode_position,
    encode_position,
    reached,
)


@dataclass
class Clock:
    """Moved by hand."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def _topic(*latest: int | None, before: int | None = None) -> TopicProgress:
    return TopicProgress({number: PartitionProgress(5, time) for number, time in enumerate(latest)}, before)


def test_positions_survive_a_checkpoint() -> None:
    """Equal ones as equal bytes, whatever the order of the partitions."""
    progress = TopicProgress({10: PartitionProgress(7, 1000, 9), 2: PartitionProgress(0)}, 500)
    again = TopicProgress(dict(reversed(progress.partitions.items())), 500)
    assert decode_position(encode_position(progress)) == progress
    assert encode_position(progress) == encode_position(again)


def test_time_is_that_of_the_slowest_partition() -> None:
    """One without a row holds all back; those that are idle do not count; it never goes back."""
    assert reached(_topic(30, 10, 20), ()) == 10
    assert reached(_topic(30, 10, None), ()) is None
    assert reached(_topic(30, 10, None), {2}) == 10
    assert reached(_topic(30, 10, None), {1, 2}) == 30
    assert reached(_topic(30, 10, before=15), ()) == 15
    assert reached(_topic(30, None, before=15), ()) == 15
    assert reached(_topic(30, 10, before=15), {0, 1}) == 15
    assert reached(_topic(-7, -5, before=-9), ()) == -7


def test_partitions_at_their_end_do_not_hold_back() -> None:
    """until=end: what is read completely will never give an older row; at last all count again."""
    half = TopicProgress({0: PartitionProgress(5, 10, 5), 1: PartitionProgress(3, 30, 5)})
    assert (half.finished, reached(half, ())) == (False, 30)
    whole = TopicProgress({0: PartitionProgress(5, 10, 5), 1: PartitionProgress(5, 30, 5)}, 30)
    assert (whole.finished, reached(whole, ())) == (True, 30)
    assert not _topic(1).finished


def test_silence_is_relative() -> None:
    """A partition is idle when it was silent long enough, read to its end, and another one spoke."""
    clock = Clock()
    silence = Silence(60_000, clock)
    silence.begin([0, 1])
    clock.now += 59
    silence.hear(0)
    assert silence.idle([0, 1]) == set()
    clock.now += 1
    assert silence.idle([0, 1]) == {1}
    assert silence.idle([0]) == set()
    clock.now += 59
    assert silence.idle([0, 1]) == set()  # all are silent: nobody is ahead of the others
    silence.hear(0)
    assert silence.idle([0, 1]) == {1}
    silence.hear(1)
    assert silence.idle([0, 1]) == set()


def test_partitions_that_join_have_their_own_time() -> None:
    """A new one is not idle at once, and the others keep theirs; a single one never is."""
    clock = Clock()
    silence = Silence(60_000, clock)
    silence.begin([0])
    clock.now += 100
    assert silence.idle([0]) == set()
    silence.begin([0, 1])
    assert silence.idle([0, 1]) == {0}
