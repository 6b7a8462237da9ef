"""Singling out by predicates: those that a reader makes out of released attributes, and those over one box.

Out of released values (Giomi and others 2023, whose measure this is): a predicate over one field is its least or
largest value, or a value that one released record has; over several fields, of a record drawn at random, each number
"at least" or "at most" what stands there, whichever is rarer, each other value itself. Kept are predicates that match
one released record; one hits if it matches exactly one person.

Over a box (Cohen and Nissim 2020): "in this box, and with this one value of its set", "in this box and the end cell of
a range", and a random predicate that each of its m members meets with probability 1/m, independently: the hits of the
last are (1 - 1/m)^(m-1), about .4, of any grouping whatever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.assess.boxes import BoxesAndPeople, BoxField, Floats, Mask, Numbers
from kanonflow.pipelines.assess.rates import Rate
from kanonflow.pipelines.estimates.coverage import RangeColumn, SetColumn
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Quasi, QuasiType

PREDICATES = 1_000
"""Predicates of a kind that are asked."""
MOST_TRIED = 20_000
MOST_BOXES = 20_000
_AT_ONCE = 250
FIELDS = 3
EQUAL, LEAST, MOST = range(3)


@dataclass(frozen=True)
class Predicates:
    """q predicates. box: int64 (q,), whose values they take. field: bool (q, d), whether they ask for it. how: int8
    (q, d), ``EQUAL``, ``LEAST`` or ``MOST``."""

    box: Numbers
    field: Mask
    how: NDArray[np.int8]

    def __len__(self) -> int:
        return self.box.size

    def of(self, rows: Numbers | slice) -> Predicates:
        """Some of them."""
        return Predicates(self.box[rows], self.field[rows], self.how[rows])


def released_predicates(
    both: BoxesAndPeople, rng: np.random.Generator, *, several: bool, most: int = PREDICATES
) -> Predicates:
    """Different predicates out of released values, each of which matches one released record (as a distinct one)."""
    boxes = np.arange(both.boxes)
    if boxes.size > MOST_BOXES:
        boxes = np.sort(rng.choice(boxes, MOST_BOXES, replace=False))
    batch = 1_000
    parts: list[Predicates] = []
    seen: set[bytes] = set()
    for _ in range(MOST_TRIED // batch if several else 1):
        asked = _several(both, boxes, rng, batch) if several else _single(both, boxes, rng)
        alone = np.flatnonzero(_matches(asked, both, boxes) == 1)
        for place in alone.tolist():
            key = _key(asked, place, both)
            if key not in seen:
                seen.add(key)
                parts.append(asked.of(slice(place, place + 1)))
        if len(parts) >= most:
            break
    d = len(both.fields)
    nothing = Predicates(np.empty(0, np.int64), np.empty((0, d), np.bool_), np.empty((0, d), np.int8))
    parts = [nothing, *parts[:most]]
    return Predicates(
        *(np.concatenate([getattr(each, name) for each in parts]) for name in ("box", "field", "how"))
    )


def single_out(asked: Predicates, both: BoxesAndPeople, people: Numbers) -> Rate:
    """How many of the predicates match exactly one of these people."""
    return Rate(float((_people(asked, both, people) == 1).sum()), float(len(asked)))


def _key(asked: Predicates, place: int, both: BoxesAndPeople) -> bytes:
    fields = np.flatnonzero(asked.field[place])
    codes = [int(both.fields[j].box[asked.box[place]]) for j in fields]
    return np.array([*fields, *codes, *asked.how[place, fields]], dtype=np.int64).tobytes()


def _single(both: BoxesAndPeople, boxes: Numbers, rng: np.random.Generator) -> Predicates:
    """Least and largest numbers, and values that one record has, in an order by chance."""
    rows = []
    for place, field in enumerate(both.fields):
        codes = field.box[boxes]
        values, first, times = np.unique(codes, return_index=True, return_counts=True)
        rows += [(int(boxes[at]), place, EQUAL) for at in first[times == 1].tolist()]
        if field.middle is not None and not np.isnan(field.middle[values]).all():
            ends = (np.nanargmin(field.middle[values]), LEAST), (np.nanargmax(field.middle[values]), MOST)
            # The least value is asked for from above it, the largest from below.
            rows += [(int(boxes[first[at]]), place, MOST if how == LEAST else LEAST) for at, how in ends]
    drawn = [rows[at] for at in rng.permutation(len(rows)).tolist()]
    asked = np.zeros((len(rows), len(both.fields)), dtype=np.bool_)
    how = np.zeros(asked.shape, dtype=np.int8)
    for number, (_, place, operator) in enumerate(drawn):
        asked[number, place], how[number, place] = True, operator
    return Predicates(np.array([each[0] for each in drawn], dtype=np.int64), asked, how)


def _several(both: BoxesAndPeople, boxes: Numbers, rng: np.random.Generator, count: int) -> Predicates:
    """Of ``FIELDS`` fields of records drawn at random."""
    d = len(both.fields)
    box = boxes[rng.integers(0, boxes.size, count)]
    order = np.argsort(rng.random((count, d)), axis=1)
    asked = np.zeros((count, d), dtype=np.bool_)
    np.put_along_axis(asked, order[:, : min(FIELDS, d)], True, axis=1)
    how = np.zeros((count, d), dtype=np.int8)
    for place, field in enumerate(both.fields):
        if field.middle is not None:
            of_boxes = field.middle[field.box[boxes]]
            own = field.middle[field.box[box]]
            above = own > (np.nanmedian(of_boxes) if not np.isnan(of_boxes).all() else 0.0)
            how[:, place] = np.where(np.isnan(own), EQUAL, np.where(above, LEAST, MOST))
    return Predicates(box, asked, how)


def _matches(asked: Predicates, both: BoxesAndPeople, boxes: Numbers) -> Numbers:
    """How many of the boxes, as records of the flat release, each predicate matches."""
    counts = [np.zeros(0, np.int64)]
    for start in range(0, len(asked), _AT_ONCE):
        part = asked.of(slice(start, start + _AT_ONCE))
        meets = np.ones((len(part), boxes.size), dtype=np.bool_)
        for place, field in enumerate(both.fields):
            some = np.flatnonzero(part.field[:, place])
            if some.size:
                own, each = field.box[part.box[some]], field.box[boxes]
                equal = own[:, None] == each[None, :]
                meets[some] &= _met(
                    part.how[some, place],
                    field,
                    own,
                    None if field.middle is None else field.middle[each],
                    equal,
                )
        counts.append(meets.sum(axis=1))
    return np.concatenate(counts)


def _people(asked: Predicates, both: BoxesAndPeople, people: Numbers) -> Numbers:
    """How many of the people each predicate matches."""
    counts = [np.zeros(0, np.int64)]
    for start in range(0, len(asked), _AT_ONCE):
        part = asked.of(slice(start, start + _AT_ONCE))
        meets = np.ones((len(part), people.size), dtype=np.bool_)
        for place, field in enumerate(both.fields):
            some = np.flatnonzero(part.field[:, place])
            if some.size:
                own, each = field.box[part.box[some]], field.value[people]
                equal = field.single[own][:, None] & field.holds[:, each][own]
                meets[some] &= _met(
                    part.how[some, place], field, own, None if field.own is None else field.own[each], equal
                )
        counts.append(meets.sum(axis=1))
    return np.concatenate(counts)


def _met(how: NDArray[np.int8], field: BoxField, own: Numbers, numbers: Floats | None, equal: Mask) -> Mask:
    """Which of some numbers, or of others than numbers, meet a predicate on a field. own: the boxes that it takes."""
    if field.middle is None or numbers is None:
        return equal
    value, sign = field.middle[own][:, None], how[:, None]
    same = (numbers[None, :] == value) | (np.isnan(numbers)[None, :] & np.isnan(value))
    return np.where(
        sign == LEAST, numbers[None, :] >= value, np.where(sign == MOST, numbers[None, :] <= value, same)
    )


@dataclass(frozen=True)
class BoxRate:
    """A kind of predicate over a box. alone: with one value or end. either: with one or another; None: the same."""

    name: str
    alone: Rate
    either: Rate | None


def box_rates(both: BoxesAndPeople, people: Numbers, rng: np.random.Generator) -> tuple[BoxRate, ...]:
    """How many predicates over boxes match exactly one of these people. Boxes are drawn at random."""
    boxes = rng.permutation(both.boxes)[:PREDICATES]
    sets, ends, weights = [], [], []
    for start in range(0, boxes.size, _AT_ONCE):
        some = boxes[start : start + _AT_ONCE]
        inside = both.holds(people, some)
        for box, within in zip(some.tolist(), inside, strict=True):
            members = people[within]
            sets.append(_of_set(both, box, members, rng))
            ends.append(_of_end(both, box, members, rng))
            if members.size:
                weights.append(int((rng.random(members.size) < 1 / members.size).sum()) == 1)
    named = (("this box and a value of its set", sets), ("this box and an end cell", ends))
    rates = [
        BoxRate(name, _share([each[0] for each in hits if each]), _share([each[1] for each in hits if each]))
        for name, hits in named
        if any(hits)
    ]
    return (*rates, BoxRate("a random 1/members of a box", _share(weights), None))


def _share(hits: list[bool]) -> Rate:
    return Rate(float(sum(hits)), float(len(hits)))


def _of_set(
    both: BoxesAndPeople, box: int, members: Numbers, rng: np.random.Generator
) -> tuple[bool, bool] | None:
    """Whether one value of a set of the box, and whether one or another of them, is had by exactly one member."""
    wide = [
        field
        for field in both.fields
        if isinstance(field.released, SetColumn)
        and field.column.tree is None
        and field.released.widths[field.box[box]] > 1
    ]
    if not wide:
        return None
    field = wide[int(rng.integers(len(wide)))]
    column = field.released
    assert isinstance(column, SetColumn)
    at = int(column.of_row[field.box[box]])
    labels = column.codes[column.starts[at] : column.starts[at + 1]]
    drawn = [column.values[code] for code in rng.choice(labels, 2, replace=False).tolist()]
    places = {value: place for place, value in enumerate(field.values)}
    own = [int((field.value[members] == places.get(value, -1)).sum()) for value in drawn]
    return own[0] == 1, sum(own) == 1


def _of_end(
    both: BoxesAndPeople, box: int, members: Numbers, rng: np.random.Generator
) -> tuple[bool, bool] | None:
    """The same of the end cells of a range of the box."""
    ranges = [
        field
        for field in both.fields
        if isinstance(field.released, RangeColumn)
        and not field.single[field.box[box]]
        and field.released.valued[field.box[box]]
    ]
    if not ranges:
        return None
    field = ranges[int(rng.integers(len(ranges)))]
    column = field.released
    assert isinstance(column, RangeColumn)
    assert field.own is not None
    low, high = float(column.low[field.box[box]]), float(column.high[field.box[box]])
    step, own = _step(field.column, high - low), field.own[field.value[members]]
    below, above = own < low + step, own > high - step
    if step == 0:
        below, above = own == low, own == high
    ends = (int(below.sum()), int(above.sum()))
    return ends[int(rng.integers(2))] == 1, int((below | above).sum()) == 1


def _step(column: BoundColumn, width: float) -> float:
    """The width of a cell of a range's grid, in its units; 0: its ends are values themselves."""
    grid, per_day = (column.field.quasi or _NO_GRID).grid, column.values.per_day
    if grid == "exact":
        return 0.0
    if per_day is not None:
        cells = [days * per_day for name, days in _DAYS.items() if grid in ("auto", name)]
    elif grid == "auto":
        size = 10.0 ** math.floor(math.log10(max(width / 10, 1e-300)))
        cells = [size, 2 * size, 5 * size]
    else:
        return float(grid) * 10.0 ** (column.values.scale or 0)
    return max([cell for cell in cells if cell <= width / 10] or cells[:1])


_DAYS = {
    "second": 1 / 86_400,
    "minute": 1 / 1_440,
    "hour": 1 / 24,
    "day": 1.0,
    "month": 31.0,
    "quarter": 92.0,
    "year": 366.0,
}
_NO_GRID = Quasi(QuasiType.NUMERIC)
