"""Axes of drawings: where a value lies, which ticks stand there, and which of their labels have room.

Ticks are multiples of 1, 2 or 5 times a power of ten, or of what clocks and calendars have; of few values each is one.
As many labels are written as have room, by widths that usual fonts stay below: the reader's is not known.
"""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from kanonflow.schemas.printable import printable

X = str | int | float | dt.datetime

_BETWEEN = 8
"""Pixels from label to label, at least."""
_LARGEST, _SMALLEST, _SAME = 1e300, 1e-300, 1e-12
"""Above the first nothing is drawn, below the second is 0; numbers that differ by less than the last's part are one."""
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_CLOCK = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(count * unit for unit in (_SECOND, _MINUTE) for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14)),
)
"""Milliseconds from tick to tick."""
_CALENDAR = (1, 3, 6, *(12 * count * power for power in (1, 10, 100, 1000) for count in (1, 2, 5)))
"""Months from tick to tick."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = "{0.day} {1} {0.year}"
_TOLD = (
    *("{0.year}", "{1}\n{0.year}", "{0.day} {1}\n{0.year}"),
    *(f"{clock}\n{_DATE}" for clock in ("{0:%H:%M}", "{0:%H:%M:%S}", "{0:%H:%M:%S}.{2:03d}")),
)
"""Labels of instants, by how fine they are: what begins with a year, a month, a day, a minute, a second, or less."""


class Tick(NamedTuple):
    """label: what is written at ``value``, in one line or two."""

    value: float
    label: str


class Scale(NamedTuple):
    """Values from ``low`` to ``high``, at pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Pixels."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


class Axis(NamedTuple):
    """places: of what is drawn, as numbers from ``low`` to ``high``. gap: between two of them, at least.

    ticks: at most about so many -> choices of ticks, the most first.
    """

    places: tuple[float, ...]
    low: float
    high: float
    gap: float
    ticks: Callable[[int], Iterator[list[Tick]]]

    def scale(self, start: float, end: float, *, padded: bool = False) -> Scale:
        """padded: with half a gap at both ends, for bars. A single value lies in the middle."""
        pad = self.gap / 2 if padded or self.low == self.high else 0.0
        return Scale(self.low - pad, self.high + pad, start, end)


def finite(values: Sequence[float | None]) -> list[float | None]:
    """None for each that cannot be drawn."""
    return [
        None if each is None or not abs(each) <= _LARGEST else 0.0 if abs(each) < _SMALLEST else float(each)
        for each in values
    ]


def axis_of(x: Sequence[X]) -> Axis:
    """By what the first one is: words in their order, instants in UTC, or numbers."""
    if x and isinstance(x[0], str):
        return Axis(
            tuple(range(len(x))), 0, len(x) - 1, 1, lambda _: _names([printable(str(each)) for each in x])
        )
    if x and isinstance(x[0], dt.datetime):
        since = [
            (each - _EPOCH) // dt.timedelta(milliseconds=1) for each in x if isinstance(each, dt.datetime)
        ]
        return _measured(since, _instants, _times)
    return _measured(
        [each or 0.0 for each in finite([each for each in x if isinstance(each, int | float)])],
        _written,
        _numbers,
    )


