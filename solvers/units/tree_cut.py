"""A cut of people into pieces that parts few cohorts: nested tests of one attribute each, which also place new people.

An even cut (``locality_cut.py``) goes where the middle is, and boxes across it are paid for. This one is told where
boxes lie, by cohorts of a sample: attributes of which a second value costs more than a mean box are cut first, cell by
cell; a cell that is too large is cut by the test that parts the fewest of the sample from their cohort, per bit.

    make_cut(table, rows, cohorts, pieces) -> TreeCut
    cut.piece_of(table) -> int64 (n,)

The cut is a function of the multiset of the people's values and of the sample's cohorts: it has no part in who has how
many rows, and the order of people decides between equal ones only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import normalized_weights

ROOM = 1.1
"""A piece has at most so many even shares of the people that the cut is made of."""
LEAST = 0.5
"""And at least so many: a piece of few people has few to choose cohorts from."""
NULL = -1.0
"""Where a null stands: below all numbers."""
THRESHOLDS = 384
"""Thresholds of a number that are tried at a node, at even shares of its sample."""
SEEDS = 6
"""Sets of categories are grown from so many of the most frequent ones."""
WIDEST = 200
"""An attribute of which more categories are present is not tested: a second one costs next to nothing."""
SETS_COUNT = 0.5
"""A test for a set of categories counts so much of what it parts: it leaves fewer borders than a threshold."""


@dataclass(frozen=True)
class Threshold:
    """Numbers up to ``most`` go left. column: of the numeric ones."""

    column: int
    most: float

    def goes_left(self, people: Points, digests: NDArray[np.uint64] | None) -> NDArray[np.bool_]:
        """Of each person."""
        return people.numeric[:, self.column] <= self.most


@dataclass(frozen=True)
class Codes:
    """Categories that are named go left. column: of the categorical ones."""

    column: int
    codes: tuple[int, ...]

    def goes_left(self, people: Points, digests: NDArray[np.uint64] | None) -> NDArray[np.bool_]:
        """Of each person."""
        return np.isin(people.categorical[:, self.column], self.codes)


@dataclass(frozen=True)
class Pivot:
    """Who comes before a person in lexicographic order goes left, and ``first`` of ``equal`` who are equal to it.

    columns: numeric ones first, in the order in which they are compared. values: of the person.
    node: its number, so that digests decide anew at each. It is what is left where no test leaves room enough.
    """

    columns: tuple[int, ...]
    values: tuple[float, ...]
    first: int
    equal: int
    node: int

    def goes_left(self, people: Points, digests: NDArray[np.uint64] | None) -> NDArray[np.bool_]:
        """Of each person; of equal people the first ones as they come, or by their digests."""
        left = np.zeros(people.size, dtype=np.bool_)
        same = np.ones(people.size, dtype=np.bool_)
        for column, value in zip(self.columns, self.values, strict=True):
            own = people.column(column)
            left |= same & (own < value)
            same &= own == value
        equal = np.flatnonzero(same)
        if digests is None:
            left[equal[: equal.size * self.first // self.equal]] = True
        else:
            left[equal] = are_first(digests[equal], self.first, self.equal, self.node)
        return left


Test = Threshold | Codes | Pivot
_TESTS: dict[str, type[Test]] = {"threshold": Threshold, "codes": Codes, "pivot": Pivot}


@dataclass(frozen=True)
class Node:
    """A test and the numbers of the nodes on its sides; at a leaf none, and the piece."""

    test: Test | None = None
    left: int = -1
    right: int = -1
    piece: int = -1


@dataclass(frozen=True)
class TreeCut:
    """columns: the categorical ones that are cut first. cells: their values, in lexicographic order.

    roots: of each cell the node that its people begin at. prices: of a second value of each of these columns.
    nodes: of all trees. pieces: how many there are.
    """

    columns: tuple[int, ...]
    prices: tuple[float, ...]
    cells: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    nodes: tuple[Node, ...]
    pieces: int

    def piece_of(self, table: Table, digests: NDArray[np.uint64] | None = None) -> NDArray[np.int64]:
        """The piece of each row, int64 (n,), in 0 .. pieces - 1.

        digests: uint64 (n,), by which equal people of a node that had too many of them part; None: by their order.
        A cell that the cut has not seen goes where the cheapest one to be in a box with goes, the first of several.
        """
        people = Points.of(table)
        begin = np.asarray(self.roots, dtype=np.int64)[self._cells_of(people)]
        piece = np.empty(people.size, dtype=np.int64)
        open_nodes = [(root, np.flatnonzero(begin == root)) for root in sorted(set(self.roots))]
        while open_nodes:
            number, own = open_nodes.pop()
            node = self.nodes[number]
            if node.test is None:
                piece[own] = node.piece
                continue
            left = node.test.goes_left(people.take(own), None if digests is None else digests[own])
            open_nodes += [(node.left, own[left]), (node.right, own[~left])]
        return piece

    def _cells_of(self, people: Points) -> NDArray[np.int64]:
        """The number of each person's cell, or of the nearest that there is."""
        cells = np.array(self.cells, dtype=np.int32).reshape(len(self.cells), len(self.columns))
        numbers = {cell: number for number, cell in enumerate(self.cells)}
        own, of_person = _cells(people, self.columns)
        nearest = np.empty(len(own), dtype=np.int64)
        for place, cell in enumerate(own):
            number = numbers.get(tuple(cell.tolist()))
            nearest[place] = np.argmin((cells != cell) @ np.array(self.prices)) if number is None else number
        return nearest[of_person]

    def to_dict(self) -> dict[str, Any]:
        """As numbers, texts, lists and dicts of them: what JSON holds."""
        return {
            "columns": list(self.columns),
            "prices": list(self.prices),
            "cells": [list(cell) for cell in self.cells],
            "roots": list(self.roots),
            "nodes": [_node_to_dict(node) for node in self.nodes],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TreeCut:
        """What ``to_dict`` has made."""
        nodes = tuple(map(_node_from_dict, plain["nodes"]))
        return cls(
            columns=tuple(plain["columns"]),
            prices=tuple(plain["prices"]),
            cells=tuple(map(tuple, plain["cells"])),
            roots=tuple(plain["roots"]),
            nodes=nodes,
            pieces=sum(node.test is None for node in nodes),
        )


class Points(NamedTuple):
    """People as tests read them. numeric: float64 (n, dn), nulls below all numbers. categorical: int32 (n, dc)."""

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]

    @classmethod
    def of(cls, table: Table) -> Points:
        """The rows of a table."""
        return cls(np.where(np.isnan(table.numeric), NULL, table.numeric), table.categorical)

    @property
    def size(self) -> int:
        """How many."""
        return int(self.numeric.shape[0])

    def take(self, chosen: NDArray[np.int64]) -> Points:
        """Some of them."""
        return Points(self.numeric[chosen], self.categorical[chosen])

    @property
    def columns(self) -> range:
        """Numbers of the columns, numeric ones first."""
        return range(self.numeric.shape[1] + self.categorical.shape[1])

    def order(self) -> NDArray[np.int64]:
        """Who comes after whom, column by column; equal people as they are."""
        return np.lexsort([self.column(column) for column in reversed(self.columns)])

    def column(self, column: int) -> NDArray[Any]:
        """Values of a column, numeric ones first."""
        dn = self.numeric.shape[1]
        return self.numeric[:, column] if column < dn else self.categorical[:, column - dn]


