"""A policy from a bucket, read as if it were a local file of the same name."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.storage import is_local


def read_policy_at(path: str) -> Policy:
    """``read_policy`` of a local path or of one with a scheme, such as gs://. Raises PolicyError, naming ``path``."""
    if is_local(path):
        return read_policy(path)
    try:
        data = read_whole(path)
    except Exception as error:  # each file system has errors of its own
        raise PolicyError([f"file: cannot be read ({type(error).__name__})"], path) from None
    with tempfile.TemporaryDirectory() as folder:
        # A policy without a name is called after its file, and release ids depend on it.
        local = Path(folder, storage.split(path)[1])
        local.write_bytes(data)
        try:
            return read_policy(local)
        except PolicyError as error:
            raise PolicyError(error.mistakes, path) from None
