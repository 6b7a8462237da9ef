"""The sensitive fields that a policy sets rules for, as the numbered values a solver counts."""

from __future__ import annotations

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole


def sensitive_fields(rows: pa.Table, bound: BoundPolicy) -> tuple[Sensitive, ...]:
    """One entry a field with rules, in the policy's order; a null is a value of its own, before all others.

    rows: n canonical rows. Values are numbered in their order, whatever the order of rows. O(n log n).
    """
    fields = []
    for field in bound.policy.ruled:
        values = whole(rows.column(field.name))
        # There are two zeros; they are one value.
        values = form_of(values.type).plain(values)
        fields.append(
            Sensitive(
                codes=dense_ranks(sort_keys(values)),
                kind=None if field.diversity is None else str(field.diversity.kind),
                l=1.0 if field.diversity is None else field.diversity.l,
                distance=None if field.closeness is None else str(field.closeness.distance),
                t=1.0 if field.closeness is None else field.closeness.t,
            )
        )
    return tuple(fields)
