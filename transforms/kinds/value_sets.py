"""Quasi-identifiers whose boxes are sets of values: categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.kinds.form import FEW, by_bytes, ranks_of_few
from kanonflow.transforms.kinds.domains import NULL, Domain, SetDomain, value_digests
from kanonflow.transforms.kinds.field_boxes import TableColumns


@dataclass(frozen=True)
class ValueSets:
    """The boxes of one categorical field.

    codes: int64, indices into ``values``, ascending within a box. starts: int64 (b + 1,); box g has
    ``codes[starts[g] : starts[g + 1]]``. values: the values that occur, sorted, a null (if any) first.
    """

    column: BoundColumn
    codes: NDArray[np.int64]
    starts: NDArray[np.int64]
    values: pa.Array

    def part(self, begin: int, end: int) -> ValueSets:
        """Some of them; of all values."""
        starts = self.starts[begin : end + 1]
        return replace(self, codes=self.codes[starts[0] : starts[-1]], starts=starts - starts[0])

    def snapped(self) -> ValueSets:
        """As they are: sets have no grid."""
        return self

    def raised(self, level: int) -> ValueSets:
        """As they are: sets have no levels."""
        return self

    def array(self) -> pa.Array:
        """list of values (b,)."""
        values = self.values.take(pa.array(self.codes))
        return pa.ListArray.from_arrays(
            pa.array(self.starts, pa.int32()), values, type=pa.list_(self.column.arrow_type)
        )

    def loss(self, extent: float) -> NDArray[np.float64]:
        """min(1, (count - 1) / (|A| - 1)), 0 when |A| <= 1 (S0, eq. 2)."""
        counts = np.diff(self.starts).astype(np.float64)
        return np.minimum(1.0, (counts - 1) / (extent - 1)) if extent > 1 else np.zeros(counts.shape)

    @property
    def public_extent(self) -> float | None:
        """Of a declared domain, a null included where one is published."""
        declared = self.column.categories
        return None if declared is None else float(len(declared) + (self.values.null_count > 0))

    def holds(self, values: pa.Array, box: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Among the values."""
        width = len(self.values)
        # Ascending: codes are, within a box.
        pairs = np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts)) * width + self.codes
        places = pc.index_in(values, value_set=self.values)
        code = np.asarray(places.fill_null(-1) if places.null_count else places).astype(np.int64)
        wanted = box * width + code
        return (code >= 0) & (pairs[_places(pairs, wanted)] == wanted)


class SetKind:
    """What sets do with a column."""

    def encode(
        self, column: BoundColumn, array: pa.Array, known: Domain | None, table: TableColumns
    ) -> SetDomain:
        """A code a value."""
        codes, domain = set_codes(column, array, known)
        # Two values with one digest count once in the domain and still have two codes.
        table.add_codes(codes, max(domain.count, int(codes.max(initial=-1)) + 1), column.weight)
        return domain

    def hulls(
        self, column: BoundColumn, array: pa.Array, records: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> ValueSets:
        """The values that occur. O(m log m)."""
        codes, values = _ranked(array)
        group = np.repeat(np.arange(starts.size - 1), starts[1:] - starts[:-1])
        pairs = np.sort(group * len(values) + codes[records])
        first = np.ones(pairs.size, dtype=np.bool_)
        first[1:] = pairs[1:] != pairs[:-1]
        held = pairs[first]
        begins = np.searchsorted(held, np.arange(starts.size) * len(values))
        return ValueSets(column, held % max(len(values), 1), begins, values)

    def spanning(self, null: NDArray[np.bool_], ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Every value."""
        return np.ones(null.size, dtype=np.bool_)


def _ranked(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """The rank of each value among the distinct ones, from 0, int64 (n,); and these in their order, a null first."""
    if by_bytes(array.type) and len(array) <= FEW:
        ranks, texts = ranks_of_few(array)
        if array.null_count:
            return ranks, pa.array([None, *texts], array.type)
        return ranks - 1, pa.array(texts, array.type)
    encoded = array.dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary, null_placement="at_start")
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(order)


def _places(held: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each would stand in what is held, sorted and not empty; of what is not there some place."""
    return np.minimum(np.searchsorted(held, wanted), held.size - 1)


def set_codes(
    column: BoundColumn, array: pa.Array, known: Domain | None
) -> tuple[NDArray[np.int32], SetDomain]:
    """A code for each value, in the order of digests, and the domain with them."""
    encoded = array.dictionary_encode(null_encoding="encode")
    digests = value_digests(encoded.dictionary)
    # Codes follow the digests, not the order of rows: equal content always gets equal codes.
    order = np.argsort(digests, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    earlier = digests[:0] if known is None or known.digests is None else known.digests
    # Mostly all of them were seen before: a domain is sorted again only where it grows.
    grows = not earlier.size or not np.array_equal(earlier[_places(earlier, digests)], digests)
    seen = np.unique(np.concatenate([earlier, digests])) if grows else earlier
    declared = None
    if column.categories is not None:
        # A null counts once it was there, and ever after: domains only grow.
        declared = len(column.categories) + int((seen == NULL).any())
    return rank[np.asarray(encoded.indices)], SetDomain(seen, declared)
