"""Releases as messages of a Kafka topic: one a row, key the release's id, each release exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.shared import Shared

from kanonflow.pipelines.kafka.address import KafkaAddress, ValueFormat
from kanonflow.pipelines.kafka.input import registry_of, subject
from kanonflow.pipelines.kafka.release_messages import framed, json_rows, rows_digest
from kanonflow.pipelines.kafka.release_topic import ReleaseTopic
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.avro_encoding import encode_rows
from kanonflow.transforms.files.create_if_absent import Outcome
from kanonflow.transforms.rows.elements import Release, from_ipc
from kanonflow.transforms.sinks.sinks import (
    CONFLICT,
    NAMESPACE,
    ReleaseSlots,
    Written,
    published,
    withheld,
    written_by,
)


class WriteReleasesToKafka(beam.PTransform):
    """PCollection[Release] -> Written; one message a row, all of a release's in one transaction.

    run: whose releases the topic may hold. epoch: with ``cohort: lasting``, the run's. output: the directory below
    which the slots of releases are kept, as for files; None: a release is told by its name only.
    A release that is in the topic already is left alone; one that is there with other rows is a conflict, as in
    ``sinks.WriteReleases``. Counters: ``releases``, ``rows_released`` (also of releases that were there),
    ``release_conflict``. See release_topic.py for why once is once.
    """

    def __init__(
        self, address: KafkaAddress, bound: BoundPolicy, run: str, output: str | None = None, epoch: int = 0
    ) -> None:
        super().__init__()
        self._address = address
        self._bound = bound
        self._run = run
        self._output = output
        self._epoch = epoch

    @no_annotations  # Beam has no type hint for a tuple of collections, and would warn of this one
    def expand(self, releases: beam.PCollection[Release]) -> Written:
        write = _WriteRelease(self._address, self._bound, self._run, self._output, self._epoch)
        return written_by(write, releases)


class _WriteRelease(beam.DoFn):
    def __init__(
        self, address: KafkaAddress, bound: BoundPolicy, run: str, output: str | None, epoch: int
    ) -> None:
        super().__init__()
        self._address = address
        self._run = run
        self._slots = None if output is None else ReleaseSlots(output, bound.policy)
        self._schema = release_avro_schema(bound, epoch)
        self._shared = (
            Shared()
        )  # one set of producers a process: those of two threads would shut each other out
        self._values: Callable[[pa.Table, list[bytes]], list[bytes]] | None = None
        self._releases = Metrics.counter(NAMESPACE, "releases")
        self._rows = Metrics.counter(NAMESPACE, "rows_released")
        self._conflicts = Metrics.counter(NAMESPACE, CONFLICT)

    def setup(self) -> None:
        self._topic = self._shared.acquire(lambda: ReleaseTopic(self._address, self._run))

    def process(self, release: Release) -> Iterable[Any]:
        if self._values is None:
            self._values = self._encoder()
        rows = from_ipc(release.ipc)
        plain = encode_rows(rows, self._schema)
        digest = rows_digest(plain, self._schema)
        # What is out already is no conflict of a partition that was parked since: its rows are not withheld.
        there = (
            self._slots is not None
            and self._slots.is_parked(release)
            and self._topic.holds(release.release_id, digest)
        )
        if self._slots is not None and not there and not self._slots.admit(release):
            yield from withheld(release, digest.encode())
            return
        if self._topic.write(release.release_id, digest, self._values(rows, plain)) is Outcome.DIFFERENT:
            if self._slots is None:
                self._conflicts.inc()
            else:
                self._slots.conflict(release)
            yield from withheld(release, digest.encode())
            return
        self._releases.inc()
        self._rows.inc(rows.num_rows)
        yield from published(release)

    def _encoder(self) -> Callable[[pa.Table, list[bytes]], list[bytes]]:
        """How the address wants values. Raises RegistryUnavailableError, InputError: the registry refuses."""
        match self._address.value_format:
            case ValueFormat.AVRO:
                return lambda rows, plain: plain
            case ValueFormat.JSON:
                return lambda rows, plain: json_rows(rows)
            case ValueFormat.REGISTRY:
                schema_id = registry_of(self._address).register(subject(self._address.topic), self._schema)
                return lambda rows, plain: framed(plain, schema_id)
