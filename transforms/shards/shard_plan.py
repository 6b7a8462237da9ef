"""A plan of shards: how the people of each partition are cut, as values of fields, so that whoever has it can go by it.

    {"kanonflow_plan": 1, "individual", "quasi", "partition_by", "people", "orders", "partitions": [
      {"values", "people", "columns", "prices", "cells", "roots", "nodes"}]}
    {"kanonflow_plan": 2, ..., "splits": [{"partition", "shard", "place", and as of a partition}]}

    PartitionCut.shard_of(rows, digests, orders) -> int64 (n,)

The second is a plan of a chain that goes on: some shards were split between two of its runs (``layers``).

A shard is a partition: it has a key, a roster and releases of its own. What is cut is who somebody is, never what he
does: the plan is a function of the quasi-identifiers of people who enter with the release in which it begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.solvers.units.tree_cut import are_first
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.shards.field_orders import FieldOrder, Stated, texts_of

VERSION, SPLIT_VERSION = 1, 2
MARK = "kanonflow_plan"
Orders = Mapping[str, FieldOrder]
PartitionValues = tuple[str | None, ...]


class PlanError(InputError):
    """A plan of shards that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class UpTo:
    """Values up to ``most`` go left, nulls among them."""

    field: str
    most: Stated

    def goes_left(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.bool_]:
        """Of each row."""
        before, same = orders[self.field].compared(whole(rows.column(self.field)), self.most)
        return before | same

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        return {"field": self.field, "at_most": self.most}


@dataclass(frozen=True)
class Among:
    """Values that are named go left."""

    field: str
    texts: tuple[str | None, ...]

    def goes_left(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.bool_]:
        """Of each row."""
        return orders[self.field].among(whole(rows.column(self.field)), frozenset(self.texts))

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        return {"field": self.field, "among": list(self.texts)}


@dataclass(frozen=True)
class Before:
    """Who comes before a person, compared field by field, goes left, and ``first`` of ``equal`` who are equal to it.

    values: (field, value) in the order in which they are compared. node: a number, so that the digests of equal people
    decide anew at each.
    """

    values: tuple[tuple[str, Stated], ...]
    first: int
    equal: int
    node: int

    def goes_left(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.bool_]:
        """Of each row."""
        left = np.zeros(rows.num_rows, dtype=np.bool_)
        open_rows = np.ones(rows.num_rows, dtype=np.bool_)
        for name, value in self.values:
            before, same = orders[name].compared(whole(rows.column(name)), value)
            left |= open_rows & before
            open_rows &= same
        equal = np.flatnonzero(open_rows)
        left[equal] = are_first(digests[equal], self.first, self.equal, self.node)
        return left

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        values = [list(each) for each in self.values]
        return {"before": values, "first": self.first, "equal": self.equal, "node": self.node}


Test = UpTo | Among | Before


@dataclass(frozen=True)
class Fork:
    """A node of a tree: a test and the numbers of the nodes on its sides; at a leaf none, and the shard."""

    test: Test | None = None
    left: int = -1
    right: int = -1
    shard: int = -1

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        if self.test is None:
            return {"shard": self.shard}
        return {**self.test.to_dict(), "left": self.left, "right": self.right}


