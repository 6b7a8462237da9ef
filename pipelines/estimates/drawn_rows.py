"""The rows of a release dealt to people who are drawn into their boxes, and what questions of fields they are in.

    cells     rows that are alike in box and in all that is a row's own and asked for: payload, window
    entries   so many rows of a cell, dealt to one of the people of its box

A field of a person is what was drawn for the person (``hull_draws``); of a prefix, or of a window that is cut, a part
is drawn by the shares of the box (``coverage``). Payload is the row's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.estimates.coverage import (
    Float64s,
    Int64s,
    Interval,
    Missing,
    PrefixColumn,
    RangeColumn,
    SetColumn,
)
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.hull_draws import (
    Draw,
    Drawn,
    HullDraws,
    chosen,
    even_between,
)

UNSURE = 0.6
"""How little is known of what all boxes have in common (``HullDraws.draw``). Chosen on complete_journey with k = 5
(decision 126)."""
Generator = np.random.Generator
Match = Callable[[Any], Int64s]
"""From what was drawn of entries to which of some queries each is in, -1: in none."""


class Entries(NamedTuple):
    """(e,) each. cell: of each. person: int64. rows: how many."""

    cell: Int64s
    person: Int64s
    rows: Int64s


class FieldOfRows(ABC):
    """A field that is asked for."""

    single = False
    """Whether each row is by itself, for what it is must be drawn."""

    def alike(self) -> Sequence[Int64s]:
        """What cells are alike in, (n,) each."""
        return ()

    def of_cells(self, first: Int64s) -> FieldOfRows:
        """Of one row of each cell."""
        return self

    @abstractmethod
    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> Any:
        """What entries are."""

    @abstractmethod
    def match(self, queries: Sequence[Any]) -> Match:
        """Which of some queries, of which none meets another."""


@dataclass(frozen=True)
class PersonUnits(FieldOfRows):
    """Released as ranges, of people."""

    name: str

    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> Drawn:
        return draw.values[self.name].of(entries.person)

    def match(self, queries: Sequence[Any]) -> Match:
        return units_match(queries)


@dataclass(frozen=True)
class PersonCodes(FieldOfRows):
    """Released as sets, or as labels whose leaves are known, of people. members: what the codes stand for."""

    name: str
    members: tuple[Any, ...]

    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> Int64s:
        codes: Int64s = draw.values[self.name].values[entries.person]
        return codes

    def match(self, queries: Sequence[Any]) -> Match:
        return codes_match(self.members, queries)


@dataclass(frozen=True)
class PersonPrefix(FieldOfRows):
    """Released as prefixes, of people. column: of rows, then of boxes."""

    column: PrefixColumn

    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> tuple[Int64s, Float64s]:
        return self.column.of_row[draw.box[entries.person]], random.random(draw.box.size)[entries.person]

    def match(self, queries: Sequence[Any]) -> Match:
        labels = replace(self.column, of_row=np.arange(len(self.column.labels)))
        shares = np.zeros((len(self.column.labels), len(queries)))
        for place, query in enumerate(queries):
            cover = labels.cover(query)
            shares[cover.rows, place] = cover.share
        ends = np.minimum(np.cumsum(shares, axis=1), 1.0)

        def which(drawn: tuple[Int64s, Float64s]) -> Int64s:
            label, along = drawn
            part = (ends[label] <= along[:, None]).sum(axis=1)
            return np.where(part < len(queries), part, -1)

        return which


@dataclass(frozen=True)
class RowUnits(FieldOfRows):
    """Payload with units, and windows. column: of rows, or of cells."""

    column: RangeColumn
    single: bool = False

    def alike(self) -> Sequence[Int64s]:
        return (box_codes(self.column),)

    def of_cells(self, first: Int64s) -> RowUnits:
        return replace(self, column=self.column.of(first))

    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> Drawn:
        own = self.column.of(entries.cell)
        values = even_between(own.low, own.high, random) if self.single else own.low
        return Drawn(values, ~own.valued)

    def match(self, queries: Sequence[Any]) -> Match:
        return units_match(queries)


@dataclass(frozen=True)
class RowCodes(FieldOfRows):
    """Payload that is asked for value by value."""

    column: SetColumn

    def alike(self) -> Sequence[Int64s]:
        return (ordered_codes(self.column),)

    def of_cells(self, first: Int64s) -> RowCodes:
        return replace(self, column=self.column.of(first))

    def drawn(self, draw: Draw, entries: Entries, random: Generator) -> Int64s:
        own = self.column
        return own.codes[own.starts[own.of_row[entries.cell]]]

    def match(self, queries: Sequence[Any]) -> Match:
        return codes_match(self.column.values, queries)


def field_of_rows(name: str, column: Any, queries: Sequence[Any], draws: HullDraws) -> FieldOfRows:
    """A field that is asked for. column: of rows; queries: that it is asked."""
    of_person = name in draws.hulls
    if isinstance(column, PrefixColumn):
        return PersonPrefix(column.of(draws.boxes.first))
    if isinstance(column, SetColumn):
        return PersonCodes(name, column.values) if of_person else RowCodes(column)
    cut = any(not column.cover(query).sure.all() for query in queries)
    return PersonUnits(name) if of_person else RowUnits(column, single=cut)


def ordered_codes(column: RangeColumn | SetColumn | PrefixColumn) -> Int64s:
    """As ``box_codes``, in an order that goes by what the boxes are and not by which row is first."""
    if isinstance(column, RangeColumn):
        return box_codes(column)
    _, first, like = np.unique(column.of_row, return_index=True, return_inverse=True)
    some = column.of_row[first]
    if isinstance(column, PrefixColumn):
        texts = [str((column.labels[each] is None, column.labels[each])) for each in some]
    else:
        spans = zip(column.starts[some], column.starts[some + 1], strict=True)
        texts = [
            str(sorted(str((column.values[code] is None, column.values[code])) for code in column.codes[a:b]))
            for a, b in spans
        ]
    return np.unique(np.array(texts, object), return_inverse=True)[1].astype(np.int64)[like]


def units_match(queries: Sequence[Any]) -> Match:
    """Of values in units."""
    missing = next((at for at, query in enumerate(queries) if isinstance(query, Missing)), -1)
    places = [at for at, query in enumerate(queries) if isinstance(query, Interval)]
    places.sort(key=lambda at: queries[at].first)
    own: list[Interval] = [queries[at] for at in places]
    firsts, ends = (np.array([each[side] for each in own]) for side in (0, 1))
    place = np.array([*places, -1], np.int64)
    whole = bool(own) and own[0].whole

    def which(drawn: Drawn) -> Int64s:
        if not own:
            return np.where(drawn.none, missing, -1)
        at = np.searchsorted(firsts, drawn.values, side="right") - 1
        inside = (drawn.values <= ends[at]) if whole else (drawn.values < ends[at])
        return np.where(drawn.none, missing, np.where((at >= 0) & inside, place[at], -1))

    return which


def codes_match(members: Sequence[Any], queries: Sequence[Any]) -> Match:
    """Of codes of members."""
    place = {value: at for at, query in enumerate(queries) for value in query}
    by_code = np.array([place.get(value, -1) for value in members] or [-1], np.int64)
    return lambda codes: by_code[codes]


@dataclass(frozen=True)
class DrawnRows:
    """draws: people of n rows. fields: those that are asked for, by name and whether by units, of cells.

    first: int64 (c,), a row of each cell; rows: how many each has; box: of each."""

    draws: HullDraws
    fields: Mapping[Any, FieldOfRows]
    first: Int64s
    rows: Int64s
    box: Int64s

    @classmethod
    def of(cls, draws: HullDraws, fields: Mapping[Any, FieldOfRows]) -> DrawnRows:
        """Fields of rows."""
        box, count = draws.box_of_rows, draws.boxes.rows.size
        keys = [key for each in fields.values() for key in each.alike()]
        cells = distinct_boxes([box, *keys], count)
        first, rows = cells.first, cells.sizes
        if draws.units is not None or any(each.single for each in fields.values()):
            first, rows = cells.rows, np.ones(count, np.int64)
        own = {name: each.of_cells(first) for name, each in fields.items()}
        return cls(draws, own, first, rows, box[first])

    def drawn(self, random: Generator) -> tuple[Entries, dict[Any, Any]]:
        """Entries, and what each field of them is."""
        draw = self.draws.draw(random, only={name for name, _ in self.fields}, unsure=UNSURE)
        entries = self._dealt(draw, random)
        return entries, {name: each.drawn(draw, entries, random) for name, each in self.fields.items()}

    def _dealt(self, draw: Draw, random: Generator) -> Entries:
        if self.draws.units is not None:
            return Entries(np.arange(self.first.size), self.draws.dealt(draw, random)[self.first], self.rows)
        sizes = np.diff(draw.starts)[self.box]
        many = self.rows > sizes
        one = np.repeat(np.flatnonzero(~many), self.rows[~many])
        person = chosen(draw.shares, draw.starts[self.box[one]], draw.starts[self.box[one] + 1], random)
        cell = np.repeat(np.flatnonzero(many), sizes[many])
        first = np.cumsum(sizes[many]) - sizes[many]
        place = np.arange(cell.size) - np.repeat(first, sizes[many])
        those = draw.starts[self.box[cell]] + place
        rows = _multinomial(self.rows[many], draw.shares[those], first, sizes[many], random)
        some = rows > 0
        return Entries(
            np.concatenate([one, cell[some]]),
            np.concatenate([person, those[some]]),
            np.concatenate([np.ones(one.size, np.int64), rows[some]]),
        )


def _multinomial(rows: Int64s, shares: Float64s, first: Int64s, sizes: Int64s, random: Generator) -> Int64s:
    """Rows of cells dealt to people by shares. first, sizes: the span of the shares of each cell."""
    dealt = np.zeros(shares.size, np.int64)
    left = rows.copy()
    rest = np.add.reduceat(shares, first) if first.size else np.zeros(0)
    for place in range(int(sizes.max(initial=0))):
        live = np.flatnonzero(sizes > place)
        at = first[live] + place
        last = sizes[live] == place + 1
        part = np.where(last, 1.0, np.clip(shares[at] / np.maximum(rest[live], 1e-300), 0.0, 1.0))
        dealt[at] = random.binomial(left[live], part)
        left[live] -= dealt[at]
        rest[live] -= shares[at]
    return dealt
