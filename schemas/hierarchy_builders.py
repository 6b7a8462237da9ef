"""Hierarchies that need no file: ranges of numbers, masked text, parts of the calendar (S1, table 5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import ROOT, Hierarchy

CALENDAR = ("day", "month", "quarter", "year", "decade")
MOST_DOUBLINGS = 64


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


def _numbers(values: Iterable[Decimal | int | float | str]) -> list[Decimal]:
    numbers = sorted({value if isinstance(value, Decimal) else Decimal(str(value)) for value in values})
    if not all(number.is_finite() for number in numbers):
        raise HierarchyError(["a value is not a finite number"])
    return numbers


def ranges_of_widths(
    values: Iterable[Decimal | int | float | str],
    widths: Sequence[Decimal | int | float | str],
    origin: Decimal | int | float | str = 0,
) -> Hierarchy:
    """Ranges [a, b) of fixed widths, the narrowest first, all counted from ``origin``.

    values: what may occur, repeats allowed. Every width must be a positive multiple of the one before, so that ranges
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
    columns = [[_text(number) for number in numbers]]
    for step in steps:
        lows = [start + _floored(number - start, step) for number in numbers]
        columns.append([f"[{_text(low)}, {_text(low + step)})" for low in lows])
    return _joined(columns)


def _floored(distance: Decimal, step: Decimal) -> Decimal:
    """The largest multiple of ``step`` that is not above ``distance``."""
    remainder = distance % step
    return distance - remainder - (step if remainder < 0 else 0)


def ranges_by_doubling(
    values: Iterable[Decimal | int | float | str],
    first: Decimal | int | float | str,
    origin: Decimal | int | float | str = 0,
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
    return ranges_of_widths(numbers, widths, start)


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
