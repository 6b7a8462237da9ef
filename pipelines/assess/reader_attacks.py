"""Attacks of readers who know something of a person's activity, beside everybody's attributes.

The reader links all rows of everybody: he sees bundles, and does not know whose they are. A bundle fits a person if all
its boxes hold the person, if it is of the person's cohort where cohorts last (of a control: of the cohort with most
bundles that fit), and if what he knows is so of it. He claims a bundle where exactly one fits. Of a control every
claim is wrong, and how often there is one is what chance gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.assess.attribute_attacks import Sides
from kanonflow.pipelines.assess.boxes import BoxesAndPeople, Floats, Mask, Numbers
from kanonflow.pipelines.assess.payload_values import PayloadValues
from kanonflow.pipelines.assess.rates import Rate, rate_of
from kanonflow.schemas.readers import Reader
from kanonflow.transforms.columns.sort_keys import dense_ranks
from kanonflow.transforms.release.candidates_left import purchase_keys

MOST_PEOPLE = 500
"""Of a side, drawn by chance."""


@dataclass(frozen=True)
class Bundles:
    """r rows of people and controls. who: int64 (r,). window: int64 (r,). rows: their fields. released: bool (r,).

    owner: int64 (n,), the person of each released row. cohort: int64 (m,), -1: in none; None: none last.
    """

    who: Numbers
    window: Numbers
    rows: pa.Table
    released: Mask
    owner: Numbers
    cohort: Numbers | None


class ReaderRates(NamedTuple):
    """claimed: one bundle fits. linked: it has rows in two windows, or two rows. inferred: field, people, controls."""

    claimed: tuple[Rate, Rate]
    linked: tuple[Rate, Rate]
    inferred: tuple[tuple[str, Rate, Rate], ...]


class _Case(NamedTuple):
    """Of a person: bundles that fit, owners int64; and its own rows that he does not know."""

    fits: Numbers
    hidden: Numbers


def reader_attack(
    reader: Reader,
    bundles: Bundles,
    both: BoxesAndPeople,
    sides: Sides,
    fields: Sequence[PayloadValues],
    seed: int,
) -> ReaderRates | None:
    """What a reader claims, links and infers; None: he could know it of too few to ask.

    fields: their ``own`` are of the r rows.
    """
    names = () if reader.known_purchases is None else {each.name for each in reader.known_purchases.fields}
    guessed = [field for field in fields if field.name not in names]
    rng = np.random.default_rng(seed)
    facts = _Facts(bundles, reader)
    alike = _alike(bundles, both)
    claimed, linked, shares = [], [], []
    for inside, side in ((True, sides.inside), (False, sides.outside)):
        cases = list(_cases(reader, facts, alike, bundles, rng.permutation(side), rng, inside=inside))
        ones = [int(case.fits[0]) for case in cases if case.fits.size == 1]
        claimed.append(Rate(float(len(ones)), float(len(cases))))
        linked.append(Rate(float(facts.several[ones].sum()), float(len(cases))))
        shares.append([_guessed(cases, field, facts) for field in guessed])
    if not claimed[0].trials:
        return None
    inferred = tuple(
        (field.name, rate_of(*people), rate_of(*controls))
        for field, people, controls in zip(guessed, *shares, strict=True)
    )
    return ReaderRates((claimed[0], claimed[1]), (linked[0], linked[1]), inferred)


class _Facts:
    """What can be known of bundles and people: who has a row in a window, and who a purchase."""

    def __init__(self, bundles: Bundles, reader: Reader) -> None:
        self.bundles = bundles
        out = np.flatnonzero(bundles.released)
        everything = np.arange(bundles.who.size)
        purchases = reader.known_purchases
        keys = [] if purchases is None else purchase_keys(purchases, bundles.rows, everything)
        self.window = bundles.window
        self.purchase = dense_ranks([bundles.window, *keys])
        self.in_window = _owners(self.window, bundles.who, out)
        self.of_purchase = _owners(self.purchase, bundles.who, out)
        self.of_person = _owners(bundles.who, everything, everything)
        self.out_of_person = _owners(bundles.who[out], out, np.arange(out.size))
        people = int(bundles.who.max(initial=-1)) + 1
        pairs = np.unique(np.stack([bundles.who[out], bundles.window[out]], axis=1), axis=0)
        rows = np.bincount(bundles.who[out], minlength=people)
        windows = np.bincount(pairs[:, 0], minlength=people)
        self.several = (windows > 1) if windows.max(initial=0) > 1 else rows > 1


def _owners(key: Numbers, value: Numbers, rows: Numbers) -> dict[int, Numbers]:
    """Different values of each key, over some rows."""
    pairs = np.unique(np.stack([key[rows], value[rows]], axis=1), axis=0)
    begins = np.flatnonzero(np.diff(pairs[:, 0], prepend=np.iinfo(np.int64).min))
    ends = np.append(begins[1:], pairs.shape[0])
    return {int(pairs[a, 0]): pairs[a:b, 1] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)}


class _Alike(NamedTuple):
    """pairs: owner and box, int64 (q, 2), by owner. owners: int64 (o,). begins: int64 (o,)."""

    both: BoxesAndPeople
    pairs: Numbers
    owners: Numbers
    begins: Numbers

    def bundles_of(self, person: int, cohort: Numbers | None, *, inside: bool) -> Numbers:
        """Owners of bundles all of whose boxes hold a person, of one cohort where cohorts last."""
        held = self.both.holds(np.array([person]))[:, 0]
        fits = self.owners[np.logical_and.reduceat(held[self.pairs[:, 1]], self.begins)]
        if cohort is None:
            return fits
        if inside:
            return self.owners[cohort[self.owners] == cohort[person]]
        own = cohort[fits]
        if not (own >= 0).any():
            return fits[:0]
        nearest = np.bincount(own[own >= 0]).argmax()
        return self.owners[cohort[self.owners] == nearest]


def _alike(bundles: Bundles, both: BoxesAndPeople) -> _Alike:
    pairs = np.unique(np.stack([bundles.owner, both.of_row], axis=1), axis=0)
    begins = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    return _Alike(both, pairs, pairs[begins, 0], begins)


def _cases(
    reader: Reader,
    facts: _Facts,
    alike: _Alike,
    bundles: Bundles,
    people: Numbers,
    rng: np.random.Generator,
    *,
    inside: bool,
) -> Iterator[_Case]:
    """The cases of at most ``MOST_PEOPLE`` people of whom it can be known, one each."""
    windows, purchases = reader.known_windows, reader.known_purchases
    cases = 0
    for person in people.tolist():
        own = (facts.out_of_person if inside else facts.of_person).get(person, np.empty(0, np.int64))
        there = np.unique(facts.window[own])
        wanted = 0 if purchases is None else purchases.count
        silent = _silence(there, windows.absent, rng)
        if own.size < max(wanted, 1) or there.size < windows.present or (windows.absent and silent is None):
            continue
        fits = alike.bundles_of(person, bundles.cohort, inside=inside)
        hidden = own
        for window in rng.permutation(there)[: windows.present].tolist():
            fits = np.intersect1d(fits, facts.in_window.get(window, own[:0]))
        if wanted:
            chosen = rng.permutation(own)[:wanted]
            hidden = np.setdiff1d(own, chosen)
            for row in chosen.tolist():
                fits = np.intersect1d(fits, facts.of_purchase.get(int(facts.purchase[row]), own[:0]))
        for window in () if silent is None else silent:
            fits = np.setdiff1d(fits, facts.in_window.get(int(window), own[:0]))
        if reader.known_people:
            others = rng.permutation(fits[fits != person])[: reader.known_people]
            fits = np.setdiff1d(fits, others)
        yield _Case(fits, hidden)
        cases += 1
        if cases == MOST_PEOPLE:
            return


def _silence(there: Numbers, count: int, rng: np.random.Generator) -> Numbers | None:
    """So many windows in a row without rows, between two with rows; None: there are none."""
    if not count:
        return None
    room = np.diff(there) - count
    gaps = np.flatnonzero(room > 0)
    if not gaps.size:
        return None
    gap = int(rng.choice(gaps))
    return there[gap] + 1 + int(rng.integers(room[gap])) + np.arange(count)


def _guessed(cases: Sequence[_Case], field: PayloadValues, facts: _Facts) -> tuple[Floats, Floats]:
    """Of each case, of a person's rows that the reader did not know, how many are guessed rightly, and how many there
    are; float64 (cases,) each.

    The guess: the value with most weight over the bundles that fit, each of weight 1.
    """
    hits = []
    for case in cases:
        mass = np.zeros(field.classes)
        for owner in case.fits.tolist():
            rows = facts.out_of_person.get(owner, case.fits[:0])
            np.add.at(mass, field.own[rows], 1.0 / max(rows.size, 1))
        guess = int(mass.argmax())
        right = mass.any() and guess != field.common
        hits.append(float((field.own[case.hidden] == guess).sum()) if right else 0.0)
    return np.array(hits), np.array([float(case.hidden.size) for case in cases])