def nice_axis(values: Sequence[float], most: int, *, zero: bool, percent: bool = False) -> Axis:
    """From a tick to a tick, of whole numbers by whole ones. zero: it is on the axis. percent: labels are shares."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0) or float(low >= 0)
    elif _one(low, high):
        return _measured(values, _written, _numbers)
    whole = all(value == math.floor(value) for value in values)
    step = _step(low, high, most, whole=whole)
    low, high = float(math.floor(_exact(low) / step) * step), float(math.ceil(_exact(high) / step) * step)
    return Axis(
        *(tuple(values), low, high, 0),
        lambda most: (_numbers(low, high, each, percent=percent, whole=whole) for each in range(most, 1, -1)),
    )


def with_room(axis: Axis, scale: Scale, most: int, size: int, right: float) -> list[Tick]:
    """The most ticks whose labels do not touch, between 0 and ``right``; labels are cut at a third of it.

    size: of text.
    """
    densest: list[Tick] = []
    for choice in axis.ticks(most):
        apart: list[Tick] = []
        free = -math.inf
        for value, label in choice:
            tick = Tick(value, shortened(label, size, right / 3))
            half = width_of(tick.label, size) / 2
            centre = middle(tick, scale, size, right)
            if centre - half >= free:
                apart.append(tick)
                free = centre + half + _BETWEEN
        if apart and len(apart) == len(choice):
            return apart
        densest = densest or apart
    return densest


def middle(tick: Tick, scale: Scale, size: int, right: float) -> float:
    """Where the middle of its label lies: at the tick, but between 0 and ``right``."""
    half = width_of(tick.label, size) / 2
    return max(half, min(scale.at(tick.value), right - half))


def width_of(text: str, size: int) -> float:
    """Pixels that the longest line of a text takes at most, in usual fonts."""
    return size * max(sum(map(_wide, line)) for line in text.split("\n"))


def shortened(text: str, size: int, room: float) -> str:
    """The text, or its beginning and an ellipsis where it is wider than ``room`` pixels."""
    if width_of(text, size) <= room:
        return text
    text = text[: int(room)]
    while width_of(f"{text}…", size) > room:
        text = text[:-1]
    return f"{text}…"


def _wide(sign: str) -> float:
    if sign in "mwMW%@" or unicodedata.east_asian_width(sign) in "WFA":
        return 1.0
    return 0.8 if sign.isupper() else 0.64


def _measured(
    places: Sequence[float],
    written: Callable[[Sequence[float]], list[Tick]],
    regular: Callable[[float, float, int], list[Tick]],
) -> Axis:
    """From the first of the places to the last."""
    low, high = min(places, default=0.0), max(places, default=0.0)
    if _one(low, high):
        return Axis(tuple(places), low, low, max(1.0, abs(low) / 10), lambda _: iter([written(places[:1])]))
    values = sorted(set(places))

    def ticks(most: int) -> Iterator[list[Tick]]:
        if len(values) <= most:
            yield written(values)
        yield from (regular(low, high, fewer) for fewer in range(most, 1, -1))

    return Axis(tuple(places), low, high, min(after - before for before, after in pairwise(values)), ticks)


def _one(low: float, high: float) -> bool:
    return high - low <= _SAME * max(abs(low), abs(high))


def _names(names: Sequence[str]) -> Iterator[list[Tick]]:
    """All, every second one, every fifth and so on."""
    steps = (count * 10**power for power in range(len(str(len(names)))) for count in (1, 2, 5))
    return ([Tick(place, names[place]) for place in range(0, len(names), step)] for step in steps)


def _exact(value: float) -> Decimal:
    return Decimal(repr(value))


def _step(low: float, high: float, most: int, *, whole: bool) -> Decimal:
    """The smallest of 1, 2, 5 times a power of ten that the span holds at most ``most`` times."""
    rough = (_exact(high) - _exact(low)) / most
    power = Decimal(1).scaleb(rough.adjusted())
    return max(Decimal(whole), next(count * power for count in (1, 2, 5, 10) if count * power >= rough))


def _numbers(low: float, high: float, most: int, *, percent: bool = False, whole: bool = False) -> list[Tick]:
    step = _step(low, high, most, whole=whole)
    counts = range(math.ceil(_exact(low) / step), math.floor(_exact(high) / step) + 1)
    exact = [count * step for count in counts]
    return [Tick(float(each), f"{_spelled(each * 100)}%" if percent else _spelled(each)) for each in exact]


def _written(values: Sequence[float]) -> list[Tick]:
    return [Tick(value, _spelled(_exact(value))) for value in values]


def _spelled(number: Decimal) -> str:
    """With a suffix of SI from a thousand on: 12k; below as it is, but for what begins after many zeros."""
    thousands = number.adjusted() // 3 if number else 0
    if -2 <= thousands <= 8:
        suffix = "kMGTPEZY"[thousands - 1] if thousands > 0 else ""
        return f"{number.scaleb(-3 * max(thousands, 0)).normalize():f}{suffix}"
    return f"{number.normalize():e}"


def _times(low: float, high: float, most: int) -> list[Tick]:
    """What a clock or a calendar begins; weeks from the first day on."""
    for step in (step for step in _CLOCK if high - low <= most * step):
        origin = math.ceil(low / _DAY) * _DAY if step > 2 * _DAY else 0
        counts = range(math.ceil((low - origin) / step), math.floor((high - origin) / step) + 1)
        return _instants([origin + count * step for count in counts], 0)
    begin, end = (12 * each.year + each.month - 1 for each in map(_moment, (low, high)))
    months = next((each for each in _CALENDAR if end - begin <= most * each), _CALENDAR[-1])
    begun = [
        (dt.datetime(month // 12, month % 12 + 1, 1, tzinfo=dt.UTC) - _EPOCH) / dt.timedelta(milliseconds=1)
        for month in range(-(-begin // months) * months, end + 1, months)
    ]
    return _instants([each for each in begun if each >= low], 0)


def _moment(value: float) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=value)


def _instants(values: Sequence[float], coarsest: int = 2) -> list[Tick]:
    """As coarse as all of them allow; the second line where it is another than that before."""
    moments, fine, before = [*map(_moment, values)], coarsest, ""
    for each in moments:
        finer = (each.month > 1, each.day > 1, each.hour or each.minute, each.second, each.microsecond)
        fine = max([fine, *(place for place, part in enumerate(finer, 1) if part)])
    ticks = []
    for value, moment in zip(values, moments, strict=True):
        parts = moment, _MONTHS[moment.month - 1], moment.microsecond // 1000
        label, _, below = _TOLD[fine].format(*parts).partition("\n")
        ticks.append(Tick(value, label if below == before else f"{label}\n{below}"))
        before = below
    return ticks
