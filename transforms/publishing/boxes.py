"""Boxes: the generalized quasi-identifiers of a release, from the members up to Arrow columns.

hull_boxes(rows, bound, groups)             -> Boxes      exact hulls
snapped_boxes(hulls)                        -> Boxes      ends snapped outward: what is published
box_columns(boxes)                          -> {published name: Arrow array}, one entry a released row
field_ncp(boxes, extents), declared_ncp(boxes), gcp(ncp, bound)     information loss
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.grid import snap_outward
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.range_values import range_array, range_values
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.publishing.node_boxes import Nodes, lowest_nodes


@dataclass(frozen=True)
class Ranges:
    """The boxes of one numeric or date field.

    low, high: (b,) closed ranges in the units of ``column.kind`` (float64 for "float", else int64).
    numbers, nulls: bool (b,), whether the box holds values, and whether it holds nulls; without values its
    range means nothing.
    """

    column: BoundColumn
    low: NDArray[np.int64] | NDArray[np.float64]
    high: NDArray[np.int64] | NDArray[np.float64]
    numbers: NDArray[np.bool_]
    nulls: NDArray[np.bool_]


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


@dataclass(frozen=True)
class Boxes:
    """b boxes, field by field in the policy's order; ``of_row`` as in ``Groups``."""

    fields: tuple[Ranges | ValueSets | Nodes, ...]
    of_row: NDArray[np.int64] | None


def hull_boxes(rows: pa.Table, bound: BoundPolicy, groups: Groups) -> Boxes:
    """The exact hull of each group: least and greatest value, set of values, lowest node; nulls are told apart.

    rows: canonical rows, in the order the groups number them. O(d m) for m grouped records and d fields, plus
    sorting the values of categorical fields.
    """
    return Boxes(tuple(_hulls(column, rows, groups) for column in bound.quasis), groups.of_row)


def _hulls(column: BoundColumn, rows: pa.Table, groups: Groups) -> Ranges | ValueSets | Nodes:
    if column.hierarchy is not None:
        return lowest_nodes(column, column.hierarchy, rows, groups.records, groups.starts)
    return _ranges(column, rows, groups) if column.kind is not None else _value_sets(column, rows, groups)


def snapped_boxes(hulls: Boxes) -> Boxes:
    """The boxes to publish: ranges snapped outward to the fields' grids, clipped at declared domains only.

    Postcondition: every box contains its hull. Why: exact ends are values of real people.
    """
    return replace(hulls, fields=tuple(_snapped(field) for field in hulls.fields))


def raised_boxes(hulls: Boxes, levels: tuple[int, ...]) -> Boxes:
    """Boxes of fields with hierarchies, each raised to its field's level, in the policy's order."""
    return replace(
        hulls,
        fields=tuple(
            field.raised(level) if isinstance(field, Nodes) else field
            for field, level in zip(hulls.fields, levels, strict=True)
        ),
    )


def box_columns(boxes: Boxes) -> dict[str, pa.Array]:
    """One entry a released row: struct<min, max, nulls> of ranges, list of values, label; by published name."""
    take = None if boxes.of_row is None else pa.array(boxes.of_row)
    columns = {}
    for field in boxes.fields:
        if isinstance(field, Nodes):
            array = field.labels()
        else:
            array = _range_column(field) if isinstance(field, Ranges) else _set_column(field)
        columns[field.column.published_name] = array if take is None else array.take(take)
    return columns


def field_ncp(boxes: Boxes, extents: Mapping[str, float]) -> dict[str, float]:
    """Mean NCP of each field over the released rows, in [0, 1], by the field's own name.

    extents: of a range field U - L, the width of its domain, in the units of ``column.kind`` (of decimals:
    the unscaled ones); of a categorical field |A|, the size of its domain, null included where it occurs. A
    range costs min(1, (u - l) / (U - L)), 0 when U <= L; a box that mixes nulls and values costs 1, one of
    nulls alone 0. A set costs min(1, (count - 1) / (|A| - 1)), 0 when |A| <= 1. (S0, equations 1-4.)
    A node costs its leaves / all leaves, 0 for one leaf (S4, equation 2).
    """
    losses = {}
    for field in boxes.fields:
        extent = extents[field.column.name]
        if isinstance(field, Nodes):
            loss = field.ncp
        else:
            loss = _range_ncp(field, extent) if isinstance(field, Ranges) else _set_ncp(field, extent)
        # By box and not by row: the sum must not hang on the order of the rows, which follows from whose they are.
        rows = np.ones(loss.size) if boxes.of_row is None else np.bincount(boxes.of_row, minlength=loss.size)
        losses[field.column.name] = float((rows * loss).sum() / rows.sum()) if rows.sum() else 0.0
    return losses


