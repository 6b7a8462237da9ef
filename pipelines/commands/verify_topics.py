"""``kanonflow verify`` where the input, the releases, or both are Kafka topics: copied into files, then audited.

The copies lie in a folder that only their owner can read, and are gone when the audit is done.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.read.read_input import bind_input
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.chains.feeds_read import BEGINS
from kanonflow.pipelines.commands.topic_copies import Span, copy_releases, copy_rows
from kanonflow.pipelines.kafka.address import (
    KafkaAddress,
    is_kafka_address,
    kafka_sink_address,
    kafka_source_address,
)
from kanonflow.pipelines.kafka.input import kafka_input
from kanonflow.pipelines.kafka.progress import decode_position
from kanonflow.pipelines.run_records.run_directory import epoch_of_run
from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import read_policy


def verify(
    policy_path: Path,
    inputs: Sequence[str],
    directory: Path,
    topic: str | None,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    **checks: Any,
) -> AuditReport:
    """Audit the releases of a run.

    inputs: globs of files, or one topic's address as ``--source`` takes it. directory: where metrics and rejected
    rows are, below restricted/, and releases, unless ``topic``, an address as ``--output`` takes it, holds them.
    checks: waiting, matching_records, recipe and known of ``audit``.

    Raises:
        PolicyError, InputError: the policy, the input or a topic cannot be read at all, or a topic is not whole.
    """
    source = _source_topic(inputs)
    if source is None and topic is None:
        return audit(policy_path, inputs, directory, delimiter=delimiter, input_format=input_format, **checks)
    policy = read_policy(str(policy_path))
    broken = 0
    problems: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="kanonflow-verify-") as folder:
        if source is not None:
            rows = Path(folder, "rows")
            rows.mkdir()
            bound, broken = _copy_input(source, policy, rows, span_of_run(str(directory), source.topic))
            inputs, delimiter, input_format = [str(rows / "*")], ",", None
            checks["messages"] = True
        else:
            bound, _ = bind_input(policy, inputs, delimiter, input_format)
        if topic is not None:
            releases = Path(folder, "run")
            (releases / "release").mkdir(parents=True)
            (releases / "restricted").symlink_to(directory.absolute() / "restricted")
            if (directory / "metrics").exists():
                (releases / "metrics").symlink_to(directory.absolute() / "metrics")
            address = kafka_sink_address(topic)
            schema = release_avro_schema(bound, epoch_of_run(str(directory)))
            problems = copy_releases(address, schema, releases / "release")
            directory = releases
        checks |= {"delimiter": delimiter, "input_format": input_format, "broken": broken}
        report = audit(policy_path, inputs, directory, **checks)
    unseen = report.not_checked
    if topic is not None:
        unseen += (
            "headers, times and partitions of messages: their keys and values are copied, and no more",
        )
    return replace(report, failures=(*problems, *report.failures), not_checked=unseen)


def span_of_run(output: str, topic: str) -> Span:
    """What of a topic a run has read, as far as it wrote that down."""
    restricted = Path(output, "restricted")
    record = read_record(str(restricted)) or {}
    if record.get("input") != [{"topic": topic}]:
        return Span()
    ended = restricted / "ended"
    return Span(_offsets(str(record.get(BEGINS, ""))), _offsets(ended.read_text() if ended.exists() else ""))


def _offsets(position: str) -> dict[int, int]:
    if not position:
        return {}
    return {number: at.next for number, at in decode_position(position.encode()).partitions.items()}


def _source_topic(inputs: Sequence[str]) -> KafkaAddress | None:
    topics = [each for each in inputs if is_kafka_address(each)]
    if not topics:
        return None
    if len(inputs) > 1:
        raise InputError("--input: a topic goes alone, without files and other topics")
    return kafka_source_address(topics[0])


def _copy_input(address: KafkaAddress, policy: Policy, folder: Path, span: Span) -> tuple[BoundPolicy, int]:
    topic_input = kafka_input(address, policy)
    bound = bind(policy, topic_input.schema.columns, text=topic_input.schema.text, source=str(address))
    columns = frozenset(bound.input_columns)
    names = topic_input.schema.columns.names
    return bound, copy_rows(address, topic_input.avro, names, columns, folder, bound.attributes, span).broken
