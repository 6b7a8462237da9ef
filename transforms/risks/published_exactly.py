"""What is published as it is and may be known of people: what people keep, and rows that are alone in it.

A box hides people among k. Beside it stands the payload: who knows of somebody what stands there needs no box. Of
events (people who come back at other times) that is what people keep; of a table of people it is all of it. Numbers
with fractions and instants are left out there: amounts and times of a booking, which are known of nobody beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.column_facts import Shape, codes_of, shape_of
from kanonflow.transforms.risks.within_people import KEPT, LEAST_PEOPLE, keeping

Codes = NDArray[np.int64]
LEAST_ROWS = 100
_OF_BOOKINGS = (Shape.FLOATING, Shape.EXACT, Shape.INSTANT)


class Alone(NamedTuple):
    """Rows whose values of some payload fields nobody else has. fields: these. share: of the rows. rows: looked at.

    judged: whether rows and people are enough to tell, and whether it is known whose the fields are.
    """

    fields: tuple[str, ...]
    share: float
    rows: int
    judged: bool


def steady_fields(rows: pa.Table, bound: BoundPolicy, who: Codes) -> frozenset[str]:
    """Payload fields that people keep: of those with two values, nine of ten have one. who: int64 (n,), of each row."""
    steady = set()
    for column in bound.payload:
        values = rows.column(column.name).combine_chunks()
        figures = keeping(codes_of(values), who, np.asarray(values.is_valid()))
        if figures.tells and figures.steady >= KEPT:
            steady.add(column.name)
    return frozenset(steady)


def alone_as_published(
    rows: pa.Table, bound: BoundPolicy, who: Codes, steady: frozenset[str], *, people: bool
) -> Alone | None:
    """The rows that are alone in what is published exactly and nobody accepted; None if nothing there is known.

    steady: of ``steady_fields``. people: whether ``who`` is of people, or each row its own. Of people who come back,
    the rows of one are not other than each other.
    O(d n log n).
    """
    time = bound.policy.time
    if time is not None and not people:
        # Events of nobody knows whom: which of their fields are people's is not to be seen.
        return None
    several = int((np.bincount(who) >= 2).sum())
    events = time is not None
    if time is not None and several >= LEAST_PEOPLE:
        moments = np.unique(np.stack([who, _codes(rows, time.name)], axis=1), axis=0)
        # Those of a household whom one day saw are no events.
        events = 2 * int((np.bincount(moments[:, 0]) >= 2).sum()) >= several
    coming_back = events and several >= LEAST_PEOPLE
    fields = tuple(
        column.name
        for column in bound.payload
        if column.field.accept_risk is None
        and (
            column.name in steady
            if coming_back
            else shape_of(rows.column(column.name).combine_chunks()) not in _OF_BOOKINGS
        )
    )
    if not fields or not rows.num_rows:
        return None
    values = np.stack([_codes(rows, name) for name in fields], axis=1)
    _, place = np.unique(values, axis=0, return_inverse=True)
    owned = np.unique(np.stack([place, who], axis=1), axis=0)[:, 0] if events else place
    judged = rows.num_rows >= LEAST_ROWS and events == coming_back
    return Alone(fields, float((np.bincount(owned)[place] == 1).mean()), rows.num_rows, judged)


def _codes(rows: pa.Table, name: str) -> Codes:
    return codes_of(rows.column(name).combine_chunks())
