"""Hierarchies that need no file: ranges of numbers, masked text, dates by calendar or format (S1, table 5)."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import ROOT, Hierarchy

CALENDAR = ("day", "month", "quarter", "year", "decade")
MOST_DOUBLINGS = 64
Number = Decimal | int | float | str
_PARTS: dict[str, Callable[[date], str]] = {
    "%Y": lambda day: f"{day.year:04d}",
    "%y": lambda day: f"{day.year % 100:02d}",
    "%m": lambda day: f"{day.month:02d}",
    "%b": lambda day: _month(day)[:3],
    "%B": lambda day: _month(day),
    "%%": lambda day: "%",
}
"""Of a date above its day, as formats of inputs spell them."""


def _joined(levels: Sequence[Sequence[str]]) -> Hierarchy:
    """A hierarchy from one column of labels a level, closed by the root; a last level that is one node is left out."""
    columns = list(levels)
    while len(columns) > 1 and len(set(columns[-1])) == 1:
        columns.pop()
    if len(columns[0]) == 0:
        raise HierarchyError(["there is no value to build a hierarchy of"])
    return Hierarchy(tuple(zip(*columns, [ROOT] * len(columns[0]), strict=True)))


def _text(value: Decimal) -> str:
    """Shortest plain digits: 5, not 5.0 or 5E+0."""
    shown = format(value.normalize(), "f")
    return "0" if shown in ("-0", "") else shown


def _numbers(values: Iterable[Number]) -> list[Decimal]:
    numbers = sorted({value if isinstance(value, Decimal) else Decimal(str(value)) for value in values})
    if not all(number.is_finite() for number in numbers):
        raise HierarchyError(["a value is not a finite number"])
    return numbers


def ranges_of_widths(
    values: Iterable[Number], widths: Sequence[Number], origin: Number = 0, digits: int = 0
) -> Hierarchy:
    """Ranges [a, b) of fixed widths, the narrowest first, all counted from ``origin``.

    values: what may occur, repeats allowed. digits: behind the point of a leaf, as decimals of that scale are written;
    0: as many as it needs. Every width must be a positive multiple of the one before, so that ranges
    only join; else HierarchyError names those that are not. O(v levels) exact decimal arithmetic.
    """
    numbers, start = _numbers(values), Decimal(str(origin))
    steps = [Decimal(str(width)) for width in widths]
    mistakes = [f"width {_text(step)}: must be positive" for step in steps if not step > 0]
    if not mistakes:
        mistakes = [
            f"width {_text(wide)}: must be a multiple of the width before, {_text(narrow)}, and more than it"
            for narrow, wide in itertools.pairwise(steps)
            if wide % narrow != 0 or wide <= narrow
        ]
    if mistakes:
        raise HierarchyError(mistakes)
    columns = [_leaves(numbers, digits)]
    for step in steps:
        lows = [start + _floored(number - start, step) for number in numbers]
        columns.append([f"[{_text(low)}, {_text(low + step)})" for low in lows])
    return _joined(columns)


def _floored(distance: Decimal, step: Decimal) -> Decimal:
    """The largest multiple of ``step`` that is not above ``distance``."""
    remainder = distance % step
    return distance - remainder - (step if remainder < 0 else 0)


def _leaves(numbers: Sequence[Decimal], digits: int) -> list[str]:
    return [format(number, f".{digits}f") if digits else _text(number) for number in numbers]


def ranges_between(values: Iterable[Number], cuts: Sequence[Number], digits: int = 0) -> Hierarchy:
    """Ranges between cuts, such as quantiles, and above them two neighbours together, then four, and so on.

    values, digits: as of ``ranges_of_widths``; both ends of the values are ends of ranges, the last one of which is
    closed. Raises HierarchyError: cuts that do not ascend, or lie beside the values. O(v log c + c levels).
    """
    numbers, steps = _numbers(values), [Decimal(str(cut)) for cut in cuts]
    if not numbers:
        raise HierarchyError(["there is no value to build a hierarchy of"])
    least, most = numbers[0], numbers[-1]
    mistakes = [
        f"cut {_text(cut)}: must be above {_text(least)}, and at most {_text(most)}"
        for cut in steps
        if not least < cut <= most
    ]
    mistakes += [
        f"cut {_text(other)}: must be above the cut before, {_text(one)}"
        for one, other in itertools.pairwise(steps)
        if other <= one
    ]
    if mistakes:
        raise HierarchyError(mistakes)
    ends = [least, *steps, most]
    place = [bisect.bisect_right(steps, number) for number in numbers]
    columns, together = [_leaves(numbers, digits)], 1
    while together <= len(steps):
        labels = []
        for first in range(0, len(steps) + 1, together):
            last = min(first + together, len(steps) + 1)
            closing = "]" if last == len(steps) + 1 else ")"
            labels.append(f"[{_text(ends[first])}, {_text(ends[last])}{closing}")
        columns.append([labels[at // together] for at in place])
        together *= 2
    return _joined(columns)


def ranges_by_doubling(
    values: Iterable[Number], first: Number, origin: Number = 0, digits: int = 0
) -> Hierarchy:
    """Ranges of width ``first``, then twice that, and so on until one range or the root holds all values."""
    numbers, start = _numbers(values), Decimal(str(origin))
    width = Decimal(str(first))
    if not width > 0:
        raise HierarchyError([f"width {_text(width)}: must be positive"])
    widths = [width]
    reach = max((abs(number - start) for number in numbers), default=Decimal(0))
    while widths[-1] <= reach and len(widths) < MOST_DOUBLINGS:
        widths.append(widths[-1] * 2)
    return ranges_of_widths(numbers, widths, start, digits)


def star_hierarchy(values: Iterable[str]) -> Hierarchy:
    """Text masked from its end, a character a level: NL805, NL80*, NL8**, ... (S1, table 5).

    Level l keeps the first (longest - l) characters; values that are not longer stand as they are. A value that
    itself ends in stars may collide with a mask; HierarchyError then names the label.
    """
    texts = sorted(set(values))
    longest = max((len(text) for text in texts), default=0)
    columns = [texts]
    for cut in range(1, longest):
        keep = longest - cut
        columns.append([text if len(text) <= keep else text[:keep] + ROOT * cut for text in texts])
    return _joined(columns)


def date_hierarchy(values: Iterable[date], levels: Sequence[str] = CALENDAR) -> Hierarchy:
    """Days, then the given parts of the calendar in their order: 2020-02-29, 2020-02, 2020-Q1, 2020, 2020s.

    levels: of CALENDAR, from short to long; ``day`` is always the leaf. Raises HierarchyError for others.
    """
    unknown = [level for level in levels if level not in CALENDAR]
    if unknown:
        raise HierarchyError(
            [f"{level}: no part of the calendar; take {', '.join(CALENDAR)}" for level in unknown]
        )
    places = [CALENDAR.index(level) for level in levels]
    if places != sorted(set(places)):
        raise HierarchyError(
            [f"name each part of the calendar once, from short to long: {', '.join(CALENDAR)}"]
        )
    days = sorted(set(values))
    chosen = ["day", *(level for level in levels if level != "day")]
    return _joined([[_calendar_label(day, level) for day in days] for level in chosen])


def _calendar_label(day: date, level: str) -> str:
    year = f"{day.year:04d}"
    if level == "day":
        return day.isoformat()
    if level == "month":
        return f"{year}-{day.month:02d}"
    if level == "quarter":
        return f"{year}-Q{(day.month + 2) // 3}"
    return year if level == "year" else f"{year[:3]}0s"


def formatted_dates(values: Iterable[date], formats: Sequence[str]) -> Hierarchy:
    """Days as ISO writes them, then as formats spell them, from short to long: 1970-01-01, 01/1970, 1970.

    formats: of %Y %y %m %b %B and any other text. Each has to follow from the one before. Raises HierarchyError,
    naming the format: one that tells the day, that has no part of a date, or that would part what is together.
    """
    days = sorted(set(values))
    mistakes = []
    for each in formats:
        parts = re.findall("%.?", each)
        if "%d" in parts or "%j" in parts:
            mistakes.append(f"{each}: tells the day, which every leaf does; leave it out")
        elif unknown := [part for part in parts if part not in _PARTS]:
            mistakes.append(f"{each}: {', '.join(unknown)} is no part that joins days; take {_named_parts()}")
        elif not set(parts) - {"%%"}:
            mistakes.append(f"{each}: has no part of a date; take {_named_parts()}")
    if mistakes:
        raise HierarchyError(mistakes)
    columns = [[day.isoformat() for day in days]]
    for number, each in enumerate(formats):
        columns.append([_spelled(day, each) for day in days])
        if len(set(zip(*columns[-2:], strict=True))) != len(set(columns[-2])):
            before = "the day" if number == 0 else formats[number - 1]
            mistakes.append(
                f"{each}: parts what {before} has together; go from short to long, as in %m/%Y, %Y"
            )
    if mistakes:
        raise HierarchyError(mistakes)
    return _joined(columns)


def _named_parts() -> str:
    return ", ".join(part for part in _PARTS if part != "%%")


def _month(day: date) -> str:
    from kanonflow.schemas.formatted_times import MONTHS

    return MONTHS[day.month - 1].capitalize()


def _spelled(day: date, form: str) -> str:
    return re.sub("%.", lambda part: _PARTS[part[0]](day), form)
