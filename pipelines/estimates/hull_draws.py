"""People drawn into the boxes of a release: a model of who may stand behind them, and nobody.

A box is the hull of its k people or more. So into each distinct box, over all quasi-identifiers, k people are drawn, or
as many as its hull needs:

    a range          one at each end, one without a value where ``nulls`` says so, the rest evenly in between
    a set            each member is somebody's, the rest by frequency over the release
    a label          where its hierarchy is given: leaves below it by frequency, of two of its children at least; else
                     the label itself. A prefix stays the prefix that it is

Frequency: of a value v the sum, over all rows whose box holds v, of 1 / |box|. Fields are drawn independently within a
box. The rows of a box go to its people by shares of a Dirichlet(1, ..., 1): few have most rows, as in real feeds. Where
the release has a number a person, the rows of a number go to one of the people, and two numbers of a box to two; where
it protects single rows, each row is a person.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.estimates.coverage import Bools, Float64s, Int64s, RangeColumn, SetColumn
from kanonflow.pipelines.estimates.distinct_boxes import DistinctBoxes
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.value_units import from_units

Generator = np.random.Generator


class Roles(NamedTuple):
    """People of boxes, box by box. box: int64 (t,), of each. role: int64 (t,), a number from 0 in its box; size: int64
    (t,), how many its box has."""

    box: Int64s
    role: Int64s
    size: Int64s


class Drawn(NamedTuple):
    """Of people, (t,) each. values: int64 or float64 in units, of sets and labels codes. none: no value; codes have
    one for it."""

    values: Any
    none: Bools

    def of(self, people: Int64s) -> Drawn:
        """Those of some people."""
        return Drawn(self.values[people], self.none[people])


class Hull(Protocol):
    """The distinct boxes of one field."""

    @property
    def needed(self) -> Int64s:
        """How many people each hull needs at least, (d,)."""

    def unsure(self, of: float, random: Generator) -> Hull:
        """The same where how values lie is drawn too, alike in all boxes, as ``HullDraws.draw`` says."""

    def drawn(self, roles: Roles, random: Generator) -> Drawn:
        """A value a person; the first roles make the hull."""

    def array(self, drawn: Drawn) -> pa.Array:
        """As values of the input's type."""


@dataclass(frozen=True)
class RangeHull:
    """column: the distinct boxes. kind: type of the values. tilt: 1: what lies between the ends lies evenly."""

    column: RangeColumn
    kind: pa.DataType
    tilt: float = 1.0

    @property
    def needed(self) -> Int64s:
        """One an end, one for the missing value."""
        column = self.column
        return np.add(column.valued, column.nulls, dtype=np.int64) + (
            column.valued & (column.high > column.low)
        )

    def unsure(self, of: float, random: Generator) -> RangeHull:
        """Towards one end or the other."""
        return replace(self, tilt=float(np.exp(of * random.standard_normal())))

    def drawn(self, roles: Roles, random: Generator) -> Drawn:
        """Role 0 has the low end, 1 the high one, the last no value where somebody has none."""
        column = self.column.of(roles.box)
        low, high = column.low, column.high
        values = np.where(
            roles.role == 0, low, np.where(roles.role == 1, high, even_between(low, high, random, self.tilt))
        )
        none = ~column.valued | (column.nulls & (roles.role == roles.size - 1))
        return Drawn(values, none)

    def array(self, drawn: Drawn) -> pa.Array:
        """From units."""
        return from_units(drawn.values, drawn.none, self.kind)


@dataclass(frozen=True)
class SetHull:
    """column: the distinct boxes. weights: of each code, float64. kind: type of the values."""

    column: SetColumn
    weights: Float64s
    kind: pa.DataType

    @property
    def needed(self) -> Int64s:
        """One a member."""
        return self.column.widths

    def unsure(self, of: float, random: Generator) -> SetHull:
        """By other frequencies."""
        return replace(self, weights=_noisy(self.weights, self.column.values, of, random))

    def drawn(self, roles: Roles, random: Generator) -> Drawn:
        """Role j has member j; the rest go by frequency."""
        column = self.column
        of = column.of_row[roles.box]
        at = chosen(self.weights[column.codes], column.starts[of], column.starts[of + 1], random)
        first = column.starts[of] + roles.role
        own = column.codes[np.where(roles.role < self.needed[roles.box], first, at)]
        return _codes(own)

    def array(self, drawn: Drawn) -> pa.Array:
        """From codes."""
        return pa.array(self.column.values, self.kind).take(pa.array(drawn.values))


