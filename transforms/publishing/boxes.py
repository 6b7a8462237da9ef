"""Boxes: the generalized quasi-identifiers of a release, from the members up to Arrow columns.

hull_boxes(rows, bound, groups)             -> Boxes      exact hulls
snapped_boxes(hulls)                        -> Boxes      ends snapped outward: what is published
box_columns(boxes)                          -> {published name: Arrow array}, one entry a released row
field_ncp(boxes, extents), declared_ncp(boxes), gcp(ncp, bound)     information loss
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.field_boxes import FieldBoxes
from kanonflow.transforms.kinds.kinds import kind_of


@dataclass(frozen=True)
class Boxes:
    """b boxes, field by field in the policy's order; ``of_row`` as in ``Groups``."""

    fields: tuple[FieldBoxes, ...]
    of_row: NDArray[np.int64] | None

    def part(self, begin: int, end: int, of_row: NDArray[np.int64] | None = None) -> Boxes:
        """Some of them, by their places. of_row: among those."""
        return Boxes(tuple(field.part(begin, end) for field in self.fields), of_row)


def hull_boxes(rows: pa.Table, bound: BoundPolicy, groups: Groups) -> Boxes:
    """The exact hull of each group: least and greatest value, set of values, lowest node; nulls are told apart.

    rows: canonical rows, in the order the groups number them. O(d m) for m grouped records and d fields, plus
    sorting the values of categorical fields.
    """
    fields = (
        kind_of(column).hulls(column, whole(rows.column(column.name)), groups.records, groups.starts)
        for column in bound.quasis
    )
    return Boxes(tuple(fields), groups.of_row)


def snapped_boxes(hulls: Boxes) -> Boxes:
    """The boxes to publish: ranges snapped outward to the fields' grids, clipped at declared domains only.

    Postcondition: every box contains its hull. Why: exact ends are values of real people.
    """
    return replace(hulls, fields=tuple(field.snapped() for field in hulls.fields))


def raised_boxes(hulls: Boxes, levels: tuple[int, ...]) -> Boxes:
    """Boxes of fields with hierarchies, each raised to its field's level, in the policy's order."""
    raised = (field.raised(level) for field, level in zip(hulls.fields, levels, strict=True))
    return replace(hulls, fields=tuple(raised))


def box_columns(boxes: Boxes) -> dict[str, pa.Array]:
    """One entry a released row: struct<min, max, nulls> of ranges, list of values, label; by published name."""
    columns = {field.column.published_name: field.array() for field in boxes.fields}
    if boxes.of_row is None:
        return columns
    rows = pa.RecordBatch.from_pydict(columns).take(pa.array(boxes.of_row))
    return dict(zip(columns, rows.columns, strict=True))


def field_ncp(boxes: Boxes, extents: Mapping[str, float]) -> dict[str, float]:
    """Mean NCP of each field over the released rows, in [0, 1], by the field's own name.

    extents: of a range field U - L, the width of its domain, in the units of the column (of decimals:
    the unscaled ones); of a categorical field |A|, the size of its domain, null included where it occurs. A
    range costs min(1, (u - l) / (U - L)), 0 when U <= L; a box that mixes nulls and values costs 1, one of
    nulls alone 0. A set costs min(1, (count - 1) / (|A| - 1)), 0 when |A| <= 1. (S0, equations 1-4.)
    A node costs its leaves / all leaves, 0 for one leaf (S4, equation 2).
    """
    of_fields = {field.column.name: field.loss(extents[field.column.name]) for field in boxes.fields}
    count = next((loss.size for loss in of_fields.values()), 0)
    # By box and not by row: the sum must not hang on the order of the rows, which follows from whose they are.
    rows = np.ones(count) if boxes.of_row is None else np.bincount(boxes.of_row, minlength=count)
    total = rows.sum()
    return {name: float((rows * loss).sum() / total) if total else 0.0 for name, loss in of_fields.items()}


def declared_ncp(boxes: Boxes) -> dict[str, float]:
    """``field_ncp`` of the fields with a declared domain, as anybody can compute it from the boxes and the policy.

    Why not under the domains that the search used: running ones end at somebody's value, and whether a declared one
    counts a null tells that some row of the feed, published or not, had none.
    """
    sizes = {field.column.name: field.public_extent for field in boxes.fields}
    known = tuple(field for field in boxes.fields if sizes[field.column.name] is not None)
    return field_ncp(
        replace(boxes, fields=known), {name: size for name, size in sizes.items() if size is not None}
    )


def gcp(ncp: Mapping[str, float], bound: BoundPolicy) -> float:
    """The weighted mean of the fields' NCP, weights as the policy says."""
    weights = {column.name: column.field.quasi.weight for column in bound.quasis if column.field.quasi}
    return sum(weights[name] * ncp[name] for name in weights) / sum(weights.values())
