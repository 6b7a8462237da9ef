"""Connections to Kafka: the client library, its properties, and what its errors mean."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kanonflow.pipelines.kafka.address import KafkaAddress
from kanonflow.pipelines.kafka.schema_registry import PREFIX, property_mistake
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import printable
from kanonflow.transforms.secret.secret_files import open_to_others

ASK_SECONDS = 1.0
"""How long a question to the brokers may take."""

REPEAT_SECONDS = 60.0
"""How long the same trouble is not logged again."""

_LOG = logging.getLogger(__name__)
_OURS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "transactional.id",
        "transaction.timeout.ms",
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "partitioner",
        "allow.auto.create.topics",
    }
)
_REFUSALS = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
)


class PropertiesError(InputError):
    """Properties that cannot be used: every mistake at once, one a line."""

    def __str__(self) -> str:
        return "\n".join(map(printable, self.args))


class Properties(NamedTuple):
    """What the file of ``config`` says. client: for librdkafka. registry: for the schema registry's client."""

    client: Mapping[str, str]
    registry: Mapping[str, str]


def kafka_library() -> Any:
    """confluent_kafka. Raises InputError: it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise InputError("Kafka needs a client library: pip install kanonflow[kafka]") from None
    return confluent_kafka


def read_properties(path: str | None) -> Properties:
    """The properties in a file: ``name=value`` a line, # begins a comment. None: there are none.

    Raises InputError, which names lines and properties but repeats no value.
    """
    if path is None:
        return Properties({}, {})
    try:
        with open(path, encoding="utf-8") as file:
            _refuse_open_file(path, os.fstat(file.fileno()))
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"config {path}: not readable ({type(error).__name__})") from None
    client: dict[str, str] = {}
    registry: dict[str, str] = {}
    mistakes = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not name:
            mistakes.append(f"line {number} is not name=value")
        elif name.startswith(PREFIX):
            name = name.removeprefix(PREFIX)
            if (mistake := property_mistake(name, value)) is not None:
                mistakes.append(f"line {number}: {mistake}")
            registry[name] = value
        elif name in _OURS or name.endswith("_cb"):
            mistakes.append(f"line {number}: {name} is not yours to set: what is promised here rests on it")
        else:
            client[name] = value
    if mistakes:
        raise PropertiesError(*(f"config {path}: {mistake}" for mistake in mistakes))
    return Properties(client, registry)


def _refuse_open_file(path: str, status: os.stat_result) -> None:
    """Raise InputError when others than its user and root can read or change a file of passwords.

    Its group may read it where that is the user's only way to it, as in a volume of Kubernetes with an fsGroup.
    """
    if open_to_others(status, os.geteuid()):
        raise InputError(
            f"config {path}: open to others than its owner (mode {stat.S_IMODE(status.st_mode):04o}), and passwords"
            f" stand there: chmod 600 {path}; for a volume of Kubernetes, defaultMode: 0400"
        )


def connect(kind: Callable[[dict[str, Any]], Any], address: KafkaAddress, settings: Mapping[str, Any]) -> Any:
    """A consumer, producer or admin client (``kind``) of the topic's cluster.

    settings: ours; what the address's ``config`` says goes before them (a group.id, sizes of queues).
    Raises InputError: a property of the address's ``config`` is unknown or has no such value.
    """
    ours = {"bootstrap.servers": address.bootstrap, "client.id": "kanonflow", "log_level": 2}
    try:
        return kind({**ours, **settings, **read_properties(address.config).client})
    except kafka_library().KafkaException as error:
        reason = str(error.args[0].str())
        # What is said of a value repeats it, and the value may be a password.
        why = reason if reason.startswith("No such configuration property") else "a value is not accepted"
        raise InputError(f"config {address.config}: the Kafka client refuses it: {why}") from None


def refuse_if_final(error: Any, address: KafkaAddress) -> None:
    """Raise InputError for an error that no waiting cures: who we are is not known or not allowed to."""
    if error.name() in _REFUSALS:
        raise InputError(
            f"{address}: access is refused ({error.name()}); give what is needed with config=FILE"
        ) from None


def of_the_group(error: Any) -> bool:
    """Whether an error is about the consumer group, which the library asks for and nothing here uses."""
    return bool(error.name() == "GROUP_AUTHORIZATION_FAILED")


def partitions_of(client: Any, address: KafkaAddress) -> tuple[int, ...]:
    """The topic's partitions. Raises InputError: there is no such topic; KafkaException: no answer just now."""
    library = kafka_library()
    topic = client.list_topics(address.topic, timeout=ASK_SECONDS).topics[address.topic]
    if topic.error is not None:
        refuse_if_final(topic.error, address)
        if topic.error.name() == "UNKNOWN_TOPIC_OR_PART":
            raise InputError(f"{address}: there is no such topic; create it first")
        raise library.KafkaException(topic.error)
    return tuple(sorted(topic.partitions))


class TroubleLog:
    """Logs each kind of trouble once a minute at most. clock: seconds, of any beginning."""

    def __init__(self, address: KafkaAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._open = False

    def tell(self, what: str) -> None:
        """Log it unless it has just been. ``what``: a name, no values."""
        told_at = self._told_at.get(what)
        if told_at is None or self._clock() - told_at >= REPEAT_SECONDS:
            self._told_at[what] = self._clock()
            self._open = True
            _LOG.warning("%s: %s; trying again", self._address, what)

    def over(self) -> None:
        """It works again."""
        if self._open:
            self._open = False
            _LOG.warning("%s: works again", self._address)
