"""How much of each row's box lies in a part of a field's values: surely, possibly, and by how its weight is spread.

The box of a row in a field is the set B of values that its record can have there; a query is a set Q of values.

    surely in       B is within Q
    possibly in     B and Q have a value in common
    share           the weight of B and Q, where all of B weighs 1

A released range or set is the least box around m records or more: each end of a range, each member of a set, and a
missing value that the box holds is somebody's. With m = max(k, how many such values B has) each of them has 1/m of the
weight by itself. What remains lies

    in a range      between its ends, as all different ranges of the release do together, each of them spread evenly
                    over its values (days, milliseconds, whole numbers, units of decimals) or, of fractions, its length;
                    where nothing lies between the ends, evenly on both
    in a set        on its members as often as they are in the rows, where each row counts its members evenly

Counts and sums go by this. Means go evenly (``evenly()``): a part has |B and Q| / |B| of what is not missing, counted
in values or, of fractions, as length. Weight at ends mixes into a part what stands at the ends of far wider boxes,
which counts and sums bear and means do not.

Windows, and parts of ranges, are around nobody: their weight is spread evenly. So is a label's over the leaves below:
it is a node above them, and no leaf is surely somebody's. A missing value is a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.estimates.box_spread import EVENLY, RangeSpread, around_people
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.prefix_tree import PrefixTree
from kanonflow.schemas.value_units import to_units

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Cover(NamedTuple):
    """The rows that are possibly in. rows: int64, ascending. sure: bool. share: float64 in [0, 1]."""

    rows: Int64s
    sure: Bools
    share: Float64s

    def both(self, other: Cover) -> Cover:
        """What is in this and in the other: of fields that are spread independently the shares multiply. O(m log m)."""
        at = np.searchsorted(other.rows, self.rows)
        found = at < other.rows.size
        found[found] = other.rows[at[found]] == self.rows[found]
        at = at[found]
        return Cover(self.rows[found], self.sure[found] & other.sure[at], self.share[found] * other.share[at])


def every_row(count: int) -> Cover:
    """All rows, surely."""
    return Cover(np.arange(count), np.ones(count, bool), np.ones(count))


def nobody() -> Cover:
    """No row."""
    return Cover(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0))


class Interval(NamedTuple):
    """Values from ``first``, included, to ``end``. whole: units, ``end`` included; else doubles, ``end`` excluded."""

    first: int | float
    end: int | float
    whole: bool


class Missing(NamedTuple):
    """No value."""


@dataclass(frozen=True)
class RangeColumn:
    """Boxes that are ranges, (n,) each. low, high: int64 in units, or float64; closed.

    valued, nulls: whether a box holds values, and whether it holds the missing value. k: of the policy.
    spread: how the weight of each lies over its values.
    """

    low: Int64s | Float64s
    high: Int64s | Float64s
    valued: Bools
    nulls: Bools
    k: int
    spread: RangeSpread = EVENLY

    @property
    def whole(self) -> bool:
        """Whether its values are counted and not measured."""
        return self.low.dtype == np.int64

    @property
    def keys(self) -> tuple[NDArray[Any], ...]:
        """What is equal of rows whose boxes are, (n,) each."""
        return self.low, self.high, self.valued, self.nulls

    def of(self, rows: Int64s) -> RangeColumn:
        """Those of some rows."""
        return replace(
            self, low=self.low[rows], high=self.high[rows], valued=self.valued[rows], nulls=self.nulls[rows]
        )

    def evenly(self) -> RangeColumn:
        """The same, spread evenly."""
        return replace(self, spread=EVENLY)

    @property
    def somebodys(self) -> Float64s:
        """Of each box, 1/m: the least that a value weighs which is surely somebody's."""
        surely = self.nulls + np.where(self.low < self.high, 2, 1)
        return 1.0 / np.maximum(self.k, surely)

    def missing_share(self) -> Float64s:
        """Of each box, the share of the missing value."""
        return np.where(self.nulls, np.where(self.valued, self.somebodys, 1.0), 0.0)

    def cover(self, query: Interval | Missing) -> Cover:
        """The rows that meet the query. O(n)."""
        if isinstance(query, Missing):
            return _cover(self.nulls, ~self.valued, self.missing_share())
        first, end = query.first, query.end
        meets = self.valued & (self.high >= first) & ((self.low <= end) if query.whole else (self.low < end))
        inside = (
            ~self.nulls & (self.low >= first) & ((self.high <= end) if query.whole else (self.high < end))
        )
        return _cover(meets, inside, self._share(query))

    def _share(self, query: Interval) -> Float64s:
        at_low, at_high = (
            (end >= query.first) & ((end <= query.end) if query.whole else (end < query.end))
            for end in (self.low, self.high)
        )
        wide = self.low < self.high
        own = self.spread.own * self.somebodys
        rest = 1.0 - self.missing_share() - own * (1.0 + wide)
        between = self.spread.between(
            self.low, self.high, *self.clipped(query), self._evenly(query), whole=query.whole
        )
        return np.clip(own * (at_low + 1.0 * (at_high & wide)) + rest * between, 0.0, 1.0)

    def _evenly(self, query: Interval) -> Float64s:
        low, high = self.clipped(query)
        inside, wide = high.astype(np.float64), self.high.astype(np.float64)
        # Halved first: the width of two finite doubles can be infinite.
        part = inside / 2 - low.astype(np.float64) / 2
        width = wide / 2 - self.low.astype(np.float64) / 2
        if query.whole:
            return np.clip((2 * part + 1) / (2 * width + 1), 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(width > 0, np.clip(part / width, 0.0, 1.0), 1.0)

    def clipped(self, query: Interval | None) -> tuple[Any, Any]:
        """The ends of what of each box lies in the query, where they meet."""
        if query is None:
            return self.low, self.high
        return np.maximum(self.low, query.first), np.minimum(self.high, query.end)


@dataclass(frozen=True)
class SetColumn:
    """Boxes that are sets. Row i has set ``of_row[i]``, whose members are ``codes[starts[s] : starts[s + 1]]``.

    values: what the codes stand for, None for the missing value. weights: of the members, of each set 1 together; None:
    they weigh the same."""

    codes: Int64s
    starts: Int64s
    of_row: Int64s
    values: tuple[Any, ...]
    weights: Float64s | None = None

    @property
    def widths(self) -> Int64s:
        """Of each row, how many values."""
        return np.diff(self.starts)[self.of_row]

    @property
    def keys(self) -> tuple[NDArray[Any], ...]:
        """What is equal of rows whose boxes are, (n,) each."""
        return (self.of_row,)

    def of(self, rows: Int64s) -> SetColumn:
        """Those of some rows."""
        return replace(self, of_row=self.of_row[rows])

    def evenly(self) -> SetColumn:
        """The same, whose members weigh the same."""
        return replace(self, weights=None)

    def each(self) -> list[Any]:
        """What can be asked for one by one: the values that occur, the missing one last."""
        occurring: list[int] = np.unique(self.codes).tolist() if self.of_row.size else []
        return sorted(
            (self.values[at] for at in occurring),
            key=lambda value: (value is None, "" if value is None else value),
        )

    def cover(self, query: frozenset[Any]) -> Cover:
        """The rows whose set meets these values. O(members + n)."""
        if not self.of_row.size:
            return every_row(0)
        wanted = np.array([value in query for value in self.values], bool)
        hit = wanted[self.codes]
        hits = np.add.reduceat(hit.astype(np.int64), self.starts[:-1])
        sizes = np.diff(self.starts)
        meets, inside, share = hits > 0, hits == sizes, hits / sizes
        if self.weights is not None:
            share = np.where(inside, 1.0, np.add.reduceat(np.where(hit, self.weights, 0.0), self.starts[:-1]))
        return _cover(meets[self.of_row], inside[self.of_row], share[self.of_row])


@dataclass(frozen=True)
class PrefixColumn:
    """Boxes that are prefixes. Row i has ``labels[of_row[i]]``; None: the missing value. k: of the policy.

    How many values lie below a prefix is taken to be 2 to the bits that it withholds, of text 10 to the characters: the
    share of a longer one in it goes by that, and nothing else does."""

    labels: tuple[str | None, ...]
    of_row: Int64s
    tree: PrefixTree
    k: int

    @property
    def keys(self) -> tuple[NDArray[Any], ...]:
        """What is equal of rows whose boxes are, (n,) each."""
        return (self.of_row,)

    def of(self, rows: Int64s) -> PrefixColumn:
        """Those of some rows."""
        return replace(self, of_row=self.of_row[rows])

    def evenly(self) -> PrefixColumn:
        """The same: its weight is spread so."""
        return self

    @property
    def widths(self) -> Int64s:
        """Of each row, the characters or bits that its label withholds; of missing values none."""
        whole = self.tree.whole
        kept = [whole if label is None else self._kept(label)[1] for label in self.labels]
        exact = [label is None or label == (self.tree.path(label) or ("",))[0] for label in self.labels]
        return np.where(exact, 0, whole - np.array(kept, np.int64))[self.of_row]

    def each(self) -> list[Any]:
        """The shortest prefixes that occur, the missing value last where it does."""
        cut, prefixes = self.tree.lengths[0], self.tree.prefixes
        there = [label for label in self.labels if label is not None]
        found = {prefixes.shortened(label, cut) for label in there if self._kept(label)[1] >= cut}
        return [*sorted(found), *([None] if None in self.labels else [])]

    def cover(self, query: frozenset[Any]) -> Cover:
        """The rows whose prefix meets these values and prefixes, of any length. Raises KeyError: one is none. O(labels
        x query + n)."""
        asked = [None if each is None else self._kept(str(each)) for each in query]
        told = [self._share(label, asked) for label in self.labels]
        share = np.array([each for each, _ in told])[self.of_row] if told else np.zeros(0)
        sure = np.array([each for _, each in told], bool)[self.of_row] if told else np.zeros(0, bool)
        return _cover(share > 0, sure, share)

    def _share(self, label: str | None, asked: Sequence[tuple[str, int] | None]) -> tuple[float, bool]:
        there = {each[0] for each in asked if each is not None}
        if "" in there or label is None:
            return float("" in there or None in asked), "" in there or None in asked
        own, kept = self._kept(label)
        if any(own.startswith(text) for text in there):
            return 1.0, True
        below = {text for text in there if text.startswith(own)}
        apart = [text for text in below if not any(text != up and text.startswith(up) for up in below)]
        share = sum(float(self.tree.prefixes.base) ** (kept - len(text)) for text in apart)
        # The root may hold missing values, too.
        return min(1.0, share + (1.0 / self.k if not own and None in asked else 0.0)), False

    def _kept(self, label: str) -> tuple[str, int]:
        found = self.tree.prefixes.kept(label)
        if found is None:
            raise KeyError(label)
        return found


def prefix_column(array: pa.Array, tree: PrefixTree, k: int) -> PrefixColumn:
    """Of a column of labels that are prefixes."""
    coded = array.dictionary_encode("encode")
    return PrefixColumn(
        tuple(coded.dictionary.to_pylist()), np.asarray(coded.indices).astype(np.int64), tree, k
    )


def _cover(meets: Bools, inside: Bools, share: Float64s) -> Cover:
    rows = np.flatnonzero(meets)
    return Cover(rows, inside[rows], share[rows])


def range_column(array: pa.Array, k: int) -> RangeColumn:
    """Of a column of released ranges, struct<min, max, nulls>."""
    low, high, nulls = array.flatten()
    (least, none), (most, _) = to_units(low), to_units(high)
    first, last, there = _filled(least, none), _filled(most, none), ~none
    return RangeColumn(first, last, there, np.asarray(nulls), k, around_people(first[there], last[there]))


def exact_range(array: pa.Array, k: int) -> RangeColumn:
    """Of a column of values that have units, each a range of itself; NaN is a missing value here."""
    values, none = to_units(array)
    if values.dtype != np.int64:
        none = none | np.isnan(values)
    values = _filled(values, none)
    return RangeColumn(values, values, ~none, none, k)


def window_column(start: pa.Array, end: pa.Array, k: int) -> RangeColumn:
    """Of the windows of rows, in milliseconds: from their start to the last one before their end."""
    (first, none), (last, _) = to_units(start), to_units(end)
    return RangeColumn(first, np.where(none, first, last - 1), ~none, none, k)


def set_column(array: pa.Array, k: int) -> SetColumn:
    """Of a column of released sets. O(members + rows)."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).dictionary_encode("encode")
    members = tuple(values.dictionary.to_pylist())
    codes, starts = np.asarray(values.indices).astype(np.int64), offsets - offsets[0]
    of_row = _like_sets(codes, starts)
    return SetColumn(codes, starts, of_row, members, _around_people(codes, starts, of_row, k))


def _around_people(codes: Int64s, starts: Int64s, of_row: Int64s, k: int) -> Float64s:
    """What each member of each set weighs: 1/m by itself, and a part of the rest, by how often it is in the rows."""
    sizes = np.diff(starts)
    rows = np.bincount(of_row, minlength=sizes.size)
    often = np.bincount(codes, weights=np.repeat(rows / sizes, sizes))[codes]
    together = np.repeat(np.add.reduceat(often, starts[:-1]), sizes) if codes.size else often
    own = np.repeat(1.0 / np.maximum(k, sizes), sizes)
    return own + (1.0 - own * np.repeat(sizes, sizes)) * often / np.maximum(together, 1e-300)


def _like_sets(codes: Int64s, starts: Int64s) -> Int64s:
    """Of each set, the first that is equal; where members stand in several orders, each is one of itself."""
    sizes, own = np.diff(starts), np.arange(starts.size - 1)
    if not codes.size:
        return own
    # Sums of random numbers, which are compared member by member below.
    drawn = np.random.default_rng(0).integers(LEAST, MOST, int(codes.max()) + 1)
    first, like = np.unique(
        np.add.reduceat(drawn[codes], starts[:-1]), return_index=True, return_inverse=True
    )[1:]
    like = first[like]
    if np.any(sizes[like] != sizes):
        return own
    others = codes[np.arange(codes.size) + np.repeat(starts[like] - starts[:-1], sizes)]
    return like if np.array_equal(others, codes) else own


def exact_sets(array: pa.Array) -> SetColumn:
    """Of a column of values without units, or whose values are asked for one by one: each a set of itself."""
    coded = array.dictionary_encode("encode")
    members = tuple(coded.dictionary.to_pylist())
    count = len(members)
    return SetColumn(
        np.arange(count), np.arange(count + 1), np.asarray(coded.indices).astype(np.int64), members
    )


def label_column(array: pa.Array, hierarchy: Hierarchy) -> SetColumn:
    """Of a column of labels: the leaves below each; below the root's the missing value too; of a null only that.

    Raises KeyError: a label that the hierarchy has not.
    """
    coded = array.dictionary_encode("encode")
    leaves = {None: len(hierarchy.leaves)} | {leaf: code for code, leaf in enumerate(hierarchy.leaves)}
    below: list[list[int]] = []
    root = hierarchy.root
    for label in coded.dictionary.to_pylist():
        if label is None:
            below.append([leaves[None]])
            continue
        codes = [leaves[leaf] for leaf in leaves_below(hierarchy, label)]
        below.append([*codes, leaves[None]] if label == root else codes)
    sizes: Sequence[int] = [len(codes) for codes in below]
    return SetColumn(
        np.array([code for codes in below for code in codes], np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.asarray(coded.indices).astype(np.int64),
        (*hierarchy.leaves, None),
    )


def leaves_below(hierarchy: Hierarchy, label: str) -> list[str]:
    """The leaves below a node, at whatever level it is. Raises KeyError: there is no such label. O(rows)."""
    leaves = [row[0] for row in hierarchy.rows if label in row]
    if not leaves:
        raise KeyError(label)
    return leaves


def _filled(values: Any, none: Bools) -> Any:
    return np.where(none, values.dtype.type(0), values)
