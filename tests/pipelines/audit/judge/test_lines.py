"""Which ends of ranges the audit takes for lines of a grid: exactly those that snapping two values in the box gives."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.judge.lines import unexplained
from kanonflow.schemas.bound_policy import BoundColumn, bind
from kanonflow.schemas.grid import snap_outward
from kanonflow.schemas.policy_file import parse_policy

DAY = 86_400_000
DATE, INSTANT = pa.date32(), pa.timestamp("ms", tz="UTC")


def column_of(kind: pa.DataType, grid: str | Decimal, domain: list[Any] | None = None) -> BoundColumn:
    """A range field of a type, under a grid."""
    named = "date" if kind in (DATE, INSTANT) else "numeric"
    field: dict[str, Any] = {"role": "quasi", "type": named, "grid": grid}
    if domain is not None:
        field |= {"domain": domain, "outside": "code"}
    policy = parse_policy({"version": 1, "k": 2, "fields": {"x": field}}, "test", "test")
    return bind(policy, pa.schema({"x": kind}), text=False, source="test").column("x")


def is_explained(column: BoundColumn, low: Any, high: Any, least: Any, most: Any) -> bool:
    """What the audit says of one range."""
    return not unexplained(*(np.array([end]) for end in (low, high, least, most)), column)[0]


def snapped(column: BoundColumn, low: Any, high: Any) -> tuple[Any, Any]:
    """What the pipeline publishes of a class from low to high."""
    grid = column.field.quasi.grid  # type: ignore[union-attr]
    ends = snap_outward(
        np.array([low]), np.array([high]), grid=grid, kind=column.values.grid, domain=column.domain
    )
    return ends[0][0].item(), ends[1][0].item()


WIDTHS = sorted(
    {own + more for own in (0, 9, 10, 19, 20, 49, 50, 99, 100, 200, 210) for more in (-1, 0, 1)} - {-1}
)


@pytest.mark.parametrize("grid", ["auto", Decimal(1), Decimal(7), "exact"])
@pytest.mark.parametrize("domain", [None, [0, 205]])
def test_whole_numbers_are_held_against_all_pairs(grid: str | Decimal, domain: list[int] | None) -> None:
    """Boxes full of records from 3, or 0, on: explained is what some two of them are snapped to, and nothing else."""
    column = column_of(pa.int32(), grid, domain)
    for least in (0, 3):
        for width in WIDTHS:
            most = least + width
            if domain is not None and most > domain[1]:
                continue
            values = np.arange(least, most + 1)
            pairs = np.array(list(combinations_with_replacement(values, 2)))
            lows, highs = snap_outward(
                pairs[:, 0], pairs[:, 1], grid=grid, kind="integer", domain=column.domain
            )
            reached = set(zip(lows.tolist(), highs.tolist(), strict=True))
            # Of the ranges with all records in it.
            around = {pair for pair in reached if pair[0] <= least and pair[1] >= most}
            assert around
            low, high = np.array(sorted(around)).T
            ends = np.full(len(low), least), np.full(len(low), most)
            assert not unexplained(low, high, *ends, column).any()
            near = {(a + x, b + y) for a, b in around for x in range(-3, 4) for y in range(-3, 4)} - around
            wrong = np.array(sorted(pair for pair in near if pair[0] <= least and pair[1] >= most))
            ends = np.full(len(wrong), least), np.full(len(wrong), most)
            assert unexplained(wrong[:, 0], wrong[:, 1], *ends, column).all(), (least, most, around)


def test_the_ends_of_a_type_are_lines() -> None:
    """Where the next line is no number of the type; and where the width of a range is none."""
    for kind, bits in ((pa.int32(), 32), (pa.int64(), 64)):
        first, last = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        fixed, auto = column_of(kind, Decimal(1000)), column_of(kind, "auto")
        assert is_explained(fixed, first, last, first + 5, last - 5)
        assert is_explained(fixed, first, last, first, last)
        assert not is_explained(fixed, first + 1, last, first + 5, last - 5)
        assert not is_explained(fixed, first, last - 1, first + 5, last - 5)
        assert is_explained(auto, first, last, first + 5, last - 5)
    decimal = column_of(pa.decimal128(4, 2), Decimal("1.5"))
    assert is_explained(decimal, -9999, 9999, -9998, 9998)
    assert is_explained(decimal, -150, 300, -149, 151)
    assert not is_explained(decimal, -15, 30, -14, 16)
    assert not is_explained(decimal, -9998, 9999, -9998, 9998)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.float32()])
@pytest.mark.parametrize("grid", ["auto", Decimal(5), Decimal("0.5"), "exact"])
def test_published_ranges_pass_and_others_do_not(kind: pa.DataType, grid: str | Decimal) -> None:
    """Random ranges of every size as the pipeline snaps them; one with an end a tenth of its step off fails."""
    if pa.types.is_integer(kind) and grid == Decimal("0.5"):
        return
    column, random = column_of(kind, grid), np.random.default_rng(7)
    for _ in range(400):
        middle, width = random.normal(0, 10.0 ** random.integers(1, 5)), 10.0 ** random.uniform(1, 4)
        ends = np.array([middle - width, middle + width]).astype(kind.to_pandas_dtype()).tolist()
        low, high = snapped(column, *ends)
        assert is_explained(column, low, high, *ends), (ends, low, high)
        off = max(width / 1000, 1) if pa.types.is_integer(kind) else width / 1000
        off = int(off) if pa.types.is_integer(kind) else off
        assert not is_explained(column, low - off, high, *ends), (ends, low, high)
        assert not is_explained(column, low, high + off, *ends), (ends, low, high)


def test_an_automatic_step_is_the_largest_that_fits() -> None:
    """Doubles: ends on lines of a finer or a coarser step than two records in the box have, are found."""
    column = column_of(pa.float64(), "auto")
    assert is_explained(column, 10.0, 120.0, 13.0, 113.0)
    assert not is_explained(column, 12.0, 114.0, 13.0, 113.0)
    assert not is_explained(column, 13.0, 113.0, 13.0, 113.0)
    assert not is_explained(column, 0.0, 120.0, 13.0, 113.0)
    assert not is_explained(column, 0.0, 200.0, 13.0, 113.0)
    # 13 and 112 have steps of 5.
    assert is_explained(column, 10.0, 115.0, 13.0, 112.5)
    assert is_explained(column, 4.0, 4.0, 4.0, 4.0)
    assert not is_explained(column, 4.0, 4.5, 4.0, 4.0)
    assert not is_explained(column_of(pa.float64(), Decimal(5)), 4.0, 4.0, 4.0, 4.0)
    assert is_explained(column_of(pa.float64(), Decimal(5)), 5.0, 5.0, 5.0, 5.0)


def test_the_ends_of_a_domain_of_doubles_are_lines() -> None:
    """Each on its own side."""
    column = column_of(pa.float64(), Decimal(10), [0.5, 99.5])
    assert is_explained(column, 0.5, 99.5, 3.0, 97.0)
    assert is_explained(column, 10.0, 99.5, 13.0, 97.0)
    assert not is_explained(column, 0.5, 99.0, 3.0, 97.0)
    assert not is_explained(column, 1.0, 99.5, 3.0, 97.0)
    assert not is_explained(column, 0.5, 0.5, 0.5, 0.5)
    assert not is_explained(column, 99.5, 99.5, 99.5, 99.5)
    assert is_explained(column_of(pa.float64(), Decimal(10)), 90.0, 100.0, 93.0, 97.0)


def test_doubles_of_any_size_pass() -> None:
    """Where the width of two is infinite, and where powers of ten are no doubles."""
    column = column_of(pa.float64(), "auto")
    for ends in ((-1.7e308, 1.7e308), (1.3e25, 9.1e26), (-3.3e-40, 5.7e-39), (2.0**60, 2.0**60 + 4096)):
        low, high = snapped(column, *ends)
        assert is_explained(column, low, high, *ends), ends
        if (width := high / 10 - low / 10) > 5000:
            assert not is_explained(column, low - width / 1e3, high, *ends), ends
    # The largest step is 5e300.
    assert not is_explained(column, -1.70000001e308, 1.7e308, -1.7e308, 1.7e308)


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day", "month", "quarter", "year"])
def test_calendar_units_have_their_own_lines(unit: str) -> None:
    """Instants and days: the first and the last of the unit, and nothing beside it."""
    for kind, size in ((INSTANT, DAY), (DATE, 1)):
        if kind == DATE and unit in ("second", "minute", "hour"):
            continue
        column, random = column_of(kind, unit), np.random.default_rng(3)
        for _ in range(60):
            least = int(random.integers(-9000 * size, 9000 * size))
            most = least + int(random.integers(0, 800 * size))
            low, high = snapped(column, least, most)
            assert is_explained(column, low, high, least, most)
            for wrong in ((low - 1, high), (low, high + 1), (low + 1, high), (low, high - 1)):
                assert not is_explained(column, *wrong, least, most), (wrong, low, high)


@pytest.mark.parametrize("kind", [INSTANT, DATE])
def test_an_automatic_unit_is_the_largest_that_fits(kind: pa.DataType) -> None:
    """At the widths where another unit begins: what the pipeline publishes passes, the lines of all others do not."""
    column, size = column_of(kind, "auto"), 1 if kind == DATE else DAY
    units = ["day", "month", "quarter", "year"] + ([] if kind == DATE else ["second", "minute", "hour"])
    lengths = (
        [1, 31, 92, 366] if kind == DATE else [1000, 60_000, 3_600_000, DAY, 31 * DAY, 92 * DAY, 366 * DAY]
    )
    for length in lengths:
        for width in (10 * length - 1, 10 * length, 10 * length + 1, 12 * length):
            least = 12_345 * size + (0 if kind == DATE else 12_345_678)
            ends = least, least + width
            published = snapped(column, *ends)
            assert is_explained(column, *published, *ends)
            assert is_explained(column, *ends, *ends) == (published == ends), width
            for unit in units:
                other = snapped(column_of(kind, unit), *ends)
                # Of some two records in the outermost units.
                cells = [snapped(column_of(kind, unit), end, end) for end in ends]
                firsts = np.linspace(ends[0], cells[0][1], 40).astype(np.int64)
                lasts = np.linspace(cells[1][0], ends[1], 40).astype(np.int64)
                pairs = np.array([(one, two) for one in firsts for two in lasts if one <= two]).reshape(-1, 2)
                kept = snap_outward(
                    pairs[:, 0], pairs[:, 1], grid="auto", kind=column.values.grid, domain=None
                )
                made = bool(((kept[0] == other[0]) & (kept[1] == other[1])).any())
                assert is_explained(column, *other, *ends) == made, (width, unit)
