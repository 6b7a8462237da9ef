"""Writing each release to a topic exactly once, whoever else tries to.

Releases are spread over 16 buckets by their id. Each bucket has one transactional id, so that of all producers of a
bucket only the one that came last can commit: the broker shuts out the others (fencing). Each commit holds a
release's rows and, in the bucket's partition of the compacted topic ``<topic>-kanonflow-slots``, a marker: key the
release's id, value a digest of its rows.

Who takes a bucket over reads its markers to the end afterwards. From then on nobody else can have added one without
shutting this producer out, which it learns when it commits at the latest. So a release without a marker is written,
one with the same digest is there already, one with another digest is a conflict and never written. After any error
(fenced, broker gone, outcome of a commit not known) the bucket is taken over anew and the markers decide.

The first marker of each bucket names the run whose releases the topic holds (key ``run``). Another run, with another
policy, secret or source, would publish the same people a second time, and is refused.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from kanonflow.pipelines.kafka.address import KafkaAddress
from kanonflow.pipelines.kafka.client import (
    ASK_SECONDS,
    TroubleLog,
    connect,
    kafka_library,
    of_the_group,
    partitions_of,
    refuse_if_final,
)
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files.create_if_absent import Outcome

BUCKETS = 16
"""Never to be changed: a release's marker is looked for in its bucket's partition only."""

TRANSACTION_SECONDS = 120
"""After that long the broker gives up a transaction whose writer is gone."""

_SLOTS = "-kanonflow-slots"
_RUN = "run"
_MAY_NOT_CREATE = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_MOST_PAUSE_SECONDS = 2.0


_Answer = TypeVar("_Answer")


class KafkaSinkError(Exception):
    """A release could not be written in time; nothing of it is visible, or all of it. Trying again is safe."""

    exit_code = 3


@dataclass(frozen=True)
class Patience:
    """seconds: how long one release is tried.     clock: seconds, of any beginning.     sleep: waits."""

    seconds: float = 180.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def slots_topic(topic: str) -> str:
    """The name of the topic with the markers."""
    return topic + _SLOTS


def bucket_of(release_id: str) -> int:
    """The bucket of a release, 0 to 15."""
    digest = hashlib.blake2b(release_id.encode(), digest_size=8, person=b"kanonflow bucket").digest()
    return int.from_bytes(digest, "big") % BUCKETS


def transactional_id(topic: str, bucket: int) -> str:
    """Under which all writers of a bucket are one to the broker."""
    return f"kanonflow-{topic}-{bucket:02d}"


class ReleaseTopic:
    """A topic that releases are written to; used by the threads of one process together."""

    def __init__(self, address: KafkaAddress, run: str, patience: Patience | None = None) -> None:
        self._address = address
        self._patience = patience or Patience()
        self._trouble = TroubleLog(address)
        self._prepared = False
        self._preparing = threading.Lock()
        self._buckets = [_Bucket(address, number, run) for number in range(BUCKETS)]

    def write(self, release_id: str, digest: str, values: Collection[bytes]) -> Outcome:
        """Write a release's rows unless it is there.

        CREATED: they are in the topic now. SAME: the release was there. DIFFERENT: it was there with another digest.
        Raises KafkaSinkError: not in time; InputError: no such topic, no access, a marker topic of another kind or
        with another run's markers, a row that is larger than the broker takes.
        """
        bucket = self._buckets[bucket_of(release_id)]
        return self._tried(
            f"{release_id} could not be written", lambda: bucket.write(release_id, digest, values)
        )

    def holds(self, release_id: str, digest: str) -> bool:
        """Whether the release is in the topic with this digest; if not, no earlier writer can still add it.

        Raises as ``write``.
        """
        bucket = self._buckets[bucket_of(release_id)]
        return (
            self._tried(f"{release_id} could not be looked up", lambda: bucket.digest_of(release_id))
            == digest
        )

    def _tried(self, otherwise: str, ask: Callable[[], _Answer]) -> _Answer:
        """What a bucket answers, asked again after errors as long as patience lasts. otherwise: what failed then."""
        deadline = self._patience.clock() + self._patience.seconds
        library = kafka_library()
        attempt = 0
        while True:
            try:
                self._prepare()
                answer = ask()
            except library.KafkaException as error:
                self._explain(error.args[0])
                if self._patience.clock() > deadline:
                    raise KafkaSinkError(
                        f"{self._address}: release {otherwise} in"
                        f" {self._patience.seconds:.0f} s ({error.args[0].name()})"
                    ) from None
                attempt += 1
                self._patience.sleep(_pause(otherwise, attempt))
            else:
                self._trouble.over()
                return answer

    def _prepare(self) -> None:
        with self._preparing:
            if not self._prepared:
                admin = connect(kafka_library().admin.AdminClient, self._address, {})
                partitions_of(admin, self._address)
                may_create = _make_slots_topic(admin, self._address)
                _check_topics(admin, self._address, may_create)
                self._prepared = True

    def _explain(self, error: Any) -> None:
        refuse_if_final(error, self._address)
        if error.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            raise InputError(f"{self._address}: a row is larger than the topic's max.message.bytes") from None
        self._trouble.tell(error.name())


class _Bucket:
    """The producer of one bucket, and the markers that it knows. A marker never changes and never goes."""

    def __init__(self, address: KafkaAddress, number: int, run: str) -> None:
        self._address = address
        self._number = number
        self._run = run
        self._lock = threading.Lock()
        self._producer: Any = None
        self._markers: dict[str, str] = {}
        self._read_to = 0

    def write(self, release_id: str, digest: str, values: Collection[bytes]) -> Outcome:
        """As ``ReleaseTopic.write``, once. Raises KafkaException: the next try takes the bucket over anew."""
        with self._lock:
            marker = self._markers.get(release_id)
            if marker is None:
                producer = self._owned()
                marker = self._markers.get(release_id)
                if marker is None:
                    self._commit(producer, release_id, digest, values)
                    self._markers |= {_RUN: self._run, release_id: digest}
                self._producer = producer
        if marker is None:
            return Outcome.CREATED
        return Outcome.SAME if marker == digest else Outcome.DIFFERENT

    def digest_of(self, release_id: str) -> str | None:
        """The digest under which a release is in the topic; None: it is not. Raises KafkaException, as ``write``."""
        with self._lock:
            if release_id not in self._markers:
                # Whoever took the bucket over since may have added it; a commit would find that out, a look does not.
                self._producer = None
                self._producer = self._owned()
            return self._markers.get(release_id)

    def _owned(self) -> Any:
        """A producer that is the only one of its bucket, all markers read; to be given back when all went well."""
        producer, self._producer = self._producer, None
        if producer is None:
            producer = self._take_over()
            self._read_markers()
            if self._markers and self._markers.get(_RUN) != self._run:
                raise other_run(self._address)
        return producer

    def _take_over(self) -> Any:
        """A producer that shuts out every earlier one, and with it what that one had not committed."""
        producer = connect(
            kafka_library().Producer,
            self._address,
            {
                "transactional.id": transactional_id(self._address.topic, self._number),
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
                "partitioner": "murmur2_random",  # as Java's clients: a release's rows in one partition
                "compression.type": "lz4",
                "linger.ms": 5,
                "queue.buffering.max.kbytes": 65_536,
                "allow.auto.create.topics": False,
                "error_cb": _ignore,  # what matters comes back from the calls
            },
        )
        producer.init_transactions(TRANSACTION_SECONDS / 4)
        return producer

    def _commit(self, producer: Any, release_id: str, digest: str, values: Collection[bytes]) -> None:
        key = release_id.encode()
        try:
            producer.begin_transaction()
            for value in values:
                _produce(producer, self._address.topic, key=key, value=value)
            slots = slots_topic(self._address.topic)
            if _RUN not in self._markers:
                _produce(producer, slots, key=_RUN.encode(), value=self._run.encode(), partition=self._number)
            _produce(producer, slots, key=key, value=digest.encode(), partition=self._number)
            producer.commit_transaction(TRANSACTION_SECONDS)
        except BaseException:
            producer.purge()  # or it would wait for them when it is let go
            raise

    def _read_markers(self) -> None:
        """Read what was committed up to now, past what others have not.

        A reader of committed messages stops before the first open transaction. This bucket's are over since it was
        taken over, but to be sure the end is asked for without that rule, and has to be reached.
        """
        library = kafka_library()
        place = library.TopicPartition(slots_topic(self._address.topic), self._number)
        end = _end_of_log(self._address, place)
        if self._read_to >= end:
            return
        consumer = connect(
            library.Consumer,
            self._address,
            {
                "group.id": "kanonflow",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "error_cb": _ignore,
            },
        )
        try:
            first, _ = consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
            place.offset = max(first, self._read_to)
            consumer.assign([place])
            give_up = time.monotonic() + TRANSACTION_SECONDS / 4
            while self._read_to < end:
                for message in consumer.consume(10_000, 0.05):
                    if message.error() is not None:
                        if of_the_group(message.error()):
                            continue
                        raise library.KafkaException(message.error())
                    self._markers[message.key().decode()] = message.value().decode()
                self._read_to = max(self._read_to, consumer.position([place])[0].offset)
                if time.monotonic() > give_up:
                    raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))
        finally:
            consumer.close()


def other_run(address: KafkaAddress) -> InputError:
    """What a topic is refused with that holds the releases of another run."""
    return InputError(
        f"{address}: the topic holds releases of another run (of another policy, secret or source, or written before"
        " topics knew their run). Published twice, the same people are easier to find: choose another topic, for rows"
        " that no release holds"
    )


def _produce(producer: Any, topic: str, **message: Any) -> None:
    while True:
        try:
            producer.produce(topic, **message)
        except BufferError:
            producer.poll(0.1)  # full: wait until some are sent; an error of the transaction ends that too
        else:
            return


def _end_of_log(address: KafkaAddress, place: Any) -> int:
    """Where the partition ends, open transactions included."""
    library = kafka_library()
    admin = connect(library.admin.AdminClient, address, {"error_cb": _ignore})
    asked = admin.list_offsets(
        {place: library.admin.OffsetSpec.latest()},
        isolation_level=library.IsolationLevel.READ_UNCOMMITTED,
        request_timeout=10,
    )
    return asked[place].result().offset


def _make_slots_topic(admin: Any, address: KafkaAddress) -> bool:
    """Create the topic with the markers unless it exists; False: somebody else has to create it."""
    library = kafka_library()
    name = slots_topic(address.topic)
    compact = {"cleanup.policy": "compact"}
    topic = library.admin.NewTopic(name, BUCKETS, replication_factor=-1, config=compact)
    try:
        admin.create_topics([topic], operation_timeout=10)[name].result()
    except library.KafkaException as error:
        if error.args[0].name() in _MAY_NOT_CREATE:
            return False
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    return True


def _check_topics(admin: Any, address: KafkaAddress, created: bool) -> None:
    """Both topics keep what they have to keep. created: the marker topic is there, though a broker may not know it yet.

    Raises InputError, KafkaException.
    """
    library = kafka_library()
    name = slots_topic(address.topic)
    kind = library.admin.ConfigResource.Type.TOPIC
    asked = [library.admin.ConfigResource(kind, topic) for topic in (address.topic, name)]
    answers = admin.describe_configs(asked)
    try:
        rows, markers = (answers[topic].result()["cleanup.policy"].value for topic in asked)
    except library.KafkaException as error:
        if created or error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
            raise
        raise InputError(
            f"{address}: its marker topic {name} is not there, and may not be created; create it with {BUCKETS}"
            " partitions and cleanup.policy=compact"
        ) from None
    if "compact" in rows:
        raise InputError(
            f"{address}: the topic has cleanup.policy={rows}, which keeps one message a key, and all rows of a release"
            " have the same; it needs delete"
        )
    found = admin.list_topics(name, timeout=ASK_SECONDS).topics[name]
    if found.error is not None:
        raise library.KafkaException(found.error)
    if markers != "compact" or len(found.partitions) < BUCKETS:
        raise InputError(
            f"{address}: its marker topic {name} has cleanup.policy={markers} and {len(found.partitions)} partitions;"
            f" it needs compact and {BUCKETS}, or a release could be written twice"
        )


def _pause(what: str, attempt: int) -> float:
    """Longer from try to try, and another one in each process: two that shut each other out must fall apart."""
    digest = hashlib.blake2b(f"{os.getpid()} {threading.get_ident()} {what} {attempt}".encode()).digest()
    return min(_MOST_PAUSE_SECONDS, 0.1 * 2**attempt) * (0.5 + digest[0] / 256)


def _ignore(error: Any) -> None:
    """Errors of connections: librdkafka tries again by itself."""
