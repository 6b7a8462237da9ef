"""The order in which a window's rows enter everything that follows: one that arrival cannot change."""

from __future__ import annotations

import hmac
from collections import Counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.transforms.columns.row_bytes import row_bytes
from kanonflow.transforms.columns.sort_keys import changes, sort_keys
from kanonflow.transforms.secret.seeds import Secret, order_key

_NUMBER_BYTES = 8


def canonical_order(rows: pa.Table, bound: BoundPolicy, secret: Secret) -> NDArray[np.int64]:
    """The indices that put canonical rows into canonical order, int64 (n,): ``rows.take(result)``.

    Ordered by quasi-identifiers (in the policy's order), then individual; ties by
    HMAC-SHA256(secret's order key, whole row and its occurrence number among equal rows).

    Precondition: rows in ``bound.canonical_schema``, with or without the column of faults.
    Postcondition: any arrangement of the same rows leads to the same sequence of rows; which of several tied
    rows comes first is a keyed pseudorandom choice.
    Why: searches and starts follow this order. Were ties broken by the payload itself, whoever knows (or
    chooses) a payload would know which slots it went to. O(n log n), and an HMAC for each tied row.
    """
    fields = [column.name for column in bound.quasis]
    if bound.policy.individual is not None:
        fields.append(bound.policy.individual.name)
    keys = [key for field in fields for key in sort_keys(rows.column(field))]
    # What was wrong with a row is no part of its content: it only keeps rows apart that are equal but for it.
    faults = sort_keys(rows.column(FAULT_COLUMN)) if FAULT_COLUMN in rows.schema.names else []
    order = np.lexsort([*faults[::-1], *keys[::-1]])
    new_group = changes(keys, order)
    alone = new_group & np.append(new_group[1:], True)
    places = np.flatnonzero(~alone)
    if places.size == 0:
        return order
    tied = order[places]
    kept = rows.select([column.name for column in bound.columns])
    codes = _codes(row_bytes(kept.take(pa.array(tied))), order_key(secret))
    group = np.cumsum(new_group)[places]
    order[places] = tied[np.lexsort([codes[:, 1], codes[:, 0], group])]
    return order


def blind_order(rows: pa.Table, bound: BoundPolicy, secret: Secret) -> NDArray[np.int64]:
    """The indices that put canonical rows into an order in which no quasi-identifier and no individual has a say.

    Ordered by HMAC-SHA256(secret's order key, time, event id and payload, and its number among equal ones).

    Postcondition: exchanging the rows of two people exchanges their places, whatever their quasi-identifiers are; rows
    that are equal but for those keep the order in which they came. An HMAC for each row.
    """
    quasis = {column.name for column in bound.quasis}
    individual = bound.policy.individual
    read = [
        column.name
        for column in bound.columns
        if column.name not in quasis and (individual is None or column.name != individual.name)
    ]
    codes = _codes(row_bytes(rows.select(read)), order_key(secret))
    return np.lexsort([codes[:, 1], codes[:, 0]])


def _codes(lines: NDArray[np.uint8], key: bytes) -> NDArray[np.uint64]:
    """The first 128 bits of each row's HMAC, uint64 (n, 2)."""
    width, data = lines.shape[1], np.ascontiguousarray(lines).tobytes()
    messages = [data[at : at + width] for at in range(0, len(data), width)]
    occurrences: Counter[bytes] = Counter(messages)
    if len(occurrences) == len(messages):
        first = bytes(_NUMBER_BYTES)
        messages = [message + first for message in messages]
    else:
        left = dict.fromkeys(occurrences, 0)
        for place, message in enumerate(messages):
            messages[place] = message + left[message].to_bytes(_NUMBER_BYTES, "big")
            left[message] += 1
    digests = b"".join([hmac.digest(key, message, "sha256") for message in messages])
    return np.frombuffer(digests, dtype=">u8").reshape(-1, 4)[:, :2].astype(np.uint64)
