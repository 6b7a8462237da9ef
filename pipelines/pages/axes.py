"""Axes of drawings: where a value lies, which ticks stand there, and which of their labels have room.

    place = start + (value - low) / (high - low) (end - start), in pixels

Ticks are multiples of 1, 2 or 5 times a power of ten, or of what a clock and a calendar have; of a few values each is
one. As many stand there as have room, by a width of letters that usual fonts stay below: the reader's is not known.
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
"""Pixels between two labels, at least."""
_LARGEST, _SMALLEST = 1e300, 1e-300
_SAME = 1e-12
"""Numbers that differ by a smaller part of them are one."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_OF_CLOCKS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(count * unit for unit in (_SECOND, _MINUTE) for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14)),
)
"""Milliseconds from tick to tick."""
_OF_CALENDARS = (
    1,
    3,
    6,
    *(12 * years for power in (1, 10, 100, 1000) for years in (power, 2 * power, 5 * power)),
)
"""Months from tick to tick."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Tick(NamedTuple):
    """label: what is written at ``value``. below: in a second line, where the tick before has another."""

    value: float
    label: str
    below: str = ""


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


def finite(value: float | None) -> float | None:
    """The value; None where it cannot be drawn."""
    if value is None or not math.isfinite(value) or abs(value) > _LARGEST:
        return None
    return 0.0 if abs(value) < _SMALLEST else float(value)


def axis_of(x: Sequence[X]) -> Axis:
    """By what the first one is: words in their order, instants in UTC, or numbers."""
    first = next(iter(x), 0)
    if isinstance(first, str):
        names = [printable(str(each)) for each in x]
        return Axis(tuple(range(len(names))), 0, max(len(names) - 1, 0), 1, lambda _: _of_names(names))
    if isinstance(first, dt.datetime):
        since = [
            (each - _EPOCH) // dt.timedelta(milliseconds=1) for each in x if isinstance(each, dt.datetime)
        ]
        return _measured(since, _instants, _times)
    return _measured([finite(each) or 0.0 for each in x if isinstance(each, int | float)], _written, _numbers)


def nice_axis(values: Sequence[float], most: int, *, zero: bool, percent: bool = False) -> Axis:
    """Of finite numbers, from a tick to a tick. zero: it is on the axis. percent: labels are shares in percent."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
        high = high if low < high else 1.0
    elif _one(low, high):
        return _measured(values, _written, _numbers)
    whole = all(value == math.floor(value) for value in values)
    step = _step(low, high, most, whole=whole)
    low, high = float(math.floor(_exact(low) / step) * step), float(math.ceil(_exact(high) / step) * step)

    def ticks(most: int) -> Iterator[list[Tick]]:
        for fewer in range(most, 1, -1):
            yield _numbers(low, high, fewer, percent=percent, whole=whole)

    return Axis(tuple(values), low, high, 0, ticks)


def with_room(axis: Axis, scale: Scale, most: int, size: int, right: float) -> list[Tick]:
    """The most ticks whose labels do not touch each other, shortened to a third of ``right``.

    size: of text. Labels lie between 0 and ``right``, see ``middle``. Lines below that touch the next one are "".
    """
    densest: list[Tick] | None = None
    for choice in axis.ticks(most):
        ticks = [each._replace(label=shortened(each.label, size, right / 3)) for each in choice]
        apart = _apart(ticks, scale, size, right)
        if ticks and len(apart) == len(ticks):
            break
        densest = densest or apart
    else:
        apart = densest or []
    starts, before = [], ""
    for tick in apart:
        starts.append(tick._replace(below="" if tick.below == before else tick.below))
        before = tick.below
    # What is below begins something, so of two that touch the later one is needed.
    edge, ticks = right + _BETWEEN, []
    for tick in reversed(starts):
        half = width_of(tick.below, size) / 2
        centre = middle(tick.below, scale.at(tick.value), size, right)
        fits = tick.below and centre + half + _BETWEEN <= edge
        edge = centre - half if fits else edge
        ticks.append(tick if fits else tick._replace(below=""))
    return ticks[::-1]


def middle(text: str, place: float, size: int, right: float) -> float:
    """Where the middle of a text lies that stands at ``place``, but between 0 and ``right``."""
    half = width_of(text, size) / 2
    return max(half, min(place, right - half))


def width_of(text: str, size: int) -> float:
    """Pixels that a text takes at most, in usual fonts."""
    return size * sum(map(_wide, text))


def shortened(text: str, size: int, room: float) -> str:
    """The text, or its beginning and an ellipsis where it is wider than ``room`` pixels."""
    if width_of(text, size) <= room:
        return text
    used = float(size)
    for place, sign in enumerate(text):
        used += size * _wide(sign)
        if used > room:
            return f"{text[:place].rstrip()}…"
    return text


def _wide(sign: str) -> float:
    if sign in "mwMW%@" or unicodedata.east_asian_width(sign) in "WFA":
        return 1.0
    return 0.8 if sign.isupper() else 0.64


def _apart(ticks: Sequence[Tick], scale: Scale, size: int, right: float) -> list[Tick]:
    """Without those that touch the one before."""
    free, apart = -math.inf, []
    for tick in ticks:
        half = width_of(tick.label, size) / 2
        centre = middle(tick.label, scale.at(tick.value), size, right)
        if centre - half >= free:
            apart.append(tick)
            free = centre + half + _BETWEEN
    return apart


