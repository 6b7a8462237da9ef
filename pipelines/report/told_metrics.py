"""Metrics files of a folder, whoever they are for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanonflow.pipelines.terminal.progress import read_metrics
from kanonflow.schemas.avro_schema import metrics_defaults
from kanonflow.schemas.errors import InputError

_NEEDED = ("window_end", "rows_released", "rows_rejected", "waiting_reasons")


def read_records(folder: Path) -> list[Mapping[str, Any]]:
    """The records, by name of their file; [] where there is no such folder.

    Raises InputError: a file is damaged, or no metrics.
    """
    records: list[Mapping[str, Any]] = []
    for path in sorted(folder.glob("*.avro")):
        try:
            found = read_metrics(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            raise InputError(f"{path}: not an Avro file, or damaged ({type(error).__name__})") from None
        if any(name not in record for record in found for name in _NEEDED):
            raise InputError(f"{path}: holds no metrics of releases")
        records += found
    return records


def with_defaults(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Exact records of earlier builds with what they did not tell yet, as windows without a release say it."""
    defaults = metrics_defaults()
    return [{**defaults, **record} for record in records]
