"""The gate: the one function every path to output goes through.

It shares no code with the making of boxes and matchings: it reads the finished columns back and compares them
with the original rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.policy import Protection
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.publishing.gate_diversity import diversity_faults
from kanonflow.transforms.publishing.gate_nodes import in_node

Structure = GeneralizationGraph | Partition


class GateError(Exception):
    """A release that breaks the promise; it must not go out. The message: counts and field names only."""

    exit_code = 3


def check_release(
    released: pa.Table,
    rows: pa.Table,
    structure: object,
    factor: NDArray[np.int32],
    bound: BoundPolicy,
) -> None:
    """Raise GateError unless these rows may go out.

    released: row j is slot j of a graph, or stands for record j of a partition; columns of the release schema.
    rows: the n canonical rows, as the structure numbers them.
    structure: a graph or a partition, whose members or labels are read here; nothing else goes out.
    factor: int32 (n,), the record whose payload is on each released row.

    Postcondition, of a call that returns:
    - as many rows go out as came in, in the release schema and nothing but it;
    - a graph (it serves ``protect: row`` only) is k-regular, simple, each slot with k distinct individuals;
    - of a partition every class has k individuals or more, each count of rows shared by k of them;
    - the payloads are those of a perfect matching along edges (within classes);
    - the rows of every class show what the policy asks of sensitive values, counted from what is released;
    - every member of a row's slot or class lies inside the row's box, in every field.
    Why: each of these is a premise of the 1/k that the release promises. O(n k d).
    """
    n, k = rows.num_rows, bound.policy.k
    if not isinstance(structure, GeneralizationGraph | Partition):
        raise GateError("the structure is neither a graph nor closed classes")
    if released.num_rows != n or factor.shape != (n,):
        raise GateError(f"{released.num_rows} rows would be released where {n} were to be")
    if n < k:
        raise GateError(f"{n} rows cannot be released with k={k}")
    check_columns(released, bound)
    _check_structure(structure, rows, bound)
    check_once(factor)
    _check_factor(structure, factor)
    check_payload(released, rows, factor, bound)
    classes = structure.labels if isinstance(structure, Partition) else None
    for name, key in diversity_faults(released, classes, bound):
        raise GateError(f"field {name}: some classes do not have the {key} that the policy asks for")
    for column in bound.quasis:
        outside = _outside(column, released, rows, structure)
        if outside:
            raise GateError(f"field {column.name}: {outside} boxes do not hold all of their members")


def check_columns(released: pa.Table, bound: BoundPolicy) -> None:
    """Raise GateError unless the columns are those of the release schema and nothing but it."""
    expected = release_arrow_schema(bound)
    if not released.schema.equals(expected):
        odd = sorted(set(released.schema.names) ^ set(expected.names))
        raise GateError(
            f"the released columns are not those of the release schema ({', '.join(odd) or 'types'})"
        )


def check_payload(released: pa.Table, rows: pa.Table, factor: NDArray[np.int32], bound: BoundPolicy) -> None:
    """Raise GateError unless each row carries the payload of the record that the factor names."""
    for column in bound.payload:
        sent = rows.column(column.name).take(pa.array(factor))
        if not released.column(column.published_name).equals(sent):
            raise GateError(f"field {column.name}: the released values are not those of the matched records")


def _check_structure(structure: Structure, rows: pa.Table, bound: BoundPolicy) -> None:
    k = bound.policy.k
    individuals = row_individuals(rows, bound)
    covered = _covered(structure)
    if covered.shape[0] != rows.num_rows:
        raise GateError(f"the structure covers {covered.shape[0]} records, not {rows.num_rows}")
    try:
        if isinstance(structure, GeneralizationGraph):
            if bound.policy.protect is Protection.INDIVIDUAL:
                raise GateError("a graph over rows cannot be released under protect: individual")
            if structure.k < k:
                raise GateError(f"the graph has degree {structure.k}, below k={k}")
            structure.check(individuals)
        else:
            waiting = int((covered < 0).sum())
            if waiting:
                raise GateError(f"{waiting} rows belong to no class and must wait")
            structure.check(k, individuals)
    except StructureError as error:
        raise GateError(str(error)) from error


def _covered(structure: Structure) -> NDArray[np.int32]:
    """One entry for each record that the structure covers; negative where the record waits."""
    return structure.members[:, 0] if isinstance(structure, GeneralizationGraph) else structure.labels


def row_individuals(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """Whom each row belongs to, read from the rows themselves: int64 (n,)."""
    field = bound.policy.individual
    if field is None:
        return np.arange(rows.num_rows)
    column = rows.column(field.name)
    if column.null_count:
        raise GateError(f"field {field.name}: {column.null_count} rows belong to nobody")
    return np.asarray(column.combine_chunks().dictionary_encode().indices).astype(np.int64)


def check_once(factor: NDArray[np.int32]) -> None:
    """Raise GateError unless the factor is a permutation."""
    n = factor.shape[0]
    used = np.zeros(n, dtype=np.int64)
    known = (factor >= 0) & (factor < n)
    np.add.at(used, factor[known], 1)
    if not known.all() or np.any(used != 1):
        raise GateError(f"{int((used != 1).sum())} records would be released other than once")


def _check_factor(structure: Structure, factor: NDArray[np.int32]) -> None:
    if isinstance(structure, GeneralizationGraph):
        along = (structure.members == factor[:, None]).any(axis=1)
    else:
        along = structure.labels[factor] == structure.labels
    if not along.all():
        raise GateError(f"{int((~along).sum())} rows carry the payload of a record that is not their member")


def _outside(column: BoundColumn, released: pa.Table, rows: pa.Table, structure: Structure) -> int:
    """How many boxes of this field (of slots, or of classes) do not hold every member."""
    boxes = released.column(column.published_name).combine_chunks()
    values = rows.column(column.name).combine_chunks()
    n = rows.num_rows
    if isinstance(structure, Partition):
        # Equal boxes within a class: it is enough that the first one holds the whole class.
        _, first = np.unique(structure.labels, return_index=True)
        if not boxes.take(pa.array(first[structure.labels])).equals(boxes):
            raise GateError(f"field {column.name}: the rows of a class have different boxes")
        boxes = boxes.take(pa.array(first))
        row, member = structure.labels.astype(np.int64), np.arange(n)
    else:
        row, member = np.repeat(np.arange(n), structure.k), structure.members.ravel().astype(np.int64)
    return int(np.unique(row[~inside(column, boxes, values, row, member)]).size)


def inside(
    column: BoundColumn,
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether each member's value lies in the box of its row: bool (m,). row, member: int64 (m,)."""
    if column.hierarchy is not None:
        return in_node(boxes, values, row, member, column.hierarchy)
    contains = _in_set if column.kind is None else _in_range
    return contains(boxes, values, row, member)


def _in_range(
    boxes: pa.Array, values: pa.Array, row: NDArray[np.int64], member: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each member's value lies in its row's closed range; a null: whether the box holds nulls."""
    box = boxes.take(pa.array(row))
    value = values.take(pa.array(member))
    reaches = pc.less_equal(pc.struct_field(box, "min"), value)
    ends = pc.less_equal(value, pc.struct_field(box, "max"))
    between = np.asarray(pc.and_(reaches, ends).fill_null(False))
    return np.where(np.asarray(value.is_null()), np.asarray(pc.struct_field(box, "nulls")), between)


def _in_set(
    boxes: pa.Array, values: pa.Array, row: NDArray[np.int64], member: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each member's value, null included, is an element of its row's list."""
    known = pc.unique(values)
    width = len(known) + 1
    listed = np.asarray(pc.index_in(boxes.flatten(), value_set=known).fill_null(len(known)))
    pairs = np.asarray(pc.list_parent_indices(boxes)).astype(np.int64) * width + listed
    code = np.asarray(pc.index_in(values, value_set=known)).astype(np.int64)
    return np.isin(row * width + code[member], pairs)
