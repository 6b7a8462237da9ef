"""Text and values: strict forms, no cell judged by its neighbours, and the way back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.text_values import cast_text, render_text

MILLISECONDS, MICROSECONDS = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")
BAD = object()


def instant(*parts: int) -> dt.datetime:
    """An instant in UTC."""
    return dt.datetime(*parts, tzinfo=dt.UTC)


def cast(cells: list[str | None], kind: pa.DataType) -> list[Any]:
    """Values of the cells, BAD where they are none."""
    values, bad = cast_text(pa.array(cells, pa.string()), kind)
    assert values.type == kind
    assert not np.any(bad & ~np.asarray(values.is_null()))
    return [BAD if wrong else value for value, wrong in zip(values.to_pylist(), bad, strict=True)]


CASES = [
    (pa.float64(), {"1": 1.0, "-.5": -0.5, "+3.": 3.0, " 2 ": 2.0, "1e5": 1e5, "": None}),
    (pa.float64(), dict.fromkeys(["x", "nan", "inf", "-Infinity", "1e999", "1_0", "0x1F", "1,5"], BAD)),
    (
        pa.int32(),
        {"1": 1, "-7": -7, "+3": 3, " 2": 2, "": None, "2147483648": BAD, "1.5": BAD, "1.0": 1, "0x1F": BAD},
    ),
    (pa.int64(), {"9223372036854775807": 2**63 - 1, "9223372036854775808": BAD}),
    (pa.decimal128(5, 2), {"1.5": Decimal("1.50"), "1.230": Decimal("1.23"), "1.234": BAD, "1000": BAD}),
    (pa.bool_(), {"true": True, "False": False, "1": True, "yes": BAD}),
    (pa.date32(), {"2020-02-29": dt.date(2020, 2, 29), "2021-02-29": BAD, "20200101": BAD, "1/2/2020": BAD}),
    (pa.string(), {"": None, " a": " a", "NULL": "NULL"}),
    (
        MILLISECONDS,
        {
            "2020-01-01 00:00:08": instant(2020, 1, 1, 0, 0, 8),
            "2020-01-01T00:00:08Z": instant(2020, 1, 1, 0, 0, 8),
            "2020-01-01T02:00:08+02:00": instant(2020, 1, 1, 0, 0, 8),
            "2020-01-01 02:00:08-0130": instant(2020, 1, 1, 3, 30, 8),
            "2020-01-01 00:00:08.1": instant(2020, 1, 1, 0, 0, 8, 100_000),
            "2020-01-01 00:00:08.123987": instant(2020, 1, 1, 0, 0, 8, 123_000),
            "1969-12-31 23:59:59.999999Z": instant(1969, 12, 31, 23, 59, 59, 999_000),
            "2020-01-01 05:30": instant(2020, 1, 1, 5, 30),
            "2020-01-01": instant(2020, 1, 1),
            "2020-02-30 00:00:00": BAD,
            "2020-01-01 24:00:01": BAD,
            "now": BAD,
            "": None,
        },
    ),
    (MICROSECONDS, {"2020-01-01 00:00:08.1234567": instant(2020, 1, 1, 0, 0, 8, 123_456)}),
]


@pytest.mark.parametrize(("kind", "cells"), CASES)
def test_cells_alone_and_together(kind: pa.DataType, cells: dict[str, Any]) -> None:
    """Each cell has its value whether it stands alone or among good and bad ones."""
    assert cast(list(cells), kind) == list(cells.values())
    for text, value in cells.items():
        assert cast([text], kind) == [value]
    assert cast([None, *cells, None], kind)[1:-1] == list(cells.values())


INSTANTS = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(dt.UTC))
VALUES = [
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    (pa.date32(), st.dates(dt.date(1000, 1, 1))),
    (MICROSECONDS, INSTANTS),
    (MILLISECONDS, INSTANTS.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000))),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda value: str(value)[:20])
def test_canonical_text_is_read_back(kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    """Every value of a canonical type survives being written as text and cast again."""

    @settings(derandomize=True, max_examples=50)
    @given(st.lists(st.none() | values, max_size=5))
    def round_trip(cells: list[Any]) -> None:
        array = pa.array(cells, kind)
        again, bad = cast_text(render_text(array), kind)
        assert not bad.any()
        assert again.to_pylist() == array.to_pylist()

    round_trip()


def test_what_has_no_canonical_text_is_still_written() -> None:
    """Rejected rows may hold anything: bytes are hexadecimal, the rest is what Python writes."""
    assert render_text(pa.array([b"\x00\xff", None])).to_pylist() == ["00ff", None]
    assert render_text(pa.array([[1], None])).to_pylist() == ["[1]", None]
    assert render_text(pa.array(["a", None]).dictionary_encode()).to_pylist() == ["a", None]
    assert len(render_text(pa.array([10**17], pa.timestamp("s"))).to_pylist()[0]) > 0
