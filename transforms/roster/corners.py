"""Frozen boxes as rows: of each cohort the few values that span the hull of all its members.

A box is kept as rows of the quasi-identifiers, so that whatever reads rows reads boxes: hulls, encodings, the gate. Of
a range the least and the greatest value of a cohort span its hull, of everything else its distinct values do; a null is
a value of its own. Which values stand in one row means nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import changes, sort_keys, whole
from kanonflow.transforms.kinds.kinds import kind_of

COHORT = "__cohort"
"""The column of a table of corners that says whose corner a row is, int64."""


def corners(values: pa.Table, cohort: NDArray[np.int64], bound: BoundPolicy) -> pa.Table:
    """The corners of the box of each cohort: ``COHORT`` and the quasi-identifiers, by cohort.

    values: frozen values of p people, in the quasi-identifiers' canonical types.
    cohort: int64 (p,), ``0 .. c-1``, each of them at least once.
    A function of the values of each cohort, whatever their order. O(d p log p).
    """
    count = int(cohort.max(initial=-1)) + 1
    picks = [_spanning(column, whole(values.column(column.name)), cohort) for column in bound.quasis]
    needed = [np.bincount(cohort[pick], minlength=count) for pick in picks]
    height = np.max(needed, axis=0) if needed else np.zeros(count, dtype=np.int64)
    owner = np.repeat(np.arange(count), height)
    place = np.arange(owner.size) - np.repeat(np.cumsum(height) - height, height)
    columns: dict[str, pa.Array] = {COHORT: pa.array(owner, pa.int64())}
    for column, pick, held in zip(bound.quasis, picks, needed, strict=True):
        begins = np.cumsum(held) - held
        # Where a field needs fewer rows than another, its last value stands again.
        at = begins[owner] + np.minimum(place, held[owner] - 1)
        columns[column.name] = whole(values.column(column.name)).take(pa.array(pick[at]))
    return pa.table(columns)


def _spanning(column: BoundColumn, array: pa.Array, cohort: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that hold the values that span each cohort's box in a field: indices, by cohort and value."""
    keys = [cohort, *sort_keys(array)]
    order = np.lexsort(keys[::-1])
    order = order[changes(keys, order)]
    null = ~present(array)
    ends = changes([cohort, null], order)
    ends[:-1] |= ends[1:]
    ends[-1:] = True
    return order[kind_of(column).spanning(null[order], ends)]
