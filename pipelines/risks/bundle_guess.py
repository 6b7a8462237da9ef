"""How often all that a person's rows hint at, taken together, names the person among its cohort.

The attacker links the rows of a person over all windows and knows the frozen quasi-identifiers of the cohort's members.
Of every row each attack of ``member_guess`` says how well it goes with each member, as a log likelihood; the attacker
adds that up over the rows, and takes the member with the largest sum. What one row hints at, a hundred prove.

Attacks are fitted on the people of one half of the cohorts and tried on the other, and the other way round. Whole
cohorts, so that a model knows none of those whom it chooses among: one that had seen some of them would take the
habits of these for a law, and know the others by what they lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kanonflow.transforms.risks.member_guess import FieldValues, attacks_on

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
ALL_ROWS = 0
BUNDLES = (1, 30, ALL_ROWS)
"""Rows of a bundle that are known; ``ALL_ROWS``: all that a person has."""
LEAST_COHORTS = 20
FALSE_ALARM = 0.01
"""As of ``member_guess``, but of a check, which somebody reads, and not of every run."""
_CHUNK = 200_000


@dataclass(frozen=True)
class Bundles:
    """Who may stand behind which rows.

    who: int64 (n,), whose each row is, 0 .. p-1; everybody has one at least. cohort: int64 (p,), 0 .. c-1.
    Every cohort has two people or more.
    """

    who: Numbers
    cohort: Numbers

    @cached_property
    def sizes(self) -> Numbers:
        """People of each cohort, int64 (c,)."""
        return np.bincount(self.cohort)

    @cached_property
    def candidates(self) -> Numbers:
        """A row of each member of each cohort, int64 (c, largest), those of the members in order; -1: nobody."""
        first = np.zeros(self.cohort.size, dtype=np.int64)
        first[self.who[::-1]] = np.arange(self.who.size)[::-1]
        found = np.full((self.sizes.size, int(self.sizes.max(initial=1))), -1, dtype=np.int64)
        found[self.cohort, self.place] = first
        return found

    @cached_property
    def place(self) -> Numbers:
        """The place of each person among the members of its cohort, int64 (p,)."""
        order = np.argsort(self.cohort, kind="stable")
        begins = np.cumsum(self.sizes) - self.sizes
        place = np.empty(self.cohort.size, dtype=np.int64)
        place[order] = np.arange(order.size) - begins[self.cohort[order]]
        return place


class BundleGuess(NamedTuple):
    """What bundles of a field, or of several, give away.

    rows: of a bundle; ``ALL_ROWS``: all. rate: people who are guessed rightly by the best attack, in [0, 1].
    attack: which one. chance: of a blind guess. noise: what chance alone exceeds that by with probability FALSE_ALARM
    over all attacks on all fields with bundles of all sizes; people of a cohort are guessed together, so cohorts are
    what counts. people: who were guessed.
    """

    rows: int
    rate: float
    attack: str
    chance: float
    noise: float
    people: int

    @property
    def certain(self) -> bool:
        """Whether the rate is more than chance explains."""
        return self.rate > self.chance + self.noise


class FieldHints(NamedTuple):
    """What a field hints at. best: log likelihoods of its best attack on all rows, float64 (n, largest cohort)."""

    guesses: tuple[BundleGuess, ...]
    best: Floats


def field_hints(
    payload: FieldValues, quasis: Mapping[str, FieldValues], bundles: Bundles, seed: int = 0, fields: int = 1
) -> FieldHints:
    """The best attack on bundles of one row, of some and of all, by a payload field.

    payload: of n rows. quasis: of the same rows, with the frozen values of each row's person. fields: so many are
    tried in all. O(attacks n k).
    """
    halves = (np.random.default_rng([seed, 2]).permutation(bundles.sizes.size) % 2)[
        bundles.cohort[bundles.who]
    ]
    every = np.arange(bundles.who.size)
    tried: dict[str, tuple[BundleGuess, ...]] = {}
    best: Floats = np.zeros((bundles.who.size, bundles.candidates.shape[1]))
    best_rate = -1.0
    attacks = list(attacks_on(payload, quasis, halves, every))
    for name, model in attacks:
        scores = np.zeros(best.shape)
        for half in (0, 1):
            score, rows = model(half), np.flatnonzero(halves != half)
            for begin in range(0, rows.size, _CHUNK):
                some = rows[begin : begin + _CHUNK]
                scores[some] = score(some[:, None], bundles.candidates[bundles.cohort[bundles.who[some]]])
        tried[name] = _tried(scores, bundles, name, len(attacks) * fields, seed)
        if tried[name][-1].rate > best_rate:
            best, best_rate = scores, tried[name][-1].rate
    guesses = tuple(max(each, key=lambda guess: guess.rate) for each in zip(*tried.values(), strict=True))
    return FieldHints(guesses, best)


def joint_hints(hints: Mapping[str, FieldHints], bundles: Bundles, seed: int = 0) -> tuple[BundleGuess, ...]:
    """The best attacks of several fields, added up."""
    scores = np.sum([each.best for each in hints.values()], axis=0)
    return _tried(scores, bundles, "the best attacks added up", len(hints), seed)


def _tried(
    scores: Floats, bundles: Bundles, attack: str, attempts: int, seed: int
) -> tuple[BundleGuess, ...]:
    """Success of an attack on each size of bundles. The rows of a smaller bundle are drawn at random."""
    who, sizes = bundles.who, bundles.sizes
    order = np.lexsort((np.random.default_rng([seed, 3]).random(who.size), who))
    held = np.bincount(who, minlength=bundles.cohort.size)
    turn = np.empty(who.size, dtype=np.int64)
    turn[order] = np.arange(who.size) - (np.cumsum(held) - held)[who[order]]
    absent = np.arange(scores.shape[1]) >= sizes[bundles.cohort][:, None]
    found = []
    for rows in BUNDLES:
        some = np.flatnonzero(turn < rows) if rows else np.arange(who.size)
        sums = np.zeros((bundles.cohort.size, scores.shape[1]))
        np.add.at(sums, who[some], scores[some])
        # Rounded, so that what is equal but for the order of sums is a tie.
        sums = np.where(absent, -np.inf, np.round(sums, 6))
        tied = sums == sums.max(axis=1, keepdims=True)
        people = np.flatnonzero(held >= rows)
        right = tied[people, bundles.place[people]] / tied[people].sum(axis=1)
        found.append(_judged(right, bundles.cohort[people], sizes, rows, attack, attempts * len(BUNDLES)))
    return tuple(found)


def _judged(
    right: Floats, cohort: Numbers, sizes: Numbers, rows: int, attack: str, attempts: int
) -> BundleGuess:
    if right.size == 0:
        return BundleGuess(rows, 0.0, attack, 0.0, 1.0, 0)
    due = 1.0 / sizes[cohort]
    _, place = np.unique(cohort, return_inverse=True)
    # What a cohort has above its due, with a spread that is at least that of independent guesses.
    above = np.bincount(place, weights=right - due)
    spread = max(float((above**2).sum()), float((due * (1.0 - due)).sum()))
    noise = -float(ndtri(FALSE_ALARM / max(attempts, 1))) * np.sqrt(spread) / right.size
    if above.size < LEAST_COHORTS:
        noise = 1.0
    return BundleGuess(rows, float(right.mean()), attack, float(due.mean()), float(noise), right.size)
