"""What ``kanonflow stream`` reads from and writes to: a directory, or a Kafka topic."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition
from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles
from kanonflow.pipelines.feeds.directory_listing import list_arrived
from kanonflow.pipelines.feeds.input_files import InputSchema, find_inputs, input_schema
from kanonflow.pipelines.feeds.polled_source import PolledSource
from kanonflow.pipelines.kafka.address import (
    KafkaAddress,
    is_kafka_address,
    kafka_sink_address,
    kafka_source_address,
)
from kanonflow.pipelines.kafka.progress import decode_position, going_on
from kanonflow.pipelines.options.options import OptionsError
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import CsvForm, with_delimiter
from kanonflow.transforms.files.storage import is_local


@dataclass(frozen=True)
class Feed:
    """A feed whose schema is known. reading: the source, once the policy is bound to that schema."""

    schema: InputSchema
    reading: Callable[[BoundPolicy], PolledSource]


@dataclass(frozen=True)
class DirectoryFeed:
    """A directory that files arrive in.

    example: a file that shows the columns when the directory is still empty. delimiter: of CSV files, where
    the command names one.
    """

    path: str
    example: str | None = None
    delimiter: str | None = None

    def __str__(self) -> str:
        return self.path

    def record(self) -> dict[str, Any]:
        """What a resumed run must have in common with the first."""
        return {"directory": self.path}

    @property
    def chosen(self) -> bool:
        """Whether the address says where to begin: a directory's never does."""
        return False

    def readers(self, parallelism: int) -> int:
        """How many read it side by side: one, who knows by their order how far time is."""
        return 1

    def going_on(self, ended: str) -> bytes:
        """Where a stream begins that goes on behind one that ended there; "": there is none."""
        return ArrivalPosition.decode(ended.encode()).going_on() if ended else b""

    def begins(self, ended: str) -> tuple[str, ...]:
        """What the user should know about where the stream begins."""
        if not ended:
            return ()
        read = len(ArrivalPosition.decode(ended.encode()).read)
        return (
            f"Begins where the stream before ended: {read:,} files were read there and are not read again.",
        )

    def notes(self) -> tuple[str, ...]:
        """What the user should know about the way there: nothing."""
        return ()

    def open(self, policy: Policy) -> Feed:
        """Look at one file. Raises InputError: there is none, or it is damaged."""
        form = with_delimiter(policy.csv, self.delimiter)
        return Feed(self._schema(form), lambda bound: ArrivingFiles(self.path, bound, form=form))

    def _schema(self, form: CsvForm) -> InputSchema:
        if self.example is not None:
            return input_schema(find_inputs([self.example]), form)
        if is_local(self.path) and not os.path.isdir(self.path):
            raise InputError(f"--source {self.path}: no such directory")
        mistakes = []
        for arrived in list_arrived(self.path, "*").files:
            try:
                return input_schema(find_inputs([os.path.join(self.path, arrived.name)]), form)
            except InputError as error:
                mistakes.append(str(error))
        reason = f": {mistakes[0]}" if mistakes else ""
        raise InputError(
            f"--source {self.path}: no file there shows what the feed holds{reason};"
            " name one that does with --schema"
        )


@dataclass(frozen=True)
class TopicFeed:
    """A Kafka topic."""

    address: KafkaAddress

    def __str__(self) -> str:
        return str(self.address)

    def record(self) -> dict[str, Any]:
        """What a resumed run must have in common with the first; servers may move."""
        return {"topic": self.address.topic}

    @property
    def chosen(self) -> bool:
        """Whether the address says where to begin."""
        return self.address.begin.chosen

    def readers(self, parallelism: int) -> int:
        """How many read it side by side in a job of this parallelism. Raises InputError: not as many as it says."""
        from kanonflow.pipelines.kafka.input import shared_by

        return shared_by(self.address, parallelism)

    def going_on(self, ended: str) -> bytes:
        """Where a stream begins that goes on behind one that ended there; "": there is none."""
        return going_on(ended.encode()) if ended else b""

    def begins(self, ended: str) -> tuple[str, ...]:
        """What the user should know about where the stream begins."""
        if not ended:
            return ()
        partitions = decode_position(ended.encode()).partitions
        places = ", ".join(f"{number} at {partitions[number].next:,}" for number in sorted(partitions))
        return (f"Begins where the stream before ended: partition {places}.",)

    def notes(self) -> tuple[str, ...]:
        """What the user should know about the way there. Raises InputError: ``config`` is not usable."""
        from kanonflow.pipelines.kafka.input import registry_notes

        return registry_notes(self.address)

    def open(self, policy: Policy) -> Feed:
        """Look the schema up. Raises InputError: it is not to be had."""
        from kanonflow.pipelines.kafka.input import kafka_input
        from kanonflow.pipelines.kafka.source import KafkaSource

        topic_input = kafka_input(self.address, policy)
        return Feed(topic_input.schema, lambda bound: KafkaSource(self.address, bound, topic_input.avro))


FeedAddress = DirectoryFeed | TopicFeed


def feed_address(text: str, example: str | None = None, delimiter: str | None = None) -> FeedAddress:
    """What ``--source`` names. Raises InputError with every mistake of a topic's address."""
    if is_kafka_address(text):
        return TopicFeed(kafka_source_address(text))
    return DirectoryFeed(_directory(text), example, delimiter)


def release_sink(
    target: str | None, bound: BoundPolicy, run: str, output: str | None = None, epoch: int = 0
) -> beam.PTransform | None:
    """The sink of a topic's address; None for None, which means files. Raises InputError: mistakes in it.

    output: where the slots of releases are kept. epoch: with ``cohort: lasting``, the run's.
    """
    if target is None:
        return None
    from kanonflow.pipelines.kafka.sink import WriteReleasesToKafka

    return WriteReleasesToKafka(kafka_sink_address(target), bound, run, output, epoch)


def sink_notes(target: str | None) -> tuple[str, ...]:
    """What the user should know about the way to a sink. Raises InputError: mistakes in its address."""
    return () if target is None else TopicFeed(kafka_sink_address(target)).notes()


def feed_topic(target: str) -> str:
    """The topic that a sink's address names. Raises InputError: mistakes in it."""
    return kafka_sink_address(target).topic


@dataclass(frozen=True)
class StreamPlaces:
    """Where a stream writes. directory: metrics and rejected rows, and releases when ``topic`` is None."""

    directory: str
    topic: str | None


def stream_places(output: str, restricted: str | None, flag: str = "--output") -> StreamPlaces:
    """What ``flag`` and ``--restricted`` mean together. Raises OptionsError."""
    if is_kafka_address(output):
        if restricted is None:
            raise OptionsError(
                f"{flag} is a topic, and metrics and rejected rows, which are raw data, are never there:"
                " name the directory for them with --restricted"
            )
        return StreamPlaces(_directory(restricted), output)
    if restricted is not None:
        raise OptionsError(
            "--restricted goes with a topic; below a directory they have their place: OUT/restricted"
        )
    return StreamPlaces(_directory(output), None)


def _directory(path: str) -> str:
    path = path.rstrip("/") or "/"
    return os.path.abspath(path) if is_local(path) else path