def declared_ncp(boxes: Boxes) -> dict[str, float]:
    """``field_ncp`` of the fields with a declared domain, as anybody can compute it from the boxes and the policy.

    Why not under the domains that the search used: running ones end at somebody's value, and whether a declared one
    counts a null tells that some row of the feed, published or not, had none.
    """
    sizes: dict[str, float] = {}
    for field in boxes.fields:
        column = field.column
        if isinstance(field, Ranges):
            if column.domain is not None:
                sizes[column.name] = min(float(column.domain[1] - column.domain[0]), sys.float_info.max)
        elif column.categories is not None:
            nulls = isinstance(field, ValueSets) and field.values.null_count > 0
            sizes[column.name] = float(len(column.categories) + nulls)
    known = tuple(field for field in boxes.fields if field.column.name in sizes)
    return field_ncp(replace(boxes, fields=known), sizes)


def gcp(ncp: Mapping[str, float], bound: BoundPolicy) -> float:
    """The weighted mean of the fields' NCP, weights as the policy says."""
    weights = {column.name: column.field.quasi.weight for column in bound.quasis if column.field.quasi}
    return sum(weights[name] * ncp[name] for name in weights) / sum(weights.values())


def _ranges(column: BoundColumn, rows: pa.Table, groups: Groups) -> Ranges:
    values, valid = range_values(whole(rows.column(column.name)))
    grouped, present = values[groups.records], valid[groups.records]
    starts = groups.starts[:-1]
    limits = np.finfo(np.float64) if values.dtype.kind == "f" else np.iinfo(np.int64)
    low = np.minimum.reduceat(np.where(present, grouped, limits.max), starts)
    high = np.maximum.reduceat(np.where(present, grouped, limits.min), starts)
    numbers = np.logical_or.reduceat(present, starts)
    zero = values.dtype.type(0)
    return Ranges(
        column,
        np.where(numbers, low, zero),
        np.where(numbers, high, zero),
        numbers,
        np.logical_or.reduceat(~present, starts),
    )


def _value_sets(column: BoundColumn, rows: pa.Table, groups: Groups) -> ValueSets:
    encoded = whole(rows.column(column.name)).dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary, null_placement="at_start")
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    codes = rank[np.asarray(encoded.indices)]
    group = np.repeat(np.arange(groups.starts.size - 1), np.diff(groups.starts))
    pairs = np.sort(group * len(order) + codes[groups.records])
    held = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    starts = np.searchsorted(held, np.arange(groups.starts.size) * len(order))
    return ValueSets(column, held % max(len(order), 1), starts, encoded.dictionary.take(order))


def _snapped(field: Ranges | ValueSets | Nodes) -> Ranges | ValueSets | Nodes:
    quasi = field.column.field.quasi
    if not isinstance(field, Ranges) or quasi is None or field.column.kind is None:
        return field
    low, high = snap_outward(
        field.low, field.high, grid=quasi.grid, kind=field.column.kind, domain=field.column.domain
    )
    return replace(field, low=low, high=high)


def _range_column(field: Ranges) -> pa.Array:
    kind = field.column.arrow_type
    ends = [range_array(end, field.numbers, kind) for end in (field.low, field.high)]
    parts = [pa.field("min", kind), pa.field("max", kind), pa.field("nulls", pa.bool_(), nullable=False)]
    return pa.StructArray.from_arrays([*ends, pa.array(field.nulls)], fields=parts)


def _set_column(field: ValueSets) -> pa.Array:
    values = field.values.take(pa.array(field.codes))
    return pa.ListArray.from_arrays(
        pa.array(field.starts, pa.int32()), values, type=pa.list_(field.column.arrow_type)
    )


def _range_ncp(field: Ranges, extent: float) -> NDArray[np.float64]:
    if extent > 0:
        # Halved first: the width of two finite doubles can be infinite.
        half = field.high.astype(np.float64) / 2 - field.low.astype(np.float64) / 2
        loss = np.minimum(1.0, half / (extent / 2))
    else:
        loss = np.zeros(field.low.shape)
    return np.where(field.numbers & field.nulls, 1.0, np.where(field.numbers, loss, 0.0))


def _set_ncp(field: ValueSets, extent: float) -> NDArray[np.float64]:
    counts = np.diff(field.starts).astype(np.float64)
    return np.minimum(1.0, (counts - 1) / (extent - 1)) if extent > 1 else np.zeros(counts.shape)
