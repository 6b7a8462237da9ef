"""Publishing: boxes and payloads put together by a secret matching, through the gate, in an order of content.

publish(rows, structure, bound, keystream, release_id, window) -> Published
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.matching.random_words import Words
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.structure import Structure
from kanonflow.transforms.columns.sort_keys import Keys, dense_ranks, sort_keys
from kanonflow.transforms.publishing.boxes import (
    Boxes,
    box_columns,
    hull_boxes,
    raised_boxes,
    snapped_boxes,
)
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.publishing.gate import GateError, check_release
from kanonflow.transforms.publishing.gate_diversity import measured_diversity
from kanonflow.transforms.publishing.gate_frozen import check_frozen_release

_TIMES = ("window_start", "window_end")


class Published(NamedTuple):
    """rows: in the release's Arrow schema. boxes: as published.

    Restricted, for metrics and matching records only: hulls, the boxes before snapping; factor: int32, the record whose
    payload stands on slot j (in a partition: in the place of record j), as the structure numbers the records that do
    not wait; order: the place whose row stands first in the release, second; diversity, the least and the most that
    any class shows of sensitive values (``measured_diversity``); cohorts, of frozen groups the box of each cohort.
    """

    rows: pa.Table
    boxes: Boxes
    hulls: Boxes
    factor: NDArray[np.int32]
    order: NDArray[np.int64]
    diversity: dict[str, float]
    cohorts: Boxes | None = None


def publish(
    rows: pa.Table,
    structure: Structure,
    bound: BoundPolicy,
    keystream: Words,
    release_id: str,
    window: tuple[int | None, int | None],
    frozen: FrozenGroups | None = None,
) -> Published:
    """The release of a structure over canonical rows.

    rows: canonical rows in canonical order, as the structure numbers them; rows that the structure lets
    wait are left out. window: (start, end) in milliseconds, None without windows.
    frozen: of groups of cohorts that last, which are the structure's classes: their boxes, times and numbers.

    On a graph, slot j carries the payload of the record that a random factor matches to it. In a partition
    all rows of a class carry its hull (at a lattice's node the labels of its levels), and its payloads are permuted
    uniformly among its rows. Rows leave sorted by what they publish.

    Postcondition: the gate has passed it (GateError otherwise); the bytes are a function of the arguments and
    the keystream; the order of the rows is a function of their published content.
    Why: any order that came from the records would link a row back to its record, past every box.
    O(n k d + n log n), and the matching's expected O(k n log n).
    """
    kept = structure.kept
    if kept is not None and not kept.all():
        rows, structure = rows.filter(pa.array(kept)), structure.released()
    factor = _drawn(structure, keystream)
    cohorts = None
    if frozen is None:
        hulls = hull_boxes(rows, bound, structure.groups)
    else:
        both, first = (
            hull_boxes(frozen.corners, bound, frozen.cohorts_then_groups),
            frozen.group_of_cohort.size,
        )
        cohorts = both.part(0, first)
        hulls = both.part(first, first + frozen.class_ids.size, frozen.of_row)
    if structure.levels is not None:
        hulls = raised_boxes(hulls, structure.levels)
    boxes = snapped_boxes(hulls)
    released = _assemble(rows, factor, boxes, bound, release_id, window, frozen)
    if frozen is None:
        check_release(released, rows, structure, factor, bound)
    else:
        check_frozen_release(released, rows, frozen, factor, bound)
    order = published_order(released, boxes)
    shown = {} if hulls.of_row is None else measured_diversity(released, hulls.of_row, bound)
    return Published(released.take(pa.array(order)), boxes, hulls, factor, order, shown, cohorts)


def _drawn(structure: Structure, keystream: Words) -> NDArray[np.int32]:
    """The record on each released row."""
    try:
        return structure.draw(keystream)
    except StructureError as error:
        raise GateError(str(error)) from error


def published_order(released: pa.Table, boxes: Boxes | None = None) -> NDArray[np.int64]:
    """The indices that sort released rows by all of their columns, in the schema's order; int64 (n,).

    boxes: those that the rows carry, where rows share them: then boxes are ranked and not the cells of all rows.
    Rows that tie are equal, so any arrangement of the same rows leads to the same table. O(n log n).
    """
    ranks = np.zeros(released.num_rows, dtype=np.int64)
    for coarse, keys in _keys_in_order(released, boxes):
        if not _follow(coarse, ranks):
            ranks = dense_ranks([ranks, *keys()])
        if ranks.size and ranks.max() == ranks.size - 1:
            break
    return np.argsort(ranks, kind="stable")


def _follow(keys: Keys, ranks: NDArray[np.int64]) -> bool:
    """Whether rows of one rank have one key: it then puts none of them before another. ranks: int64 (n,), dense."""
    one = np.empty(int(ranks.max(initial=0)) + 1, dtype=np.int64)
    one[ranks] = np.arange(ranks.size)
    same = one[ranks]
    return all(bool(np.all(key == key[same])) for key in keys)


def _keys_in_order(released: pa.Table, boxes: Boxes | None) -> Iterator[tuple[Keys, Callable[[], Keys]]]:
    """Sort keys of one column after the other, but of the release's name, which is that of all rows. Boxes that follow
    each other are one key, the rank of the box under all of them.

    Before them something that is less dear: rows that are equal in it have equal keys."""
    shared: set[str] = set()
    if boxes is not None and boxes.of_row is not None:
        shared = {field.column.published_name for field in boxes.fields}
    names = (name for name in released.schema.names if name != "release_id")
    for by_box, part in groupby(names, key=shared.__contains__):
        if by_box and boxes is not None and boxes.of_row is not None:
            yield [boxes.of_row], partial(_box_ranks, boxes, boxes.of_row, list(part))
        else:
            for keys in (sort_keys(released.column(name)) for name in part):
                yield keys, partial(list, keys)


def _box_ranks(boxes: Boxes, of_row: NDArray[np.int64], names: list[str]) -> Keys:
    columns = box_columns(replace(boxes, of_row=None))
    return [dense_ranks([key for name in names for key in sort_keys(columns[name])])[of_row]]


def _assemble(
    rows: pa.Table,
    factor: NDArray[np.int32],
    boxes: Boxes,
    bound: BoundPolicy,
    release_id: str,
    window: tuple[int | None, int | None],
    frozen: FrozenGroups | None = None,
) -> pa.Table:
    schema = release_arrow_schema(bound)
    columns: dict[str, pa.Array | pa.ChunkedArray] = box_columns(boxes)
    of_all: dict[str, str | int | None] = {"release_id": release_id}
    if frozen is None:
        of_all |= zip(_TIMES, window, strict=True)
    else:
        for name, times in zip(_TIMES, frozen.windows(), strict=True):
            columns[name] = pa.array(times).view(schema.field(name).type)
        columns["class_id"] = pa.array(frozen.class_ids[frozen.of_row])
        if (group := bound.policy.publish_group) is not None and frozen.ids is not None:
            cells = (frozen.ids, pa.array(frozen.sizes))
            for name, of_groups in zip(group.columns, cells, strict=False):
                columns[name] = of_groups.take(pa.array(frozen.of_row))
    for name, value in of_all.items():
        columns[name] = pa.repeat(pa.scalar(value, schema.field(name).type), rows.num_rows)
    matched = rows.select([column.name for column in bound.payload]).take(pa.array(factor))
    for column in bound.payload:
        columns[column.published_name] = matched.column(column.name)
    if frozen is not None and frozen.members is not None:
        columns[schema.names[-1]] = frozen.members.take(pa.array(factor))
    return pa.table([columns[name] for name in schema.names], schema=schema)
