"""Whom is a reader left with who knows something of a person's activity?

Of cohorts that last, and of a reader who links all rows of everybody: the people of a cohort entered together, any of
them could have any of its bundles, and exchanging two bundles changes no release. So what he knows of one person leaves
exactly those c bundles of the cohort that fit it, each as likely as any other: 1/c. Of j others whose rows he knows
each takes away at most one of those: c - j at worst, and never the person's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.kinds.form import as_type
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.readers import KnownPurchases, Reader, RoundedField
from kanonflow.transforms.columns.sort_keys import Keys, dense_ranks, sort_keys, whole

Numbers = NDArray[np.int64]
MOST_TRIED = 2_000


@dataclass(frozen=True)
class CohortRows:
    """Rows of people who are in cohorts.

    cohort: int64 (m,), of each person; -1: in none. person: int64 (n,), whose each row is. window: int64 (n,), of each.
    rows: n rows with the fields that readers know.
    """

    cohort: Numbers
    person: Numbers
    window: Numbers
    rows: pa.Table


class CandidatesLeft(NamedTuple):
    """Of each case, how many bundles fit what is known in it. left, person: int64 (t,). A person has some cases."""

    left: Numbers
    person: Numbers

    @property
    def people(self) -> int:
        """How many people there are cases of."""
        return int(np.unique(self.person).size)

    @property
    def mean(self) -> float:
        """Candidates on average; everybody counts once."""
        return float((self.left * self._weight()).sum())

    def below(self, k: int) -> float:
        """Share of the people left with fewer than k, each by the share of its cases."""
        return float(((self.left < k) * self._weight()).sum())

    @property
    def alone(self) -> float:
        """Share of the people left with their own bundle alone."""
        return self.below(2)

    @property
    def cases_alone(self) -> float:
        """Share of the cases: of all purchases, or windows, those that leave one bundle."""
        return float((self.left == 1).mean())

    def _weight(self) -> NDArray[np.float64]:
        cases = np.bincount(self.person)
        return 1.0 / (cases[self.person] * np.count_nonzero(cases))


class _Facts(NamedTuple):
    """What can be known, and of whom it is so: each (key, person) once, sorted by key; all int64 (q,).

    A key holds the cohort, so only people of one cohort share it. times: how often it is so of the person.
    """

    key: Numbers
    person: Numbers
    times: Numbers


class _Known(NamedTuple):
    """Facts that are known, int64 (f,) each: of whom, and which."""

    person: Numbers
    key: Numbers


def candidates_left(reader: Reader, bundles: CohortRows, seed: int = 0) -> CandidatesLeft | None:
    """CohortRows of a person's cohort that fit what a reader knows; None: there is nobody of whom he could know it.

    Who knows one window, or one row, and nothing else of the person, is tried with every one that there is. Who knows
    more, or windows without rows, is tried once on each of MOST_TRIED people, drawn at random with what is known.

    Postcondition: in each case 1 or more, for a person's own bundle always fits, and at most the people of its cohort.
    Raises PolicyError: a field that is no number is to be known rounded.
    O(n log n), and of those who are tried the people of their cohorts.
    """
    inside = np.flatnonzero(bundles.cohort[bundles.person] >= 0)
    if inside.size == 0:
        return None
    person, window = bundles.person[inside], bundles.window[inside]
    windows, purchases = reader.known_windows, reader.known_purchases
    low = int(window.min())
    span = int(window.max()) - low + 2 + windows.absent
    at = bundles.cohort[person] * span + window - low
    offered: list[tuple[_Facts, _Known, int]] = []
    if windows.present:
        here = _facts(at, person)
        offered.append((here, _Known(here.person, here.key), windows.present))
    if purchases is not None:
        some = None if inside.size == bundles.person.size else inside
        key = dense_ranks([at, *purchase_keys(purchases, bundles.rows, some)])
        offered.append((_facts(key, person), _Known(person, key), purchases.count))
    if not offered and not windows.absent:
        known = _Known(*(np.unique(person),) * 2)
        left = np.bincount(bundles.cohort[bundles.cohort >= 0])[bundles.cohort[known.person]]
    elif len(offered) == 1 and offered[0][2] == 1 and not windows.absent:
        facts, known, _ = offered[0]
        left = np.searchsorted(facts.key, known.key, "right") - np.searchsorted(facts.key, known.key)
    else:
        here = _facts(at, person)
        return _tried(reader, bundles.cohort, here, span, offered, np.random.default_rng(seed))
    return CandidatesLeft(np.maximum(left - reader.known_people, 1), known.person)


def purchase_keys(purchases: KnownPurchases, rows: pa.Table, inside: Numbers | None = None) -> Keys:
    """Integer keys of what is known of each row, or of each of ``inside``, int64, but its window."""
    columns = [_rounded(whole(rows.column(each.name)), each) for each in purchases.fields]
    if inside is not None:
        columns = [column.take(pa.array(inside)) for column in columns]
    return [key for column in columns for key in sort_keys(column)]


def _rounded(column: pa.Array, known: RoundedField) -> pa.Array:
    if known.step is None:
        return column
    if form_of(column.type).scale is None:
        raise PolicyError(
            [f"known_purchases: {known.name} is no number, so it cannot be known to {known.step:g}"]
        )
    # Above 2^53 the nearest double; a null stays one; adding 0.0 makes one zero of two.
    doubles = as_type(column, pa.float64(), safe=False)
    return pc.add(pc.round(pc.divide(doubles, known.step), round_mode="half_towards_infinity"), 0.0)


def _facts(key: Numbers, person: Numbers) -> _Facts:
    order = np.lexsort((person, key))
    key, person = key[order], person[order]
    first = np.ones(key.size, dtype=np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (person[1:] != person[:-1])
    begins = np.flatnonzero(first)
    return _Facts(key[begins], person[begins], np.diff(begins, append=key.size))


def _drawn(units: _Known, count: int, rng: np.random.Generator) -> _Known:
    """``count`` units of everybody who has so many, at random, without repeats."""
    order = np.lexsort((rng.random(units.person.size), units.person))
    held = np.bincount(units.person)
    person = units.person[order]
    turn = np.arange(order.size) - (np.cumsum(held) - held)[person]
    kept = order[(turn < count) & (held[person] >= count)]
    return _Known(units.person[kept], units.key[kept])


def _silent(here: _Facts, cohort: Numbers, span: int, count: int, rng: np.random.Generator) -> _Known:
    """``count`` windows in a row without rows, between two with rows, of everybody who has such a gap, at random."""
    order = np.lexsort((here.key, here.person))
    person, window = here.person[order], here.key[order] % span
    between = np.diff(window) - count
    room = np.where((np.diff(person) == 0) & (between > 0), between, 0)
    ends = np.cumsum(room)
    people = np.unique(person[:-1][room > 0])
    first = np.searchsorted(person[:-1], people)
    last = np.searchsorted(person[:-1], people, "right")
    before = np.where(first > 0, ends[first - 1], 0)
    chosen = before + np.floor(rng.random(people.size) * (ends[last - 1] - before)).astype(np.int64)
    place = np.searchsorted(ends, chosen, "right")
    begin = window[place] + 1 + chosen - (ends[place] - room[place])
    key = (cohort[people] * span + begin)[:, None] + np.arange(count)
    return _Known(np.repeat(people, count), key.reshape(-1))


def _tried(
    reader: Reader,
    cohort: Numbers,
    here: _Facts,
    span: int,
    offered: list[tuple[_Facts, _Known, int]],
    rng: np.random.Generator,
) -> CandidatesLeft | None:
    """Cases of several facts: one a person, whoever has what is to be known."""
    drawn = [(facts, _drawn(units, count, rng)) for facts, units, count in offered]
    absent = reader.known_windows.absent
    silent = _silent(here, cohort, span, absent, rng) if absent else None
    tried = np.unique(here.person)
    for known in (*(known for _, known in drawn), *(() if silent is None else (silent,))):
        tried = np.intersect1d(tried, known.person)
    tried = np.sort(rng.permutation(tried)[:MOST_TRIED])
    if tried.size == 0:
        return None
    people = cohort.size
    members = _Facts(np.sort(cohort), np.argsort(cohort, kind="stable"), np.ones(people, dtype=np.int64))
    # Everybody of the cohort, then whom each fact leaves: a case and a person as one number.
    fits = np.sort(_of_facts(members, _Known(tried, cohort[tried]), tried, people)[0])
    for facts, known in drawn:
        found, distinct = _of_facts(facts, known, tried, people)
        pairs, satisfied = np.unique(found, return_counts=True)
        fits = np.intersect1d(fits, pairs[satisfied == distinct[pairs // people]], assume_unique=True)
    if silent is not None:
        fits = np.setdiff1d(fits, _of_facts(here, silent, tried, people)[0])
    left = np.bincount(fits // people, minlength=tried.size)
    return CandidatesLeft(np.maximum(left - reader.known_people, 1), tried)


def _of_facts(facts: _Facts, known: _Known, tried: Numbers, people: int) -> tuple[Numbers, Numbers]:
    """case x people + person of everybody of whom a fact of a case is so, as often as it is known; and of each case how
    many different facts it has. tried: the person of each case, sorted."""
    mine = np.isin(known.person, tried)
    case, key = np.searchsorted(tried, known.person[mine]), known.key[mine]
    order = np.lexsort((key, case))
    case, key = case[order], key[order]
    begins = np.flatnonzero(np.append(True, (np.diff(key) != 0) | (np.diff(case) != 0)))
    need = np.diff(begins, append=key.size)
    case, key = case[begins], key[begins]
    low, high = np.searchsorted(facts.key, key), np.searchsorted(facts.key, key, "right")
    width = high - low
    fact = np.repeat(np.arange(key.size), width)
    place = np.arange(fact.size) - np.repeat(np.cumsum(width) - width, width) + low[fact]
    often = facts.times[place] >= need[fact]
    found = case[fact[often]] * people + facts.person[place[often]]
    return found, np.bincount(case, minlength=tried.size)
