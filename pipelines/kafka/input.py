"""What the rows of a topic look like before any is read, and who turns its messages into rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kanonflow.pipelines.feeds.input_files import InputSchema
from kanonflow.pipelines.feeds.message_values import JsonValues, ValueDecoder
from kanonflow.pipelines.kafka.address import KafkaAddress, ValueFormat
from kanonflow.pipelines.kafka.avro_values import AvroValues, RegistryValues, usable_schema
from kanonflow.pipelines.kafka.client import connect, kafka_library, partitions_of, read_properties
from kanonflow.pipelines.kafka.schema_registry import (
    RegistryUnavailableError,
    SchemaRegistry,
    plain_text_warning,
)
from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.rows.element_rows import text_schema

TRIES = 5
"""How often the brokers are asked how many partitions there are."""


@dataclass(frozen=True)
class KafkaInput:
    """schema: the columns that all messages share.     avro: the Avro schema behind it, as JSON; None for JSON.

    The schema is looked up once and travels with the job: a newer one in the registry changes nothing while it runs.
    """

    schema: InputSchema
    avro: str | None


def kafka_input(address: KafkaAddress, policy: Policy) -> KafkaInput:
    """The schema of a topic's rows: from schema=FILE, else the registry's latest of ``<topic>-value``.

    For JSON it is the policy's own fields, as text: nothing says which others there are, and they are dropped.
    Raises InputError: no such schema, not a record, or the registry does not answer.
    """
    if address.value_format is ValueFormat.JSON:
        return KafkaInput(InputSchema(text_schema(policy), text=True), None)
    if address.schema is not None:
        avro, source = _schema_file(address.schema), address.schema
    else:
        source = subject(address.topic)
        try:
            avro = registry_of(address).latest(source)
        except RegistryUnavailableError as error:
            raise InputError(f"registry={address.registry}: {error}") from None
    try:
        usable_schema(avro)
        columns = avro_to_arrow(avro)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    return KafkaInput(InputSchema(columns, text=False), json.dumps(avro))


def shared_by(address: KafkaAddress, parallelism: int) -> int:
    """How many readers share a topic: as ``readers=`` says, else one for each parallel instance that has a partition.

    Where no broker answers here, only the workers may reach it: then one, unless the address says how many.
    Raises InputError: the topic has fewer partitions than the address says, there is none, or access is refused.
    """
    if (address.readers or parallelism) == 1:
        return 1
    partitions = _partitions(address)
    if partitions is None:
        return address.readers or 1
    if address.readers is not None and address.readers > partitions:
        raise InputError(
            f"{address}: readers={address.readers}: the topic has {partitions} partitions, and the other readers would"
            " have none; leave it out, or say at most that many"
        )
    return address.readers or min(parallelism, partitions)


def _partitions(address: KafkaAddress) -> int | None:
    """How many partitions a topic has; None: no broker answers."""
    library = kafka_library()
    client = connect(library.admin.AdminClient, address, {})
    for _ in range(TRIES):
        with contextlib.suppress(library.KafkaException):
            return len(partitions_of(client, address))
    return None


def value_decoder(
    address: KafkaAddress, avro: str | None, columns: Sequence[str], attributes: Collection[str] = ()
) -> ValueDecoder:
    """What turns the topic's values into rows of the columns. Raises InputError.

    attributes: columns of which a cell that is no value does not break its row (schemas/text_inputs.py)."""
    if address.value_format is ValueFormat.JSON:
        return JsonValues(columns, attributes)
    schema: Mapping[str, Any] = json.loads(avro or "null")
    if address.value_format is ValueFormat.AVRO:
        return AvroValues(schema, columns, attributes)
    return RegistryValues(schema, columns, registry_of(address, tries=1), attributes)


def registry_of(address: KafkaAddress, tries: int = 5) -> SchemaRegistry:
    """The registry that the address names. Raises InputError: its ``config`` is not usable."""
    properties = read_properties(address.config).registry
    return SchemaRegistry(address.registry or "", properties, tries=tries, timeout_s=1.0)


def registry_notes(address: KafkaAddress) -> tuple[str, ...]:
    """What the user should know about how the address reaches its registry. Raises InputError as ``registry_of``."""
    if address.registry is None:
        return ()
    warning = plain_text_warning(address.registry, read_properties(address.config).registry)
    return () if warning is None else (f"registry={address.registry}: {warning}",)


def subject(topic: str) -> str:
    """The name under which registries keep the schemas of a topic's values."""
    return f"{topic}-value"


def _schema_file(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            schema = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"schema={path}: not readable as JSON ({type(error).__name__})") from None
    if not isinstance(schema, dict):
        raise InputError(f"schema={path}: the Avro schema is not a record; every row must be one")
    return schema
