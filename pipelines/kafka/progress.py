"""How far a topic has been read, and which event time it has reached."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple


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


class TopicProgress(NamedTuple):
    """A position. ``latest_ms``: the event time that was reached, which no restart takes back."""

    partitions: Mapping[int, PartitionProgress]
    latest_ms: int | None = None

    @property
    def finished(self) -> bool:
        """Whether there is an end and it is reached everywhere."""
        return all(partition.finished for partition in self.partitions.values())


def encode_position(progress: TopicProgress) -> bytes:
    """A position as bytes; equal positions give equal bytes."""
    partitions = {str(number): list(progress.partitions[number]) for number in sorted(progress.partitions)}
    return json.dumps(
        {"latest": progress.latest_ms, "partitions": partitions}, separators=(",", ":")
    ).encode()


def decode_position(position: bytes) -> TopicProgress:
    """The inverse of ``encode_position``."""
    values = json.loads(position)
    partitions = {int(number): PartitionProgress(*parts) for number, parts in values["partitions"].items()}
    return TopicProgress(partitions, values["latest"])


def going_on(position: bytes) -> bytes:
    """Where another stream goes on behind this position: at the same offsets, without an end; time begins anew."""
    partitions = decode_position(position).partitions
    return encode_position(
        TopicProgress({number: PartitionProgress(at.next) for number, at in partitions.items()})
    )


def reached(progress: TopicProgress, idle: Collection[int]) -> int | None:
    """The event time that every partition has reached which still counts; never less than it was.

    Partitions that are idle do not count, nor do those that are read to the end that was asked for while others are
    not. One that has given nothing yet holds the others back, until it is idle.
    """
    counting = [
        partition
        for number, partition in progress.partitions.items()
        if number not in idle and (progress.finished or not partition.finished)
    ]
    times = [partition.latest_ms for partition in counting if partition.latest_ms is not None]
    if not counting or len(times) < len(counting):
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

    def idle(self, read_to_end: Collection[int]) -> frozenset[int]:
        """Those of ``read_to_end`` that were silent for the idle time; none when all were: then time stands still."""
        now = self._clock()
        silent = {number for number, heard in self._heard.items() if now - heard >= self._idle_s}
        return frozenset(silent & set(read_to_end)) if len(silent) < len(self._heard) else frozenset()
