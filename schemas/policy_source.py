"""A policy from wherever it stands: a YAML file, or the custom properties of an Avro schema or of an Avro file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import load_policy, parse_policy, policy_from_avro_schema


def policy_of(policy: Policy | Mapping[str, Any] | str | os.PathLike[str]) -> Policy:
    """The policy that a program gives: one, the path of its file, or a mapping as that file would hold it.

    Raises PolicyError with all mistakes; one of them when it is none of these.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return parse_policy(policy, "the policy", "policy")
    if isinstance(policy, str | os.PathLike):
        return read_policy(os.fspath(policy))
    raise PolicyError(
        [f"expected a Policy, the path of one's file or a mapping, not {type(policy).__name__}"]
    )


def read_policy(path: str | Path) -> Policy:
    """The policy of a YAML file, of an Avro schema (.avsc) or of the header of an Avro file (.avro).

    Raises PolicyError with all mistakes; one of them when the file cannot be read as what its name says.
    """
    source = str(path)
    if not source.endswith((".avsc", ".avro")):
        return load_policy(path)
    try:
        if source.endswith(".avsc"):
            schema = json.loads(Path(path).read_text(encoding="utf-8"))
        else:
            with open(path, "rb") as stream:
                schema = fastavro.reader(stream).writer_schema
    except OSError as error:
        raise PolicyError([f"file: cannot be read ({error.strerror})"], source) from None
    except Exception:  # whatever the decoder trips over
        kind = "JSON text" if source.endswith(".avsc") else "an Avro file"
        raise PolicyError([f"file: is not {kind}"], source) from None
    return policy_from_avro_schema(schema, source)
