"""Snapping hulls outward to grids: what a published range may say about the values at its ends.

The exact ends of a hull are values of real people. A published end is instead a function of a grid line
alone: a multiple of the box's step, the border of a calendar unit, or an end of the declared domain.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.errors import SchemaError

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_INTEGER_STEPS = np.array([m * 10**e for e in range(19) for m in (1, 2, 5) if m * 10**e <= _MOST], np.uint64)

_LOWEST_EXPONENT, _HIGHEST_EXPONENT = -300, 300
_EXPONENTS = np.arange(_LOWEST_EXPONENT, _HIGHEST_EXPONENT + 1)
_POWERS = np.array([float(f"1e{exponent}") for exponent in _EXPONENTS])
_FLOAT_STEPS = np.array([float(f"{m}e{exponent}") for exponent in _EXPONENTS for m in (1, 2, 5)])
_LARGEST_MULTIPLE = 2.0**52
"""Counts of grid units up to here, and the next one, are exact in a double."""

_DAY_MS = 86_400_000
_MILLISECONDS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": _DAY_MS}
_CALENDAR_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LONGEST_DAYS = {"day": 1, "month": 31, "quarter": 92, "year": 366}


def snap_outward(
    low: NDArray[Any],
    high: NDArray[Any],
    *,
    grid: str | Decimal,
    kind: str,
    domain: tuple[int, int] | tuple[float, float] | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest ranges on the grid that contain the closed ranges [low_i, high_i].

    low, high: (n,) in the units of ``kind``: "integer" (int64), "decimal(s)" (int64, unscaled), "date"
        (int64, days since 1970-01-01), "timestamp" (int64, milliseconds), "float" (float64; NaN stays NaN).
    grid: "exact": unchanged.
        A number g: multiples of g, from 0 (where the units, or a double's digits, cannot hold every multiple
        of g, of the least multiple of g that they can hold).
        A calendar unit: from its first to its last day or millisecond.
        "auto": for each range the largest of 1, 2, 5 x 10^e that is not above a tenth of high_i - low_i; for
        dates of day, month, quarter, year, for timestamps also second, minute, hour, a month counting 31
        days, a quarter 92, a year 366. A range of width 0 stays as it is.
    domain: declared ends in the same units, or None. A snapped end beyond a domain's end becomes that end,
        unless the value itself lies beyond it.

    Precondition: low <= high, both finite (NaN apart); ``domain`` is declared, never taken from the data.
    Postcondition: result low <= low and result high >= high, always; snapping a result on the same fixed grid
        changes nothing; every end is a function of the grid line (and the domain) alone, except that exact
        grids, auto ranges of width 0, and auto ranges below 20 units (dates: 310 days), whose step is one unit, are
        the values themselves.
    Why: a running domain or an unsnapped end would publish an extreme person's own value; an end inside the
        hull would exclude a member, and with it a candidate.

    Raises SchemaError when an input breaks the precondition, or grid and kind do not go together. O(n).
    """
    dtype = np.float64 if kind == "float" else np.int64
    low, high = np.asarray(low, dtype), np.asarray(high, dtype)
    if np.any(low > high) or (kind == "float" and (np.isinf(low).any() or np.isinf(high).any())):
        raise SchemaError("a hull must have finite ends, the low one first")
    if grid == "exact" or low.size == 0:
        return low.copy(), high.copy()
    snapped: tuple[NDArray[Any], NDArray[Any]]
    if kind == "float":
        snapped = _snap_floats(low, high, grid)
    elif kind in ("date", "timestamp"):
        snapped = _snap_instants(low, high, grid, kind)
    elif kind == "integer" or kind.startswith("decimal("):
        snapped = _snap_integers(low, high, grid, kind)
    else:
        raise SchemaError(f"values of kind {kind} have no ranges")
    return _clip((low, high), snapped, domain)


