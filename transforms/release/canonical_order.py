"""The order in which a window's rows enter everything that follows: one that arrival cannot change."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.transforms.columns.row_bytes import row_words
from kanonflow.transforms.columns.sort_keys import changes, sort_keys
from kanonflow.transforms.secret.line_codes import line_codes, order_by_codes
from kanonflow.transforms.secret.seeds import Secret, order_key

# What one key is used for: two orders that have nothing to do with each other.
_TIES, _BLIND = 0, 1


def canonical_order(rows: pa.Table, bound: BoundPolicy, secret: Secret) -> NDArray[np.int64]:
    """The indices that put canonical rows into canonical order, int64 (n,): ``rows.take(result)``.

    Ordered by quasi-identifiers (in the policy's order), then individual; ties by the keyed code of the whole row and
    its occurrence number among equal rows (``line_codes``, under the secret's order key).

    Precondition: rows in ``bound.canonical_schema``, with or without the column of faults.
    Postcondition: any arrangement of the same rows leads to the same sequence of rows; which of several tied
    rows comes first is a keyed pseudorandom choice.
    Why: searches and starts follow this order. Were ties broken by the payload itself, whoever knows (or
    chooses) a payload would know which slots it went to. O(n log n).
    """
    fields = [*(column.name for column in bound.quasis), *bound.policy.owner]
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
    codes = line_codes(row_words(kept.take(pa.array(tied))), order_key(secret), _TIES)
    group = np.cumsum(new_group, dtype=np.int64)[places]
    order[places] = tied[order_by_codes(codes, group)]
    return order


def blind_order(rows: pa.Table, bound: BoundPolicy, secret: Secret) -> NDArray[np.int64]:
    """The indices that put canonical rows into an order in which no quasi-identifier and no individual has a say.

    Ordered by the keyed code of time, event id and payload, and the number among equal ones.

    Postcondition: exchanging the rows of two people exchanges their places, whatever their quasi-identifiers are; rows
    that are equal but for those keep the order in which they came. O(n log n).
    """
    unread = {*(column.name for column in bound.quasis), *bound.policy.owner}
    read = [column.name for column in bound.columns if column.name not in unread]
    return order_by_codes(line_codes(row_words(rows.select(read)), order_key(secret), _BLIND))
