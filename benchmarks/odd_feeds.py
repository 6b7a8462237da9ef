"""Feeds that are not like the data sets: seeded changes of a feed's table, one oddity each.

A table is a feed as text, a row a record. ``Cards`` says which of its columns are a person's: they go where the person
goes. Every function gives a table in the order of time and leaves the one that it was given as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DAYS_OF_BIRTH = 365
DEGREES = 0.5


@dataclass(frozen=True)
class Cards:
    """individual: the column that says whose a row is. time: when, as text that sorts, its first 10 letters the day.

    attributes: columns that are equal on all rows of a person.
    """

    individual: str
    time: str
    attributes: tuple[str, ...]

    def owner(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(whose each row is, 0 .. p-1 by number of the card; the first row of each person), int64 each."""
        _, first, owner = np.unique(
            np.asarray(table.column(self.individual)).astype(str), return_index=True, return_inverse=True
        )
        return owner.astype(np.int64), first.astype(np.int64)

    def days(self, table: pa.Table) -> NDArray[np.int64]:
        """The day of each row, 0 .. , counted from the first day that has rows."""
        days = np.asarray(pc.utf8_slice_codeunits(table.column(self.time), 0, 10)).astype("datetime64[D]")
        return (days - days.min()).astype(np.int64)

    def ordered(self, table: pa.Table) -> pa.Table:
        """The table in the order of time."""
        return table.take(pc.sort_indices(table.column(self.time)))


SPARKOV_CARDS = Cards("cc_num", "trans_date_trans_time", ("dob", "gender", "lat", "long", "city_pop", "job"))


def _changed(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def cards_like(table: pa.Table, cards: Cards, count: int, rng: np.random.Generator) -> pa.Table:
    """So many people who are like those of sparkov's table, and none of them: their attributes, a row each.

    A person drawn at random, moved by up to half a degree each way, born up to a year before or after.
    """
    _, first = cards.owner(table)
    drawn = table.select(list(cards.attributes)).take(pa.array(rng.choice(first, count)))
    place = {
        name: pa.array(np.asarray(drawn.column(name)).astype(float) + rng.uniform(-DEGREES, DEGREES, count))
        for name in ("lat", "long")
    }
    moved_days = rng.integers(-DAYS_OF_BIRTH, DAYS_OF_BIRTH + 1, count)
    born = np.asarray(drawn.column("dob")).astype("datetime64[D]") + moved_days
    moved = {name: pc.cast(pc.round(column, 4), pa.string()) for name, column in place.items()}
    return _changed(drawn, moved | {"dob": pa.array(born.astype(str), pa.string())})


def with_guests(table: pa.Table, cards: Cards, share: float, seed: int) -> pa.Table:
    """The feed with people who come once: of all people then there, so large a share.

    Each has one row, at the time and with the payload of a random row.
    """
    rng = np.random.default_rng(seed)
    people = cards.owner(table)[1].size
    count = round(people * share / (1 - share))
    rows = table.take(pa.array(rng.choice(table.num_rows, count)))
    guests = cards_like(table, cards, count, rng)
    named = {cards.individual: pa.array(np.char.mod("guest %d", np.arange(count)))}
    rows = _changed(rows, named | {name: guests.column(name) for name in cards.attributes})
    return cards.ordered(pa.concat_tables([table, rows]))


def as_a_trickle(table: pa.Table, cards: Cards, settled: int, every: int, seed: int) -> pa.Table:
    """Only people who come within the first ``settled`` days; but some of them, drawn, later: one in ``every`` days.

    Of these newcomers the rows before their day are left out. So they come as often as the others do.
    """
    rng = np.random.default_rng(seed)
    owner, first = cards.owner(table)
    days = cards.days(table)
    begins = np.full(first.size, np.iinfo(np.int64).max)
    early = np.unique(owner[days < settled])
    begins[early] = 0
    later = rng.permutation(early)[: int(days.max() - settled + 1) // every]
    begins[later] = settled + every * np.arange(later.size)
    return table.filter(pa.array(days >= begins[owner]))


def with_moves(table: pa.Table, cards: Cards, share: float, seed: int) -> pa.Table:
    """Such a share of the people have the attributes of somebody else from a random day on."""
    rng = np.random.default_rng(seed)
    owner, first = cards.owner(table)
    days = cards.days(table)
    movers = rng.permutation(first.size)[: round(share * first.size)]
    moves = np.full(first.size, np.iinfo(np.int64).max)
    moves[movers] = rng.integers(1, int(days.max()) + 1, movers.size)
    # Somebody else: the next of a random order.
    other = np.empty(first.size, dtype=np.int64)
    order = rng.permutation(first.size)
    other[order] = np.roll(order, 1)
    source = np.where(days >= moves[owner], first[other[owner]], np.arange(table.num_rows))
    return _changed(table, {name: table.column(name).take(pa.array(source)) for name in cards.attributes})


def with_bots(table: pa.Table, cards: Cards, bots: int, seed: int) -> pa.Table:
    """Some accounts get as many rows as all others have together: copies of random rows under their own attributes."""
    rng = np.random.default_rng(seed)
    owner, first = cards.owner(table)
    chosen = rng.permutation(first.size)[:bots]
    theirs = int(np.isin(owner, chosen).sum())
    count = max(table.num_rows - 2 * theirs, 0)
    rows = table.take(pa.array(rng.choice(table.num_rows, count)))
    source = pa.array(first[chosen[rng.integers(0, bots, count)]])
    own = (cards.individual, *cards.attributes)
    rows = _changed(rows, {name: table.column(name).take(source) for name in own})
    return cards.ordered(pa.concat_tables([table, rows]))
