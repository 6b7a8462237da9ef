"""The sensitive fields that a policy sets rules for, as the numbered values a solver counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import Closeness, Diversity, Field
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
        fields.append(_asked(dense_ranks(sort_keys(values)), field.diversity, field.closeness))
    return tuple(fields)


def single_rules(field: Field) -> Iterator[tuple[str, Sensitive]]:
    """Each rule of a field by itself, by the name of what it counts; without values."""
    none = np.empty(0, dtype=np.int64)
    if field.diversity is not None:
        yield field.diversity.name, _asked(none, field.diversity, None)
    if field.closeness is not None:
        yield field.closeness.name, _asked(none, None, field.closeness)


def _asked(codes: NDArray[np.int64], diversity: Diversity | None, closeness: Closeness | None) -> Sensitive:
    return Sensitive(
        codes=codes,
        kind=None if diversity is None else str(diversity.kind),
        l=1.0 if diversity is None else diversity.l,
        distance=None if closeness is None else str(closeness.distance),
        t=1.0 if closeness is None else closeness.t,
    )
