"""Positions and event time of a topic, without one."""

from dataclasses import dataclass

import pytest

from kanonflow.pipelines.kafka.progress import (
    Part,
    PartitionProgress,
    Silence,
    TopicProgress,
    begins_of,
    decode_position,
    encode_position,
    going_on,
    joined,
    nothing_read,
    position_of,
    reached,
)
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.reader_shares import WHOLE, Share


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


def test_a_reader_of_silent_partitions_goes_by_those_of_the_others() -> None:
    """Only where none of its own counts, and never back."""
    assert reached(_topic(30, 10), {0, 1}, 40) == 40
    assert reached(_topic(30, None, before=50), {0, 1}, 40) == 50
    assert reached(_topic(30, 10), {1}, 40) == 30
    assert reached(_topic(30, None), (), 40) is None
    assert reached(TopicProgress({}), (), 40) == 40
    assert reached(TopicProgress({}, 5), ()) == 5
    clock = Clock()
    silence = Silence(60_000, clock)
    assert silence.everywhere()
    silence.begin([0, 1])
    clock.now += 60
    assert silence.everywhere()
    assert silence.idle([0, 1]) == set()
    assert silence.idle([0], elsewhere=True) == {0}


def test_a_position_of_some_partitions_says_whose_it_is() -> None:
    """No other reader takes it, nor does one of a whole topic; a whole one is written as it always was."""
    mine, position = Share(1, 3), encode_position(nothing_read(Share(1, 3)))
    assert position_of(position, mine) == position_of(b"", mine) == TopicProgress({}, None, Part((1,), 3))
    assert decode_position(position) == nothing_read(mine)
    foreign = encode_position(TopicProgress({3: PartitionProgress(0)}, None, Part((1,), 3)))
    whole = encode_position(_topic(1, 2))
    assert whole == b'{"latest":null,"partitions":{"0":[5,1,null],"1":[5,2,null]}}'
    assert position_of(whole, WHOLE) == _topic(1, 2)
    for share, other in (
        (WHOLE, position),
        (Share(0, 3), position),
        (Share(1, 2), position),
        (mine, foreign),
        (mine, whole),
    ):
        with pytest.raises(InputError, match="is that of another one"):
            position_of(other, share)


def test_a_reader_without_partitions_ends_when_it_is_asked_to() -> None:
    """And not before: partitions may be added."""
    empty = nothing_read(Share(2, 3))
    assert not empty.finished
    assert empty._replace(part=Part((2,), 3, ends=True)).finished


def test_ends_of_readers_become_one_position() -> None:
    """In any order, told twice or once; none goes on from a part of them; of one reader the end stays as it is."""
    whole = TopicProgress({number: PartitionProgress(number + 1, 9, number + 1) for number in range(5)}, 9)
    ends = [
        encode_position(
            TopicProgress({n: whole.partitions[n] for n in range(r, 5, 3)}, 9, Part((r,), 3, ends=True))
        )
        for r in range(3)
    ]
    for order in ((0, 1, 2), (2, 0, 1), (1, 1, 0, 2)):
        at = b""
        for number in order:
            with pytest.raises(InputError, match=r"of the 3 readers that the topic had, \d wrote down"):
                going_on(at or ends[0])
            at = joined(at, ends[number])
        assert going_on(at) == going_on(encode_position(whole))
        assert joined(at, ends[0]) == at
    assert joined(b"", b"no topic's") == joined(b"a directory's", b"no topic's") == b"no topic's"


def test_what_a_stream_begins_at_is_split_over_its_readers() -> None:
    """Each partition to its reader, at its offset; what begins nowhere stays so."""
    whole = encode_position(_topic(1, 2, 3, 4, 5))
    parts = [decode_position(begins_of(whole, Share(number, 2))) for number in range(2)]
    assert [sorted(part.partitions) for part in parts] == [[0, 2, 4], [1, 3]]
    assert {at.next for part in parts for at in part.partitions.values()} == {5}
    assert begins_of(b"", Share(0, 2)) == b""
