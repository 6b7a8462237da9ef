"""Attacks of a reader who has everybody's attributes and the release, and knows nothing of anybody's activity.

Each is made on people who are in the release and on controls who are not: what it reaches of controls is what it would
reach without anybody's row. Linking and inferring as Giomi and others (2023) measure them, on boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kanonflow.pipelines.assess.boxes import BoxesAndPeople, BoxField, Mask, Numbers
from kanonflow.pipelines.assess.payload_values import PayloadValues
from kanonflow.pipelines.assess.predicates import released_predicates, single_out
from kanonflow.pipelines.assess.rates import Rate, rate_of
from kanonflow.pipelines.estimates.coverage import RangeColumn

SPLITS = 8
"""Ways to cut the attributes in halves that are tried."""


@dataclass(frozen=True)
class Sides:
    """Who is attacked. inside: numbers of people who are in the release, int64. outside: of controls."""

    inside: Numbers
    outside: Numbers


@dataclass(frozen=True)
class AttributeAttacks:
    """The attacks on one release. k: of the policy. seed: of what is drawn."""

    both: BoxesAndPeople
    sides: Sides
    k: int
    seed: int

    def singling_out(self, *, several: bool) -> tuple[Rate, Rate]:
        """Predicates out of released values that match exactly one of the people, and one of the controls."""
        asked = released_predicates(self.both, np.random.default_rng(self.seed), several=several)
        return single_out(asked, self.both, self.sides.inside), single_out(
            asked, self.both, self.sides.outside
        )

    def linkability(self) -> tuple[Rate, Rate] | None:
        """People two halves of whose attributes, in two files, are put together rightly; None: there is one attribute.

        Both halves of a person are nearest to one box; of all people whose other half is, one is taken by chance. Over
        ``SPLITS`` ways to cut the attributes in halves. Of equally near boxes the first in an order by chance is taken.
        """
        d = len(self.both.fields)
        if d < 2:
            return None
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(self.both.boxes)
        drawn = [np.sort(rng.permutation(d)[: d // 2]).tolist() for _ in range(SPLITS * 4)]
        halves = list(dict.fromkeys(map(tuple, drawn)))[:SPLITS]

        def linked(people: Numbers) -> Rate:
            hits = np.zeros(people.size)
            for half in halves:
                other = tuple(place for place in range(d) if place not in half)
                near = [
                    np.concatenate(
                        [
                            self.both.apart(block, each)[order].argmin(axis=0)
                            for block in self.both.blocks(people)
                        ]
                    )
                    for each in (half, other)
                ]
                hits += (near[0] == near[1]) / np.maximum(
                    np.bincount(near[1], minlength=order.size)[near[0]], 1
                )
            return rate_of(hits, np.full(people.size, float(len(halves))))

        return linked(self.sides.inside), linked(self.sides.outside)

    def membership(self) -> tuple[Rate, Rate]:
        """Of whom the reader says "is in it": everybody whom k released rows or more hold."""
        held = self._held
        return _two([held[side] >= self.k for side in (self.sides.inside, self.sides.outside)])

    @cached_property
    def _held(self) -> Numbers:
        """Released rows whose box holds each person, int64 (m,); of who is not attacked 0."""
        held = np.zeros(self.both.people, dtype=np.int64)
        for block in self.both.blocks(self._everybody):
            held[block] = self.both.rows @ self.both.holds(block)
        return held

    @property
    def _everybody(self) -> Numbers:
        return np.concatenate([self.sides.inside, self.sides.outside])

    @cached_property
    def _holders(self) -> NDArray[np.float64]:
        """How many of those attacked lie in each box, float64 (b,), 1 at least: a row is each one's with 1 of that."""
        total = np.zeros(self.both.boxes)
        for block in self.both.blocks(self._everybody):
            total += self.both.holds(block).sum(axis=1)
        return np.maximum(total, 1.0)

    def inference(self, fields: Sequence[PayloadValues], who: Numbers) -> Iterator[tuple[str, Rate, Rate]]:
        """Of each payload field, how often a person's own rows are guessed rightly from its attributes. who: int64
        (r,), the person of each row of which ``fields`` has the ``own``.

        The guess is the value with most weight among rows whose box holds the person, or of the nearest box where none
        does; a row weighs 1 / (people in its box). Where more than half of the rows have one value, a right guess of it
        is no hit: everybody would guess it, and what is inferred is who differs.
        """
        tables = [self._by_box(field) for field in fields]
        guesses = np.full((len(fields), self.both.people), -1, dtype=np.int64)
        everybody = self._everybody
        nobody = self._held[everybody] == 0
        for people, alone in ((everybody[~nobody], False), (everybody[nobody], True)):
            for block in self.both.blocks(people):
                inside = self._nearest(block) if alone else self.both.holds(block)
                weight = csr_array(inside.T / self._holders[None, :])
                for place, table in enumerate(tables):
                    guesses[place, block] = _best(weight, table)
        for place, field in enumerate(fields):
            right = (guesses[place][who] == field.own) & (field.own != field.common)
            rates = [self._rate(right, who, side) for side in (self.sides.inside, self.sides.outside)]
            yield field.name, rates[0], rates[1]

    def _rate(self, right: Mask, who: Numbers, side: Numbers) -> Rate:
        rows = np.bincount(who, minlength=self.both.people)[side]
        hits = np.bincount(who, right, minlength=self.both.people)[side].astype(np.float64)
        return rate_of(hits.astype(np.float64), rows.astype(np.float64))

    def _nearest(self, block: Numbers) -> Mask:
        every = tuple(range(len(self.both.fields)))
        nearest = self.both.apart(block, every).argmin(axis=0)
        inside = np.zeros((self.both.boxes, block.size), dtype=np.bool_)
        inside[nearest, np.arange(block.size)] = True
        return inside

    def _by_box(self, field: PayloadValues) -> csr_array:
        """How many rows of each box have each value, (b, classes)."""
        ones = np.ones(field.released.size)
        return csr_array((ones, (self.both.of_row, field.released)), shape=(self.both.boxes, field.classes))

    def downcoding(self) -> tuple[Rate, Rate] | None:
        """People of whom it is told rightly in which half of a published range they are; None: there are no ranges.

        Of each person the box with fewest people that holds it, and its widest range in parts of the field. The half is
        that in which more released rows have their middle. Chance is a half and more; controls say how much.
        """
        ranges = [_Range(field, self.both) for field in self.both.fields if field.middle is not None]
        if not ranges or not self.both.boxes:
            return None
        widest = np.stack([each.width for each in ranges]).argmax(axis=0)
        right = np.full(self.both.people, -1)
        for block in self.both.blocks(self._everybody):
            inside = self.both.holds(block)
            box = np.where(inside, self._holders[:, None], np.inf).argmin(axis=0)
            for place in np.flatnonzero(inside.any(axis=0)).tolist():
                right[block[place]] = ranges[widest[box[place]]].guessed(int(box[place]), int(block[place]))
        return _two([right[side][right[side] >= 0] == 1 for side in (self.sides.inside, self.sides.outside)])


