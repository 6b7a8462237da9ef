"""Lines of grids, worked out anew for the audit: may records from a to b have been published as the range low..high?

    exact       low = a, high = b
    g           low = g floor(a / g), high = g ceil(b / g)
    unit        the first and last day or millisecond of calendar units
    auto        one of the steps 1, 2, 5 x 10^e, or of the units, explains both ends, and a and b lie far enough apart
                for it: ten steps, but for the least step of all

An end beyond the declared domain, or beyond what the field's type holds, becomes the domain's or the type's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.values import domain_ends
from kanonflow.schemas.bound_policy import BoundColumn

_DAY_MS = 86_400_000
_MILLISECONDS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": _DAY_MS}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LONGEST = {"day": 1, "month": 31, "quarter": 92, "year": 366}
# Doubles near each other in size hold about 15 digits; finer steps are coarsened by the pipeline, and not judged.
_MOST_STEPS = 2.0**50
# No step is larger than 5 times this power of ten.
_MOST_POWER = 300


def unexplained(
    low: np.ndarray, high: np.ndarray, least: np.ndarray, most: np.ndarray, column: BoundColumn
) -> np.ndarray:
    """Bool (b,): ranges low..high that no grid of the field explains for records from ``least`` to ``most``.

    All in the field's own units, int64 or float64 (b,), with low <= least <= most <= high. O(b).
    """
    quasi = column.field.quasi
    if quasi is None or quasi.grid == "exact":
        return (low != least) | (high != most)
    ends = domain_ends(column) if column.domain is not None else None
    if column.values.grid == "float":
        return ~_float_lines(low, high, least, most, quasi.grid, ends, column.arrow_type)
    low, high, least, most = (values.astype(np.int64) for values in (low, high, least, most))
    bounds = _type_ends(column.arrow_type) if ends is None else ends
    if column.values.grid in ("date", "timestamp"):
        return ~_calendar_lines(low, high, least, most, quasi.grid, bounds, column)
    explained = np.zeros(len(low), bool)
    for step, following in _whole_steps(quasi.grid, column):
        down, up = np.mod(least, step), np.mod(step - np.mod(most, step), step)
        # Compared before they are moved: a line beyond the last number of the type is none.
        below = np.where(least >= bounds[0] + down, least - down, bounds[0])
        above = np.where(most <= bounds[1] - up, most + up, bounds[1])
        wide = _wide(low, high, least, most, step, following) if quasi.grid == "auto" else True
        explained |= (below == low) & (above == high) & wide
    return ~explained


def _wide(
    low: np.ndarray, high: np.ndarray, least: np.ndarray, most: np.ndarray, step: int, following: int
) -> np.ndarray:
    """Whether two records in the outermost cells can lie so far apart that ``step`` is their step."""
    enough = _width(least, most) >= 10 * step if step > 1 else np.ones(len(low), bool)
    return enough & (_width(low, high) < 10 * following + 2 * (step - 1))


def _width(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """high - low, uint64 (b,): the width of two int64 can be beyond the largest of them."""
    return high.astype(np.uint64) - low.astype(np.uint64)


def _whole_steps(grid: str | Decimal, column: BoundColumn) -> Iterator[tuple[int, int]]:
    """Steps in units of the field, each with the next larger one."""
    if isinstance(grid, Decimal):
        scale = column.arrow_type.scale if pa.types.is_decimal(column.arrow_type) else 0
        step = (Fraction(grid) * 10**scale).numerator
        yield step, step
        return
    steps = [digit * 10**power for power in range(19) for digit in (1, 2, 5)]
    yield from pairwise(steps)


def _type_ends(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return -(2**31), 2**31 - 1
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return -(2**63), 2**63 - 1


def _calendar_lines(
    low: np.ndarray,
    high: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    grid: str | Decimal,
    bounds: tuple[int, int],
    column: BoundColumn,
) -> np.ndarray:
    days = column.values.grid == "date"
    units = ["day", *_MONTHS] if days else [*_MILLISECONDS, *_MONTHS]
    lengths = [
        _LONGEST[unit] if days else _MILLISECONDS.get(unit) or _LONGEST[unit] * _DAY_MS for unit in units
    ]
    explained = np.zeros(len(low), bool)
    if grid == "auto":
        # Narrower than ten of the least unit: as they are.
        explained |= (low == least) & (high == most) & ((high - low) // 10 < lengths[0])
    for unit, length, following in zip(units, lengths, [*lengths[1:], np.inf], strict=True):
        if grid not in ("auto", unit):
            continue
        below = np.maximum(_start(least, unit, days), bounds[0])
        above = np.minimum(_start(most, unit, days, after=1) - 1, bounds[1])
        fits = (below == low) & (above == high)
        if grid == "auto":
            # The records that were snapped lie in the outermost units, and were too near for the next larger one.
            nearest = _start(most, unit, days) - _start(least, unit, days, after=1) + 1
            fits &= ((most - least) // 10 >= length) & (nearest // 10 < following)
        explained |= fits
    return explained


def _start(values: np.ndarray, unit: str, days: bool, after: int = 0) -> np.ndarray:
    """The beginning of the unit that each value lies in, or of the unit ``after`` it."""
    if unit in _MONTHS:
        whole = values if days else values // _DAY_MS
        months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        months += after * _MONTHS[unit] - np.mod(months, _MONTHS[unit])
        begin = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        return begin if days else begin * _DAY_MS
    size = 1 if days else _MILLISECONDS[unit]
    return values - np.mod(values, size) + after * size


def _float_lines(
    low: np.ndarray,
    high: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    grid: str | Decimal,
    ends: tuple[float, float] | None,
    kind: pa.DataType,
) -> np.ndarray:
    low, high, least, most = (values.astype(np.float64) for values in (low, high, least, most))
    if isinstance(grid, Decimal):
        digits = grid.normalize()
        places = int(digits.as_tuple().exponent)
        steps = [(np.full(len(low), float(int(digits.scaleb(-places)))), np.full(len(low), places))]
    else:
        # Divided first, here and below: the width of two finite doubles can be infinite.
        steps = list(_float_steps(high / 10 - low / 10))
    explained = (low == high) & (grid == "auto")
    largest = np.maximum(np.abs(low), np.abs(high))
    kind_of_numpy = np.float32 if pa.types.is_float32(kind) else np.float64
    for digit, power in steps:
        step = digit * 10.0 ** power.astype(np.float64)
        fits = _on_line(low, digit, power, ends, 0, kind) & _on_line(high, digit, power, ends, 1, kind)
        # Beyond the last digit of a double a distance is known only so far.
        slack = 1e-6 * step + 4 * np.spacing(largest.astype(kind_of_numpy))
        fits &= (least / 2 - low / 2 < (step + slack) / 2) & (high / 2 - most / 2 < (step + slack) / 2)
        if grid == "auto":
            fits &= most / 10 - least / 10 >= step - slack / 10
            # The records that were snapped may lie nearer by two steps, and were too near for the next larger one.
            following = np.where(power < _MOST_POWER, step * np.where(digit == 2, 2.5, 2), np.inf)
            fits &= high / 10 - low / 10 - step / 5 < following + slack
        explained |= fits | (largest / _MOST_STEPS > step)
    return explained


def _float_steps(tenth: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The two steps 1, 2, 5 x 10^e at and below a tenth of each width: snapping widens by a fifth at most."""
    tenth = np.where(tenth > 0, tenth, 1.0)
    power = np.floor(np.log10(tenth) + 1e-9)
    digit = tenth / 10.0**power
    place = 3 * power + np.where(digit >= 5 - 1e-9, 2, np.where(digit >= 2 - 1e-9, 1, 0))
    place = np.minimum(place, 3 * _MOST_POWER + 2)
    for back in (0, 1):
        number = (place - back).astype(np.int64)
        yield np.array([1.0, 2.0, 5.0])[np.mod(number, 3)], number // 3


def _on_line(
    values: np.ndarray,
    digit: np.ndarray,
    power: np.ndarray,
    ends: tuple[float, float] | None,
    side: int,
    kind: pa.DataType,
) -> np.ndarray:
    """Whether each value is the number nearest to a multiple of digit x 10^power, or the domain's end."""
    scale = 10.0 ** np.abs(power).astype(np.float64)
    small = power < 0
    with np.errstate(over="ignore"):
        count = np.round(np.where(small, values * scale, values / scale) / digit)
        line = np.where(small, count * digit / scale, count * digit * scale)
    # Beyond the last line that is a double an end is the largest double.
    line = np.clip(line, -np.finfo(np.float64).max, np.finfo(np.float64).max)
    if pa.types.is_float32(kind):
        line, values = line.astype(np.float32), values.astype(np.float32)
    same = line == values
    # Powers above 22 are no exact doubles, and the last digit may come out otherwise.
    same |= (np.abs(power) > 22) & (np.abs(line - values) <= 4 * np.spacing(np.abs(values)))
    return same if ends is None else same | (values == ends[side])
