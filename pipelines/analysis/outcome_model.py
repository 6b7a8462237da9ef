"""How an outcome goes with what people are: a small model, by which rows are dealt to the people of their box.

    features    of numbers, days and instants: hats over the quantiles 0, 1/4, 1/2, 3/4, 1 of the people drawn first,
                and whether there is none; of categories and labels: one a value, of the MOST_VALUES most frequent
    outcome     a number, a day, an instant: y = x b + e, e normal, of one variance; y is cut at its quantiles .005 and
                .995, lest one row pull everything
                else: of each value, logit P(y = value) = x b, one value against the rest

Both are fitted with a ridge and drawn from their posterior as a normal distribution: b ~ N(b^, H^-1). So
imputations differ by what the model does not know, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.pipelines.estimates.coverage import Bools, Float64s, Int64s
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.value_units import to_units

RIDGE_OF_NUMBERS, RIDGE_OF_VALUES = 0.5, 5.0
"""Rare categories drift to where they tell values apart, and numbers have none of that."""
KNOTS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_VALUES = 30
MOST_OUTCOMES = 12
FITTED_ROWS = 20_000
"""Rows that a model is fitted on, drawn from all."""
_STEPS = 8

Generator = np.random.Generator
People = Mapping[str, pa.Array]
"""Values of people, a column a field."""


class Likelihood(Protocol):
    """Of outcomes, given features."""

    def log(self, rows: Int64s, people: Int64s) -> Float64s:
        """Of each pair of a row and one of the people, the logarithm, up to a term of the row; 0 without an outcome."""


@dataclass(frozen=True)
class Features:
    """What a model sees of people. knots, values: of each field, of which one of the two is there."""

    knots: Mapping[str, Float64s]
    values: Mapping[str, pa.Array]

    @classmethod
    def of(cls, people: People, weights: Float64s) -> Features:
        """By the people that are drawn first. weights: of each, float64 (t,)."""
        knots, values = {}, {}
        for name, array in people.items():
            if form_of(array.type).measured:
                units, none = to_units(array)
                there = units[~none & (weights > 0)].astype(np.float64)
                knots[name] = np.unique(np.quantile(there, KNOTS)) if there.size else np.zeros(1)
                continue
            coded = array.dictionary_encode("encode")
            counts = np.bincount(np.asarray(coded.indices), weights, minlength=len(coded.dictionary))
            # The most frequent is what the others are compared with.
            frequent = np.argsort(-counts, kind="stable")[1 : MOST_VALUES + 1]
            values[name] = coded.dictionary.take(pa.array(frequent))
        return cls(knots, values)

    def matrix(self, people: People) -> Float64s:
        """A row each, float64 (t, p), the first column 1."""
        columns = [np.ones((len(next(iter(people.values()))), 1))]
        for name, array in people.items():
            if name in self.knots:
                place, none = self._places(name, array)
                hats = 1.0 - np.abs(place[:, None] - np.arange(1, self.knots[name].size))
                columns += [none[:, None], np.where(none[:, None] > 0, 0.0, np.maximum(0.0, hats))]
            else:
                columns.append(self._codes(name, array)[:, None] == np.arange(1, len(self.values[name]) + 1))
        return np.concatenate(columns, axis=1, dtype=np.float64)

    def linear(self, people: People, factors: Float64s) -> Float64s:
        """``matrix(people) @ factors``, float64 (t,), field by field: there are many more people than are fitted on."""
        total = np.full(len(next(iter(people.values()))), factors[0])
        at = 1
        for name, array in people.items():
            if name in self.knots:
                place, none = self._places(name, array)
                own = factors[at + 1 : at + self.knots[name].size]
                hats = np.interp(place, np.arange(own.size + 1), np.concatenate([[0.0], own]))
                total += np.where(none > 0, factors[at], hats)
                at += own.size + 1
            else:
                count = len(self.values[name])
                total += np.concatenate([[0.0], factors[at : at + count]])[self._codes(name, array)]
                at += count
        return total

    def _places(self, name: str, array: pa.Array) -> tuple[Float64s, Float64s]:
        """Where among the knots, and 1 where there is none."""
        units, none = to_units(array)
        knots = self.knots[name]
        values = np.where(none, knots[0], units).astype(np.float64)
        return np.interp(values, knots, np.arange(knots.size)), none.astype(np.float64)

    def _codes(self, name: str, array: pa.Array) -> Int64s:
        """From 1; 0 of what stands for itself with no factor."""
        codes = pc.index_in(array, self.values[name], skip_nulls=False)
        return np.asarray(codes.fill_null(-1)).astype(np.int64) + 1


class Outcome(Protocol):
    """Values of an outcome, of n rows. rounds: until models change no more, but by what they do not know."""

    rounds: ClassVar[int]

    def fitted(
        self, features: Features, seen: People, person: Int64s, people: People, random: Generator
    ) -> Likelihood:
        """A model drawn from what the rows say, of other people. seen: the people who have the rows. person: int64
        (n,), which of them has each. people: those who are asked about."""


def outcome_of(name: str, array: pa.Array) -> Outcome:
    """Of a column of payload. Raises InputError: it has one value, or too many without an order."""
    form = form_of(array.type)
    there = array.is_valid()
    mask = np.asarray(there)
    if form.measured:
        units, _ = to_units(array)
        values = units.astype(np.float64)
        mask = mask & np.isfinite(values)
        if np.unique(values[mask]).size > 2:
            low, high = np.quantile(values[mask], [0.005, 0.995])
            cut = np.clip(np.where(mask, values, 0.0), low, high)
            scale = float(cut[mask].std()) or 1.0
            return NumberOutcome((cut - float(cut[mask].mean())) / scale, mask)
    coded = array.filter(pa.array(mask)).dictionary_encode()
    count = len(coded.dictionary)
    if count < 2:
        raise InputError(
            f"outcome {name}: every row has the same value, or none; there is nothing to weigh by"
        )
    if count > MOST_OUTCOMES:
        raise InputError(
            f"outcome {name}: {count} values without an order; give a number, a date, or a field of"
            f" {MOST_OUTCOMES} values at most"
        )
    codes = np.full(len(array), -1, np.int64)
    codes[mask] = np.asarray(coded.indices)
    return ValueOutcome(codes, count)


@dataclass(frozen=True)
class NumberOutcome:
    """values: float64 (n,), of mean 0 and variance 1. there: bool (n,)."""

    values: Float64s
    there: Bools

    rounds: ClassVar[int] = 12

    def fitted(
        self, features: Features, seen: People, person: Int64s, people: People, random: Generator
    ) -> Likelihood:
        """Least squares."""
        rows = _some(self.there, random)
        x, y = features.matrix(_taken(seen, person[rows])), self.values[rows]
        hessian: Float64s = x.T @ x + RIDGE_OF_NUMBERS * np.eye(x.shape[1])
        best: Float64s = np.asarray(np.linalg.solve(hessian, x.T @ y), np.float64)
        free = max(1, rows.size - x.shape[1])
        variance = float(max(float(((y - x @ best) ** 2).sum()), 1e-9) / random.chisquare(free))
        return _NormalLikelihood(
            self, features.linear(people, _posterior(best, hessian / variance, random)), variance
        )


@dataclass(frozen=True)
class _NormalLikelihood:
    outcome: NumberOutcome
    mean: Float64s
    variance: float

    def log(self, rows: Int64s, people: Int64s) -> Float64s:
        off = self.outcome.values[rows] - self.mean[people]
        return np.where(self.outcome.there[rows], -(off**2) / (2 * self.variance), 0.0)


@dataclass(frozen=True)
class ValueOutcome:
    """codes: int64 (n,), -1 where there is none. count: of values."""

    codes: Int64s
    count: int

    rounds: ClassVar[int] = 5

    def fitted(
        self, features: Features, seen: People, person: Int64s, people: People, random: Generator
    ) -> Likelihood:
        """A logistic regression of each value; of two values one."""
        rows = _some(self.codes >= 0, random)
        x = features.matrix(_taken(seen, person[rows]))
        firsts = [1] if self.count == 2 else range(self.count)
        odds = np.column_stack(
            [features.linear(people, _logistic(x, self.codes[rows] == code, random)) for code in firsts]
        )
        odds = np.column_stack([np.zeros(len(odds)), odds]) if self.count == 2 else -np.logaddexp(0, -odds)
        return _ValueLikelihood(self, odds - np.logaddexp.reduce(odds, axis=1, keepdims=True))


@dataclass(frozen=True)
class _ValueLikelihood:
    outcome: ValueOutcome
    logs: Float64s

    def log(self, rows: Int64s, people: Int64s) -> Float64s:
        codes = self.outcome.codes[rows]
        return np.where(codes < 0, 0.0, self.logs[people, codes])


def _taken(people: People, places: Int64s) -> People:
    return {name: array.take(pa.array(places)) for name, array in people.items()}


def _some(there: Bools, random: Generator) -> Int64s:
    rows = np.flatnonzero(there)
    return rows if rows.size <= FITTED_ROWS else random.choice(rows, FITTED_ROWS, replace=False)


def _logistic(x: Float64s, y: Bools, random: Generator) -> Float64s:
    """Newton's method with a ridge, and a draw from the posterior."""
    best = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        share = 1.0 / (1.0 + np.exp(-np.clip(x @ best, -30.0, 30.0)))
        hessian = (x * (share * (1.0 - share))[:, None]).T @ x + RIDGE_OF_VALUES * np.eye(x.shape[1])
        step = np.linalg.solve(hessian, x.T @ (y - share) - RIDGE_OF_VALUES * best)
        best = best + step
        if np.abs(step).max() < 1e-3:
            break
    return _posterior(best, hessian, random)


def _posterior(best: Float64s, precision: Float64s, random: Generator) -> Float64s:
    root = np.linalg.cholesky(precision)
    return best + np.linalg.solve(root.T, random.standard_normal(best.size))
