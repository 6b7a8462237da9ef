"""How often the nearest member is the truth: an attacker who guesses whose payload a released row carries.

The attacker sees a row's payload value p and the quasi-identifiers of the k members of its slot, and guesses the member
whom p resembles most. If payload and quasi-identifiers have nothing to do with each other, 1/k of them are right.

Attacks, each fitted on one half of the individuals and tried on the other, and the other way round:
    nearest Q     numbers: the member whose q is nearest to p (a place near the home)
    linear Q      numbers: whose a q + b is nearest to p; all of them at once: least squares on every numeric Q
    rank Q        numbers: whose rank of q is nearest to the rank of p, or to its complement when they fall together
    centre Q      category p, number q: whose q is nearest to the mean q of the records with that p; all: the sum
    equal Q       categories: the member with the same text
    known         anything that people keep: the member of whom the same is known
    table Q       anything: the largest n(p, q) / (n(p) n(q) / n); numbers as bins of equal count; all: naive Bayes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PAYLOAD_BINS, QUASI_BINS = 16, 24
MOST_CATEGORIES = 63
LEAST_OF_CATEGORY = 3
ALL = "all quasi-identifiers"
KNOWN = "known of people, who keep it"
FALSE_ALARM = 1e-4
"""Chance that a payload which tells nothing is taken for one that does, over all attacks on a field.

