"""Grids: a snapped range always contains its hull, and its ends tell the grid line and nothing else."""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.grid import snap_outward
from tests import naive

pytestmark = pytest.mark.thorough

EPOCH = date(1970, 1, 1)
LEAST, MOST = -(2**63), 2**63 - 1
checked = settings(derandomize=True, max_examples=300)

integers = st.one_of(st.integers(-1000, 1000), st.integers(LEAST, MOST))
floats = st.floats(allow_nan=False, allow_infinity=False)
places = st.integers(-(10**8), 10**8)
grids = st.builds(lambda c, e: Decimal(c).scaleb(e), st.sampled_from([1, 2, 5, 25, 3, 7]), st.integers(-6, 3))


def snap(low: object, high: object, kind: str, grid: object = "auto", domain: object = None) -> tuple:
    """One range snapped, as Python numbers."""
    dtype = np.float64 if kind == "float" else np.int64
    ends = snap_outward(np.array([low], dtype), np.array([high], dtype), grid=grid, kind=kind, domain=domain)
    return ends[0][0].item(), ends[1][0].item()


def ordered(a: object, b: object) -> tuple:
    """The two, the smaller first."""
    return (a, b) if a <= b else (b, a)


@checked
@given(floats, floats, st.one_of(st.just("auto"), grids))
def test_a_snapped_range_of_doubles_contains_its_hull(a: float, b: float, grid: object) -> None:
    """Whatever the magnitudes, with grids far finer or coarser than the doubles."""
    low, high = ordered(a, b)
    snapped_low, snapped_high = snap(low, high, "float", grid)
    assert snapped_low <= low <= high <= snapped_high
    assert math.isfinite(snapped_low)
    assert math.isfinite(snapped_high)


@checked
@given(integers, integers, st.one_of(st.just("auto"), grids), st.sampled_from(["integer", "decimal(2)"]))
def test_a_snapped_range_of_integers_contains_its_hull(a: int, b: int, grid: object, kind: str) -> None:
    """Up to the ends of int64, the range contains the hull."""
    low, high = ordered(a, b)
    snapped_low, snapped_high = snap(low, high, kind, grid)
    assert snapped_low <= low <= high <= snapped_high


@checked
@given(places, places, st.integers(0, 6))
def test_automatic_steps_of_doubles(a: int, b: int, digits: int) -> None:
    """The ends are multiples of the largest 1, 2, 5 x 10^e not above width / 10, and the closest."""
    low, high = ordered(a / 10**digits, b / 10**digits)
    width = Fraction(high) - Fraction(low)
    step = naive.auto_step(width, -12)
    assume(step is not None)
    assert step is not None
    # At a border between two steps the rounding of the width may decide either way.
    assume(naive.auto_step(width * Fraction(10**12 + 1, 10**12), -12) == step)
    assume(max(abs(low), abs(high)) / float(step) < 2**45)
    assert snap(low, high, "float") == naive.snapped_to_step(low, high, step)


@checked
@given(places, places, st.integers(0, 6), grids)
def test_fixed_steps_of_doubles(a: int, b: int, digits: int, grid: Decimal) -> None:
    """On a number's grid the ends are the closest multiples of it outside of the hull."""
    low, high = ordered(a / 10**digits, b / 10**digits)
    assert snap(low, high, "float", grid) == naive.snapped_to_step(low, high, Fraction(grid))


@checked
@given(st.integers(-(10**15), 10**15), st.integers(0, 10**15))
def test_automatic_steps_of_integers(low: int, width: int) -> None:
    """Integers too; where a tenth of the width is below 1 there is no coarser grid than the integers."""
    step = naive.auto_step(Fraction(width), 0) or Fraction(1)
    down, up = math.floor(Fraction(low) / step) * step, math.ceil(Fraction(low + width) / step) * step
    assert snap(low, low + width, "integer") == (down, up)
    assert snap(low, low + width, "decimal(3)") == (down, up)


@pytest.mark.parametrize(
    ("low", "high", "kind", "grid", "expected"),
    [
        (40.8512, 41.3, "float", "auto", (40.84, 41.3)),
        (40.8512, 40.8512, "float", "auto", (40.8512, 40.8512)),
        (40.8512, 40.8512, "float", Decimal("0.05"), (40.85, 40.9)),
        (40.8512, 41.3, "float", "exact", (40.8512, 41.3)),
        (-0.04, 0.04, "float", Decimal("0.1"), (-0.1, 0.1)),
        (3, 99, "integer", "auto", (0, 100)),
        (23, 61, "integer", "auto", (22, 62)),
        (23, 61, "integer", Decimal(10), (20, 70)),
        (-7, -7, "integer", Decimal(10), (-10, 0)),
        (1234, 1299, "decimal(2)", Decimal("0.5"), (1200, 1300)),
        (1234, 1299, "decimal(2)", Decimal(5), (1000, 1500)),
        # Multiples of 2.5 that are integers: those of 5.
        (6, 7, "integer", Decimal("2.5"), (5, 10)),
        (LEAST, MOST, "integer", Decimal(1000), (LEAST, MOST)),
    ],
)
def test_examples(low: float, high: float, kind: str, grid: object, expected: tuple) -> None:
    """Ends are clean decimals, on the grid."""
    assert snap(low, high, kind, grid) == expected


