"""What a window was published from, as bytes: for windows that a clock had a part in, and that may be made again.

A search that a deadline ends stops where the machine happened to be. Solving again, with whatever budget, was seen not
to come to the same structure; the structure itself, found again, gives the same release byte for byte, because
everything after the search follows from it, the rows and the secret (docs/decisions/038).
"""

from __future__ import annotations

import hmac
import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy
from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Structure
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.secret.seeds import Secret, encode

_MAGIC = b"KFSO"
_VERSION = 1
_HEADER = struct.Struct("<4sII")
_NUMBERS = (
    "loss",
    "start_loss",
    "lower_bound",
    "start",
    "evaluations",
    "deadline_struck",
    "warm_loss",
    "tied_edges",
    "cold_loss",
    "warm_kept",
    "stack",
)
# What a structure's numbers are called in a record. A lattice's node is never recorded: no clock has a part in it.
_ARRAY = {"row_graph": "members", "classes": "labels"}
_TYPES = {
    "members": "<i4",
    "labels": "<i4",
    "anonymous": "<i4",
    "failing": "<i4",
}


def belongs_to(secret: Secret, release: str, policy: Policy, rows: pa.Table) -> str:
    """What ties a record to its release: HMAC over its name, k, the promise and the canonical rows. 64 hex digits."""
    message = encode(release, policy.k, str(policy.protect), str(policy.cohort), content_digest(rows))
    return hmac.digest(secret.derive("solution"), message, "sha256").hex()


def solution_to_bytes(solution: Solution, belongs: str) -> bytes:
    """A solution as versioned bytes, never a pickle; its bounds' proof and trace are left out."""
    structure = solution.structure
    arrays: dict[str, NDArray[np.int32]] = {_ARRAY[structure.shape]: structure.described()}
    known: list[int | None] | None = None
    if solution.known is not None:
        arrays |= {"anonymous": solution.known.anonymous, "failing": solution.known.failing}
        known = [solution.known.cold]
    head = {
        "belongs": belongs,
        "numbers": {name: getattr(solution, name) for name in _NUMBERS},
        "known": known,
        "arrays": [[name, list(array.shape)] for name, array in arrays.items()],
    }
    text = json.dumps(head, default=_plain).encode()
    body = zlib.compress(b"".join(array.astype(_TYPES[name]).tobytes() for name, array in arrays.items()), 1)
    return _HEADER.pack(_MAGIC, _VERSION, len(text)) + text + body


def solution_from_bytes(data: bytes, belongs: str) -> Solution | None:
    """The inverse; None: the bytes belong to something else, or are damaged."""
    try:
        magic, version, length = _HEADER.unpack_from(data)
        head = json.loads(data[_HEADER.size : _HEADER.size + length])
        if (magic, version) != (_MAGIC, _VERSION) or not hmac.compare_digest(head["belongs"], belongs):
            return None
        body = zlib.decompress(data[_HEADER.size + length :])
        arrays, at = {}, 0
        for name, shape in head["arrays"]:
            size = int(np.prod(shape)) * np.dtype(_TYPES[name]).itemsize
            arrays[name] = np.frombuffer(body[at : at + size], _TYPES[name]).reshape(shape).copy()
            at += size
        return _solution(head, arrays)
    except (struct.error, ValueError, KeyError, TypeError, zlib.error):
        return None


def _solution(head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Solution:
    structure: Structure
    if "labels" in arrays:
        structure = Partition(arrays["labels"].astype(np.int32))
    else:
        structure = GeneralizationGraph(arrays["members"].astype(np.int32))
    known = None
    if head["known"] is not None:
        known = KnownNodes(arrays["anonymous"], arrays["failing"], *head["known"])
    return Solution(structure, known=known, **head["numbers"])


def _plain(value: Any) -> Any:
    """numpy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a record")
