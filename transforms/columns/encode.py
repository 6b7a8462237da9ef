"""From canonical rows to the table of numbers a solver sees, under domains that only grow.

A field's loss is normalized by its domain: the one the policy declares, or the running one, which is the union of all
values that this partition has shown so far. Running domains live in the warm state and are reported in the metrics.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.range_values import range_values
from kanonflow.transforms.columns.sort_keys import whole


@dataclass(frozen=True)
class RangeDomain:
    """low, high: in the units of the column's kind. declared: by the policy."""

    low: int | float
    high: int | float
    declared: bool

    @property
    def extent(self) -> float:
        """U - L, at most the largest double; 0 where no value was seen."""
        return min(max(float(self.high - self.low), 0.0), sys.float_info.max)


@dataclass(frozen=True)
class SetDomain:
    """values: sorted uint64 digests of what was seen (a null is one). declared: how many the policy names, or None."""

    values: NDArray[np.uint64]
    declared: int | None

    @property
    def extent(self) -> float:
        """|A|, a null included where it occurred."""
        return float(max(self.declared or 0, self.values.size))


Domains = Mapping[str, RangeDomain | SetDomain]


class Encoded(NamedTuple):
    """table for the solver, and the domains that scaled it."""

    table: Table
    domains: dict[str, RangeDomain | SetDomain]


def value_digests(values: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit digest of each value's canonical text; of a null a digest that no text has. uint64 (n,)."""
    texts = render_text(values).to_pylist()
    digests = [
        hashlib.blake2b(b"\x00" if text is None else b"\x01" + text.encode(), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


_NULL = value_digests(pa.array([None], pa.string()))


# Its ends are crossed: a range from 0 would reach from there to the first value, and dull the field for good.
_NOTHING_SEEN = RangeDomain(0, -1, declared=False)


def _encode_range(
    column: BoundColumn, rows: pa.Table, known: RangeDomain | SetDomain | None
) -> tuple[NDArray[np.float64], RangeDomain]:
    values, valid = range_values(whole(rows.column(column.name)))
    if column.domain is not None:
        domain = RangeDomain(column.domain[0], column.domain[1], declared=True)
    else:
        seen = values[valid]
        ends = [seen.min().item(), seen.max().item()] if seen.size else []
        if isinstance(known, RangeDomain) and known.low <= known.high:
            ends += [known.low, known.high]
        domain = RangeDomain(min(ends), max(ends), declared=False) if ends else _NOTHING_SEEN
    width = domain.extent
    scaled = _above(values, domain.low) / width if width > 0 else np.zeros(len(values))
    # Rounding may leave [0, 1] by a hair; classification has kept everything inside a declared domain.
    return np.where(valid, np.clip(scaled, 0.0, 1.0), np.nan), domain


def _above(values: NDArray[np.int64] | NDArray[np.float64], low: int | float) -> NDArray[np.float64]:
    """``values - low`` as float64, also where the difference is more than an int64 or a double can hold."""
    if values.dtype.kind == "f":
        limit = np.finfo(np.float64).max / 2
        return np.minimum(values / 2 - low / 2, limit) * 2
    return (values - np.int64(low)).view(np.uint64).astype(np.float64)


def _encode_set(
    column: BoundColumn, rows: pa.Table, known: RangeDomain | SetDomain | None
) -> tuple[NDArray[np.int32], SetDomain]:
    encoded = whole(rows.column(column.name)).dictionary_encode(null_encoding="encode")
    digests = value_digests(encoded.dictionary)
    # Codes follow the digests, not the order of rows: equal content always gets equal codes.
    order = np.argsort(digests, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    seen = digests if not isinstance(known, SetDomain) else np.union1d(known.values, digests)
    declared = None
    if column.categories is not None:
        # A null counts once it was there, and ever after: domains only grow.
        declared = len(column.categories) + int(np.isin(_NULL, seen)[0])
    return rank[np.asarray(encoded.indices)], SetDomain(np.unique(seen), declared)


def _encode_hierarchy(
    column: BoundColumn, hierarchy: Hierarchy, rows: pa.Table, known: RangeDomain | SetDomain | None
) -> tuple[NDArray[np.float64], SetDomain]:
    """Places of the leaves in depth-first order, scaled to [0, 1], NaN for a null; and the domain."""
    _, values = _encode_set(column, rows, known)
    leaf = hierarchy.leaf_codes(render_text(whole(rows.column(column.name))))
    places = hierarchy.places[leaf] / max(hierarchy.places.size - 1, 1)
    return np.where(leaf < 0, np.nan, places), values


def encode(
    rows: pa.Table, bound: BoundPolicy, individuals: NDArray[np.int64] | None, domains: Domains
) -> Encoded:
    """The solver's table of canonical rows.

    individuals: int64 (n,), whom each row belongs to; None: each is its own. domains: of the last release of this
    partition, {} at first. O(n d), and a digest for each distinct value of a categorical field.
    """
    numeric, categorical, cardinality, numeric_weights, set_weights = [], [], [], [], []
    heights: list[NDArray[np.float64] | None] = []
    updated: dict[str, RangeDomain | SetDomain] = {}
    for column in bound.quasis:
        weight = column.field.quasi.weight if column.field.quasi else 1.0
        known = domains.get(column.name)
        if column.kind is not None:
            scaled, span = _encode_range(column, rows, known)
            numeric.append(scaled)
            numeric_weights.append(weight)
            heights.append(None)
            updated[column.name] = span
        elif column.hierarchy is not None:
            places, values = _encode_hierarchy(column, column.hierarchy, rows, known)
            numeric.append(places)
            numeric_weights.append(weight)
            heights.append(column.hierarchy.heights)
            updated[column.name] = values
        else:
            codes, values = _encode_set(column, rows, known)
            categorical.append(codes)
            # Two values with one digest count once in the domain and still have two codes.
            cardinality.append(max(int(values.extent), int(codes.max(initial=-1)) + 1))
            set_weights.append(weight)
            updated[column.name] = values
    n = rows.num_rows
    table = Table(
        numeric=np.stack(numeric, axis=1) if numeric else np.empty((n, 0)),
        categorical=np.stack(categorical, axis=1) if categorical else np.empty((n, 0), dtype=np.int32),
        cardinality=np.array(cardinality, dtype=np.int64),
        weights=np.array([*numeric_weights, *set_weights], dtype=np.float64),
        individuals=individuals,
        heights=tuple(heights) if any(each is not None for each in heights) else (),
    )
    return Encoded(table, updated)


def extents(domains: Domains) -> dict[str, float]:
    """U - L or |A| of each field, as ``boxes.field_ncp`` wants them."""
    return {name: domain.extent for name, domain in domains.items()}


def describe(domains: Domains) -> dict[str, str]:
    """Each domain for the metrics: its ends or its size, and whether it was declared or running."""
    described = {}
    for name, domain in domains.items():
        if isinstance(domain, RangeDomain) and domain.low > domain.high:
            described[name] = "no value yet"
        elif isinstance(domain, RangeDomain):
            described[name] = f"[{domain.low}, {domain.high}] {'declared' if domain.declared else 'running'}"
        else:
            described[name] = (
                f"{int(domain.extent)} values {'running' if domain.declared is None else 'declared'}"
            )
    return described
