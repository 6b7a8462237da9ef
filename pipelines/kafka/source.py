"""Reading a Kafka topic from a position onwards: what a splittable step polls (polled_source.py).

Every partition is assigned by hand and nothing is committed: the position in the runner's checkpoint is all there
is, so that a restart reads the same messages again. Only committed messages are read. Offsets that the broker no
longer keeps are an error and never skipped: their rows would be lost without a word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.feeds.csv_files import BrokenRow
from kanonflow.pipelines.feeds.polled_source import Chunk, FeedGoneError
from kanonflow.pipelines.feeds.row_lines import MessageOrigins
from kanonflow.pipelines.kafka.address import Begin, KafkaAddress, ValueFormat
from kanonflow.pipelines.kafka.beginning import beginning
from kanonflow.pipelines.kafka.client import (
    ASK_SECONDS,
    TroubleLog,
    connect,
    kafka_library,
    of_the_group,
    partitions_of,
    refuse_if_final,
)
from kanonflow.pipelines.kafka.input import value_decoder
from kanonflow.pipelines.kafka.other_partitions import OtherPartitions
from kanonflow.pipelines.kafka.progress import (
    PartitionProgress,
    Silence,
    TopicProgress,
    begins_of,
    decode_position,
    encode_position,
    nothing_read,
    position_of,
    reached,
)
from kanonflow.pipelines.kafka.schema_registry import RegistryUnavailableError
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.reader_shares import WHOLE, Share
from kanonflow.transforms.rows.elements import RawBatch, arrivals, arrived_at, to_ipc
from kanonflow.transforms.rows.event_times import event_times, newest_credible
from kanonflow.transforms.rows.row_origins import RowOrigin, told

CONSUME_SECONDS = 0.25
"""How long one read gathers messages."""

NEW_PARTITION_SECONDS = 60.0
"""How often the topic is asked whether it has more partitions."""

BATCH_OFFSETS = 16_384
"""Batches are cut where the offset is a multiple of this, so that a replay of a backlog cuts them alike."""

GONE_SECONDS = 15.0
"""How long a broker has to say that a partition is not there before that is believed."""

ASK_AGAIN_SECONDS = 1.0

_AGAIN = -195  # _TRANSPORT: the next read begins anew at its position

_LOST = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION")
_GONE = ("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")


@dataclass(frozen=True)
class KafkaSource:
    """A topic as a polled source.

    bound: the policy bound to ``kafka_input(...).schema``; only its columns are kept.
    avro: ``kafka_input(...).avro``.     clock: wall clock, seconds since 1970.     share: the partitions that are read.

    Event time is the policy's time field. The time that is reached is the least of the partitions' newest; a
    partition that gave nothing for the address's ``idle`` while another did does not count; when all are silent,
    time stands still. A row whose time is more than a day ahead of the clock says nothing about time, nor does one that
    is further ahead of its arrival than ``max_ahead``; a message arrives at its own timestamp. A reader of a share
    whose partitions are all silent goes by those of the others (other_partitions.py).
    """

    address: KafkaAddress
    bound: BoundPolicy
    avro: str | None = None
    clock: Callable[[], float] = time.time
    share: Share = WHOLE

    def open(self) -> KafkaReader:
        """A reader of its own. Raises InputError: no client library, or a config that cannot be used."""
        return KafkaReader(self)

    def of_share(self, share: Share) -> KafkaSource:
        """The same topic, of which some partitions are read."""
        return replace(self, share=share)

    def begins_of(self, position: bytes, share: Share) -> bytes:
        """Of a position of the whole topic what a reader begins at; of b"" that."""
        return begins_of(position, share)


class KafkaReader:
    """A connection to a topic; reads in one thread."""

    def __init__(self, source: KafkaSource) -> None:
        self._address = source.address
        self._clock = source.clock
        self._share = source.share
        self._decoder = value_decoder(
            source.address, source.avro, source.bound.input_columns, source.bound.attributes
        )
        self._bound = source.bound
        self._library = kafka_library()
        self._errors: list[Any] = []
        self._trouble = TroubleLog(source.address)
        self._consumer = self._connect()
        self._assigned = False
        self._undecoded: list[Any] = []
        self._at: bytes | None = None
        self._progress = nothing_read(source.share)
        self._silence = Silence(source.address.idle_ms, source.clock)
        self._others: tuple[int, ...] | None = None
        self._elsewhere = OtherPartitions(source.address, self._connect, self._newest, source.clock)
        self._looked_at = self._clock()
        self._confirmed_at: dict[int, float] = {}

    def read(self, position: bytes, max_rows: int) -> Chunk:
        """What follows the position; an empty chunk at the same position while brokers or the registry are away.

        Raises InputError: the topic or its access is gone, or the broker no longer keeps what comes next.
        """
        at, self._at = self._at, None  # whatever goes wrong, the next read goes back to its position
        try:
            begins_at = self._ending(position) if self._address.until_end else position
            if begins_at != at:
                self._go_to(begins_at)
            self._look_for_new_partitions()
            if not self._undecoded:
                messages = self._consumer.consume(max_rows, CONSUME_SECONDS)
                self._undecoded = [message for message in messages if self._is_row(message)]
            chunk = self._chunk(self._undecoded)
        except self._library.KafkaException as error:
            refuse_if_final(error.args[0], self._address)
            if error.args[0].name() in _GONE:
                self._refuse_if_gone()
            return self._again(position, error.args[0].name())
        except RegistryUnavailableError as error:
            self._at = position  # the messages are kept for the next try
            return self._again(position, str(error))
        self._undecoded = []
        for heard in self._errors:
            refuse_if_final(heard, self._address)
            if heard.name() in _GONE:
                self._refuse_if_gone()
            self._trouble.tell(heard.name())
        self._errors.clear()
        if chunk.batches:
            self._trouble.over()
        self._at = chunk.position
        return chunk

    def ending(self, position: bytes) -> bytes:
        """The position with the end that each partition of the topic has now, unless it has one already.

        Partitions that the position does not know yet are read from their beginning to there. An end stays: a restart,
        also one without ``until=end``, reads to it and not further.
        Raises OSError: no broker answers. InputError: the topic or its access is gone.
        """
        try:
            return self._ending(position)
        except self._library.KafkaException as error:
            refuse_if_final(error.args[0], self._address)
            self._trouble.tell(error.args[0].name())
            raise ConnectionError(f"{self._address}: {error.args[0].name()}") from None

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()
        self._elsewhere.close()

    def _ending(self, position: bytes) -> bytes:
        progress = position_of(position, self._share)
        if progress.ends and all(each.end is not None for each in progress.partitions.values()):
            return position
        partitions = dict(progress.partitions)
        for number in self._partitions():
            place = self._library.TopicPartition(self._address.topic, number)
            first, end = self._consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
            at = partitions.get(number, PartitionProgress(first))
            if not position:
                at = self._beginning(number)
            partitions[number] = at if at.end is not None else at._replace(end=max(end, at.next))
        part = progress.part and progress.part._replace(ends=True)
        return encode_position(progress._replace(partitions=partitions, part=part))

    def _partitions(self) -> list[int]:
        """The partitions of the topic that this reader reads."""
        numbers = partitions_of(self._consumer, self._address)
        self._others = tuple(number for number in numbers if not self._share.owns(number))
        return [number for number in numbers if self._share.owns(number)]

    def _again(self, position: bytes, why: str) -> Chunk:
        self._trouble.tell(why)
        latest_ms = decode_position(position).latest_ms if position else None
        return Chunk((), position, latest_ms, more=False)

    def _connect(self) -> Any:
        settings = {
            "group.id": "kanonflow",  # asked for by the library; nothing is committed to it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "queued.max.messages.kbytes": 32_768,
            "reconnect.backoff.max.ms": 1_000,
            "error_cb": self._errors.append,
        }
        return connect(self._library.Consumer, self._address, settings)

    def _go_to(self, position: bytes) -> None:
        self._undecoded = []
        if self._assigned:
            # Not assigned anew: for a moment the client would tell positions of before, and rows would be passed over.
            self._consumer.close()
            self._consumer, self._assigned = self._connect(), False
        self._progress = self._kept(position_of(position, self._share))
        if not position:
            partitions = {number: self._beginning(number) for number in self._partitions()}
            self._progress = self._progress._replace(partitions=partitions)
        self._assigned = True
        self._consumer.assign(
            [
                self._library.TopicPartition(self._address.topic, number, partition.next)
                for number, partition in self._progress.partitions.items()
                if not partition.finished
            ]
        )
        self._silence.begin(self._progress.partitions)

    def _beginning(self, number: int, *, found_later: bool = False) -> PartitionProgress:
        """Where a partition is read from: what the address says counts for those that are there at first."""
        begin = Begin() if found_later else self._address.begin
        return PartitionProgress(beginning(self._consumer, self._library, self._address, begin, number))

    def _kept(self, progress: TopicProgress) -> TopicProgress:
        """The position; where the broker does not keep what comes next and the address says where to begin, that."""
        if not self._address.begin.chosen:
            return progress
        partitions = dict(progress.partitions)
        for number, at in progress.partitions.items():
            place = self._library.TopicPartition(self._address.topic, number)
            first, _ = self._consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
            if at.next < first and not at.finished:
                partitions[number] = at._replace(next=max(first, self._beginning(number).next))
        return progress._replace(partitions=partitions)

    def _look_for_new_partitions(self) -> None:
        if self._progress.ends or self._clock() - self._looked_at < NEW_PARTITION_SECONDS:
            return
        self._looked_at = self._clock()
        new = {
            number: self._beginning(number, found_later=True)
            for number in self._partitions()
            if number not in self._progress.partitions
        }
        if new:
            topic = self._address.topic
            self._progress = self._progress._replace(partitions={**self._progress.partitions, **new})
            self._consumer.incremental_assign(
                [self._library.TopicPartition(topic, number, at.next) for number, at in new.items()]
            )
            self._silence.begin(self._progress.partitions)

    def _is_row(self, message: Any) -> bool:
        """Whether it is a message to be read; errors come the same way."""
        error = message.error()
        if error is None:
            end = self._progress.partitions[message.partition()].end
            return end is None or message.offset() < end
        place = f"{self._address}, partition {message.partition()}"
        if error.name() in _LOST:
            raise FeedGoneError(
                f"{place}: the broker does not keep what comes next (retention, or the topic was made anew), so rows"
                " are lost. To go on without them, say in the source's address from where (from=TIME, or"
                " from=PARTITION:OFFSET,...) and resume from the last checkpoint or savepoint; never start anew, for"
                " what is still there may be published. Keep messages for longer"
            )
        if error.name() in _GONE:
            self._refuse_if_gone()
            raise self._library.KafkaException(self._library.KafkaError(_AGAIN))
        if not of_the_group(error):
            self._errors.append(error)
        return False

    def _refuse_if_gone(self) -> None:
        """Raise FeedGoneError when the broker has said for a while that a partition is not there.

        One that has just started may say so of every partition.
        """
        begun = time.monotonic()
        while missing := self._missing():
            if time.monotonic() - begun >= GONE_SECONDS:
                raise FeedGoneError(
                    f"{self._address}, partition {missing[0]}: it does not exist any more, so nothing more can be read."
                    " What was released stays; rows of the open window and those that wait are in the job's last"
                    " checkpoint only"
                )
            time.sleep(ASK_AGAIN_SECONDS)

    def _missing(self) -> list[int]:
        """Partitions that are read and that the topic has not; none while no broker answers."""
        try:
            there = partitions_of(self._consumer, self._address)
        except InputError:  # there is no such topic
            there = ()
        except self._library.KafkaException:
            return []
        return sorted(set(self._progress.partitions) - set(there))

    def _chunk(self, messages: Sequence[Any]) -> Chunk:
        newest: dict[int, int] = {}
        batches = []
        # A stable sort: within a partition messages are in their order already.
        for number, part in groupby(sorted(messages, key=_partition), key=_partition):
            for batch in self._batches(number, list(part)):
                batches.append((batch.oldest_ms, batch.rows))
                if batch.newest_ms is not None:
                    newest[number] = max(newest.get(number, batch.newest_ms), batch.newest_ms)
                    self._silence.hear(number)
                    self._confirmed_at.pop(number, None)
        partitions, read_to_end = self._partitions_now(messages, newest)
        progress = self._progress = self._progress._replace(partitions=partitions)
        elsewhere = self._reached_elsewhere()
        idle = self._confirmed(self._silence.idle(read_to_end, elsewhere=elsewhere is not None))
        progress = self._progress = progress._replace(latest_ms=reached(progress, idle, elsewhere))
        more = not progress.finished and len(read_to_end) < len(partitions)
        return Chunk(tuple(batches), encode_position(progress), progress.latest_ms, more, progress.finished)

    def _reached_elsewhere(self) -> int | None:
        """What the partitions of other readers say about time, while all of these are silent; None: nothing."""
        if self._share == WHOLE or not self._silence.everywhere():
            self._elsewhere.forget()
            return None
        try:
            if self._others is None:
                self._partitions()
            return self._elsewhere.reached(self._consumer, self._others or ())
        except self._library.KafkaException as error:
            self._trouble.tell(error.args[0].name())
        except RegistryUnavailableError as error:
            self._trouble.tell(str(error))
        return None

    def _newest(self, number: int, messages: Sequence[Any]) -> int | None:
        """The newest credible event time of messages of a partition."""
        newest = (batch.newest_ms for batch in self._batches(number, messages))
        return max((each for each in newest if each is not None), default=None)

    def _partitions_now(
        self, messages: Sequence[Any], newest: Mapping[int, int]
    ) -> tuple[dict[int, PartitionProgress], set[int]]:
        """Where each partition stands after these messages, and which are read to their end."""
        topic = self._address.topic
        places = {number: self._library.TopicPartition(topic, number) for number in self._progress.partitions}
        last = {message.partition(): message.offset() for message in messages}
        partitions, read_to_end = {}, set()
        for place in self._consumer.position(list(places.values())) if places else ():
            number, before = place.partition, self._progress.partitions[place.partition]
            # The client's position also passes what is no row: aborted messages and ends of transactions.
            following = max(before.next, last.get(number, -1) + 1, place.offset)
            times = [time for time in (before.latest_ms, newest.get(number)) if time is not None]
            if before.end is not None:
                following = min(following, before.end)
            partitions[number] = PartitionProgress(following, max(times, default=None), before.end)
            if partitions[number].finished or 0 <= self._known_end(places[number]) <= following:
                read_to_end.add(number)
        return partitions, read_to_end

    def _confirmed(self, seemingly_idle: Iterable[int]) -> set[int]:
        """Those of which the broker says now that there is nothing more to read.

        What is known of a partition's end is old after an outage or a long pause, and a broker that does not answer
        is not silence. Each is asked again after the idle time.
        """
        confirmed = set()
        for number in sorted(seemingly_idle):
            asked = self._confirmed_at.get(number)
            if asked is None or (self._clock() - asked) * 1000 >= self._address.idle_ms:
                place = self._library.TopicPartition(self._address.topic, number)
                try:
                    _, end = self._consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
                except self._library.KafkaException as error:
                    self._trouble.tell(error.args[0].name())
                    break
                if end > self._progress.partitions[number].next:
                    continue
                self._confirmed_at[number] = self._clock()
            confirmed.add(number)
        return confirmed

    def _known_end(self, place: Any) -> int:
        """The partition's end as the last answer of its broker said; below 0: not known yet."""
        return self._consumer.get_watermark_offsets(place, cached=True)[1]

    def _batches(self, number: int, messages: Sequence[Any]) -> Iterator[_Batch]:
        for _, part in groupby(messages, key=lambda message: message.offset() // BATCH_OFFSETS):
            cut = list(part)
            offsets = [message.offset() for message in cut]
            values = [message.value() for message in cut]
            decoded = self._decoder.decode(values)
            place = f"{self._address.topic}/{number}"
            spelled = values if self._address.value_format is ValueFormat.JSON else None
            origins = MessageOrigins(place, offsets, decoded.places, spelled)
            broken = tuple(_unparseable(origins.of_message(at), row) for at, row in decoded.broken)
            name = f"kafka-{self._address.topic}-{number}-{offsets[0]}"
            arrived = arrived_at([_arrival(cut[at]) for at in decoded.places], len(decoded.places))
            numbers = np.array(offsets, "<i8")[decoded.places].tobytes()
            batch = RawBatch(name, to_ipc(decoded.rows), broken, arrived, place, numbers, origins=origins)
            times = event_times(decoded.rows, self._bound, source=place, arrived=arrivals(batch))
            newest_ms = newest_credible(times, int(self._clock() * 1000))
            oldest_ms = int(times.min()) if times.size else None
            yield _Batch(oldest_ms, newest_ms, batch)


class _Batch(NamedTuple):
    """oldest_ms: of all rows that have a time.     newest_ms: of those whose time is credible."""

    oldest_ms: int | None
    newest_ms: int | None
    rows: RawBatch


def _arrival(message: Any) -> int:
    """When a message arrived, in ms since 1970, by its own timestamp; -1: it has none."""
    kind, milliseconds = message.timestamp()
    return int(milliseconds) if kind else -1


def _partition(message: Any) -> int:
    return message.partition()


def _unparseable(origin: RowOrigin, row: BrokenRow) -> dict[str, Any]:
    """The rejected record of a message that is no row: where it is, and of text the message. A part by itself."""
    return {
        "reason": "unparseable",
        "field": row.field,
        "message": row.message,
        "window_end": None,
        "source": origin.source,
        **told(origin),
        "expected": row.expected,
        "part": origin.source,
        "row": {},
    }
