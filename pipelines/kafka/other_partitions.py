"""What the partitions that other readers of a topic read say about time, for a reader whose own are silent.

One reader of a whole topic sees that a partition is silent while others are not. A reader of some of them cannot, so it
looks at the ends of the others; where one has moved, it reads the last messages there, and only their time counts. That
is the time that one reader of all would be at, if it had read all there is. A claim that is ahead of the reader of that
partition does no harm: the step is as far as the least of its readers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from kanonflow.pipelines.kafka.address import KafkaAddress
from kanonflow.pipelines.kafka.client import ASK_SECONDS, kafka_library
from kanonflow.pipelines.kafka.progress import Silence

LOOK_SECONDS = 5.0
"""How often it looks, if ``idle`` is not shorter: so far behind the others may a silent reader be."""

LAST_OFFSETS = 64
"""How many offsets before the end of a partition are read. Some hold no message: ends of transactions have one."""


class OtherPartitions:
    """The partitions of the other readers. connect: makes a consumer, when the first one has moved. clock: seconds.

    newest: the newest credible event time of messages of a partition; None: they have none.
    """

    def __init__(
        self,
        address: KafkaAddress,
        connect: Callable[[], Any],
        newest: Callable[[int, Sequence[Any]], int | None],
        clock: Callable[[], float],
    ) -> None:
        self._address = address
        self._connect = connect
        self._newest = newest
        self._clock = clock
        self._library = kafka_library()
        self._consumer: Any = None
        self._every_s = min(LOOK_SECONDS, address.idle_ms / 1000)
        self.forget()

    def forget(self) -> None:
        """Nobody asks for them: what was seen is old when somebody does again."""
        self._looked_at: float | None = None
        self._ends: dict[int, int] = {}
        self._latest: dict[int, int] = {}
        self._heard = Silence(self._address.idle_ms, self._clock)

    def reached(self, consumer: Any, numbers: Collection[int]) -> int | None:
        """The least of the newest event times of those that were not silent for ``idle``; None: all were.

        numbers: all that others read. consumer: to ask for their ends; it stays as it is.
        Raises KafkaException: no answer. RegistryUnavailableError.
        """
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= self._every_s:
            self._looked_at = now
            self._look(consumer, numbers)
        spoke = self._latest.keys() - self._heard.silent()
        return min((self._latest[number] for number in spoke), default=None)

    def close(self) -> None:
        """Give the connection back."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _look(self, consumer: Any, numbers: Collection[int]) -> None:
        end = self._library.OFFSET_END
        asked = [self._library.TopicPartition(self._address.topic, number, end) for number in numbers]
        places = consumer.offsets_for_times(asked, timeout=ASK_SECONDS) if asked else []
        ends = {place.partition: int(place.offset) for place in places if place.error is None}
        # The first look only says from where on one moves.
        moved = {number: at for number, at in ends.items() if at > self._ends.get(number, at)}
        for number, messages in self._last_messages(moved).items():
            newest = self._newest(number, messages)
            if newest is not None:
                self._latest[number] = max(newest, self._latest.get(number, newest))
                self._heard.hear(number)
        self._ends.update(ends)

    def _last_messages(self, ends: dict[int, int]) -> dict[int, list[Any]]:
        """What stands before these ends, as far as it comes in time."""
        if not ends:
            return {}
        self._consumer = self._consumer or self._connect()
        topic = self._address.topic
        places = [
            self._library.TopicPartition(topic, number, max(self._ends[number], end - LAST_OFFSETS))
            for number, end in ends.items()
        ]
        found: dict[int, list[Any]] = {number: [] for number in ends}
        until = time.monotonic() + ASK_SECONDS
        self._consumer.assign(places)
        while time.monotonic() < until and not _all_at(self._consumer.position(places), ends):
            for message in self._consumer.consume(LAST_OFFSETS * len(ends), ASK_SECONDS / 10):
                if message.error() is None:
                    found[message.partition()].append(message)
        self._consumer.unassign()
        return found


def _all_at(places: Iterable[Any], ends: dict[int, int]) -> bool:
    return all(place.offset >= ends[place.partition] for place in places)