A run is refused for it, and a feed is published every night.
"""
_MOST_SCORES = 4_000_000
_FAR = 3.0
LARGEST = 1e75
"""Of a number that is looked at: what is beyond counts as this, so that sums of squares are doubles."""

T = TypeVar("T")
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Score = Callable[[Codes, Codes], Floats]
"""(records whose payload is seen, candidates) -> how well they go together; shapes broadcast."""
Model = Callable[[int], Score]
"""The half of the individuals that it is fitted on -> the score."""
Rows = Callable[[int], NDArray[np.bool_]]
"""A half -> its records."""


@dataclass(frozen=True)
class FieldValues:
    """A field of n records. numbers: float64 (n,), NaN for a null, none beyond ``LARGEST``; None for a category.
    texts: object (n,), None for a null. steady: whether people keep it, and it may be known of them."""

    numbers: Floats | None
    texts: NDArray[np.object_]
    steady: bool = False

    @cached_property
    def categories(self) -> tuple[Codes, int]:
        """A number for each text, nulls one of their own; and how many there are. Every attack asks for them."""
        return _category_codes(self.texts)


@dataclass(frozen=True)
class Slots:
    """Who may stand behind whose row. members: int64 (s, k), records of each slot, of k different individuals.

    who: int64 (n,), the individual of each record.
    """

    members: Codes
    who: Codes


class MemberGuess(NamedTuple):
    """rate: right guesses of the best attack, in [0, 1]; it is the best of several, so a little too high.

    attack: which one. chance: 1/k. noise: what chance alone exceeds the due rate by with probability FALSE_ALARM, over
    all attacks. individuals: whose rows were guessed, weighed (Kish: (sum w)^2 / sum w^2).
    """

    rate: float
    attack: str
    chance: float
    noise: float
    individuals: float

    @property
    def certain(self) -> bool:
        """Whether the rate is more than chance explains."""
        return self.rate > self.chance + self.noise

    @property
    def conclusive(self) -> bool:
        """Whether there were enough individuals to see a rate of 1.5/k."""
        return self.noise <= 0.5 * self.chance


def success_rate(scores: Floats, true: Codes) -> Floats:
    """Chance that the member with the largest score is the true one, ties broken at random.

    scores: float64 (k, m), of payload j for the a-th member of its slot. true: int64 (m,), whose it is.
    Returns float64 (m,).
    """
    tied = scores == scores.max(axis=0)
    return tied[true, np.arange(true.size)] / tied.sum(axis=0)


def member_guess(
    payload: FieldValues, quasis: Mapping[str, FieldValues], slots: Slots, seed: int = 0
) -> MemberGuess:
    """The best attack on a payload field.

    Every edge (slot, member) counts once: the payload of the member, shown on the slot. O(attacks s k^2).
    """
    members, half = _some_slots(slots.members, seed), _halves(slots.who, seed)
    attacks = attacks_on(payload, quasis, half, members)
    rates = {name: float(_tried(score, members, half).mean()) for name, score in attacks}
    return _judged(rates, members, slots.who)


def joint_guess(
    payloads: Mapping[str, FieldValues],
    best: Mapping[str, str],
    quasis: Mapping[str, FieldValues],
    slots: Slots,
    seed: int = 0,
) -> MemberGuess:
    """The attack that adds up the scores, which are log likelihoods, of each payload field's best attack.

    best: the name of that attack, by field, as ``member_guess`` gave it.
    """
    members, half = _some_slots(slots.members, seed), _halves(slots.who, seed)
    chosen = [
        score
        for field, payload in payloads.items()
        for name, score in attacks_on(payload, quasis, half, members)
        if name == best[field]
    ]

    def together(number: int) -> Score:
        scores = [score(number) for score in chosen]

        def total(true: Codes, candidate: Codes) -> Floats:
            return np.sum([score(true, candidate) for score in scores], axis=0)

        return total

    rate = float(_tried(together, members, half).mean())
    return _judged({", ".join(best): rate}, members, slots.who)


def _judged(rates: Mapping[str, float], members: Codes, who: Codes) -> MemberGuess:
    k = members.shape[1]
    weights = np.bincount(who[members].ravel())
    effective = float(weights.sum() ** 2 / (weights.astype(np.float64) ** 2).sum())
    best = max(rates, key=lambda name: rates[name], default="")
    tries = max(1, int(effective))
    limit = _exceeded_by(FALSE_ALARM / max(1, len(rates)), tries, 1.0 / k)
    noise = limit / tries - 1.0 / k
    return MemberGuess(rates.get(best, 1.0 / k), best, 1.0 / k, noise, effective)


def _exceeded_by(chance: float, tries: int, rate: float) -> int:
    """The least number of successes that more than it come by with a probability of at most ``chance``: binomial.

    rate: below 1. Without scipy.special, which a run would need for nothing else.
    """
    successes = np.arange(1, tries + 1)
    steps = np.log((tries + 1 - successes) / successes) + math.log(rate / (1 - rate))
    chances = np.exp(tries * math.log1p(-rate) + np.cumsum(np.append(0.0, steps)))
    beyond = np.append(np.cumsum(chances[:0:-1])[::-1], 0.0)
    return int(np.argmax(beyond <= chance))


def _some_slots(members: Codes, seed: int) -> Codes:
    """So many of the slots that one attack's scores fit into memory."""
    most = max(1, _MOST_SCORES // members.shape[1] ** 2)
    if len(members) <= most:
        return members
    return members[np.sort(np.random.default_rng(seed).choice(len(members), most, replace=False))]


def _halves(who: Codes, seed: int) -> Codes:
    """0 or 1 for each record; all records of an individual in one half."""
    people = int(who.max(initial=-1)) + 1
    return (np.random.default_rng([seed, 1]).permutation(people) % 2)[who]


def _tried(score: Model, members: Codes, halves: Codes) -> Floats:
    """Success of each edge, float64 (s, k), under the model of the half that its record is not in."""
    success = np.zeros(members.shape)
    for half in (0, 1):
        slot, place = np.nonzero(halves[members] != half)
        # One member of all slots after the other: numpy is slow along short rows.
        candidates = np.ascontiguousarray(members[slot].T)
        scores = score(half)(members[slot, place][None], candidates)
        success[slot, place] = success_rate(scores, place)
    return success


def attacks_on(
    payload: FieldValues, quasis: Mapping[str, FieldValues], half: Codes, members: Codes
) -> Iterator[tuple[str, Model]]:
    """Name and model of each attack; a model takes the half it is fitted on.

    half: int64 (n,), 0 or 1 of each record. members: records that may be fitted on, any shape.
    """
    used = np.zeros(half.size, dtype=np.bool_)
    used[members.ravel()] = True

    def fit(number: int) -> NDArray[np.bool_]:
        return used & (half == number)

    numeric = {name: quasi.numbers for name, quasi in quasis.items() if quasi.numbers is not None}
    if payload.steady:
        yield KNOWN, partial(_unfitted, _equal(payload.texts, payload.texts))
    if payload.numbers is not None:
        yield from _number_attacks(payload.numbers, numeric, fit)
    else:
        yield from _centre_attacks(payload, numeric, fit)
        for name, quasi in quasis.items():
            if quasi.numbers is None:
                yield f"equal {name}", partial(_unfitted, _equal(payload.texts, quasi.texts))
    yield from _table_attacks(payload, quasis, fit)


def _number_attacks(p: Floats, numeric: Mapping[str, Floats], fit: Rows) -> Iterator[tuple[str, Model]]:
    for name, q in numeric.items():
        yield f"nearest {name}", _near_model(p, partial(_unfitted, q), fit)
        yield f"linear {name}", _near_model(p, partial(_least_squares, p, [q]), fit)
        yield f"rank {name}", _near_model(_ranks(p), partial(_rank_of, p, q), fit)
    if len(numeric) > 1:
        columns = list(numeric.values())
        yield f"linear {ALL}", _near_model(p, partial(_least_squares, p, columns), fit)


def _unfitted(result: T, _: object) -> T:
    """What needs no fitting."""
    return result


def _near_model(target: Floats, predict: Callable[[NDArray[np.bool_]], Floats], fit: Rows) -> Model:
    return lambda half: _near(target, predict(fit(half)), fit(half))


def _centre_model(codes: Codes, count: int, columns: list[Floats], fit: Rows) -> Model:
    return lambda half: _centre(codes, count, columns, fit(half))


def _near(target: Floats, predicted: Floats, rows: NDArray[np.bool_]) -> Score:
    """Minus half the squared distance, in its spread over ``rows``: the nearer the better.

    A member without a number is as far as three spreads; a payload without one leaves a tie.
    """
    gaps = np.abs(target - predicted)[rows]
    gaps = gaps[~np.isnan(gaps)]
    spread = float(np.sqrt(np.mean(gaps**2))) if gaps.size else 1.0

    def score(true: Codes, candidate: Codes) -> Floats:
        distance = np.abs(target[true] - predicted[candidate]) / (spread or 1.0)
        known = np.where(np.isnan(distance), _FAR, distance)
        return np.where(np.isnan(target[true]), 0.0, -0.5 * known**2)

    return score


def _least_squares(p: Floats, columns: list[Floats], rows: NDArray[np.bool_]) -> Floats:
    """Prediction of p from columns for every record, fitted on ``rows``; NaN where a single column has none."""
    missing = np.isnan(columns[0]) if len(columns) == 1 else np.zeros(p.size, dtype=np.bool_)
    filled = []
    for column in columns:
        known = column[rows & ~np.isnan(column)]
        centre, spread = (known.mean(), known.std()) if known.size else (0.0, 1.0)
        filled.append(np.where(np.isnan(column), 0.0, (column - centre) / (spread or 1.0)))
    design = np.column_stack([np.ones(p.size), *filled])
    good = rows & ~np.isnan(p) & ~missing
    if good.sum() < 2:
        return np.zeros(p.size)

    weights = np.linalg.lstsq(design[good], p[good], rcond=None)[0]
    return np.where(missing, np.nan, design @ weights)


def _ranks(values: Floats) -> Floats:
    """Mean ranks in [0, 1], NaN for nulls."""
    known = ~np.isnan(values)
    ranks = np.full(values.size, np.nan)
    told = pa.array(values[known])
    both = [np.asarray(pc.rank(told, tiebreaker=ties)).astype(np.float64) for ties in ("min", "max")]
    ranks[known] = ((both[0] + both[1]) / 2.0 - 0.5) / max(1, int(known.sum()))
    return ranks


def _rank_of(p: Floats, q: Floats, rows: NDArray[np.bool_]) -> Floats:
    """Ranks of q, turned round when p falls as q rises."""
    ranks, both = _ranks(q), rows & ~np.isnan(p) & ~np.isnan(q)
    if both.sum() < 2:
        return ranks
    falls = np.mean((_ranks(p)[both] - 0.5) * (ranks[both] - 0.5)) < 0
    return 1.0 - ranks if falls else ranks


def _centre_attacks(
    payload: FieldValues, numeric: Mapping[str, Floats], fit: Rows
) -> Iterator[tuple[str, Model]]:
    codes, count = _category_codes(payload.texts)
    for name, q in numeric.items():
        yield f"centre {name}", _centre_model(codes, count, [q], fit)
    if len(numeric) > 1:
        columns = list(numeric.values())
        yield f"centre {ALL}", _centre_model(codes, count, columns, fit)


def _centre(codes: Codes, count: int, columns: list[Floats], rows: NDArray[np.bool_]) -> Score:
    """Minus half the squared distances to the category's mean, in its spreads; categories rarely seen leave ties."""
    means, spreads = [], []
    for q in columns:
        good = rows & ~np.isnan(q)
        seen = np.bincount(codes[good], minlength=count)
        total = np.bincount(codes[good], weights=q[good], minlength=count)
        mean = total / np.maximum(seen, 1)
        gap = q[good] - mean[codes[good]]
        spreads.append(float(np.sqrt(np.mean(gap**2))) or 1.0 if gap.size else 1.0)
        means.append(np.where(seen >= LEAST_OF_CATEGORY, mean, np.nan))

    def score(true: Codes, candidate: Codes) -> Floats:
        total = np.zeros(np.broadcast(true, candidate).shape)
        for q, mean, spread in zip(columns, means, spreads, strict=True):
            gap = ((q[candidate] - mean[codes[true]]) / spread) ** 2
            total -= 0.5 * np.where(np.isnan(mean[codes[true]]), 0.0, np.where(np.isnan(gap), _FAR**2, gap))
        return total

    return score


def _equal(texts: NDArray[np.object_], others: NDArray[np.object_]) -> Score:
    codes, _ = _category_codes(np.concatenate([texts, others]))
    own, other = codes[: texts.size], codes[texts.size :]
    return lambda true, candidate: (own[true] == other[candidate]).astype(np.float64)


def _table_attacks(
    payload: FieldValues, quasis: Mapping[str, FieldValues], fit: Rows
) -> Iterator[tuple[str, Model]]:
    own = {half: _binned(payload, PAYLOAD_BINS, fit(half)) for half in (0, 1)}

    @cache
    def table(half: int, name: str) -> tuple[Codes, Floats]:
        q = _binned(quasis[name], QUASI_BINS, fit(half))
        return q, _log_ratios(own[half], q, fit(half))

    def tables(half: int, names: list[str]) -> Score:
        pairs = [table(half, name) for name in names]

        def score(true: Codes, candidate: Codes) -> Floats:
            total = np.zeros(np.broadcast(true, candidate).shape)
            for q, ratios in pairs:
                total += ratios[own[half][true], q[candidate]]
            return total

        return score

    for name in quasis:
        yield f"table {name}", partial(tables, names=[name])
    if len(quasis) > 1:
        yield f"table {ALL}", partial(tables, names=list(quasis))


def _binned(values: FieldValues, bins: int, rows: NDArray[np.bool_]) -> Codes:
    """A bin for each record, int64 (n,): numbers by quantiles of ``rows``, categories by frequency, the rest one."""
    if values.numbers is not None:
        known = values.numbers[rows & ~np.isnan(values.numbers)]
        if known.size == 0:
            return np.zeros(values.numbers.size, dtype=np.int64)
        cuts = np.unique(np.quantile(known, np.arange(1, bins) / bins))
        codes = np.searchsorted(cuts, values.numbers, side="right").astype(np.int64)
        return np.where(np.isnan(values.numbers), cuts.size + 1, codes)
    codes, count = values.categories
    frequent = np.argsort(-np.bincount(codes[rows], minlength=count), kind="stable")[:MOST_CATEGORIES]
    place = np.full(count, frequent.size, dtype=np.int64)
    place[frequent] = np.arange(frequent.size)
    return place[codes]


def _log_ratios(p: Codes, q: Codes, rows: NDArray[np.bool_]) -> Floats:
    """log((n(p, q) + 1) / (n(p) n(q) / n + 1)) of every pair of bins; what was never seen counts as independent."""
    width = int(q.max(initial=0)) + 1
    shape = (int(p.max(initial=0)) + 1, width)
    counts = np.bincount(p[rows] * width + q[rows], minlength=shape[0] * width).reshape(shape)
    due = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / max(1, counts.sum())
    # Rounded, so that sums in another order tie where they should.
    return np.round(np.log((counts + 1.0) / (due + 1.0)), 9)


def _category_codes(texts: NDArray[np.object_]) -> tuple[Codes, int]:
    """A number for each text, nulls one of their own; and how many there are."""
    numbers: dict[object, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
    return codes, len(numbers)
