"""The plan of shards that a run went by: restricted/plan.json, and which shard a person's values come to.

A partition that the plan names is cut into shards, each under a key of its own. Its cells, of the values of a few
fields, are roots of a tree; tests on values lead to a shard, and of equal people a share goes to each side, by digest.
A plan of layout 2 has splits: a shard was cut again between two runs, its parts are numbered behind all shards that
there were, and it is none any more. The audit has its own reading of it.
What is no plan, or one that leads nowhere, cannot be judged by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.prefix_tree import PrefixTree
from kanonflow.schemas.text_values import render_text

PLAN = "plan.json"
UNDECIDED = -1
"""The shard of one of several equal people whose digest is not at hand."""
_VERSION, _SPLIT_VERSION = 1, 2
_KEY = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Cut:
    """How people are cut. keys: of each shard that comes of it, in hexadecimal. columns, prices, cells, roots, nodes:
    as the file has them."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    prices: tuple[float, ...]
    cells: tuple[tuple[str | None, ...], ...]
    roots: tuple[int, ...]
    nodes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Split:
    """A shard that was split. shard: its number in the partition; first: that of its first part. place: of the first
    run that went by it."""

    shard: int
    first: int
    place: int
    cut: Cut


@dataclass(frozen=True)
class PartitionPlan:
    """How one partition is cut. values: texts of ``partition_by``. cut: into its first shards. splits: of shards, in
    their order."""

    values: tuple[str | None, ...]
    cut: Cut
    splits: tuple[Split, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Of all shards that are or were, by number."""
        return (*self.cut.keys, *(key for split in self.splits for key in split.cut.keys))


@dataclass(frozen=True)
class ShardPlan:
    """A plan. orders: of fields with a hierarchy, all leaves."""

    orders: Mapping[str, Sequence[str]]
    partitions: tuple[PartitionPlan, ...]

    @property
    def live(self) -> int:
        """How many shards there are."""
        return sum(len(each.keys) - len(each.splits) for each in self.partitions)

    @property
    def shard_of_key(self) -> dict[str, tuple[int, int]]:
        """The place of the partition and of the shard in it, by key."""
        return {
            key: (place, shard)
            for place, partition in enumerate(self.partitions)
            for shard, key in enumerate(partition.keys)
        }


def read_plan(folder: Path, bound: BoundPolicy) -> ShardPlan | None:
    """The plan of the run in ``folder``; None: it went by none.

    Raises InputError: it is damaged, of another version, or was made for another policy.
    """
    path = folder / "restricted" / PLAN
    if not path.is_file():
        return None
    try:
        plain = json.loads(path.read_bytes())
    except ValueError:
        raise InputError(f"restricted/{PLAN}: no JSON; which shard anybody is of cannot be judged") from None
    if not isinstance(plain, dict) or plain.get("kanonflow_plan") not in (_VERSION, _SPLIT_VERSION):
        raise InputError(f"restricted/{PLAN}: no plan of shards of version {_VERSION} or {_SPLIT_VERSION}")
    quasi = [[each.name, str(each.field.quasi.type), str(each.arrow_type)] for each in bound.quasis
             if each.field.quasi is not None]  # fmt: skip
    policy = bound.policy
    if policy.promise.no_plan is not None:
        raise InputError(f"restricted/{PLAN}: a plan, though with cohort: window no run goes by one")
    own = (policy.entering, quasi, list(policy.partition_by))
    if (plain.get("individual"), plain.get("quasi"), plain.get("partition_by")) != own:
        raise InputError(f"restricted/{PLAN}: a plan for another policy than this one")
    try:
        plan = ShardPlan(
            {str(name): [str(leaf) for leaf in leaves] for name, leaves in plain["orders"].items()},
            tuple(_partition(place, each, plain) for place, each in enumerate(plain["partitions"])),
        )
        if any(not 0 <= split["partition"] < len(plan.partitions) for split in plain.get("splits", ())):
            raise ValueError
        _judge(plan, bound)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(
            f"restricted/{PLAN}: a damaged plan; which shard anybody is of cannot be judged"
        ) from None
    return plan


def _partition(place: int, plain: Mapping[str, Any], plan: Mapping[str, Any]) -> PartitionPlan:
    """The partition at a place of a plan's file."""
    cut, splits = _cut(plain), []
    count = len(cut.keys)
    for each in plan["splits"] if plan["kanonflow_plan"] == _SPLIT_VERSION else ():
        if each["partition"] == place:
            splits.append(Split(int(each["shard"]), count, int(each["place"]), _cut(each)))
            count += len(splits[-1].cut.keys)
    return PartitionPlan(tuple(plain["values"]), cut, tuple(splits))


def _cut(plain: Mapping[str, Any]) -> Cut:
    return Cut(
        tuple(plain["keys"]),
        tuple(plain["columns"]),
        tuple(float(price) for price in plain["prices"]),
        tuple(tuple(cell) for cell in plain["cells"]),
        tuple(plain["roots"]),
        tuple(plain["nodes"]),
    )


def _judge(plan: ShardPlan, bound: BoundPolicy) -> None:
    """Raises ValueError and what a wrong type does: somebody would come to no shard, or two shards share a key."""
    fields = {column.name for column in bound.quasis}
    keys = [key for each in plan.partitions for key in each.keys]
    sound = len(set(keys)) == len(keys) and all(_KEY.fullmatch(key) for key in keys)
    sound &= len({each.values for each in plan.partitions}) == len(plan.partitions)
    for partition in plan.partitions:
        sound &= len(partition.values) == len(bound.policy.partition_by)
        gone: set[int] = set()
        for split in partition.splits:
            sound &= 0 <= split.shard < split.first and split.shard not in gone and split.place > 0
            gone.add(split.shard)
        places = [split.place for split in partition.splits]
        sound &= places == sorted(places)
    for each in (cut for own in plan.partitions for cut in (own.cut, *(split.cut for split in own.splits))):
        sound &= len(each.keys) > 0
        sound &= set(each.columns) <= fields and len(each.prices) == len(each.columns)
        sound &= len(each.cells) == len(each.roots) > 0
        sound &= all(len(cell) == len(each.columns) for cell in each.cells)
        count, ends = len(each.nodes), [0] * len(each.nodes)
        for node in each.nodes:
            below = _below(node)
            sound &= all(type(place) is int and 0 <= place < count for place in below)
            for place in below:
                ends[place] += 1
            sound &= bool(below) or (type(node["shard"]) is int and 0 <= node["shard"] < len(each.keys))
            sound &= {name for name, _ in node.get("before", ())} <= fields
            sound &= not below or "before" in node or (node["field"] in fields)
            sound &= not below or sum(name in node for name in ("before", "at_most", "among")) == 1
            if "before" in node:
                sound &= all(type(node[name]) is int for name in ("first", "equal", "node"))
                sound &= 0 <= node["first"] <= node["equal"]
        sound &= all(type(root) is int and 0 <= root < count for root in each.roots)
        # Nodes that nothing leads to are taken away until none is left: in a circle each has one that does.
        free = [place for place in range(count) if not ends[place]]
        ended = 0
        while free and sound:
            ended += 1
            for place in _below(each.nodes[free.pop()]):
                ends[place] -= 1
                free += [] if ends[place] else [place]
        sound &= ended == count
        if not sound:
            raise ValueError


def _below(node: Mapping[str, Any]) -> tuple[Any, ...]:
    return () if "shard" in node else (node["left"], node["right"])


class Field:
    """Values of a quasi-identifier as a plan compares them.

    texts: by code, canonical, None of what is null or no value. positions: the same in the order of the field.
    ranks: int64 (values + 1,), place of each code's position among all of them, -1 of null; the last entry is null's.
    """

    def __init__(self, book: CodeBook, leaves: Sequence[str] | None) -> None:
        self._book = book
        self._places = None if leaves is None else {leaf: place for place, leaf in enumerate(leaves)}
        faulty = value_faults(book)
        texts = render_text(book.canonical()).to_pylist()
        self.texts = [None if wrong else text for text, wrong in zip(texts, faulty, strict=True)]
        self.positions = [
            None if wrong else self.position(value if self._is_number else text)
            for value, text, wrong in zip(book.values, texts, faulty, strict=True)
        ]
        self.in_order = sorted({position for position in self.positions if position is not None})
        rank = {position: place for place, position in enumerate(self.in_order)}
        self.ranks = np.array(
            [-1 if each is None else rank[each] for each in (*self.positions, None)], np.int64
        )

    @property
    def _is_number(self) -> bool:
        return self._places is None and self._book.column.in_ranges

    def position(self, value: Any) -> Any:
        """Where a value, or a node's, stands; None: as null does."""
        tree = self._book.column.tree
        if value is None or self._is_number:
            return value
        if self._places is not None:
            return self._places.get(value)
        return tree.prefixes.key(value) if isinstance(tree, PrefixTree) else value

    def compared(self, codes: np.ndarray, value: Any) -> np.ndarray:
        """Of each code int32 (n,): -1, 0 or 1 as it stands before a node's value, at it, or behind it."""
        place = self.position(value)
        signs = [
            0 if each == place else -1 if each is None else 1 if place is None or each > place else -1
            for each in (*self.positions, None)
        ]
        return np.array(signs, np.int8)[codes]


class Placing:
    """Which shard people come to, by codes of their values. books: of the quasi-identifiers, in the policy's order,
    with all values that were read."""

    def __init__(self, plan: ShardPlan, books: Sequence[CodeBook]) -> None:
        self.fields = {book.column.name: Field(book, plan.orders.get(book.column.name)) for book in books}
        self._column = {book.column.name: place for place, book in enumerate(books)}

    def shards(self, partition: PartitionPlan, values: np.ndarray, digests: np.ndarray | None) -> np.ndarray:
        """The shard int32 (n,) of each of these people of a partition, UNDECIDED where only a digest would say.

        values: int32 (n, d), codes. digests: uint64 (n,); None: there are none.
        """
        shard = self.parts(partition.cut, values, digests)
        for split in partition.splits:
            own = np.flatnonzero(shard == split.shard)
            parts = self.parts(split.cut, values[own], None if digests is None else digests[own])
            shard[own] = np.where(parts == UNDECIDED, UNDECIDED, parts + split.first)
        return shard

    def parts(self, partition: Cut, values: np.ndarray, digests: np.ndarray | None) -> np.ndarray:
        """The same of one cut: the place of each one's shard among those that come of it."""
        shard = np.full(len(values), UNDECIDED, np.int32)
        roots = self._roots(partition, values)
        waiting = [(root, np.flatnonzero(roots == root)) for root in np.unique(roots).tolist()]
        while waiting:
            place, people = waiting.pop()
            node = partition.nodes[place]
            if "shard" in node:
                shard[people] = node["shard"]
                continue
            left, right = self._sides(node, values[people], None if digests is None else digests[people])
            waiting += [(node["left"], people[left]), (node["right"], people[right])]
            waiting = [each for each in waiting if len(each[1])]
        return shard

    def _roots(self, partition: Cut, values: np.ndarray) -> np.ndarray:
        """The node int64 (n,) at which each one begins: of its cell, or else of the nearest one, the first of these."""
        differs = np.zeros((len(values), len(partition.cells)))
        for place, (name, price) in enumerate(zip(partition.columns, partition.prices, strict=True)):
            own = [*self.fields[name].texts, None]
            other = np.array([[text != cell[place] for cell in partition.cells] for text in own])
            differs += price * other[values[:, self._column[name]]]
        # A cell with all of its values is the nearest whatever the others cost.
        same = np.ones(differs.shape, bool)
        for place, name in enumerate(partition.columns):
            own = [*self.fields[name].texts, None]
            equal = np.array([[text == cell[place] for cell in partition.cells] for text in own])
            same &= equal[values[:, self._column[name]]]
        nearest = np.where(same.any(axis=1), same.argmax(axis=1), differs.argmin(axis=1))
        return np.array(partition.roots, np.int64)[nearest]

    def _sides(
        self, node: Mapping[str, Any], values: np.ndarray, digests: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Who goes left, and who right, bool (n,) each; neither of them: it cannot be said."""
        if "before" not in node:
            field, codes = self.fields[node["field"]], values[:, self._column[node["field"]]]
            if "at_most" in node:
                left = field.compared(codes, node["at_most"]) <= 0
            else:
                among = set(node["among"])
                left = np.array([text in among for text in (*field.texts, None)], bool)[codes]
            return left, ~left
        sign = np.zeros(len(values), np.int8)
        for name, value in node["before"]:
            own = self.fields[name].compared(values[:, self._column[name]], value)
            sign = np.where(sign == 0, own, sign)
        left, right = sign < 0, sign > 0
        equal = np.flatnonzero(sign == 0)
        if node["first"] in (0, node["equal"]):
            (right if node["first"] == 0 else left)[equal] = True
        elif digests is not None:
            drawn = [_share(digest, node["node"]) for digest in digests[equal].tolist()]
            first = [word * node["equal"] < node["first"] << 53 for word in drawn]
            left[equal], right[equal] = first, np.logical_not(first)
        return left, right


def _share(digest: int, node: int) -> int:
    """53 bits of the mixed sum, as whole numbers of 64 bits are reckoned with."""
    mask = (1 << 64) - 1
    word = (digest + node + 1) * 0x9E3779B97F4A7C15 & mask
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
    word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
    return (word ^ word >> 31) >> 11