class _Range:
    """A field of ranges. width: float64 (b,), of each box in parts of all that there is. middles: of rows, sorted."""

    def __init__(self, field: BoxField, both: BoxesAndPeople) -> None:
        column, self._field = field.released, field
        assert isinstance(column, RangeColumn)
        assert field.middle is not None
        self._low, self._high = column.low.astype(np.float64), column.high.astype(np.float64)
        self.width = ((self._high - self._low) / max(float(np.ptp(self._high)), 1e-9))[field.box]
        self.middles = np.sort(np.repeat(field.middle[field.box], both.rows))

    def guessed(self, box: int, person: int) -> int:
        """1: the half with more middles is the person's. 0: it is not. -1: there are no halves."""
        assert self._field.own is not None
        code, own = self._field.box[box], self._field.own[self._field.value[person]]
        low, high = self._low[code], self._high[code]
        if high <= low or np.isnan(own):
            return -1
        begin, cut = np.searchsorted(self.middles, [low, (low + high) / 2])
        end = np.searchsorted(self.middles, high, "right")
        return int((own < (low + high) / 2) == (cut - begin > end - cut))


def _two(hits: Sequence[Mask]) -> tuple[Rate, Rate]:
    """The rates of people and of controls."""
    people, controls = (Rate(float(each.sum()), float(each.size)) for each in hits)
    return people, controls


def _best(weight: csr_array, table: csr_array) -> Numbers:
    """The value with most weight of each person, int64 (p,); -1: there is none."""
    scores = csr_array(weight @ table)
    best = np.full(scores.shape[0], -1, dtype=np.int64)
    for person in range(scores.shape[0]):
        own = slice(scores.indptr[person], scores.indptr[person + 1])
        if own.start < own.stop:
            values, mass = scores.indices[own], scores.data[own]
            best[person] = int(values[mass >= mass.max() - 1e-12].min())
    return best
