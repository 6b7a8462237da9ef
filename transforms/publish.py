"""Publishing: boxes and payloads put together by a secret matching, through the gate, in an order of content.

publish(rows, structure, bound, keystream, release_id, window) -> Published
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.errors import StructureError
from kanonflow.solvers.graph import GeneralizationGraph
from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.matching import random_factor
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.random_words import Words, shuffled_within
from kanonflow.solvers.solve_levels import without_waiting
from kanonflow.transforms.boxes import (
    Boxes,
    Groups,
    box_columns,
    class_groups,
    hull_boxes,
    level_groups,
    raised_boxes,
    slot_groups,
    snapped_boxes,
)
from kanonflow.transforms.gate import GateError, check_release
from kanonflow.transforms.gate_diversity import measured_diversity
from kanonflow.transforms.sort_keys import dense_ranks, sort_keys


class Published(NamedTuple):
    """rows: in the release's Arrow schema. boxes: as published.

    Restricted, for metrics and certificates only: hulls, the boxes before snapping; factor: int32, the record whose
    payload stands on slot j (in a partition: in the place of record j; in a graph over individuals: on the j-th row,
    slot after slot), as the structure numbers the records that do not wait; order: the place whose row stands first in
    the release, second; diversity, the
    least and the most that any class shows of sensitive values (``measured_diversity``).
    """

    rows: pa.Table
    boxes: Boxes
    hulls: Boxes
    factor: NDArray[np.int32]
    order: NDArray[np.int64]
    diversity: dict[str, float]


def publish(
    rows: pa.Table,
    structure: GeneralizationGraph | Partition | LevelGraph,
    bound: BoundPolicy,
    keystream: Words,
    release_id: str,
    window: tuple[int | None, int | None],
) -> Published:
    """The release of a structure over canonical rows.

    rows: canonical rows in canonical order, as the structure numbers them; rows that the structure lets
    wait are left out. window: (start, end) in milliseconds, None without windows.

    On a graph, slot j carries the payload of the record that a random factor matches to it. In a partition
    all rows of a class carry its hull (at a lattice's node the labels of its levels), and its payloads are permuted
    uniformly among its rows. In a graph over
    individuals a random factor matches an individual to each slot, and all of its rows appear under the slot's box.
    Rows leave sorted by what they publish.

    Postcondition: the gate has passed it (GateError otherwise); the bytes are a function of the arguments and
    the keystream; the order of the rows is a function of their published content.
    Why: any order that came from the records would link a row back to its record, past every box.
    O(n k d + n log n), and the matching's expected O(k n log n).
    """
    if isinstance(structure, Partition) and np.any(structure.labels < 0):
        kept = np.flatnonzero(structure.labels >= 0)
        rows, structure = rows.take(pa.array(kept)), replace(structure, labels=structure.labels[kept])
    if isinstance(structure, LevelGraph):
        kept, structure = without_waiting(structure)
        rows = rows.take(pa.array(kept))
    if isinstance(structure, Partition):
        factor = shuffled_within(structure.labels, keystream.words(rows.num_rows))
        groups = class_groups(structure.labels)
    else:
        factor, groups = _matched(structure, keystream)
    hulls = hull_boxes(rows, bound, groups)
    if isinstance(structure, LatticeNode):
        hulls = raised_boxes(hulls, structure.levels)
    boxes = snapped_boxes(hulls)
    released = _assemble(rows, factor, boxes, bound, release_id, window)
    check_release(released, rows, structure, factor, bound)
    order = published_order(released)
    shown = measured_diversity(released, structure.labels, bound) if isinstance(structure, Partition) else {}
    return Published(released.take(pa.array(order)), boxes, hulls, factor, order, shown)


def _matched(
    structure: GeneralizationGraph | LevelGraph, keystream: Words
) -> tuple[NDArray[np.int32], Groups]:
    """The record on each released row by one random factor, and the records that each row's box covers."""
    try:
        if isinstance(structure, LevelGraph):
            structure.check(structure.k, structure.of_row)
        matched = random_factor(structure.members, keystream)
    except StructureError as error:
        raise GateError(str(error)) from error
    if isinstance(structure, LevelGraph):
        return structure.published_records(matched).astype(np.int32), level_groups(structure)
    return matched, slot_groups(structure.members)


def published_order(released: pa.Table) -> NDArray[np.int64]:
    """The indices that sort released rows by all of their columns, in the schema's order; int64 (n,).

    Rows that tie are equal, so any arrangement of the same rows leads to the same table. O(n log n).
    """
    ranks = np.zeros(released.num_rows, dtype=np.int64)
    for column in released.columns:
        keys = sort_keys(column)
        if any(np.any(key != key[0]) for key in keys if key.size):
            ranks = dense_ranks([ranks, *keys])
        if ranks.size and ranks.max() == ranks.size - 1:
            break
    return np.argsort(ranks, kind="stable")


def _assemble(
    rows: pa.Table,
    factor: NDArray[np.int32],
    boxes: Boxes,
    bound: BoundPolicy,
    release_id: str,
    window: tuple[int | None, int | None],
) -> pa.Table:
    schema = release_arrow_schema(bound)
    columns: dict[str, pa.Array | pa.ChunkedArray] = box_columns(boxes)
    for name, value in zip(("release_id", "window_start", "window_end"), (release_id, *window), strict=True):
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), rows.num_rows)
    matched = pa.array(factor)
    for column in bound.payload:
        columns[column.published_name] = rows.column(column.name).take(matched)
    return pa.table([columns[name] for name in schema.names], schema=schema)