def _clip(
    hull: tuple[NDArray[Any], NDArray[Any]],
    snapped: tuple[NDArray[Any], NDArray[Any]],
    domain: tuple[int, int] | tuple[float, float] | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    (low, high), (snapped_low, snapped_high) = hull, snapped
    if domain is not None:
        first, last = domain
        snapped_low = np.where((low >= first) & (snapped_low < first), first, snapped_low).astype(low.dtype)
        snapped_high = np.where((high <= last) & (snapped_high > last), last, snapped_high).astype(low.dtype)
    # The one line that everything above has to satisfy, checked where it is cheap to check.
    if np.any(snapped_low > low) or np.any(snapped_high < high):
        raise SchemaError("a snapped range does not contain its hull")
    return snapped_low, snapped_high


def _snap_integers(low: Int64s, high: Int64s, grid: str | Decimal, kind: str) -> tuple[Int64s, Int64s]:
    if isinstance(grid, Decimal):
        scale = 0 if kind == "integer" else int(kind[len("decimal(") : -1])
        # p/q units: exactly the multiples of p are both whole numbers of units and multiples of p/q.
        step = (Fraction(grid) * 10**scale).numerator
        if not 0 < step <= _MOST:
            raise SchemaError(f"a grid of {grid} does not fit values of kind {kind}")
        return _floor_multiple(low, np.int64(step)), _ceil_multiple(high, np.int64(step))
    if grid != "auto":
        raise SchemaError(f"values of kind {kind} have no grid {grid}")
    tenth = _width(low, high) // np.uint64(10)
    index = np.searchsorted(_INTEGER_STEPS, tenth, side="right") - 1
    steps = _INTEGER_STEPS[np.maximum(index, 0)].astype(np.int64)
    return _floor_multiple(low, steps), _ceil_multiple(high, steps)


def _width(low: Int64s, high: Int64s) -> NDArray[np.uint64]:
    """high - low without overflow: modulo 2**64 the difference of two int64 is exact."""
    return high.astype(np.uint64) - low.astype(np.uint64)


def _floor_multiple(values: Int64s, step: Int64s | np.int64) -> Int64s:
    """Largest multiple of step not above each value; the least int64 where that does not fit."""
    down = np.mod(values, step)
    fits = values >= _LEAST + down
    return np.where(fits, values - np.where(fits, down, 0), _LEAST)


def _ceil_multiple(values: Int64s, step: Int64s | np.int64) -> Int64s:
    """Smallest multiple of step not below each value; the largest int64 where that does not fit."""
    up = np.mod(step - np.mod(values, step), step)
    fits = values <= _MOST - up
    return np.where(fits, values + np.where(fits, up, 0), _MOST)


def _snap_instants(low: Int64s, high: Int64s, grid: str | Decimal, kind: str) -> tuple[Int64s, Int64s]:
    """Days (kind "date") or milliseconds to the borders of calendar units."""
    units = ["day", "month", "quarter", "year"]
    if kind == "timestamp":
        units = ["second", "minute", "hour", *units]
    if isinstance(grid, Decimal) or grid not in ("auto", *units):
        raise SchemaError(f"values of kind {kind} have no grid {grid}")
    if grid != "auto":
        return _unit_start(low, grid, kind), _unit_end(high, grid, kind)
    tenth = _width(low, high) // np.uint64(10)
    snapped_low, snapped_high = low.copy(), high.copy()
    for unit in units:
        wide = tenth >= np.uint64(_longest(unit, kind))
        snapped_low[wide] = _unit_start(low[wide], unit, kind)
        snapped_high[wide] = _unit_end(high[wide], unit, kind)
    return snapped_low, snapped_high


def _longest(unit: str, kind: str) -> int:
    if kind == "date":
        return _LONGEST_DAYS[unit]
    return _MILLISECONDS.get(unit) or _LONGEST_DAYS[unit] * _DAY_MS


def _unit_start(values: Int64s, unit: str, kind: str) -> Int64s:
    """First day or millisecond of the unit that each value lies in."""
    if unit in _CALENDAR_MONTHS:
        return _first_of_month(_month_group(values, unit, kind), kind)
    return values.copy() if kind == "date" else _floor_multiple(values, np.int64(_MILLISECONDS[unit]))


def _unit_end(values: Int64s, unit: str, kind: str) -> Int64s:
    """Last day or millisecond of the unit that each value lies in."""
    if unit in _CALENDAR_MONTHS:
        return _first_of_month(_month_group(values, unit, kind) + _CALENDAR_MONTHS[unit], kind) - 1
    if kind == "date":
        return values.copy()
    return _floor_multiple(values, np.int64(_MILLISECONDS[unit])) + (_MILLISECONDS[unit] - 1)


def _month_group(values: Int64s, unit: str, kind: str) -> Int64s:
    """Months since 1970-01 of the first month of each value's unit."""
    days = values if kind == "date" else values // _DAY_MS
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months - np.mod(months, _CALENDAR_MONTHS[unit])


def _first_of_month(months: Int64s, kind: str) -> Int64s:
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days if kind == "date" else days * _DAY_MS


def _snap_floats(low: Float64s, high: Float64s, grid: str | Decimal) -> tuple[Float64s, Float64s]:
    """Ranges of doubles to multiples m x c x 10^e, each the double nearest to that decimal number."""
    if isinstance(grid, Decimal):
        digits = grid.normalize()
        exponent = int(digits.as_tuple().exponent)
        coefficients = np.full(low.shape, float(int(digits.scaleb(-exponent))))
        exponents = np.full(low.shape, exponent)
        moving = ~np.isnan(low)
    elif grid == "auto":
        with np.errstate(over="ignore"):
            # Halved first: the width of two finite doubles can be infinite.
            tenth = np.minimum((high / 2 - low / 2) / 5, np.finfo(np.float64).max)
        moving = high > low
        index = np.searchsorted(_FLOAT_STEPS, np.where(moving, tenth, 1.0), side="right") - 1
        index = np.maximum(index, 0)
        coefficients = np.array([1.0, 2.0, 5.0])[index % 3]
        exponents = index // 3 + _LOWEST_EXPONENT
    else:
        raise SchemaError(f"values of kind float have no grid {grid}")
    snapped_low, snapped_high = low.copy(), high.copy()
    magnitude = np.maximum(np.abs(low), np.abs(high))[moving]
    exponents = _representable(magnitude, exponents[moving])
    snapped_low[moving] = _float_multiple(low[moving], coefficients[moving], exponents, -1)
    snapped_high[moving] = _float_multiple(high[moving], coefficients[moving], exponents, +1)
    return snapped_low, snapped_high


def _representable(magnitude: Float64s, exponents: Int64s) -> Int64s:
    """Exponents raised where doubles of that magnitude lie further apart than the grid's lines.

    Ten times a step is a multiple of it, so this only ever publishes fewer digits.
    """
    needed = np.searchsorted(_POWERS, magnitude / _LARGEST_MULTIPLE, side="left") + _LOWEST_EXPONENT
    return np.clip(np.maximum(exponents, needed), _LOWEST_EXPONENT, _HIGHEST_EXPONENT)


def _float_multiple(values: Float64s, coefficients: Float64s, exponents: Int64s, direction: int) -> Float64s:
    """The nearest multiple of c x 10^e at or beyond each value, below (-1) or above (+1) it."""
    power = _POWERS[np.abs(exponents) - _LOWEST_EXPONENT]
    shrinking = exponents < 0

    def line(count: Float64s) -> Float64s:
        # One correctly rounded operation on exact operands (|e| <= 22) yields the double nearest to the
        # decimal number: 40.85, where a multiplication by 0.05 could yield 40.850000000000001.
        units = count * coefficients
        with np.errstate(over="ignore"):
            result = np.where(shrinking, units / power, units * power)
        return np.clip(result, -np.finfo(np.float64).max, np.finfo(np.float64).max) + 0.0

    with np.errstate(over="ignore"):
        scaled = np.where(shrinking, values * power, values / power) / coefficients
    count = np.round(scaled)
    # The rounded quotient is at most a line or two off; the loop decides by the published doubles themselves.
    for _ in range(4):
        inside = (line(count) - values) * direction < 0
        if not inside.any():
            break
        count = np.where(inside, count + direction, count)
    for _ in range(4):
        closer = count - direction
        beyond = (line(closer) - values) * direction >= 0
        if not beyond.any():
            break
        count = np.where(beyond, closer, count)
    return line(count)
