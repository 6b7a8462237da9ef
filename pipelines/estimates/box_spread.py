"""How the weight of a range lies over its values: around people, or evenly (coverage.py says which when)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]


class RangeSpread(Protocol):
    """own: 1 where each end of a range weighs by itself, as a value that is surely somebody's; else 0."""

    @property
    def own(self) -> float:
        """See above."""
        ...

    def between(
        self, low: Any, high: Any, first: Any, end: Any, evenly: Float64s, *, whole: bool
    ) -> Float64s:
        """Of what of [low, high] is no end's own, the part that lies in a query, (n,) in [0, 1]. first, end: of what of
        the range lies in it. evenly: that part by length. whole: ``end`` is included, or not."""
        ...


@dataclass(frozen=True)
class Evenly:
    """Over a range as it is long."""

    own: float = 0.0

    def between(
        self, low: Any, high: Any, first: Any, end: Any, evenly: Float64s, *, whole: bool
    ) -> Float64s:
        """By length."""
        return evenly


@dataclass(frozen=True)
class AroundPeople:
    """Ends weigh by themselves; what remains lies between them as all different ranges do together, each spread evenly.

    places: float64 (p,), ascending, where ranges begin or end. below, upto: what of all ranges, each of which weighs 1,
    lies below each place, and with the ranges that are nothing but this place.
    """

    places: Float64s
    below: Float64s
    upto: Float64s
    own: float = 1.0

    def between(
        self, low: Any, high: Any, first: Any, end: Any, evenly: Float64s, *, whole: bool
    ) -> Float64s:
        """By what lies between the ends; by length where that is nothing. O(n log p)."""
        begin, stop = _place(low, whole) + whole, _place(high, whole)
        least = np.maximum(_place(first, whole), begin)
        most = np.minimum(_place(end, whole) + whole, stop)
        before = self._upto(begin)
        total = self._below(stop) - before
        # What begins with the query begins behind the end of the range, or with the place itself.
        part = self._below(most) - np.where(least > begin, self._below(least), before)
        there = (total > 0) & (stop > begin)
        return np.where(there, np.clip(part / np.where(there, total, 1.0), 0.0, 1.0), evenly)

    def _below(self, places: Float64s) -> Float64s:
        """What lies below some places; between two of our own evenly."""
        at = np.clip(np.searchsorted(self.places, places), 1, self.places.size - 1)
        left, right = self.places[at - 1], self.places[at]
        along = np.clip((places - left) / (right - left), 0.0, 1.0)
        inner = self.upto[at - 1] + along * (self.below[at] - self.upto[at - 1])
        return np.where(places <= left, self.below[at - 1], inner)

    def _upto(self, places: Float64s) -> Float64s:
        """The same with what lies at the places themselves."""
        at = np.minimum(np.searchsorted(self.places, places), self.places.size - 1)
        return np.where(self.places[at] == places, self.upto[at], self._below(places))


EVENLY = Evenly()


def around_people(low: Any, high: Any) -> RangeSpread:
    """Of the ranges of a release, closed, (n,) each, whole numbers or doubles. O(n log n)."""
    whole = low.dtype == np.int64
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    new = np.ones(low.size, np.bool_)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    first, end = _place(low[new], whole), _place(high[new], whole) + whole
    places = np.unique(np.concatenate([first, end]))
    if places.size < 2:
        return EVENLY
    begins, ends = np.searchsorted(places, first), np.searchsorted(places, end)
    wide = end > first
    length = np.maximum(end - first, np.finfo(np.float64).tiny)
    scale = np.frexp(length)[1] // 20
    pieces = np.zeros(places.size - 1)
    # One scale after the other: what a narrow range adds and takes away again would swallow a wide one.
    for each in np.unique(scale[wide]):
        some = wide & (scale == each)
        density = np.zeros(places.size)
        np.add.at(density, begins[some], 1.0 / length[some])
        np.add.at(density, ends[some], -1.0 / length[some])
        pieces += np.maximum(np.cumsum(density)[:-1], 0.0) * np.diff(places)
    points = np.bincount(begins[~wide], minlength=places.size)
    before = np.concatenate([[0.0], np.cumsum(pieces + points[:-1])])
    return AroundPeople(places, before, before + points)


def _place(values: Any, whole: bool) -> Float64s:
    """Where values stand. A whole number is from its place to the next; doubles are cut in four, so that the length
    between two of them is finite."""
    return values.astype(np.float64) / (1.0 if whole else 4.0)