def _measured(
    places: Sequence[float],
    written: Callable[[Sequence[float]], list[Tick]],
    regular: Callable[[float, float, int], list[Tick]],
) -> Axis:
    """An axis from the first of the places to the last."""
    low, high = min(places, default=0.0), max(places, default=0.0)
    single = _one(low, high)
    values = [low] if single else sorted(set(places))
    gap = max(1.0, abs(low) / 10) if single else min(after - before for before, after in pairwise(values))

    def ticks(most: int) -> Iterator[list[Tick]]:
        if len(values) <= most:
            yield written(values[: len(places)])
        for fewer in range(0 if single else most, 1, -1):
            yield regular(low, high, fewer)

    return Axis(tuple(places), low, low if single else high, gap, ticks)


def _one(low: float, high: float) -> bool:
    return high - low <= _SAME * max(abs(low), abs(high))


def _of_names(names: Sequence[str]) -> Iterator[list[Tick]]:
    """All, every second one, every fifth and so on."""
    for power in range(len(str(len(names)))):
        for step in (1, 2, 5):
            yield [Tick(place, names[place]) for place in range(0, len(names), step * 10**power)]


def _exact(value: float) -> Decimal:
    return Decimal(repr(value))


def _step(low: float, high: float, most: int, *, whole: bool) -> Decimal:
    """The smallest of 1, 2, 5 times a power of ten that the span holds at most ``most`` times."""
    rough = (_exact(high) - _exact(low)) / most
    power = Decimal(1).scaleb(rough.adjusted())
    step = next(count * power for count in (1, 2, 5, 10) if count * power >= rough)
    return max(step, Decimal(1)) if whole else step


def _numbers(low: float, high: float, most: int, *, percent: bool = False, whole: bool = False) -> list[Tick]:
    """The multiples of a step."""
    step = _step(low, high, most, whole=whole)
    first, last = math.ceil(_exact(low) / step), math.floor(_exact(high) / step)
    exact = [count * step for count in range(first, last + 1)]
    return [Tick(float(each), f"{_spelled(each * 100)}%" if percent else _spelled(each)) for each in exact]


def _written(values: Sequence[float]) -> list[Tick]:
    return [Tick(value, _spelled(_exact(value))) for value in values]


def _spelled(number: Decimal) -> str:
    """With a suffix of SI from a thousand on: 12k; below as it is, but for what begins after many zeros."""
    if not number:
        return "0"
    thousands = number.adjusted() // 3
    if -2 <= thousands <= 0:
        return f"{number.normalize():f}"
    if 0 < thousands <= 8:
        return f"{number.scaleb(-3 * thousands).normalize():f}{'kMGTPEZY'[thousands - 1]}"
    return f"{number.normalize():e}"


def _times(low: float, high: float, most: int) -> list[Tick]:
    """What a clock or a calendar begins; weeks from the first day on."""
    for step in _OF_CLOCKS:
        if high - low <= most * step:
            origin = math.ceil(low / _DAY) * _DAY if step > 2 * _DAY else 0
            first, last = math.ceil((low - origin) / step), math.floor((high - origin) / step)
            return _instants([origin + count * step for count in range(first, last + 1)], 0)
    begin, end = _moment(low), _moment(high)
    months = 12 * (end.year - begin.year) + end.month - begin.month
    step = next((each for each in _OF_CALENDARS if months <= most * each), _OF_CALENDARS[-1])
    first = -(-(12 * begin.year + begin.month - 1) // step)
    begun = [
        dt.datetime(count * step // 12, count * step % 12 + 1, 1, tzinfo=dt.UTC)
        for count in range(first, (12 * end.year + end.month - 1) // step + 1)
    ]
    return _instants([(each - _EPOCH) / dt.timedelta(milliseconds=1) for each in begun if each >= begin], 0)


def _instants(values: Sequence[float], coarsest: int = 2) -> list[Tick]:
    """As coarse as all of them allow: years, months, days, minutes, seconds, less."""
    moments = [_moment(value) for value in values]
    fine = max([coarsest, *map(_fineness, moments)])
    return [Tick(value, *_TOLD[fine](moment)) for value, moment in zip(values, moments, strict=True)]


def _moment(value: float) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=value)


def _fineness(moment: dt.datetime) -> int:
    parts = (
        moment.month > 1,
        moment.day > 1,
        moment.hour or moment.minute,
        moment.second,
        moment.microsecond,
    )
    return max((place for place, part in enumerate(parts, 1) if part), default=0)


def _day(moment: dt.datetime) -> str:
    return f"{moment.day} {_MONTHS[moment.month - 1]}"


def _date(moment: dt.datetime) -> str:
    return f"{_day(moment)} {moment.year}"


_TOLD: tuple[Callable[[dt.datetime], tuple[str, str]], ...] = (
    lambda moment: (f"{moment.year}", ""),
    lambda moment: (_MONTHS[moment.month - 1], f"{moment.year}"),
    lambda moment: (_day(moment), f"{moment.year}"),
    lambda moment: (f"{moment:%H:%M}", _date(moment)),
    lambda moment: (f"{moment:%H:%M:%S}", _date(moment)),
    lambda moment: (f"{moment:%H:%M:%S.%f}"[:-3], _date(moment)),
)
"""Label and what stands below it, by fineness."""
