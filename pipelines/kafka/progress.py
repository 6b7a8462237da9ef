"""How far a topic has been read, and which event time it has reached."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kanonflow.schemas.errors import InputError
from kanonflow.transforms.reader_shares import WHOLE, Share


class PartitionProgress(NamedTuple):
    """next: the offset to read next.     latest_ms: the newest credible event time; None before the first.
    end: where to end (exclusive); None: never."""

    next: int
    latest_ms: int | None = None
    end: int | None = None

    @property
    def finished(self) -> bool:
        """Whether everything that was asked for is read."""
        return self.end is not None and self.next >= self.end


class Part(NamedTuple):
    """Of what a position is a part, where several readers share a topic.

    readers: whose it is; of: how many there are. ends: whether an end was asked for, also where a reader has no
    partition that could say so.
    """

    readers: tuple[int, ...]
    of: int
    ends: bool = False


class TopicProgress(NamedTuple):
    """A position. ``latest_ms``: the event time that was reached, which no restart takes back. part: None: of all."""

    partitions: Mapping[int, PartitionProgress]
    latest_ms: int | None = None
    part: Part | None = None

    @property
    def ends(self) -> bool:
        """Whether an end was asked for."""
        asked = self.part is not None and self.part.ends
        return asked or any(partition.end is not None for partition in self.partitions.values())

    @property
    def finished(self) -> bool:
        """Whether there is an end and it is reached everywhere."""
        return self.ends and all(partition.finished for partition in self.partitions.values())


def nothing_read(share: Share) -> TopicProgress:
    """Before the first partition of a reader is known."""
    return TopicProgress({}, None, None if share == WHOLE else Part((share.number,), share.of))


def encode_position(progress: TopicProgress) -> bytes:
    """A position as bytes; equal positions give equal bytes."""
    partitions = {str(number): list(progress.partitions[number]) for number in sorted(progress.partitions)}
    part = {} if progress.part is None else {"part": progress.part}
    return json.dumps(
        {"latest": progress.latest_ms, "partitions": partitions, **part}, separators=(",", ":")
    ).encode()


def decode_position(position: bytes) -> TopicProgress:
    """The inverse of ``encode_position``."""
    values = json.loads(position)
    partitions = {int(number): PartitionProgress(*parts) for number, parts in values["partitions"].items()}
    part = values.get("part")
    of_whom = None if part is None else Part(tuple(part[0]), *part[1:])
    return TopicProgress(partitions, values["latest"], of_whom)


def position_of(position: bytes, share: Share) -> TopicProgress:
    """The position of a share's reader; b"": nothing is read. Raises InputError: it is another reader's."""
    begins = nothing_read(share)
    progress = decode_position(position) if position else begins
    if _whose(progress) != _whose(begins) or not all(map(share.owns, progress.partitions)):
        raise InputError(
            f"the position of reader {share.number} of {share.of} is that of another one: its state was not made by"
            " this stream. Go on from the stream's own last checkpoint or savepoint"
        )
    return progress


def begins_of(position: bytes, share: Share) -> bytes:
    """What of a whole position a reader begins at; of none none."""
    if not position:
        return b""
    partitions = {
        number: at for number, at in decode_position(position).partitions.items() if share.owns(number)
    }
    return encode_position(nothing_read(share)._replace(partitions=partitions))


def joined(before: bytes, end: bytes) -> bytes:
    """The positions that readers of one topic ended at as one; of all of them a whole one. before: b"": none yet.

    A feed that one reader reads has one end, which stays as it is.
    """
    if not before or b'"part"' not in end:
        return end
    one, other = decode_position(before), decode_position(end)
    if one.part is None or other.part is None:  # all have said it
        return before
    readers = tuple(sorted({*one.part.readers, *other.part.readers}))
    part = None if len(readers) == other.part.of else other.part._replace(readers=readers)
    return encode_position(TopicProgress({**one.partitions, **other.partitions}, None, part))


def going_on(position: bytes) -> bytes:
    """Where another stream goes on behind this position: at the same offsets, without an end; time begins anew.

    Raises InputError: ends of readers are missing in it.
    """
    progress = decode_position(position)
    if progress.part is not None:
        raise InputError(
            f"of the {progress.part.of} readers that the topic had, {len(progress.part.readers)} wrote down where they"
            " ended: what the others read would be published a second time"
        )
    partitions = progress.partitions
    return encode_position(
        TopicProgress({number: PartitionProgress(at.next) for number, at in partitions.items()})
    )


def reached(progress: TopicProgress, idle: Collection[int], elsewhere: int | None = None) -> int | None:
    """The event time that every partition has reached which still counts; never less than it was.

    Partitions that are idle do not count, nor do those that are read to the end that was asked for while others are
    not. One that has given nothing yet holds the others back, until it is idle. elsewhere: what partitions of other
    readers have reached, which counts where none of these does.
    """
    counting = [
        partition
        for number, partition in progress.partitions.items()
        if number not in idle and (progress.finished or not partition.finished)
    ]
    times = [partition.latest_ms for partition in counting if partition.latest_ms is not None]
    if not counting and elsewhere is not None:
        times = [elsewhere]
    if not times or len(times) < len(counting):
        return progress.latest_ms
    return max(min(times), progress.latest_ms if progress.latest_ms is not None else min(times))


class Silence:
    """Which partitions have been silent for long while others were not. clock: seconds."""

    def __init__(self, idle_ms: int, clock: Callable[[], float]) -> None:
        self._idle_s = idle_ms / 1000
        self._clock = clock
        self._heard: dict[int, float] = {}

    def begin(self, partitions: Collection[int]) -> None:
        """From now on these are listened to; those known already keep their time."""
        now = self._clock()
        self._heard = {number: self._heard.get(number, now) for number in partitions}

    def hear(self, partition: int) -> None:
        """It gave a row with an event time."""
        self._heard[partition] = self._clock()

    def everywhere(self) -> bool:
        """Whether all were silent for the idle time."""
        return len(self.silent()) == len(self._heard)

    def idle(self, read_to_end: Collection[int], *, elsewhere: bool = False) -> frozenset[int]:
        """Those of ``read_to_end`` that were silent for the idle time; none when all were: then time stands still.

        elsewhere: whether a partition of another reader was not.
        """
        if self.everywhere() and not elsewhere:
            return frozenset()
        return frozenset(self.silent() & set(read_to_end))

    def silent(self) -> set[int]:
        """Those that were silent for the idle time."""
        now = self._clock()
        return {number for number, heard in self._heard.items() if now - heard >= self._idle_s}


def _whose(progress: TopicProgress) -> tuple[tuple[int, ...], int]:
    return ((0,), 1) if progress.part is None else progress.part[:2]