def test_ends_of_doubles_are_clean() -> None:
    """A published end has no more digits than its grid: 40.85, never 40.850000000000001."""
    low = np.arange(-90, 90, 0.0317)
    for grid, digits in ((Decimal("0.05"), 2), (Decimal("0.001"), 3), (Decimal("0.25"), 2)):
        for ends in snap_outward(low, low + 0.01, grid=grid, kind="float", domain=None):
            assert max(len(repr(end).partition(".")[2]) for end in ends.tolist()) <= digits


@checked
@given(integers, integers, st.sampled_from([Decimal(1), Decimal(5), Decimal(10), Decimal(365)]))
def test_snapping_again_changes_nothing(a: int, b: int, grid: Decimal) -> None:
    """A range whose ends are multiples of a fixed step stays as it is."""
    low, high = ordered(a, b)
    once = snap(low, high, "integer", grid)
    assert snap(*once, "integer", grid) == once
    low, high = low / 64, high / 64
    once = snap(low, high, "float", grid)
    assert snap(*once, "float", grid) == once


@checked
@given(
    st.integers(-200_000, 200_000),
    st.integers(0, 20_000),
    st.sampled_from(["day", "month", "quarter", "year"]),
)
def test_dates_reach_from_the_first_to_the_last_day_of_a_unit(first: int, width: int, unit: str) -> None:
    """A range of dates covers whole months, quarters or years."""
    low, high = EPOCH + timedelta(days=first), EPOCH + timedelta(days=first + width)
    expected = naive.calendar_unit(low, unit)[0], naive.calendar_unit(high, unit)[1]
    snapped = snap(first, first + width, "date", unit)
    assert tuple(EPOCH + timedelta(days=end) for end in snapped) == expected
    assert snap(*snapped, "date", unit) == snapped


@pytest.mark.parametrize(
    ("days", "unit"),
    [
        (0, "day"),
        (309, "day"),
        (310, "month"),
        (919, "month"),
        (920, "quarter"),
        (3660, "year"),
        (40_000, "year"),
    ],
)
def test_automatic_units_of_dates(days: int, unit: str) -> None:
    """The unit is the largest that, at its longest, is not above a tenth of the width."""
    assert snap(100, 100 + days, "date") == snap(100, 100 + days, "date", unit)


@pytest.mark.parametrize(
    ("width", "unit"),
    [
        (10_000, "second"),
        (600_000, "minute"),
        (36_000_000, "hour"),
        (863_999_999, "hour"),
        (864_000_000, "day"),
        (310 * 86_400_000, "month"),
    ],
)
def test_automatic_units_of_instants(width: int, unit: str) -> None:
    """Instants know seconds, minutes and hours too, and ranges end with the last millisecond of a unit."""
    low = 1_577_836_808_123
    snapped = snap(low, low + width, "timestamp")
    assert snapped == snap(low, low + width, "timestamp", unit)
    assert snapped[0] <= low
    assert snapped[1] >= low + width
    assert snapped[0] % 1000 == 0
    assert snapped[1] % 1000 == 999
    assert snap(low, low + 9_999, "timestamp") == (low, low + 9_999)


@checked
@given(st.integers(0, 100), st.integers(0, 100), grids)
def test_ranges_stop_at_the_declared_domain(a: int, b: int, grid: Decimal) -> None:
    """A snapped end beyond the domain becomes the domain's end; a hull inside stays inside and contained."""
    low, high = ordered(a, b)
    snapped = snap(low, high, "integer", grid, (0, 100))
    assert 0 <= snapped[0] <= low <= high <= snapped[1] <= 100
    free = snap(low, high, "integer", grid)
    assert snapped == (max(free[0], 0), min(free[1], 100))


def test_values_beyond_the_domain_are_still_contained() -> None:
    """A domain never cuts a member off, and a value beyond it is snapped like any other."""
    assert snap(-7, 123, "integer", Decimal(10), (0, 100)) == (-10, 130)
    assert snap(17.03, 99.4, "float", Decimal("0.5"), (20, 72)) == (17.0, 99.5)


def test_many_ranges_are_snapped_each_by_itself() -> None:
    """The ranges of a call do not influence each other; a NaN (a box of nulls) stays NaN."""
    low, high = np.array([0.0, 40.8512, np.nan, 5.0]), np.array([1e6, 41.3, np.nan, 5.0])
    snapped = snap_outward(low, high, grid="auto", kind="float", domain=None)
    for index in (0, 1, 3):
        assert (snapped[0][index], snapped[1][index]) == snap(low[index], high[index], "float")
    assert np.isnan(snapped[0][2])
    assert np.isnan(snapped[1][2])
    empty = np.empty(0, np.int64)
    assert snap_outward(empty, empty, grid="auto", kind="date", domain=None)[0].size == 0


@pytest.mark.parametrize(
    ("low", "high", "kind", "grid"),
    [
        (2, 1, "integer", "auto"),
        (0.0, math.inf, "float", "auto"),
        (0, 1, "integer", "month"),
        (0, 1, "date", Decimal(5)),
        (0, 1, "date", "hour"),
        (0.0, 1.0, "float", "day"),
        (0, 1, "text", "auto"),
        (0, 1, "integer", Decimal("1e20")),
    ],
)
def test_misuse_is_refused(low: float, high: float, kind: str, grid: object) -> None:
    """A hull the wrong way round, an infinite end, a grid that does not fit the kind: nothing comes out."""
    with pytest.raises(SchemaError):
        snap(low, high, kind, grid)