def even_sample(table: Table, size: int) -> NDArray[np.int64]:
    """Rows int64 (min(size, n),) at even places of their lexicographic order, in that order.

    Why not at random: a sample is then a function of the values, and each cell of the first columns has its share.
    """
    order = Points.of(table).order()
    size = min(size, order.size)
    rows: NDArray[np.int64] = order[np.arange(size) * order.size // max(size, 1)]
    return rows


def make_cut(
    table: Table,
    rows: NDArray[np.int64],
    cohorts: NDArray[np.int64],
    pieces: int,
    *,
    cells: bool = True,
    tests: bool = True,
    part_equal: bool = True,
) -> TreeCut:
    """A cut of these people into ``pieces``, or nearly as many where cells are packed whole.

    table: n people, a row each. rows: int64 (s,), a sample of them. cohorts: int64 (s,), labels of the sample founded
    by itself. cells: whether dear categories are cut first. tests: whether what is too large is cut by tests, and not
    in lexicographic order alone. part_equal: whether people who are equal may part.

    Postcondition: each piece has at least ``LEAST`` and at most ``ROOM`` of n / pieces people, as long as a share is
    ten people or more, and equal ones may part; where these may not, a piece that has many of them is larger, and there
    are fewer. O(n d log(thresholds) log(pieces)).
    """
    people = Points.of(table)
    bounds = _Bounds.of(people.size, pieces)
    _, labels = np.unique(cohorts, return_inverse=True)
    sample = Points(people.numeric[rows], people.categorical[rows])
    prices = _prices(table)
    dear = _dear(sample, labels, table, prices) if cells else ()
    here, of_person = _cells(people, dear)
    sizes = np.bincount(of_person, minlength=len(here))
    growing = _Growing(people, sample, labels, bounds, [], tests, part_equal)
    roots: list[int] = []
    for group in _packed(sizes, bounds):
        chosen = np.flatnonzero((of_person >= group.start) & (of_person < group.stop))
        place = of_person[rows]
        of_sample = np.flatnonzero((place >= group.start) & (place < group.stop))
        roots += [growing.grow(chosen, of_sample, bounds.pieces(chosen.size))] * len(group)
    return TreeCut(
        columns=dear,
        prices=tuple(float(prices[column]) for column in dear),
        cells=tuple(tuple(map(int, cell)) for cell in here),
        roots=tuple(roots),
        nodes=tuple(growing.nodes),
        pieces=sum(node.test is None for node in growing.nodes),
    )


class _Bounds(NamedTuple):
    """least, most: people of a piece. even: an even share."""

    least: int
    most: int
    even: float

    @classmethod
    def of(cls, people: int, pieces: int) -> _Bounds:
        even = people / pieces
        return cls(int(LEAST * even), max(int(ROOM * even), -(-people // pieces)), even)

    def pieces(self, people: int) -> int:
        """How many these people make: as many as they have shares, and none too large."""
        return max(-(-people // self.most), min(round(people / self.even), people // max(self.least, 1)), 1)


def _prices(table: Table) -> NDArray[np.float64]:
    """Of a second value of each categorical column."""
    weights: NDArray[np.float64] = normalized_weights(table)[table.numeric.shape[1] :]
    return weights / np.maximum(table.cardinality - 1, 1)


def _dear(
    sample: Points, labels: NDArray[np.int64], table: Table, prices: NDArray[np.float64]
) -> tuple[int, ...]:
    """The categorical columns of which a second value costs more than a mean box of the sample, dearest first."""
    sizes = np.bincount(labels)
    boxes = np.zeros(sizes.size)
    order = np.argsort(labels, kind="stable")
    begins = np.cumsum(sizes) - sizes
    weights = normalized_weights(table)
    for column in range(sample.numeric.shape[1]):
        own = sample.numeric[order, column]
        low, high = np.minimum.reduceat(own, begins), np.maximum.reduceat(own, begins)
        boxes += weights[column] * np.minimum(high - low, 1.0)
    for column, price in enumerate(prices):
        pairs = np.unique(np.stack([labels, sample.categorical[:, column]]), axis=1)
        boxes += price * (np.bincount(pairs[0]) - 1)
    mean = float(boxes @ sizes) / labels.size
    ranked = np.argsort(-prices, kind="stable")
    return tuple(int(column) for column in ranked if prices[column] > mean)


def _cells(people: Points, columns: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The cells that are there, int32 (c, columns), in lexicographic order, and the number of each person's."""
    if not columns:
        return np.empty((1, 0), dtype=np.int32), np.zeros(people.size, dtype=np.int64)
    cells, of_person = np.unique(people.categorical[:, list(columns)], axis=0, return_inverse=True)
    return cells, of_person.reshape(-1)


def _packed(sizes: NDArray[np.int64], bounds: _Bounds) -> Iterator[range]:
    """Cells that follow each other, in groups of a piece each; more only where a cell or its neighbours need it."""
    begin, held, groups = 0, 0, []
    for cell, size in enumerate(sizes.tolist()):
        further = held + size
        nearer = abs(held - bounds.even) <= abs(further - bounds.even)
        if held >= max(bounds.least, 1) and (further > bounds.most or nearer):
            groups.append(range(begin, cell))
            begin, further = cell, size
        held = further
    if held < bounds.least and groups:
        begin = groups.pop().start
    yield from [*groups, range(begin, sizes.size)]


class _Best(NamedTuple):
    """score: people parted a bit. left: how many pieces are to be on the left of the test."""

    score: float
    test: Test
    left: int


@dataclass(frozen=True)
class _Growing:
    """Trees as they grow. labels: int64 (s,), the cohort of each of the sample. nodes: of all trees so far.

    tests: whether there are others than pivots. part_equal: whether pivots part equal people.
    """

    people: Points
    sample: Points
    labels: NDArray[np.int64]
    bounds: _Bounds
    nodes: list[Node]
    tests: bool = True
    part_equal: bool = True

    def grow(self, chosen: NDArray[np.int64], of_sample: NDArray[np.int64], pieces: int) -> int:
        """The root of a tree that cuts some people into so many pieces, numbered from left to right."""
        root = len(self.nodes)
        self.nodes.append(Node())
        piece = sum(node.piece >= 0 for node in self.nodes)
        open_nodes = [(root, chosen, of_sample, pieces)]
        while open_nodes:
            number, own, its_sample, count = open_nodes.pop()
            people, sample = self.people.take(own), self.sample.take(its_sample)
            cut = self._cut(people, sample, self.labels[its_sample], count, number) if count > 1 else None
            if cut is None:
                self.nodes[number] = Node(piece=piece)
                piece += 1
                continue
            test, share = cut
            left, seen = test.goes_left(people, None), test.goes_left(sample, None)
            first = len(self.nodes)
            self.nodes.extend([Node(), Node()])
            self.nodes[number] = Node(test, first, first + 1)
            open_nodes += [
                (first + 1, own[~left], its_sample[~seen], count - share),
                (first, own[left], its_sample[seen], share),
            ]
        return root

    def _cut(
        self, people: Points, sample: Points, labels: NDArray[np.int64], count: int, number: int
    ) -> tuple[Test, int] | None:
        """The test of a node, and how many of its pieces are on the left of it; None: it is one piece."""
        if best := self._best(people, sample, labels, count):
            return best.test, best.left
        if self.part_equal:
            return _pivot(people, count, number), count // 2
        return _border(people, count, number, max(self.bounds.least, 1))

    def _best(self, people: Points, sample: Points, labels: NDArray[np.int64], count: int) -> _Best | None:
        """The test that parts the fewest of the sample from their cohort per bit; None where none leaves room."""
        if sample.size == 0 or not self.tests:
            return None
        _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        best: _Best | None = None
        cohorts = _Cohorts(labels, sizes, np.argsort(labels, kind="stable"), np.cumsum(sizes) - sizes)
        for column in range(people.numeric.shape[1]):
            best = self._threshold(column, people, sample, cohorts, count, best)
        for column in range(people.categorical.shape[1]):
            best = self._codes(column, people, sample, cohorts, count, best)
        return best

    def _threshold(
        self, column: int, people: Points, sample: Points, cohorts: _Cohorts, count: int, best: _Best | None
    ) -> _Best | None:
        """The best threshold of a column, or what was better."""
        own = sample.numeric[:, column]
        tried = np.sort(own)
        tried = np.unique(tried[np.linspace(0, tried.size - 1, min(THRESHOLDS, tried.size)).astype(np.int64)])
        place = np.searchsorted(tried, people.numeric[:, column])
        left = np.cumsum(np.bincount(place, minlength=tried.size + 1))[: tried.size]
        shares = self._shares(left, people.size, count)
        if not shares.any():
            return best
        sorted_own = own[cohorts.order]
        low = np.minimum.reduceat(sorted_own, cohorts.begins)
        high = np.maximum.reduceat(sorted_own, cohorts.begins)
        parted = _up_to(low, cohorts.sizes, tried) - _up_to(high, cohorts.sizes, tried)
        scores = _score(parted, left, people.size)
        scores[shares == 0] = np.inf
        at = int(np.argmin(scores))
        if best is not None and best.score <= scores[at]:
            return best
        return _Best(float(scores[at]), Threshold(column, float(tried[at])), int(shares[at]))

    def _codes(
        self, column: int, people: Points, sample: Points, cohorts: _Cohorts, count: int, best: _Best | None
    ) -> _Best | None:
        """The best set of categories of a column, or what was better. It grows by those that share most cohorts."""
        here, codes = np.unique(sample.categorical[:, column], return_inverse=True)
        if not 2 <= here.size <= WIDEST:
            return best
        every = np.bincount(people.categorical[:, column], minlength=int(here[-1]) + 1)[here]
        holds = np.zeros((cohorts.sizes.size, here.size), dtype=np.bool_)
        holds[cohorts.labels, codes] = True
        values = holds.sum(axis=1)
        holds, several = holds[values > 1].astype(np.float64), cohorts.sizes[values > 1]
        values = values[values > 1]
        together = (holds.T * several) @ holds
        for seed in np.argsort(-every, kind="stable")[:SEEDS]:
            inside = np.zeros(here.size, dtype=np.bool_)
            inside[seed] = True
            held = holds[:, seed].copy()
            for _ in range(here.size - 1):
                left = np.array([int(every[inside].sum())])
                share = int(self._shares(left, people.size, count)[0])
                if share:
                    parted = np.array([several[(held > 0) & (held < values)].sum()])
                    score = SETS_COUNT * float(_score(parted, left, people.size)[0])
                    if best is None or score < best.score:
                        best = _Best(score, Codes(column, tuple(map(int, here[inside]))), share)
                pull = np.where(inside, -1.0, together[:, inside].sum(axis=1) / np.maximum(every, 1))
                nearest = int(np.argmax(pull))
                inside[nearest] = True
                held += holds[:, nearest]
        return best

    def _shares(self, left: NDArray[np.int64], people: int, count: int) -> NDArray[np.int64]:
        """Of so many people on the left: how many of ``count`` pieces they make, 0 where no number leaves room.

        Why both bounds: whatever is cut later, each side can be cut into its pieces.
        """
        least, most = self.bounds.least, self.bounds.most
        right = people - left
        low = np.maximum(-(-left // most), count - right // max(least, 1))
        high = np.minimum(left // max(least, 1), count - -(-right // most))
        low, high = np.maximum(low, 1), np.minimum(high, count - 1)
        wanted = np.rint(left * count / people).astype(np.int64)
        return np.where(low <= high, np.clip(wanted, low, high), 0)


class _Cohorts(NamedTuple):
    """The sample's people of a node, by cohort. labels: int64 (s,). sizes: int64 (c,). order: by cohort, which begin
    at ``begins``.
    """

    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    order: NDArray[np.int64]
    begins: NDArray[np.int64]


def _up_to(
    ends: NDArray[np.float64], sizes: NDArray[np.int64], tried: NDArray[np.float64]
) -> NDArray[np.int64]:
    """People of cohorts whose end is not above each threshold."""
    order = np.argsort(ends, kind="stable")
    people = np.concatenate([[0], np.cumsum(sizes[order])])
    return people[np.searchsorted(ends[order], tried, side="right")]


def _score(parted: NDArray[np.int64], left: NDArray[np.int64], people: int) -> NDArray[np.float64]:
    """People parted a bit that the test tells; infinite where it tells nothing."""
    share = np.clip(left / people, 1e-12, 1 - 1e-12)
    return parted / -(share * np.log2(share) + (1 - share) * np.log2(1 - share))


def _pivot(people: Points, count: int, node: int) -> Pivot:
    """The cut behind ``count // 2`` of ``count`` shares of the people in lexicographic order."""
    columns, order = people.columns, people.order()
    left = people.size * (count // 2) // count
    person = int(order[left])
    values = tuple(people.column(column)[person].item() for column in columns)
    equal = np.ones(people.size, dtype=np.bool_)
    for column, value in zip(columns, values, strict=True):
        equal &= people.column(column) == value
    before = int(np.argmax(equal[order]))
    return Pivot(tuple(columns), values, left - before, int(equal.sum()), node)


def _border(people: Points, count: int, node: int, least: int) -> tuple[Pivot, int] | None:
    """The cut between two values that is nearest to the one of ``_pivot``, and how many shares are on its left.

    None: there is none with ``least`` people on each side.
    """
    columns, order = people.columns, people.order()
    other = np.zeros(max(people.size - 1, 0), dtype=np.bool_)
    for column in columns:
        own = people.column(column)[order]
        other |= own[1:] != own[:-1]
    ends = np.flatnonzero(other) + 1
    ends = ends[(ends >= least) & (ends <= people.size - least)]
    if not ends.size:
        return None
    left = int(ends[np.argmin(np.abs(ends - people.size * (count // 2) / count))])
    values = tuple(people.column(column)[order[left - 1]].item() for column in columns)
    share = min(max(round(left * count / people.size), 1), count - 1)
    return Pivot(tuple(columns), values, 1, 1, node), share


def are_first(digests: NDArray[np.uint64], first: int, equal: int, node: int) -> NDArray[np.bool_]:
    """Which of ``equal`` people, told by their digests, are the ``first`` at a node, about so many: bool (n,).

    In whole numbers of a share of 2**53: a product of a word with ``equal`` would not fit one where 2,048 are equal.
    """
    drawn = mixed_words(digests + np.uint64(node)) >> np.uint64(11)
    return drawn < np.uint64(-(-(first << 53) // equal))


def mixed_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each word's bits mixed."""
    words = (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _node_to_dict(node: Node) -> dict[str, Any]:
    if node.test is None:
        return {"piece": node.piece}
    name = next(name for name, kind in _TESTS.items() if isinstance(node.test, kind))
    own = {
        key: list(value) if isinstance(value, tuple) else value for key, value in asdict(node.test).items()
    }
    return {"test": name, **own, "left": node.left, "right": node.right}


def _node_from_dict(plain: dict[str, Any]) -> Node:
    if "piece" in plain:
        return Node(piece=plain["piece"])
    own = {key: plain[key] for key in plain if key not in ("test", "left", "right")}
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in own.items()
    }
    kind: Callable[..., Test] = _TESTS[plain["test"]]
    return Node(kind(**fields), plain["left"], plain["right"])
