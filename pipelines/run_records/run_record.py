"""restricted/run.json: what a run wrote of itself, read and replaced."""

from __future__ import annotations

import json
import os
from typing import Any

from kanonflow.pipelines.run_records.beginning import RunDirectoryError
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE, read_whole
from kanonflow.transforms.files.storage import is_local


def read_record(restricted: str) -> dict[str, Any] | None:
    """run.json; None when there is none. Raises RunDirectoryError: it is damaged."""
    path = storage.join(restricted, "run.json")
    if not storage.exists(path):
        return None
    try:
        record = json.loads(read_whole(path))
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise RunDirectoryError(f"{path} is damaged; choose another --output")
    return record


def write_record(restricted: str, record: dict[str, Any]) -> None:
    """Replace run.json at once."""
    data = json.dumps(record, indent=1).encode()
    path = storage.join(restricted, "run.json")
    if not is_local(path):
        with storage.create(path) as file:
            file.write(data)
        return
    handle = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(path + ".tmp", path)