@dataclass(frozen=True)
class LabelHull:
    """Labels as sets of the leaves below, child by child. first, end: int64, of each code of a set where the codes
    below the same child begin and end. The rest is as of sets."""

    column: SetColumn
    weights: Float64s
    first: Int64s
    end: Int64s
    kind: pa.DataType

    @property
    def needed(self) -> Int64s:
        """Two where a label has several children below it."""
        starts, of = self.column.starts, self.column.of_row
        return np.where(self.end[starts[:-1]] < starts[1:], 2, 1)[of]

    def unsure(self, of: float, random: Generator) -> LabelHull:
        """By other frequencies."""
        return replace(self, weights=_noisy(self.weights, self.column.values, of, random))

    def drawn(self, roles: Roles, random: Generator) -> Drawn:
        """Role 1 is below another child than role 0."""
        column = self.column
        weights = self.weights[column.codes]
        of = column.of_row[roles.box]
        begin, end = column.starts[of], column.starts[of + 1]
        at = chosen(weights, begin, end, random)
        second = np.flatnonzero((roles.role == 1) & (self.needed[roles.box] == 2))
        taken = at[second - 1]
        # Of what lies outside of the child that role 0 has: a draw over what is left, past it where it comes to it.
        before = np.concatenate([[0.0], np.cumsum(weights)])
        begin, end, gap, past = begin[second], end[second], self.first[taken], self.end[taken]
        left = before[gap] - before[begin]
        whole = left + before[end] - before[past]
        goal = random.random(second.size) * whole
        behind = goal >= left
        goal = before[begin] + goal + np.where(behind, before[past] - before[gap], 0.0)
        place = np.searchsorted(before[1:], goal, side="right")
        in_front = np.minimum(place, gap - 1)
        at[second] = np.where(behind, np.clip(place, past, end - 1), in_front)
        return _codes(column.codes[at])

    def array(self, drawn: Drawn) -> pa.Array:
        """From codes."""
        return pa.array(self.column.values, self.kind).take(pa.array(drawn.values))


def set_hull(column: SetColumn, boxes: DistinctBoxes, kind: pa.DataType) -> SetHull:
    """Of a column of rows that are sets."""
    return SetHull(column.of(boxes.first), _frequencies(column), kind)


