"""The gate: the one function every path to output goes through.

It shares no code with the making of boxes and matchings: it reads the finished columns back and compares them
with the original rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.publishing.gate_diversity import diversity_faults
from kanonflow.transforms.publishing.gate_kinds import inside


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
    read = next((_READERS[kind] for kind in type(structure).__mro__ if kind in _READERS), None)
    if read is None:
        raise GateError("the structure is neither a graph nor closed classes")
    answer: _Answer = read(structure)
    if released.num_rows != n or factor.shape != (n,):
        raise GateError(f"{released.num_rows} rows would be released where {n} were to be")
    if n < k:
        raise GateError(f"{n} rows cannot be released with k={k}")
    check_columns(released, bound)
    _check_structure(answer, rows, bound)
    check_once(factor)
    along = answer.along(factor)
    if not along.all():
        raise GateError(f"{int((~along).sum())} rows carry the payload of a record that is not their member")
    check_payload(released, rows, factor, bound)
    for name, key in diversity_faults(released, answer.classes, bound):
        raise GateError(f"field {name}: some classes do not have the {key} that the policy asks for")
    for column in bound.quasis:
        outside = _outside(column, released, rows, answer)
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
    sent = rows.select([column.name for column in bound.payload]).take(pa.array(factor))
    for column in bound.payload:
        if not released.column(column.published_name).equals(sent.column(column.name)):
            raise GateError(f"field {column.name}: the released values are not those of the matched records")


class _Answer(Protocol):
    """What the gate reads of a structure over n records."""

    @property
    def covered(self) -> NDArray[np.int32]:
        """One entry for each record that it covers; negative where the record waits."""

    @property
    def classes(self) -> NDArray[np.int32] | None:
        """Int32 (n,), the class of each record; None: it has none."""

    def check(self, bound: BoundPolicy, individuals: NDArray[np.int64]) -> None:
        """Raise GateError or StructureError unless it keeps the promise. individuals: int64 (n,)."""

    def along(self, factor: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Bool (n,): whether each row carries the payload of a member of its own."""

    def members(self, column: BoundColumn, boxes: pa.Array) -> tuple[pa.Array, NDArray[Any], NDArray[Any]]:
        """Boxes, and pairs of the place of one and a record that it has to hold, int64 (m,) each."""


class _OfGraph:
    """Row j is slot j, whose members are k records."""

    classes = None

    def __init__(self, graph: GeneralizationGraph) -> None:
        self._graph = graph
        self.covered = graph.members.min(axis=1)

    def check(self, bound: BoundPolicy, individuals: NDArray[np.int64]) -> None:
        if bound.policy.promise.of_people:
            raise GateError("a graph over rows cannot be released under protect: individual")
        if self._graph.k < bound.policy.k:
            raise GateError(f"the graph has degree {self._graph.k}, below k={bound.policy.k}")
        self._graph.check(individuals)

    def along(self, factor: NDArray[np.int32]) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = (self._graph.members == factor[:, None]).any(axis=1)
        return held

    def members(self, column: BoundColumn, boxes: pa.Array) -> tuple[pa.Array, NDArray[Any], NDArray[Any]]:
        members = self._graph.members
        return boxes, np.repeat(np.arange(len(members)), self._graph.k), members.ravel().astype(np.int64)


class _OfClasses:
    """Row j is of the class of record j, whose members are all records of it."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.covered = self.classes = partition.labels

    def check(self, bound: BoundPolicy, individuals: NDArray[np.int64]) -> None:
        waiting = int((self.covered < 0).sum())
        if waiting:
            raise GateError(f"{waiting} rows belong to no class and must wait")
        self._partition.check(bound.policy.k, individuals)

    def along(self, factor: NDArray[np.int32]) -> NDArray[np.bool_]:
        return self.classes[factor] == self.classes

    def members(self, column: BoundColumn, boxes: pa.Array) -> tuple[pa.Array, NDArray[Any], NDArray[Any]]:
        # Equal boxes within a class: it is enough that the first one holds the whole class.
        _, first = np.unique(self.classes, return_index=True)
        if not boxes.take(pa.array(first[self.classes])).equals(boxes):
            raise GateError(f"field {column.name}: the rows of a class have different boxes")
        return boxes.take(pa.array(first)), self.classes.astype(np.int64), np.arange(self.classes.size)


_READERS: dict[type, Callable[[Any], _Answer]] = {GeneralizationGraph: _OfGraph, Partition: _OfClasses}


def _check_structure(answer: _Answer, rows: pa.Table, bound: BoundPolicy) -> None:
    individuals = row_individuals(rows, bound)
    if answer.covered.shape[0] != rows.num_rows:
        raise GateError(f"the structure covers {answer.covered.shape[0]} records, not {rows.num_rows}")
    try:
        answer.check(bound, individuals)
    except StructureError as error:
        raise GateError(str(error)) from error


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


def _outside(column: BoundColumn, released: pa.Table, rows: pa.Table, answer: _Answer) -> int:
    """How many boxes of this field (of slots, or of classes) do not hold every member."""
    values = rows.column(column.name).combine_chunks()
    boxes, row, member = answer.members(column, released.column(column.published_name).combine_chunks())
    return int(np.unique(row[~inside(column, boxes, values, row, member)]).size)
