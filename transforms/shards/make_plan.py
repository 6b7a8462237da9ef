"""A plan of shards, made from people who will enter together: a cut of people by what they are, stated in values.

    make_plan(rows, bound, shards, ...) -> Planned(plan, trials, whole)        rows: as a file of people gives them

A plan of people from a sample of a feed would tell who was early; so it is made from people who enter with the first
release under it: those of a file, or of the cohorts that a run goes on with. One of rows is made from rows of a feed:
its owner alone has it, and in which shard rows are is seen by their releases anyhow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.tree_cut import Codes, Pivot, Points, Threshold, TreeCut
from kanonflow.solvers.units.tree_cut import Test as CutTest
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.columns.row_bytes import row_words
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.field_boxes import TableColumns
from kanonflow.transforms.kinds.kinds import kind_of
from kanonflow.transforms.rows.split import partition_codes
from kanonflow.transforms.shards.field_orders import FieldOrder, Stated, texts_of
from kanonflow.transforms.shards.shard_plan import (
    Among,
    Before,
    Fork,
    PartitionCut,
    ShardPlan,
    Test,
    UpTo,
    head_of,
    orders_of,
)
from kanonflow.transforms.shards.trial import TriedCut, group_size, tried_cut


class Planned(NamedTuple):
    """plan; of each partition that it cuts what the trial found; and how many stay whole."""

    plan: ShardPlan
    trials: tuple[TriedCut, ...]
    whole: int


def make_plan(
    rows: pa.Table,
    digests: NDArray[np.uint64],
    bound: BoundPolicy,
    shards: int,
    *,
    seed: int = 0,
    threads: int = 1,
    least: int = 0,
) -> Planned:
    """A plan that cuts each partition into shards.

    rows: one a person, canonical values of ``expected_columns``; with ``protect: row`` rows of a feed. digests: uint64
    (n,), any that tell people apart: equal people are counted by them here, and parted by their keyed ones in a run.
    Equal rows stay together, whatever is given of them. least: partitions of fewer people stay one piece, as do those
    with less than a cohort a shard, and rows that are all equal. Raises PlanError: as of ``head_of``.
    O(n log n), and the search of samples.
    """
    head = head_of(bound)
    least = max(least, shards * group_size(bound.policy))
    partition, values = partition_codes(rows, bound.policy.partition_by)
    cuts, trials = [], []
    for number, names in enumerate(values):
        own = np.flatnonzero(partition == number)
        if own.size < least or shards < 2:
            continue
        people = rows.take(pa.array(own))
        cut, tried = cut_of_people(people, digests[own], bound, names, shards, seed=seed, threads=threads)
        if cut.shards < 2:
            continue
        cuts.append(cut)
        trials.append(tried)
    plan = ShardPlan(
        individual=head["individual"],
        quasi=tuple((name, kind, of) for name, kind, of in head["quasi"]),
        partition_by=tuple(head["partition_by"]),
        people="" if head["individual"] is None else people_digest(rows),
        orders={name: tuple(leaves) for name, leaves in head["orders"].items()},
        partitions=tuple(cuts),
    )
    return Planned(plan, tuple(trials), len(values) - len(cuts))


def cut_of_people(
    people: pa.Table,
    digests: NDArray[np.uint64],
    bound: BoundPolicy,
    values: tuple[str | None, ...],
    shards: int,
    *,
    seed: int,
    threads: int,
) -> tuple[PartitionCut, TriedCut]:
    """The cut of people of one partition that loses least, as values, and how it was found. people: one row each.

    digests, seed, threads: as of ``make_plan``. values: of ``partition_by``.
    """
    tried = tried_cut(_table(people, bound), bound.policy, shards, seed=seed, threads=threads)
    return _stated(tried.cut, people, digests, bound, values), tried


def people_digest(rows: pa.Table) -> str:
    """What people a table holds, whatever their order: 32 hex digits."""
    lines = row_words(rows.select(sorted(rows.schema.names)))
    order = np.lexsort(lines.T[::-1])
    names = "\0".join(f"{field.name} {field.type}" for field in rows.select(sorted(rows.schema.names)).schema)
    return hashlib.sha256(names.encode() + lines[order].tobytes()).hexdigest()[:32]


def _table(people: pa.Table, bound: BoundPolicy) -> Table:
    """The solver's table, with categories in the order of their texts, not of their digests."""
    table = encode(people, bound, None, {}).table
    codes = [texts_of(whole(people.column(name)))[1] for name in _columns(people, bound)[1]]
    return replace(table, categorical=np.stack(codes, axis=1).astype(np.int32)) if codes else table


