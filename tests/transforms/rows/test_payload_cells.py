"""Cells of payload on their grids: by examples, and against the audit's own arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.coarse_cells import coarse_value
from kanonflow.pipelines.audit.read.values import plain_values
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.payload_grids import published_type
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.transforms.rows.payload_cells import coarse_cells

ZONES = (None, "Europe/Prague", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Africa/Monrovia")
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
MONEY = pa.decimal128(10, 2)


def column(kind: pa.DataType, **grid: Any) -> BoundColumn:
    """A column of payload with a grid, of cells that are read as ``kind``."""
    plain = Field("x", Role.SENSITIVE)
    numbers = {
        key: Decimal(value) if key in ("round", "bottom", "top") else value for key, value in grid.items()
    }
    field = Field("x", Role.SENSITIVE, **numbers)
    return BoundColumn(
        field, published_type(field, kind), False, exact=BoundColumn(plain, kind, from_text=False)
    )


def coarse(values: list[Any], kind: pa.DataType, **grid: Any) -> list[Any]:
    """What becomes of values."""
    made = coarse_cells(column(kind, **grid), pa.array(values, kind))
    assert made.type == column(kind, **grid).arrow_type
    return made.to_pylist()


def test_numbers_become_the_nearest_multiple_and_half_way_the_even_one() -> None:
    """Exact in decimals: of doubles too, which are taken as they are written."""
    assert coarse([4, 5, 6, 15, 25, -5, -15, None], pa.int32(), round="10") == [
        *[0, 0, 10, 20, 20, 0, -20, None]
    ]
    cents = [Decimal("4.99"), Decimal("5.00"), Decimal("5.01"), Decimal("-15.00")]
    assert coarse(cents, MONEY, round="10") == [Decimal(0), Decimal(0), Decimal(10), Decimal(-20)]
    assert coarse([0.15, 0.25, 0.35, 1.05, 2.675], pa.float64(), round="0.1") == [0.2, 0.2, 0.4, 1.0, 2.7]
    assert coarse([2.675, 0.005, 1.015], pa.float64(), round="0.01") == [2.68, 0.0, 1.02]
    assert coarse([0.15, 0.25], pa.float32(), round="0.1") == [float(np.float32(0.2))] * 2


def test_ends_cut_after_rounding() -> None:
    """Above top and below bottom there is one value each."""
    assert coarse([-7, 3, 12, 4_996, 99_999], pa.int64(), round="10", bottom="0", top="5000") == [
        *[0, 0, 10, 5_000, 5_000]
    ]
    assert coarse([1.5, 7.25, 9.75], pa.float64(), top="7.5") == [1.5, 7.25, 7.5]
    assert coarse([Decimal("-0.01"), Decimal("3.14")], MONEY, bottom="0") == [Decimal(0), Decimal("3.14")]


def test_a_multiple_that_the_type_cannot_hold_is_the_next_one_towards_zero() -> None:
    """So no value is lost, and none gets a meaning that another run of other data would give it."""
    assert coarse([2**31 - 1, -(2**31)], pa.int32(), round="10") == [2**31 - 8, -(2**31) + 8]
    assert coarse([-(2**31)], pa.int32(), round="4") == [-(2**31)]
    assert coarse([Decimal("99999999.99")], MONEY, round="1000") == [Decimal(99_999_000)]


def test_text_keeps_its_first_characters() -> None:
    """Code points, and shorter text whole."""
    cells = ["5411", "54", "", "čšž", "e\u0301x", "\U0001f600\U0001f601\U0001f602", None]
    assert coarse(cells, pa.string(), truncate=2) == [
        *["54", "54", "", "čš", "e\u0301", "\U0001f600\U0001f601", None]
    ]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_parts_of_a_time_are_those_that_the_clocks_show(unit: str) -> None:
    """In UTC, or where the field's timezone is, on both sides of a change of the clocks."""
    kind = pa.timestamp(unit, tz="UTC")
    times = ["2026-03-29T00:59:59", "2026-03-29T01:00:00", "1969-12-31T23:30:00"]
    instants = pa.array(times).cast(pa.timestamp(unit)).cast(kind).to_pylist()
    assert coarse([*instants, None], kind, value="hour") == [0, 1, 23, None]
    assert coarse(instants, kind, value="hour", timezone="Europe/Prague") == [1, 3, 0]
    assert coarse(instants, kind, value="weekday") == ["sunday", "sunday", "wednesday"]
    assert coarse(instants, kind, value="weekday", timezone="Europe/Prague") == [
        *["sunday", "sunday", "thursday"]
    ]
    day = pa.array([hour * 3_600_000 for hour in (0, 5, 6, 11, 12, 17, 18, 23)]).cast(
        pa.timestamp("ms", tz="UTC")
    )
    assert coarse(day.cast(kind).to_pylist(), kind, value="part_of_day") == [
        *["night", "night", "morning", "morning", "afternoon", "afternoon", "evening", "evening"]
    ]


