"""Which rows of a window that is too large to be solved in one go are released together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.units.locality_cut import cut_near
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.columns.sort_keys import sort_keys, whole
from kanonflow.transforms.kinds.domains import Domains, RangeDomain, SetDomain
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.secret.seeds import Secret


class WindowParts(NamedTuple):
    """groups: positions of each part's rows, ascending int64 arrays; all rows once. domains: of all rows together."""

    groups: list[NDArray[np.int64]]
    domains: dict[str, RangeDomain | SetDomain]


def window_parts(
    rows: pa.Table,
    bound: BoundPolicy,
    limit: int,
    secret: Secret,
    domains: Domains,
    *,
    distinct: bool = False,
) -> WindowParts:
    """Cut a window into parts of near rows, of ``limit`` rows or fewer where k allows it.

    rows: canonical rows in any order. domains: of the partition's last release. See ``cut_near`` for what a part has.
    distinct: as of ``cut_near``, where rows belong to individuals.

    Postcondition: which rows are together follows from quasi-identifiers and individuals alone, not from the order of
    the rows; only which of several rows with equal quasi-identifiers, each its own individual, go to the left of a cut
    between them is a keyed pseudorandom choice. Why: whoever knows all quasi-identifiers may know the cut, and learns
    nothing from it about whose payload is where. Reads the columns of quasi-identifiers and individual only, but for
    rows that are equal in them. O(n d log n).
    """
    policy = bound.policy
    names = [column.name for column in bound.quasis]
    individuals = None
    if not policy.owner:
        order = canonical_order(rows, bound, secret)
    else:
        # Equal rows of one individual stay together, so that no tie has to be broken.
        keys = [key for name in (*names, *policy.owner) for key in sort_keys(rows.column(name))]
        order = np.lexsort(keys[::-1])
        people = whole(rows.column(*policy.owner)).take(pa.array(order)).dictionary_encode()
        individuals = np.asarray(people.indices).astype(np.int64)
    encoded = encode(rows.select(names).take(pa.array(order)), bound, individuals, domains)
    parts = cut_near(encoded.table, limit, policy.k, distinct=distinct and individuals is not None)
    return WindowParts([np.sort(order[part]) for part in parts], encoded.domains)