@dataclass(frozen=True)
class PartitionCut:
    """How the people of a partition are cut.

    values: of ``partition_by``. people: of each shard, of those that the plan was made from.
    columns: fields that are cut first. prices: of a second value of each in a box. cells: their texts. roots: of each
    cell the fork that its people begin at. forks: of all trees.
    whole: it is one piece, under its partition's key, until a split.
    """

    values: PartitionValues
    people: tuple[int, ...]
    columns: tuple[str, ...]
    prices: tuple[float, ...]
    cells: tuple[tuple[str | None, ...], ...]
    roots: tuple[int, ...]
    forks: tuple[Fork, ...]
    whole: bool = False

    @property
    def shards(self) -> int:
        """How many there are."""
        return len(self.people)

    def shard_of(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.int64]:
        """The shard of each person, int64 (n,).

        rows: n people, canonical quasi-identifiers. digests: uint64 (n,), by which people who are equal part.
        A cell that the plan has not goes where the cheapest one to share a box with goes, the first of several. O(n) a
        fork on the way.
        """
        begin = np.asarray(self.roots, dtype=np.int64)[self._cell_of(rows)]
        shard = np.empty(rows.num_rows, dtype=np.int64)
        open_forks = [(root, np.flatnonzero(begin == root)) for root in sorted(set(self.roots))]
        while open_forks:
            number, own = open_forks.pop()
            fork = self.forks[number]
            if fork.test is None or not own.size:
                shard[own] = fork.shard
                continue
            left = fork.test.goes_left(rows.take(pa.array(own)), digests[own], orders)
            open_forks += [(fork.left, own[left]), (fork.right, own[~left])]
        return shard

    def _cell_of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The number of each person's cell, or of the nearest that there is."""
        code = np.zeros(rows.num_rows, dtype=np.int64)
        cells: list[tuple[str | None, ...]] = [()]
        for name in self.columns:
            texts, own = texts_of(whole(rows.column(name)))
            pairs, code = np.unique(code * len(texts) + own, return_inverse=True)
            cells = [(*cells[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs.tolist()]
        numbers = {cell: number for number, cell in enumerate(self.cells)}
        nearest = [numbers[cell] if cell in numbers else self._nearest(cell) for cell in cells]
        return np.array(nearest, dtype=np.int64)[code]

    def _nearest(self, cell: Sequence[str | None]) -> int:
        def cost(number: int) -> float:
            other = self.cells[number]
            differ = (price for price, one, two in zip(self.prices, cell, other, strict=True) if one != two)
            return sum(differ)

        return min(range(len(self.cells)), key=cost)

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        return {
            "values": list(self.values),
            "people": list(self.people),
            "columns": list(self.columns),
            "prices": list(self.prices),
            "cells": [list(cell) for cell in self.cells],
            "roots": list(self.roots),
            "nodes": [fork.to_dict() for fork in self.forks],
            **({"whole": True} if self.whole else {}),
        }


def in_one_piece(values: PartitionValues, people: int) -> PartitionCut:
    """A partition that nothing cuts yet."""
    return PartitionCut(values, (people,), (), (), ((),), (0,), (Fork(shard=0),), whole=True)


@dataclass(frozen=True)
class Split:
    """A shard that was split between two runs: its parts are shards from then on, and it is none.

    partition: its place in the plan. shard: its number there. place: of the first run of the chain that goes by it.
    cut: into its parts; people: who was in cohorts then, of each.
    """

    partition: int
    shard: int
    place: int
    cut: PartitionCut

    def to_dict(self) -> dict[str, Any]:
        """As the plan has it."""
        plain = {"partition": self.partition, "shard": self.shard, "place": self.place, **self.cut.to_dict()}
        del plain["values"]
        return plain


@dataclass(frozen=True)
class ShardPlan:
    """individual, quasi, partition_by: of the policy: names, and of quasi-identifiers kind and canonical type.
    individual: None: it is of rows, each by itself (``protect: row``).

    people: digest of the people that it was made from; of rows "". partitions: those that are cut, each once.
    splits: in the order of the runs that began with them.
    """

    individual: str | None
    quasi: tuple[tuple[str, str, str], ...]
    partition_by: tuple[str, ...]
    people: str
    orders: Mapping[str, tuple[str, ...]]
    partitions: tuple[PartitionCut, ...]
    splits: tuple[Split, ...] = ()

    @property
    def digest(self) -> str:
        """Its name: 32 hex digits."""
        return hashlib.sha256(self.to_json()).hexdigest()[:32]

    @property
    def place(self) -> int:
        """Of the first run of its chain that may go by it."""
        return max((split.place for split in self.splits), default=0)

    @property
    def parent(self) -> ShardPlan | None:
        """The plan that the chain went by before the last splits; None: it went by none."""
        splits = tuple(split for split in self.splits if split.place < self.place)
        split_before = {split.partition for split in splits}
        # What is in one piece stands last, so that numbers of partitions stay.
        partitions = tuple(
            cut for number, cut in enumerate(self.partitions) if not cut.whole or number in split_before
        )
        return replace(self, partitions=partitions, splits=splits) if partitions else None

    @property
    def cuts(self) -> tuple[PartitionCut, ...]:
        """All of them, those of splits last."""
        return (*self.partitions, *(split.cut for split in self.splits))

    def resolve(self) -> ShardPlan:
        """Itself: as of ``StoredPlan``."""
        return self

    def refuse_other_policy(self, bound: BoundPolicy, source: str) -> None:
        """Raise PlanError, with all differences, unless the plan is of such people."""
        own = head_of(bound)
        orders = orders_of(bound)
        differ = [
            what
            for what, one, two in (
                ("the individual", self.individual, own["individual"]),
                ("the quasi-identifiers or their types", [list(each) for each in self.quasi], own["quasi"]),
                ("partition_by", list(self.partition_by), own["partition_by"]),
                (
                    "the values of a hierarchy",
                    {name: list(each) for name, each in self.orders.items()},
                    own["orders"],
                ),
            )
            if one != two
        ]
        tests = [fork.test for cut in self.cuts for fork in cut.forks if fork.test is not None]
        if not differ and not all(
            orders[name].fits(value) for test in tests for name, value in _values_of(test)
        ):
            differ.append("the values that it names")
        if differ:
            raise PlanError(
                f"--plan {source}: it was made for another policy, which differs in {', '.join(differ)}; make one for"
                " this policy (kanonflow plan)"
            )

    def refuse_first(self) -> None:
        """Raise PlanError if it is of a chain that goes on: an epoch that begins has nobody in its shards."""
        if self.splits:
            raise PlanError(
                "--plan: it splits shards of a run, and goes on with that one: name it with --continue. An epoch begins"
                " with a plan from people (kanonflow plan --people)"
            )

    def to_json(self) -> bytes:
        """The file. Inverse of ``plan_from_json``."""
        plain = {
            MARK: SPLIT_VERSION if self.splits else VERSION,
            "individual": self.individual,
            "quasi": [list(each) for each in self.quasi],
            "partition_by": list(self.partition_by),
            "people": self.people,
            "orders": {name: list(each) for name, each in self.orders.items()},
            "partitions": [cut.to_dict() for cut in self.partitions],
        }
        if self.splits:
            plain["splits"] = [split.to_dict() for split in self.splits]
        return json.dumps(plain, indent=1, allow_nan=False).encode()


def head_of(bound: BoundPolicy) -> dict[str, Any]:
    """What a plan says of the policy that it is for.

    Raises PlanError: neither do people enter for good, nor does each row go by itself; or rows have ids that are known
    within a shard.
    """
    policy = bound.policy
    if policy.promise.no_plan is not None:
        raise PlanError(
            "a plan of shards is for cohort: lasting, where people have a place for good, and for protect: row."
            f" {policy.promise.no_plan}"
        )
    if policy.entering is None and policy.event_id is not None:
        raise PlanError(
            f"fields.{policy.event_id.name}: an event id is known within a shard, and with protect: row one that comes"
            " again with other values goes to another: it would be released twice. Give the field another role, or"
            " leave the plan out"
        )
    orders = orders_of(bound)
    return {
        "individual": policy.entering,
        "quasi": [
            [
                column.name,
                "" if column.field.quasi is None else str(column.field.quasi.type),
                str(column.arrow_type),
            ]
            for column in bound.quasis
        ],
        "partition_by": list(bound.policy.partition_by),
        "orders": {name: list(order.leaves) for name, order in orders.items() if order.leaves is not None},
    }


def orders_of(bound: BoundPolicy) -> dict[str, FieldOrder]:
    """The order of each quasi-identifier."""
    return {column.name: FieldOrder(column) for column in bound.quasis}


def plan_from_json(data: bytes, source: str) -> ShardPlan:
    """What ``ShardPlan.to_json`` has made. Raises PlanError: it is none, of another version, or damaged."""
    damaged = PlanError(
        f"--plan {source}: it is no plan of kanonflow, or damaged; make one with kanonflow plan"
    )
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(plain, dict) or MARK not in plain:
        raise damaged
    if plain[MARK] not in (VERSION, SPLIT_VERSION):
        raise PlanError(
            f"--plan {source}: another build made it (version {plain[MARK]!s:.20}, this one reads up to"
            f" {SPLIT_VERSION}); make it again"
        )
    try:
        partitions = tuple(map(_cut_from_dict, plain["partitions"]))
        split = plain[MARK] == SPLIT_VERSION
        plan = ShardPlan(
            individual=_text(plain["individual"]),
            quasi=tuple((str(name), str(kind), str(of)) for name, kind, of in plain["quasi"]),
            partition_by=tuple(map(str, plain["partition_by"])),
            people=str(plain["people"]),
            orders={str(name): tuple(map(str, each)) for name, each in plain["orders"].items()},
            partitions=partitions,
            splits=tuple(_split_from_dict(each, partitions) for each in plain["splits"]) if split else (),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise damaged from None
    names = {name for name, _, _ in plan.quasi}
    if not all(_is_sound(cut, names, len(plan.partition_by)) for cut in plan.cuts) or not _are_sound(plan):
        raise damaged
    if len({cut.values for cut in plan.partitions}) < len(plan.partitions):
        raise damaged
    return plan


def _cut_from_dict(plain: Mapping[str, Any]) -> PartitionCut:
    return PartitionCut(
        values=tuple(map(_text, plain["values"])),
        people=tuple(map(int, plain["people"])),
        columns=tuple(map(str, plain["columns"])),
        prices=tuple(map(float, plain["prices"])),
        cells=tuple(tuple(map(_text, cell)) for cell in plain["cells"]),
        roots=tuple(map(int, plain["roots"])),
        forks=tuple(map(_fork_from_dict, plain["nodes"])),
        whole=bool(plain.get("whole", False)),
    )


def _split_from_dict(plain: Mapping[str, Any], partitions: Sequence[PartitionCut]) -> Split:
    partition = int(plain["partition"])
    values = {"values": list(partitions[partition].values)}
    return Split(partition, int(plain["shard"]), int(plain["place"]), _cut_from_dict({**plain, **values}))


def _are_sound(plan: ShardPlan) -> bool:
    """Whether each split is of a shard that was there then, in the order of the runs."""
    live = [set(range(cut.shards)) for cut in plan.partitions]
    count, place = [cut.shards for cut in plan.partitions], 1
    for split in plan.splits:
        own = live[split.partition]
        if split.partition < 0 or split.shard not in own or split.place < place or split.cut.shards < 2:
            return False
        place = split.place
        own -= {split.shard}
        own |= set(range(count[split.partition], count[split.partition] + split.cut.shards))
        count[split.partition] += split.cut.shards
    # A partition is put down in one piece to be split.
    return all(
        len(own) > 1 and cut.shards == 1 for own, cut in zip(live, plan.partitions, strict=True) if cut.whole
    )


def _fork_from_dict(plain: Mapping[str, Any]) -> Fork:
    if "shard" in plain:
        return Fork(shard=int(plain["shard"]))
    test: Test
    if "at_most" in plain:
        test = UpTo(str(plain["field"]), _stated(plain["at_most"]))
    elif "among" in plain:
        test = Among(str(plain["field"]), tuple(map(_text, plain["among"])))
    else:
        values = tuple((str(name), _stated(value)) for name, value in plain["before"])
        test = Before(values, int(plain["first"]), int(plain["equal"]), int(plain["node"]))
    return Fork(test, int(plain["left"]), int(plain["right"]))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError


def _stated(value: object) -> Stated:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    raise TypeError


def _is_sound(cut: PartitionCut, names: set[str], width: int) -> bool:
    """Whether every path ends at a shard, each shard is reached, and all fields are quasi-identifiers."""
    count = len(cut.forks)
    fields = {name for fork in cut.forks for name in _fields(fork.test)}
    tests = (fork.test for fork in cut.forks)
    shares = [(test.first, test.equal) for test in tests if isinstance(test, Before)]
    reached = [fork.shard for fork in cut.forks if fork.test is None]
    forward = all(
        number < fork.left < count and number < fork.right < count
        for number, fork in enumerate(cut.forks)
        if fork.test is not None
    )
    return (
        forward
        and bool(cut.cells)
        and len(cut.values) == width
        and {*fields, *cut.columns} <= names
        and all(0 <= first <= equal and equal for first, equal in shares)
        and sorted(reached) == list(range(cut.shards))
        and len(cut.roots) == len(cut.cells)
        and all(0 <= root < count for root in cut.roots)
        and len(cut.prices) == len(cut.columns)
        and all(len(cell) == len(cut.columns) for cell in cut.cells)
    )


def _fields(test: Test | None) -> list[str]:
    if test is None:
        return []
    return [test.field] if isinstance(test, Among) else [name for name, _ in _values_of(test)]


def _values_of(test: Test) -> list[tuple[str, Stated]]:
    """Fields with the values that they are compared with."""
    if isinstance(test, UpTo):
        return [(test.field, test.most)]
    return list(test.values) if isinstance(test, Before) else []
