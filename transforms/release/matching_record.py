"""The matching record of a release: members, factors, the one that was published, and what fixes all of them.

make_matching_record(rows, structure, published, bound, secret, head) -> MatchingRecord

It is made from what the release was made from and in the same call, so a retry makes the same bytes. Written on
request only, to restricted places only: it names the record behind every row.
"""

from __future__ import annotations

import hmac
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import matching_record_schema, release_avro_schema
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.recorded_policy import recorded_policy
from kanonflow.solvers.matching.matching import random_factorization, uniform_below
from kanonflow.solvers.structures.structure import Structure
from kanonflow.transforms.columns.avro_encoding import encode_rows
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.columns.sort_keys import whole, whole_numbers
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.publish import Published
from kanonflow.transforms.rows.elements import MatchingRecord
from kanonflow.transforms.secret.seeds import (
    Keystream,
    ReleaseSlot,
    Secret,
    array_digest,
    matching_record_key,
    publish_key,
    seed_commitment,
)

SPELLED = {"row_graph": "graph", "classes": "classes", "lattice_node": "classes"}
"""How matching records (matching_record.avsc) spell the solvers' shapes. A node's groups are closed classes there."""


class RecordHead(NamedTuple):
    """Which release it is. window: (start, end) in milliseconds, None without windows."""

    release_id: str
    slot: ReleaseSlot
    window: tuple[int | None, int | None]


def make_matching_record(
    rows: pa.Table,
    structure: Structure,
    published: Published,
    bound: BoundPolicy,
    secret: Secret,
    head: RecordHead,
) -> MatchingRecord:
    """The matching record of a publication.

    rows: the n canonical rows that were solved, in canonical order, those that wait included. structure: what they
    were solved to. published: what came of both.

    The factorization is drawn again from the same keystream: publishing keeps none, and that both agree is a check.
    Postcondition: equal arguments give equal bytes. Raises GateError when the published factor is not the one drawn.
    O(n k) and one more factorization.
    """
    described = structure.described()
    slotted = structure.shape == "row_graph"
    kept = np.arange(rows.num_rows) if structure.kept is None else np.flatnonzero(structure.kept)
    key = publish_key(secret, head.release_id, array_digest(described), content_digest(rows))
    factors, chosen = np.empty((0, 0), dtype=np.int32), -1
    if slotted:
        keystream = Keystream(key)
        factors = random_factorization(described, keystream)
        chosen = uniform_below(factors.shape[0], keystream)
        if not np.array_equal(factors[chosen], published.factor):
            raise GateError("the published matching is not the one that its keystream draws")
    place_row = np.empty(published.order.size, dtype=np.int64)
    place_row[published.order] = np.arange(published.order.size)
    digests = matching_record_key(secret)
    schema = release_avro_schema(bound)
    record = {
        "release_id": head.release_id,
        "policy": bound.policy.name,
        "partition": head.slot.partition.hex(),
        "window_start": head.window[0],
        "window_end": head.window[1],
        "release_no": head.slot.release_no,
        "k": bound.policy.k,
        "protect": str(bound.policy.protect),
        "structure": SPELLED[structure.shape],
        "digest_key": digests,
        "secret_commitment": secret.commit(),
        "seed_commitment": seed_commitment(key, head.release_id),
        "policy_digest": keyed_digest(digests, b"p", recorded_policy(bound.policy)),
        "box_digest": _box_digest(digests, published.rows.take(pa.array(place_row)), bound, schema),
        "content_digest": keyed_digest(digests, b"c", b"".join(encode_rows(published.rows, schema))),
        "records": record_digests(rows, digests),
        "groups": [] if slotted else described.tolist(),
        "members": described.ravel().tolist() if slotted else [],
        "factors": factors.ravel().tolist(),
        "chosen": chosen,
        "matched": kept[published.factor].tolist(),
        "row": place_row.tolist(),
    }
    out = BytesIO()
    marker = keyed_digest(b"kanonflow sync", b"s", head.release_id.encode())[:16]
    fastavro.writer(out, matching_record_schema(), [record], codec="deflate", sync_marker=marker)
    return MatchingRecord(head.release_id, out.getvalue())


def keyed_digest(key: bytes, purpose: bytes, content: bytes) -> bytes:
    """HMAC-SHA256(key, purpose | content), 32 bytes; purpose is one letter."""
    return hmac.digest(key, purpose + content, "sha256")


def record_digests(rows: pa.Table, key: bytes) -> list[bytes]:
    """The digest of each canonical row as matching_record.avsc says, over the kept fields; each distinct value is
    encoded once. O(n d)."""
    fields = [name for name in rows.schema.names if name != FAULT_COLUMN]
    columns = [_cells(whole(rows.column(name))) for name in fields]
    return [keyed_digest(key, b"r", b"".join(cells)) for cells in zip(*columns, strict=True)]


def _cells(array: pa.Array) -> list[bytes]:
    """Each cell as letter, length, content."""
    kind = array.type
    if pa.types.is_temporal(kind):
        valid = np.asarray(array.is_valid())
        array = pa.array(whole_numbers(array), mask=~valid)
    encoded = array.dictionary_encode()
    cells = [_cell(value, kind) for value in encoded.dictionary.to_pylist()]
    codes: NDArray[np.int64] = np.asarray(encoded.indices.fill_null(len(cells))).astype(np.int64)
    return np.array([*cells, _framed(b"n", b"")], dtype=object)[codes].tolist()


def _cell(value: Any, kind: pa.DataType) -> bytes:
    match value:
        case None:
            return _framed(b"n", b"")
        case str():
            return _framed(b"s", value.encode())
        case bytes():
            return _framed(b"b", value)
        case bool():
            return _framed(b"t", b"1" if value else b"0")
        case float():
            return _framed(b"d", np.array(value, dtype=">f8").tobytes())
        case int():
            return _framed(b"i", str(value).encode())
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (exponent + kind.scale)
    return _framed(b"i", str(-unscaled if sign else unscaled).encode())


def _framed(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(8, "big") + content


def _box_digest(key: bytes, placed: pa.Table, bound: BoundPolicy, schema: dict[str, Any]) -> bytes:
    names = [column.published_name for column in bound.quasis]
    fields = [field for field in schema["fields"] if field["name"] in names]
    cells = encode_rows(placed.select(names), {**schema, "fields": fields})
    return keyed_digest(key, b"b", b"".join(cells))
