"""Reading matching records: one file a release, and what they say as arrays."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.read_input import avro_records
from kanonflow.pipelines.audit.read.values import CodeBook, Unreadable, read_object
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.errors import InputError

STRUCTURES = ("graph", "classes")


@dataclass(frozen=True)
class ReadMatchingRecord:
    """A matching record (matching_record.avsc). n records were solved, m of them released, s slots of k members.

    window: (start, end) in milliseconds. digests: of the n records. groups int64 (n,), of a graph empty; members int64
    (s, k) and factors int64 (k, s), of classes (0, 0); matched int64 (m,); row int64 (m,).
    """

    release_id: str
    policy: str
    partition: str
    window: tuple[Any, Any]
    release_no: int
    k: int
    protect: str
    structure: str
    digest_key: bytes
    secret_commitment: str
    seed_commitment: str
    policy_digest: bytes
    box_digest: bytes
    content_digest: bytes
    digests: tuple[bytes, ...]
    groups: np.ndarray
    members: np.ndarray
    factors: np.ndarray
    chosen: int
    matched: np.ndarray
    row: np.ndarray
    place: int = 0
    closing: bool = False

    @property
    def kept(self) -> np.ndarray:
        """The records that do not wait, int64, ascending."""
        return np.flatnonzero(self.groups >= 0) if len(self.groups) else np.arange(len(self.digests))


def read_matching_record(path: Path) -> ReadMatchingRecord:
    """The matching record in a file. Raises InputError: damaged, or its numbers do not fit each other."""
    records = list(avro_records(path))
    if len(records) != 1:
        raise InputError(f"{path}: holds {len(records)} matching records instead of one")
    try:
        return _matching_record(records[0])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path}: not a matching record, or its numbers do not fit each other") from None


def _matching_record(told: dict[str, Any]) -> ReadMatchingRecord:
    count = len(told["records"])
    groups, members, factors, matched, row = (
        np.array(told[name], np.int64) for name in ("groups", "members", "factors", "matched", "row")
    )
    slotted = told["structure"] == "graph"
    if told["structure"] not in STRUCTURES or len(groups) != (0 if slotted else count):
        raise ValueError
    k = told["k"] if slotted else 1
    if k < 1 or len(members) % k or len(factors) != len(members) or (len(members) == 0) == slotted:
        raise ValueError
    slots = len(members) // k
    most = count if slotted else 0
    for numbers, bound in ((members, most), (factors, most), (matched, count), (row, len(matched))):
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < bound):
            raise ValueError
    if slotted and (slots != most or not 0 <= told["chosen"] < k):
        raise ValueError
    return ReadMatchingRecord(
        **{name: told[name] for name in ("release_id", "policy", "partition", "release_no", "k", "protect")},
        **{name: told[name] for name in ("structure", "digest_key", "secret_commitment", "seed_commitment")},
        **{name: told[name] for name in ("policy_digest", "box_digest", "content_digest", "chosen")},
        window=(
            read_object(told["window_start"], MILLISECONDS),
            read_object(told["window_end"], MILLISECONDS),
        ),
        digests=tuple(told["records"]),
        groups=groups,
        members=members.reshape(slots, k) if slotted else members.reshape(0, 0),
        factors=factors.reshape(k, slots) if slotted else factors.reshape(0, 0),
        matched=matched,
        row=row,
    )


def keyed(key: bytes, purpose: bytes, content: bytes) -> bytes:
    """A digest of a matching record: HMAC-SHA256(key, purpose | content)."""
    return hmac.digest(key, purpose + content, "sha256")


def digests_of_groups(codes: np.ndarray, books: tuple[CodeBook, ...], key: bytes) -> dict[bytes, int]:
    """Digest -> number of the row of ``codes``, int32 (g, c) in the policy's order, whose record has it. O(g c)."""
    cells = [[*map(_cell, book.values), _framed(b"n", b"")] for book in books]
    lines = zip(
        *(map(column.__getitem__, codes[:, place].tolist()) for place, column in enumerate(cells)),
        strict=True,
    )
    return {keyed(key, b"r", b"".join(line)): number for number, line in enumerate(lines)}


def _cell(value: Any) -> bytes:
    """A value as matching_record.avsc says: letter, length, content. What could not be read was never released."""
    match value:
        case Unreadable():
            return _framed(b"?", value.text.encode("utf-8", "surrogateescape"))
        case bool():
            return _framed(b"t", b"01"[value : value + 1])
        case str():
            return _framed(b"s", value.encode("utf-8", "surrogateescape"))
        case bytes():
            return _framed(b"b", value)
        case float():
            return _framed(b"d", np.array(value, ">f8").tobytes())
    return _framed(b"i", str(value).encode())


def _framed(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(8, "big") + content