def numbers(rng: np.random.Generator) -> dict[pa.DataType, pa.Array]:
    """Of each type of numbers: any that there are, small ones about zero, and the ends."""
    near = np.arange(-120, 121)
    ints = np.concatenate([rng.integers(-(2**31), 2**31, 200), near, [2**31 - 1, -(2**31)]])
    longs = np.concatenate([rng.integers(-(2**63), 2**63 - 1, 200), near, [2**63 - 1, -(2**63)]])
    bits = rng.integers(0, 2**64, 2_000, dtype=np.uint64).view(np.float64)
    floats = np.concatenate([bits, rng.normal(0, 100, 1_000).round(2), near / 20, [-0.0, 5e-324]])
    floats = np.append(floats[np.isfinite(floats)], [np.finfo(float).max, np.finfo(float).min])
    with np.errstate(over="ignore"):
        singles = floats.astype(np.float32)
    cents = [Decimal(int(each)).scaleb(-2) for each in (*rng.integers(1 - 10**10, 10**10, 300), *near * 5)]
    return {
        pa.int32(): pa.array(ints, pa.int32()),
        pa.int64(): pa.array(longs, pa.int64()),
        pa.float64(): pa.array(floats),
        pa.float32(): pa.array(np.append(singles[np.isfinite(singles)], np.finfo(np.float32).max)),
        MONEY: pa.array([*cents, Decimal("99999999.99")], MONEY),
        pa.decimal128(38, 2): pa.array([Decimal("9" * 36 + ".99"), *cents], pa.decimal128(38, 2)),
    }


GRIDS = (
    {"round": "10"},
    {"round": "7", "bottom": "-14", "top": "21"},
    {"round": "4"},
    {"round": "0.05"},
    {"round": "0.3", "bottom": "0", "top": "3"},
    {"round": "1e30"},
    {"round": "1e-30"},
    {"bottom": "0"},
    {"top": "0"},
    {"top": "2.5"},
)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_the_audit_works_out_the_same_numbers(grid: dict[str, str]) -> None:
    """By fractions, a value at a time, of every type that can hold the grid; to the sign of a zero."""
    looked_at = 0
    for kind, values in numbers(np.random.default_rng(1)).items():
        made = column(kind, **grid)
        ends = [getattr(made.field, key) for key in grid]
        if not all(made.as_read.values.holds(end) for end in ends):
            continue
        ours = plain_values(coarse_cells(made, values))
        its = [coarse_value(value, made) for value in plain_values(values)]
        assert ours == its, kind
        if pa.types.is_floating(kind):
            signs = [[math.copysign(1, each) for each in all_of] for all_of in (ours, its)]  # type: ignore[arg-type]
            assert signs[0] == signs[1]
        looked_at += 1
    assert looked_at >= 2


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("part", ["hour", "weekday", "part_of_day"])
def test_the_audit_works_out_the_same_parts_of_times(part: str, zone: str | None) -> None:
    """Over the whole calendar, its ends, and where clocks change."""
    rng = np.random.default_rng(2)
    ends = [FIRST_SECOND, FIRST_SECOND + 86_400, LAST_SECOND - 86_400, LAST_SECOND, -1, 0]
    seconds = np.concatenate(
        [rng.integers(FIRST_SECOND, LAST_SECOND, 300), rng.integers(-(10**9), 4 * 10**9, 300), ends]
    )
    changes = 1_774_746_000 + np.arange(-7_200, 7_200, 97)
    of_old = -2_776_982_400 + np.arange(-(10**8), 10**8, 600_011)
    for unit, per_second in (("ms", 10**3), ("us", 10**6)):
        kind = pa.timestamp(unit, tz="UTC")
        instants = pa.array(np.concatenate([seconds, changes, of_old]) * per_second, pa.int64()).cast(kind)
        made = column(kind, value=part, timezone=zone)
        its = [coarse_value(value, made) for value in plain_values(instants)]
        assert coarse_cells(made, instants).to_pylist() == its
