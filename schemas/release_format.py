"""The formats that a release's file may have, and where its schema stands in each."""

from __future__ import annotations

from enum import StrEnum

SCHEMA_KEY = "kanonflow.schema"
"""The one key of a Parquet release's metadata: the Avro schema of its rows as JSON, as an Avro file's header has it."""


class ReleaseFormat(StrEnum):
    """What the files in ``release/`` are. Metrics, rejected rows, matching records and cohorts are Avro in any case."""

    AVRO = "avro"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """How the names of such files end."""
        return f".{self.value}"


RELEASE_FORMATS = tuple(map(str, ReleaseFormat))
SUFFIXES = tuple(each.suffix for each in ReleaseFormat)