def _columns(people: pa.Table, bound: BoundPolicy) -> tuple[list[str], list[str]]:
    """Names of the fields that are lines of the solver's table, and of those that are codes, each in their order."""
    lines: list[str] = []
    codes: list[str] = []
    for column in bound.quasis:
        columns = TableColumns()
        kind_of(column).encode(column, whole(people.column(column.name).slice(0, 1)), None, columns)
        (lines if columns.numeric else codes).append(column.name)
    return lines, codes


def _stated(
    cut: TreeCut,
    people: pa.Table,
    digests: NDArray[np.uint64],
    bound: BoundPolicy,
    values: tuple[str | None, ...],
) -> PartitionCut:
    """The cut as values of fields. Raises AssertionError: it would send somebody elsewhere, which is a fault here."""
    table = _table(people, bound)
    lines, codes = _columns(people, bound)
    stating = _Stating(people, Points.of(table), lines, codes, orders_of(bound))
    pieces = cut.piece_of(table, digests)
    stated = PartitionCut(
        values=values,
        people=tuple(np.bincount(pieces, minlength=cut.pieces).tolist()),
        columns=tuple(codes[column] for column in cut.columns),
        prices=tuple(map(float, cut.prices)),
        cells=tuple(
            tuple(stating.text(column, code) for column, code in zip(cut.columns, cell, strict=True))
            for cell in cut.cells
        ),
        roots=cut.roots,
        forks=tuple(
            Fork(shard=node.piece)
            if node.test is None
            else Fork(stating.test(node.test), node.left, node.right)
            for node in cut.nodes
        ),
    )
    assert (stated.shard_of(people, digests, stating.orders) == pieces).all(), "a plan says another cut"
    return stated


class _Stating(NamedTuple):
    """People as values and as the numbers that a cut goes by. lines, codes: fields of the numbers' columns."""

    people: pa.Table
    points: Points
    lines: Sequence[str]
    codes: Sequence[str]
    orders: dict[str, FieldOrder]

    def text(self, column: int, code: int) -> str | None:
        """What a category's code stands for."""
        return texts_of(whole(self.people.column(self.codes[column])))[0][code]

    def test(self, test: CutTest) -> Test:
        """A test of numbers as one of values."""
        if isinstance(test, Threshold):
            own = self.points.numeric[:, test.column]
            below = np.flatnonzero(own <= test.most)
            return UpTo(*self._value(test.column, int(below[np.argmax(own[below])])))
        if isinstance(test, Codes):
            texts = tuple(self.text(test.column, code) for code in test.codes)
            return Among(self.codes[test.column], texts)
        return self._before(test)

    def _before(self, test: Pivot) -> Before:
        equal = np.ones(self.points.size, dtype=np.bool_)
        for column, value in zip(test.columns, test.values, strict=True):
            equal &= self.points.column(column) == value
        person = int(np.argmax(equal))
        values = tuple(self._value(column, person) for column in test.columns)
        return Before(values, test.first, test.equal, test.node)

    def _value(self, column: int, person: int) -> tuple[str, Stated]:
        name = self.lines[column] if column < len(self.lines) else self.codes[column - len(self.lines)]
        return name, self.orders[name].stated(whole(self.people.column(name)), person)
