"""The rejected rows of a run, each once: without those of wrong states whose rows are in other books since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import fastavro

from kanonflow.schemas.errors import InputError
from kanonflow.schemas.settled_releases import RejectedParts, settled_releases
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.output_directories import (
    metrics_directory,
    rejected_directory,
    restricted_directory,
)
from kanonflow.transforms.lineage.published_slots import parked_partitions


def unsettled_rejected(output: str) -> Iterator[Mapping[str, Any]]:
    """The records of rejected.avsc of a run, each row once. O(n).

    Raises InputError: a file of them or of the metrics is damaged.
    """
    ended = storage.exists(storage.join(restricted_directory(output), "ended"))
    settled = settled_releases(_records(metrics_directory(output)), parked_partitions(output), ended=ended)
    parts, folder = RejectedParts(settled), rejected_directory(output)
    if settled.lines:
        for record, path in _with_paths(folder):
            parts.meet(record, path)
    yield from (record for record, path in _with_paths(folder) if parts.counts(record, path))


def _records(folder: str) -> Iterator[Mapping[str, Any]]:
    return (record for record, _ in _with_paths(folder))


def _with_paths(folder: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for path in storage.paths_below(folder, "*.avro"):
        try:
            records: list[Any] = list(fastavro.reader(BytesIO(read_whole(path))))
        except OSError:
            raise
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            raise InputError(f"{path}: not an Avro file, or damaged ({type(error).__name__})") from None
        for record in records:
            yield record, path
