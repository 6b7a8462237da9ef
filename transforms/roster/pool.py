"""The pool: people who were seen and are in no cohort yet, with what their rows said of them.

Nobody leaves it but by an intake, which takes all of it, so it also remembers those whose rows have gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole

_NEVER = np.iinfo(np.int64).min
FROM_START = np.iinfo(np.int64).max
"""In the place of a window's end, less the place of the run in its chain that named them first: of values that a file
of people tells, which no row replaces."""
_CELLS_AT_ONCE = 100_000
"""Fields of so many cells are looked at together: of few rows each call costs more than what it does."""
MOST_PLACES = 2**20
"""So many runs of a chain may name people."""


@dataclass(frozen=True)
class Pool:
    """people: uint64 (p,), digests, sorted.

    values: p rows, the quasi-identifiers as they stand: of each field the value that its person's rows of the latest
    window had that had one (with a plan of shards: of the first one), the least of them; null where none had one.
    ends: int64 (p, d), the end of that window in ms, or ``FROM_START`` less a place.
    changed: bool (p,), whether rows of the person had two different values of a field since it was first seen.
    tried: int64 (p,), whom a person was put together with in an intake of which nothing was left (``having_tried``);
    -1: nobody yet.
    """

    people: NDArray[np.uint64]
    values: pa.Table
    ends: NDArray[np.int64]
    changed: NDArray[np.bool_]
    tried: NDArray[np.int64]

    @property
    def from_start(self) -> NDArray[np.bool_]:
        """Who was known from the start, bool (p,): they enter with the first release."""
        return np.asarray((self.ends > FROM_START - MOST_PLACES).all(axis=1))

    @property
    def kind(self) -> NDArray[np.int64]:
        """Who may share a cohort, int64 (p,): the place of the run that named a person first; -1: he was seen; above
        all places a cohort that was tried.

        Why by place: rows of somebody whom a later file names, and that came before it, counted as a stranger's. Those
        of somebody named before did not, so exchanging the rows of the two would show in those counts.
        """
        kind = np.where(self.from_start, FROM_START - self.ends.max(axis=1, initial=_NEVER), -1)
        return np.where(self.tried >= 0, MOST_PLACES + self.tried, kind)

    def known_by_file(self, least: int) -> NDArray[np.bool_]:
        """Whose kind has so many people that they can be cohorts, bool (p,), of those who have one: whom a file names,
        and who were in an intake that was tried. Fewer are in a part of a shard that was split while they waited: they
        are known by their rows. O(p log p)."""
        first = self.kind >= 0
        if not first.any():
            return first
        _, own, count = np.unique(self.kind, return_inverse=True, return_counts=True)
        return first & (count[own] >= least)

    def expecting(
        self, people: NDArray[np.uint64], values: pa.Table, bound: BoundPolicy, place: int = 0
    ) -> Pool:
        """The pool with people who are known from the start, in the place of what rows said of them.

        people: uint64 (m,), digests, none twice. values: m rows, canonical; a null stands for good: that a row says
        more would tell that there was one. place: of the run that names them, which is their kind.
        O((p + m) log(p + m)).
        """
        stays = ~np.isin(self.people, people)
        fresh = np.full(people.size, -1, dtype=np.int64)
        every = np.concatenate([self.people[stays], people])
        order = np.argsort(every, kind="stable")
        stated = values.select([column.name for column in bound.quasis]).cast(quasi_schema(bound))
        table = pa.concat_tables([self.values.filter(pa.array(stays)), stated]).take(pa.array(order))
        ends = np.full((people.size, len(bound.quasis)), FROM_START - place, dtype=np.int64)
        changed = np.concatenate([self.changed[stays], np.zeros(people.size, dtype=np.bool_)])
        return Pool(
            every[order],
            table.combine_chunks(),
            np.concatenate([self.ends[stays], ends])[order],
            changed[order],
            np.concatenate([self.tried[stays], fresh])[order],
        )

    def having_tried(self, people: NDArray[np.uint64], cohort: NDArray[np.int64]) -> Pool:
        """The pool after an intake of which nothing was left: who was put together enters so, and with nobody else.

        people: uint64 (m,), of the pool, sorted. cohort: int64 (m,), of each.
        Why: that nothing was left hangs on who was put together. Were two of them in one cohort later of whom one was
        not there, exchanging their rows would tell.
        """
        tried, dense = self.tried.copy(), np.unique(cohort, return_inverse=True)[1]
        tried[np.searchsorted(self.people, people)] = dense + int(tried.max(initial=-1)) + 1
        return replace(self, tried=tried)

    def of(self, people: NDArray[np.bool_]) -> Pool:
        """Some of them, bool (p,)."""
        values = self.values.filter(pa.array(people))
        return Pool(self.people[people], values, self.ends[people], self.changed[people], self.tried[people])

    def having_seen(
        self,
        digests: NDArray[np.uint64],
        ends: NDArray[np.int64],
        rows: pa.Table,
        bound: BoundPolicy,
        *,
        earliest: bool = False,
    ) -> Pool:
        """The pool after n rows of people who are not known.

        digests: uint64 (n,), whose each row is. ends: int64 (n,), end of each row's own window in ms.
        rows: their canonical rows. earliest: whether the first window that has a value counts, and not the latest.

        Postcondition: the order of the rows, and in how many calls they came, changes nothing; nor do rows that are
        seen again. Why: what a person's frozen values are must be the same on a retry, and must not follow from
        payload or arrival. Of ``changed`` that holds because the value that is kept is one of those seen: values that
        each equal it are equal to each other. Rows of people who are known from the start say nothing. O(d n log n).
        """
        stands = self.from_start
        named = self.people[stands]
        if named.size and not (others := ~np.isin(digests, named)).all():
            digests, ends, rows = digests[others], ends[others], rows.filter(pa.array(others))
        people, owner = np.unique(np.concatenate([self.people, digests]), return_inverse=True)
        latest = np.full((people.size, len(bound.quasis)), _NEVER, dtype=np.int64)
        changed = np.zeros(people.size, dtype=np.bool_)
        changed[owner[: self.people.size]] = self.changed
        tried = np.full(people.size, -1, dtype=np.int64)
        tried[owner[: self.people.size]] = self.tried
        cells = [
            pa.concat_arrays([whole(self.values.column(column.name)), whole(rows.column(column.name))])
            for column in bound.quasis
        ]
        when = np.concatenate([self.ends, np.repeat(ends[:, None], len(cells), axis=1)])
        order = when if earliest else -when
        at_once = max(1, _CELLS_AT_ONCE // max(owner.size, 1))
        picks = []
        for begin in range(0, len(cells), at_once):
            some = slice(begin, begin + at_once)
            pick, several = _first_of_each(cells[some], order[:, some], owner, people.size)
            changed[several] = True
            picks += list(pick)
        for number, pick in enumerate(picks):
            latest[pick >= 0, number] = when[pick[pick >= 0], number]
        columns = {
            column.name: values.take(pa.array(own, mask=own < 0))
            for column, values, own in zip(bound.quasis, cells, picks, strict=True)
        }
        if named.size:
            latest[np.isin(people, named)] = self.ends[stands]  # also where the value is a null
        return Pool(people, pa.table(columns, schema=quasi_schema(bound)), latest, changed, tried)


def _first_of_each(
    cells: list[pa.Array], order: NDArray[np.int64], owner: NDArray[np.int64], people: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of f fields the row whose value stands first, int64 (f, people), -1 where there is none: by order, int64 (n, f),
    then the least value; and who has two values in rows, people of one field after another. owner: int64 (n,)."""
    field, place = np.nonzero([present(values) for values in cells])
    ranks = np.stack([dense_ranks(sort_keys(values)) for values in cells])[field, place]
    whose = field * people + owner[place]
    best = np.lexsort((ranks, order[place, field], whose))
    whose, ranks = whose[best], ranks[best]
    first = np.ones(best.size, dtype=np.bool_)
    first[1:] = whose[1:] != whose[:-1]
    pick = np.full(len(cells) * people, -1, dtype=np.int64)
    pick[whose[first]] = place[best[first]]
    several = np.flatnonzero(~first[1:] & (ranks[1:] != ranks[:-1])) + 1
    return pick.reshape(len(cells), people), whose[several] % max(people, 1)


def quasi_schema(bound: BoundPolicy) -> pa.Schema:
    """Names and canonical types of the quasi-identifiers."""
    return pa.schema([pa.field(column.name, column.arrow_type) for column in bound.quasis])


def empty_pool(bound: BoundPolicy) -> Pool:
    """A pool of nobody."""
    nobody = np.empty(0, dtype=np.uint64)
    ends = np.empty((0, len(bound.quasis)), dtype=np.int64)
    return Pool(
        nobody,
        quasi_schema(bound).empty_table(),
        ends,
        np.empty(0, dtype=np.bool_),
        np.empty(0, dtype=np.int64),
    )


def named_twice(count: int) -> InputError:
    """count: rows of people who stand there already."""
    return InputError(
        f"people: {count:,} rows name a person who stands there already; write one row a person, in one partition"
    )