def label_hull(array: pa.Array, hierarchy: Hierarchy, boxes: DistinctBoxes) -> LabelHull:
    """Of a column of labels (n,). Raises KeyError: a label that the hierarchy has not. O(labels x height + rows)."""
    coded = array.dictionary_encode("encode")
    labels = coded.dictionary.to_pylist()
    below: dict[Any, dict[Any, list[int]]] = {label: {} for label in labels}
    for code, row in enumerate(hierarchy.rows):
        for label in dict.fromkeys(row):
            if label in below:
                child = row[max(row.index(label) - 1, 0)]
                below[label].setdefault(child, []).append(code)
    missing = len(hierarchy.leaves)
    for holder in (hierarchy.root, None):
        if holder in below:
            below[holder][None] = [missing]
    families: list[list[int]] = []
    sizes = []
    for label in labels:
        if not below[label]:
            raise KeyError(label)
        families += below[label].values()
        sizes.append(sum(map(len, below[label].values())))
    ends = np.cumsum([len(family) for family in families], dtype=np.int64)
    lengths = np.diff(ends, prepend=0)
    column = SetColumn(
        np.array([code for family in families for code in family], np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.asarray(coded.indices).astype(np.int64),
        (*hierarchy.leaves, None),
    )
    first, end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
    return LabelHull(column.of(boxes.first), _frequencies(column), first, end, pa.string())


@dataclass(frozen=True)
class Draw:
    """values: of each field, (t,). box: int64 (t,), ascending, of each of the people. starts: int64 (d + 1,).

    shares: float64 (t,), of each the share of its box's rows, up to a factor. hulls: that the values are of."""

    values: dict[str, Drawn]
    box: Int64s
    starts: Int64s
    shares: Float64s
    hulls: dict[str, Hull]

    @cached_property
    def people(self) -> dict[str, pa.Array]:
        """The values as they were in the input, a column a field."""
        return {name: self.hulls[name].array(drawn) for name, drawn in self.values.items()}


@dataclass(frozen=True)
class HullDraws:
    """boxes: d distinct ones of n rows. hulls: of each field. k: of the policy. units: int64 (n,), rows that are of one
    person have one number, from 0; None where nobody knows."""

    boxes: DistinctBoxes
    hulls: dict[str, Hull]
    k: int
    units: Int64s | None = None

    @cached_property
    def box_of_rows(self) -> Int64s:
        """Of each row, int64 (n,)."""
        box = np.empty(self.boxes.rows.size, np.int64)
        box[self.boxes.rows] = np.repeat(np.arange(self.boxes.first.size), self.boxes.sizes)
        return box

    @cached_property
    def numbers(self) -> tuple[Int64s, Int64s]:
        """The different pairs of a box and a number (see ``numbered``)."""
        assert self.units is not None
        return numbered(self.box_of_rows, self.units)

    @cached_property
    def people_needed(self) -> Int64s:
        """How many each box has, int64 (d,): k, or what its hulls and numbers need."""
        sizes = np.full(self.boxes.first.size, self.k, np.int64)
        for hull in self.hulls.values():
            sizes = np.maximum(sizes, hull.needed)
        if self.units is not None:
            own, _ = self.numbers
            sizes = np.maximum(sizes, np.bincount(own, minlength=sizes.size))
        return sizes

    def draw(
        self,
        random: Generator,
        hulls: int = 1,
        *,
        only: Collection[str] | None = None,
        unsure: float = 0.0,
    ) -> Draw:
        """People for every box, of so many hulls each. only: the fields that are wanted, None for all.

        unsure: how sure frequencies are, and that values lie evenly between ends: for all boxes together frequencies
        are multiplied by exp(unsure z), and places u between ends are u^exp(unsure z), z a standard normal of each
        member, or each field. What all boxes have in common does not average out over them. O(t log t) a field, where
        t is hulls k d or somewhat more."""
        sizes = self.people_needed
        each = np.repeat(sizes, hulls)
        hull_of = np.repeat(np.arange(each.size), each)
        box = hull_of // hulls
        roles = Roles(box, np.arange(box.size) - (np.cumsum(each) - each)[hull_of], sizes[box])
        # Which of the people has which role differs from field to field.
        people = {
            name: (hull.unsure(unsure, random) if unsure else hull)
            .drawn(roles, random)
            .of(_mixed(hull_of, random))
            for name, hull in self.hulls.items()
            if only is None or name in only
        }
        even = self.units is not None
        return Draw(
            people,
            box,
            np.concatenate([[0], np.cumsum(sizes * hulls)]).astype(np.int64),
            np.ones(box.size) if even else random.standard_exponential(box.size),
            self.hulls,
        )

    def dealt(self, draw: Draw, random: Generator) -> Int64s:
        """Of each row, which of the people has it, int64 (n,)."""
        box = self.box_of_rows
        if self.units is None:
            return chosen(draw.shares, draw.starts[box], draw.starts[box + 1], random)
        # Numbers of a box are dealt out to its people as these stand, in an order that is drawn.
        of, unit = self.numbers
        place = np.empty(of.size, np.int64)
        place[_mixed(of, random)] = np.arange(of.size) - np.searchsorted(of, of)
        return draw.starts[box] + place[unit]


def numbered(box: Int64s, units: Int64s) -> tuple[Int64s, Int64s]:
    """The different pairs of a box and a number: the box of each (u,), ascending, and which each row has (n,)."""
    keys, own = np.unique(box * (int(units.max(initial=0)) + 1) + units, return_inverse=True)
    return keys // (int(units.max(initial=0)) + 1), own.reshape(-1)


def chosen(weights: Float64s, begin: Int64s, end: Int64s, random: Generator) -> Int64s:
    """Of each span [begin, end) of the weights one place, as likely as its weight, int64 as ``begin``. O(log) each."""
    before = np.concatenate([[0.0], np.cumsum(weights)])
    goal = before[begin] + random.random(begin.size) * (before[end] - before[begin])
    return np.clip(np.searchsorted(before[1:], goal, side="right"), begin, end - 1)


def _mixed(box: Int64s, random: Generator) -> Int64s:
    """The places of each box in an order that is drawn."""
    return np.argsort(box + 0.999 * random.random(box.size))


def _codes(codes: Int64s) -> Drawn:
    return Drawn(codes, np.zeros(codes.size, np.bool_))


def _noisy(weights: Float64s, values: tuple[Any, ...], of: float, random: Generator) -> Float64s:
    # By what the values are, and not by which row is first.
    order = sorted(range(len(values)), key=lambda at: (values[at] is None, str(values[at])))
    normal = np.empty(weights.size)
    normal[order] = random.standard_normal(weights.size)
    return weights * np.exp(of * normal)


def even_between(low: Any, high: Any, random: Generator, tilt: float = 1.0) -> Any:
    """A value of each range; evenly where ``tilt`` is 1."""
    if low.dtype == np.int64:
        # As unsigned numbers that wrap: the width of two whole numbers may be none.
        span = high.view(np.uint64) - low.view(np.uint64)
        if tilt != 1.0:
            along = random.random(low.size) ** tilt * (span.astype(np.float64) + 1.0)
            along = np.minimum(along, 2.0**63).astype(np.uint64)
            return (low.view(np.uint64) + np.minimum(along, span)).view(np.int64)
        return (low.view(np.uint64) + random.integers(0, span, endpoint=True, dtype=np.uint64)).view(np.int64)
    part = random.random(low.size) ** tilt
    return np.clip(low * (1.0 - part) + high * part, low, high)


def _frequencies(column: SetColumn) -> Float64s:
    """Of each code, the sum of 1 / |box| over the rows whose box holds it; of sets that no row has, 0."""
    sizes = np.diff(column.starts)
    rows = np.bincount(column.of_row, minlength=sizes.size)
    shares = np.bincount(
        column.codes, np.repeat(rows / np.maximum(sizes, 1), sizes), minlength=len(column.values)
    )
    return np.asarray(shares, np.float64)
