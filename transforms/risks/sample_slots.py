"""Slots like those of a release over some windows of rows: what member guesses are tried on, and what boxes lose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.warm_up import kernel_sets
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.protections.needed_kernels import holds_hierarchies
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.rows.split import split

MOST_RECORDS = 5_000
_EVALUATIONS_PER_ROW = 20.0
_SEED = 1


class SampleSlots(NamedTuple):
    """rows: records of some windows. members: int64 (s, k), who stands in each slot, positions in those rows.

    loss: GCP of the boxes, by rows; None: there are none.
    """

    rows: pa.Table
    members: NDArray[np.int64]
    loss: float | None


def sample_slots(rows: pa.Table, bound: BoundPolicy, most: int = MOST_RECORDS) -> SampleSlots:
    """Records of some windows, and slots over them.

    Windows are drawn at random until there are about ``most`` records. Of an individual one row a window is taken, so
    that k members are k individuals. The slots are those of what a short search found: of a k-regular graph, or, where
    the policy publishes closed classes, k of a class. Of a window that is too large for that, those of a part of
    neighbours. Both are empty if no window has k individuals.
    Deterministic. O(most) evaluations, whatever the input's size.
    """
    rng = np.random.default_rng(_SEED)
    parts = [pa.Table.from_batches([each]) for _, _, each in split(rows, bound)] if rows.num_rows else []
    taken: list[pa.Table] = []
    slots: list[NDArray[np.int64]] = []
    count, lost = 0, 0.0
    for number in rng.permutation(len(parts)):
        part = _one_row_each(parts[number], bound, rng)
        if part.num_rows < bound.policy.k:
            continue
        part = _neighbours(part, bound, max(most, bound.policy.k), rng)
        table = encode(part, bound, None, {}).table
        members, loss = _slots(table, bound, rng)
        slots.append(members + count)
        lost += loss * part.num_rows
        taken.append(part)
        count += part.num_rows
        if count >= most:
            break
    if not taken:
        return SampleSlots(rows.slice(0, 0), np.empty((0, bound.policy.k), dtype=np.int64), None)
    return SampleSlots(pa.concat_tables(taken).combine_chunks(), np.concatenate(slots), lost / count)


def sample_kernels(bound: BoundPolicy) -> tuple[str, ...]:
    """Sets of kernels (``solvers.warm_up``) that ``sample_slots`` calls."""
    return kernel_sets(_shape(bound), hierarchies=holds_hierarchies(bound))


def _shape(bound: BoundPolicy) -> str:
    """Rows of their own boxes as graphs, closed classes as such, also those of a lattice's node."""
    shape = protection_of(bound.policy).shape
    return "classes" if shape == "lattice_node" else shape


def _slots(table: Table, bound: BoundPolicy, rng: np.random.Generator) -> tuple[NDArray[np.int64], float]:
    """Slots over one row a person, as a release has them: int64 (n, k), who stands in each; and their loss.

    Closed classes are solution as such, by the kernels that the run needs all the same. Of a class every row is in k
    slots, with k - 1 that chance puts next to it.
    """
    k, budget = bound.policy.k, Budget(_EVALUATIONS_PER_ROW)
    if _shape(bound) == "row_graph":
        solution = solve(Task(table, k, shape="row_graph", budget=budget, seed=_SEED))
        return solution.graph.members.astype(np.int64), solution.loss
    solution = solve(Task(table, k, shape="classes", budget=budget, seed=_SEED))
    groups = solution.structure.groups
    sizes = np.diff(groups.starts)
    first, size = np.repeat(groups.starts[:-1], sizes), np.repeat(sizes, sizes)
    # By chance within each class.
    members = groups.records[np.lexsort((rng.random(groups.records.size), first))]
    place = np.arange(members.size) - first
    return members[first[:, None] + (place[:, None] + np.arange(k)) % size[:, None]], solution.loss


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
