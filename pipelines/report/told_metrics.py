"""Metrics files of a folder, whoever they are for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from kanonflow.schemas.avro_schema import metrics_defaults
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import printable

_NEEDED: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("rows_rejected", "waiting_reasons", "ncp"), (dict,)),
    **dict.fromkeys(("rows_released", "k"), (int,)),
    **dict.fromkeys(("policy", "protect"), (str,)),
    "window_end": (dt.datetime, type(None)),
}


def read_records(folder: Path, public: Collection[str] | None = None) -> list[Mapping[str, Any]]:
    """The records, by name of their file; [] where there is no such folder.

    public: names of the fields that may be in a file; None: whatever is in it.
    Raises InputError: a file is damaged, or no metrics, or it has a field that may not be there.
    """
    records: list[Mapping[str, Any]] = []
    for path in sorted(folder.glob("*.avro")):
        if not path.is_file():  # a pipe would be waited for
            raise InputError(f"{path}: no file, so nothing that a run wrote; take it away")
        try:
            reader = fastavro.reader(BytesIO(path.read_bytes()))
            schema, found = reader.writer_schema, [each for each in reader if isinstance(each, dict)]
            names = [str(field["name"]) for field in schema["fields"]]  # type: ignore[index,call-overload]
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            raise InputError(f"{path}: not an Avro file, or damaged ({type(error).__name__})") from None
        if not all(
            name in record and isinstance(record[name], kinds)
            for record in found
            for name, kinds in _NEEDED.items()
        ):
            raise InputError(f"{path}: holds no metrics of releases")
        if more := [] if public is None else [name for name in names if name not in public]:
            raise InputError(
                f"{path}: not public, for it tells {', '.join(map(printable, more[:3]))}; what is of restricted/ goes"
                " into no certificate"
            )
        records += found
    return records


def with_defaults(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Exact records of earlier builds with what they did not tell yet, as windows without a release say it."""
    defaults = metrics_defaults()
    return [{**defaults, **record} for record in records]
