"""Rows in any of several regions, counted once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from kanonflow.pipelines.estimates.coverage import (
    LEAST,
    MOST,
    Cover,
    Interval,
    Missing,
    PrefixColumn,
    RangeColumn,
    SetColumn,
    every_row,
)
from kanonflow.pipelines.estimates.questions import Measure
from kanonflow.schemas.errors import InputError

MOST_PIECES = 4_096
Column = RangeColumn | SetColumn | PrefixColumn


@dataclass(frozen=True)
class Regions:
    """What rows may be in: columns, by the names of fields; queries: of each region those of its fields, of none all
    rows."""

    columns: dict[str, Column]
    queries: Sequence[Mapping[str, Any]]

    def of(self, name: str) -> list[Any]:
        """What the regions ask of a field."""
        return [region[name] for region in self.queries if name in region]

    def has(self, region: Mapping[str, Any], key: tuple[str, bool]) -> bool:
        """Whether a region asks for a field, by units or not."""
        name, units = key
        return name in region and isinstance(self.columns[name], RangeColumn) == units

    def narrowed(self, measure: Measure) -> Measure | None:
        """A measure whose ranges are cut to what all regions ask of the same field: the hull of it; None: its missing
        values alone, which are none."""
        asked = self.of(measure.name)
        if not asked or len(asked) < len(self.queries):
            return measure
        if all(isinstance(query, Missing) for query in asked):
            return None
        if not all(isinstance(query, Interval) for query in asked):
            return measure
        hull = Interval(
            min(query.first for query in asked), max(query.end for query in asked), measure.column.whole
        )
        column = measure.column
        low, high = column.clipped(hull)
        none = np.zeros_like(column.nulls)
        return measure._replace(column=RangeColumn(low, np.maximum(low, high), column.valued, none, column.k))


def region_cover(columns: Mapping[str, Column], regions: Sequence[Mapping[str, Any]], count: int) -> Cover:
    """The cover of the union of some regions, each a query of some columns; of one region their product.

    Each column is cut into pieces that no query cuts. A box lies within the union if the combinations of pieces that it
    meets are all in it, which is counted, and its share is the sum of theirs. So a box may lie within two regions
    together and within neither. O(combinations x what they meet). Raises InputError: more than MOST_PIECES of them, or
    prefixes that differ from region to region.
    """
    if len(regions) == 1:
        return _all_of(
            [columns[name].cover(query) for name, query in regions[0].items()],  # type: ignore[arg-type]
            count,
        )
    names = list(dict.fromkeys(name for region in regions for name in region))
    pieces = {
        name: _pieces(
            name, columns[name], list(dict.fromkeys(each[name] for each in regions if name in each))
        )
        for name in names
    }
    if prod(len(each) for each in pieces.values()) > MOST_PIECES:
        raise InputError(
            f"where: more than {MOST_PIECES:,} combinations of pieces; give fewer regions, or fewer fields"
        )
    met = np.ones(count, np.int64)
    for each in pieces.values():
        own = np.zeros(count, np.int64)
        for cover, _ in each:
            own[cover.rows] += 1
        met *= own
    within, share = np.zeros(count, np.int64), np.zeros(count)
    for chosen in product(*pieces.values()):
        queries = {name: asked for name, (_, asked) in zip(names, chosen, strict=True)}
        if any(all(query in queries[name] for name, query in region.items()) for region in regions):
            both = _all_of([cover for cover, _ in chosen], count)
            within[both.rows] += 1
            share[both.rows] += both.share
    rows = np.flatnonzero(within)
    return Cover(rows, within[rows] == met[rows], np.minimum(share[rows], 1.0))


def _all_of(covers: Sequence[Cover], count: int) -> Cover:
    base = every_row(count)
    for cover in covers:
        base = base.both(cover)
    return base


def _pieces(name: str, column: Any, queries: Sequence[Any]) -> list[tuple[Cover, frozenset[Any]]]:
    """Pieces of all of a column's values, and the queries that each is in."""
    if isinstance(column, RangeColumn):
        pieces: list[Interval | Missing] = [*_intervals(column, queries), Missing()]
        return [
            (column.cover(piece), frozenset(query for query in queries if _is_in(piece, query)))
            for piece in pieces
        ]
    if isinstance(column, SetColumn):
        like: dict[frozenset[Any], set[Any]] = {}
        for value in column.values:
            like.setdefault(frozenset(query for query in queries if value in query), set()).add(value)
        return [(column.cover(frozenset(values)), asked) for asked, values in like.items()]
    if len(queries) > 1:
        raise InputError(f"where {name}: several regions may ask for the same prefixes only")
    cover = column.cover(queries[0])
    return [(cover, frozenset(queries)), (_other(cover, column.of_row.size), frozenset())]


def _other(cover: Cover, count: int) -> Cover:
    meets, sure, share = np.ones(count, np.bool_), np.ones(count, np.bool_), np.ones(count)
    meets[cover.rows], sure[cover.rows], share[cover.rows] = ~cover.sure, False, 1.0 - cover.share
    rows = np.flatnonzero(meets)
    return Cover(rows, sure[rows], share[rows])


def _intervals(column: RangeColumn, queries: Sequence[Any]) -> Iterator[Interval]:
    asked = [query for query in queries if isinstance(query, Interval)]
    step = 1 if column.whole else 0
    ends = sorted({end for query in asked for end in (query.first, query.end + step)})
    first, last = (int(LEAST), int(MOST)) if column.whole else (-np.inf, np.inf)
    for begin, end in pairwise(dict.fromkeys([first, *ends, last + step])):
        yield Interval(begin, end - step, column.whole)


def _is_in(piece: Interval | Missing, query: Interval | Missing) -> bool:
    if isinstance(piece, Missing) or isinstance(query, Missing):
        return piece == query and type(piece) is type(query)
    return query.first <= piece.first and piece.end <= query.end
