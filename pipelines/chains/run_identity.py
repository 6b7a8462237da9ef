"""Which run an output is, and where it lies: a copy of it beside it must not go on as well.

    run.json    identity: {id, output}    drawn when the run begins; a run that resumes where it was moved to says so

A copy that was made before a run was continued has no mark of that (``continued_run.CONTINUED_BY``), so both could go
on over the same rows. Which of the two is the run? The one at the place on record, as long as it lies there. What was
moved goes on. Nobody can tell of an original that is gone, nor of an earlier state that was put back in its place.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.storage import is_local

KEY = "identity"


def place_of(directory: str) -> str:
    """One name for each directory: of this machine the real path."""
    return os.path.realpath(directory) if is_local(directory) else directory.rstrip("/")


def identity_record(output: str, resumed: Mapping[str, Any] | None) -> dict[str, Any]:
    """What run.json holds of it; nothing of a run that an earlier build began. resumed: its run.json, if it goes on."""
    if resumed is not None and KEY not in resumed:
        return {}
    number = secrets.token_hex(8) if resumed is None else resumed[KEY]["id"]
    return {KEY: {"id": number, "output": place_of(output)}}


def original_of(directory: str, record: Mapping[str, Any]) -> str | None:
    """Where the run lies that ``directory`` is a copy of; None: it is none, or nobody can tell.

    record: its run.json.
    """
    identity = record.get(KEY)
    if identity is None or identity["output"] == place_of(directory):
        return None
    there, here = (storage.join(place, "restricted", "run.json") for place in (identity["output"], directory))
    if is_local(there) and is_local(here) and os.path.exists(there) and os.path.samefile(there, here):
        return None  # one directory that is mounted twice
    try:
        same = storage.exists(there) and json.loads(read_whole(there))[KEY]["id"] == identity["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return identity["output"] if same else None


def copy_words(original: str) -> str:
    """What to say of a copy."""
    return (
        f"it is a copy of {original}, which is there still, and if both went on, rows would be out twice. Go on"
        f" with {original}; or, if this one is to stand in its place, move that one away, and never go on with it"
    )
