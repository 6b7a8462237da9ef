"""The rows that payload risks are measured on, and slots over them like those of a release."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.warm_up import kernel_sets
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.protections.needed_kernels import holds_hierarchies
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split

MOST_ROWS = 200_000
MOST_RECORDS = 5_000
_EVALUATIONS_PER_ROW = 20.0
_SEED = 1


def read_sample(
    files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm = PLAIN, most: int = MOST_ROWS
) -> pa.Table:
    """Canonical rows, in the order of the files: the first ``most / files`` of each file.

    Rows that the policy rejects, or lets through with quasi-identifiers at fault, are left out. Raises InputError: a
    file is damaged.
    """
    tables = [bound.canonical_schema.empty_table()]
    share = -(-most // len(files))
    for file in files:
        wanted = share
        for batch in read_batches(file, bound.input_columns, form, bound.attributes):
            rows = classify(from_ipc(batch.ipc), bound, source=file.name).rows
            if FAULT_COLUMN in rows.schema.names:
                rows = rows.filter(rows.column(FAULT_COLUMN).is_null())
            tables.append(rows.slice(0, wanted))
            wanted -= rows.num_rows
            if wanted <= 0:
                break
    return pa.concat_tables(tables).combine_chunks()


def sample_slots(
    rows: pa.Table, bound: BoundPolicy, most: int = MOST_RECORDS
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Records of some windows, and slots over them: (rows, members int64 (s, k), positions in those rows).

    Windows are drawn at random until there are about ``most`` records. Of an individual one row a window is taken, so
    that k members are k individuals. The slots are those of what a short search found: of a k-regular graph, or, where
    the policy publishes closed classes, k of a class. Of a window that is too large for that, those of a part of
    neighbours. Both are empty if no window has k individuals.
    Deterministic. O(most) evaluations, whatever the input's size.
    """
    rng = np.random.default_rng(_SEED)
    parts = [pa.Table.from_batches([batch]) for _, _, batch in split(rows, bound)]
    taken: list[pa.Table] = []
    slots: list[NDArray[np.int64]] = []
    count = 0
    for number in rng.permutation(len(parts)):
        part = _one_row_each(parts[number], bound, rng)
        if part.num_rows < bound.policy.k:
            continue
        part = _neighbours(part, bound, max(most, bound.policy.k), rng)
        table = encode(part, bound, None, {}).table
        slots.append(_slots(table, bound, rng) + count)
        taken.append(part)
        count += part.num_rows
        if count >= most:
            break
    if not taken:
        return rows.slice(0, 0), np.empty((0, bound.policy.k), dtype=np.int64)
    return pa.concat_tables(taken).combine_chunks(), np.concatenate(slots)


def sample_kernels(bound: BoundPolicy) -> tuple[str, ...]:
    """Sets of kernels (``solvers.warm_up``) that ``sample_slots`` calls."""
    return kernel_sets(_shape(bound), hierarchies=holds_hierarchies(bound))


def _shape(bound: BoundPolicy) -> str:
    """Rows of their own boxes as graphs, closed classes as such, also those of a lattice's node."""
    shape = protection_of(bound.policy).shape
    return "classes" if shape == "lattice_node" else shape


def _slots(table: Table, bound: BoundPolicy, rng: np.random.Generator) -> NDArray[np.int64]:
    """Slots over one row a person, as a release has them: int64 (n, k), who stands in each.

    Closed classes are found as such, by the kernels that the run needs all the same. Of a class every row is in k
    slots, with k - 1 that chance puts next to it.
    """
    k, budget = bound.policy.k, Budget(_EVALUATIONS_PER_ROW)
    if _shape(bound) == "row_graph":
        return solve(Task(table, k, shape="row_graph", budget=budget, seed=_SEED)).graph.members.astype(
            np.int64
        )
    groups = solve(Task(table, k, shape="classes", budget=budget, seed=_SEED)).structure.groups
    sizes = np.diff(groups.starts)
    first, size = np.repeat(groups.starts[:-1], sizes), np.repeat(sizes, sizes)
    # By chance within each class.
    members = groups.records[np.lexsort((rng.random(groups.records.size), first))]
    place = np.arange(members.size) - first
    return members[first[:, None] + (place[:, None] + np.arange(k)) % size[:, None]]


def _one_row_each(rows: pa.Table, bound: BoundPolicy, rng: np.random.Generator) -> pa.Table:
    """A row of each individual, at random."""
    field = bound.policy.individual
    if field is None:
        return rows
    order = rng.permutation(rows.num_rows)
    who = np.asarray(rows.column(field.name).combine_chunks().dictionary_encode().indices)
    _, first = np.unique(who[order], return_index=True)
    return rows.take(pa.array(np.sort(order[first])))


def _neighbours(rows: pa.Table, bound: BoundPolicy, most: int, rng: np.random.Generator) -> pa.Table:
    """At most ``most`` rows that are as near to each other as in the whole: halved and halved again.

    A random part would be thinner, its slots wider, and the nearest member too easy to tell.
    """
    table = encode(rows, bound, None, {}).table
    kept = np.arange(rows.num_rows)
    while kept.size > most:
        order = kept[np.argsort(_widest(table, kept), kind="stable")]
        middle = order.size // 2
        kept = order[:middle] if rng.random() < 0.5 else order[middle:]
    return rows.take(pa.array(np.sort(kept)))


def _widest(table: Table, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The attribute in which these rows differ most, float64 (rows,)."""
    numeric = np.nan_to_num(table.numeric[rows], nan=3.0)
    codes = table.categorical[rows].astype(np.float64)
    columns = [*numeric.T, *(codes / np.maximum(table.cardinality, 2)).T]
    spreads = [float(np.abs(column - column.mean()).mean()) for column in columns]
    return columns[int(np.argmax(spreads))]
