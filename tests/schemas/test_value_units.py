"""Units: Arrow columns to the numbers that grids count in, and back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_form import ISO
from kanonflow.schemas.value_units import from_units, to_units

COLUMNS = [
    (pa.array([1, None, -3], pa.int32()), [1, 0, -3]),
    (pa.array([1.5, None, -2.0], pa.float32()), [1.5, None, -2.0]),
    (
        pa.array([Decimal("1.50"), None, Decimal("-999999999999.99")], pa.decimal128(14, 2)),
        [150, 0, -99999999999999],
    ),
    (pa.array([dt.date(1970, 1, 2), None, dt.date(1900, 1, 1)], pa.date32()), [1, 0, -25567]),
    (pa.array([7, None, -7], pa.timestamp("ms", tz="UTC")), [7, 0, -7]),
]


@pytest.mark.parametrize(("column", "units"), COLUMNS, ids=lambda value: str(getattr(value, "type", "")))
def test_columns_survive_the_way_to_units_and_back(column: pa.Array, units: list) -> None:
    """Slices and chunks too; nulls come back as nulls."""
    values, nulls = to_units(column)
    assert nulls.tolist() == [False, True, False]
    assert [None if np.isnan(value) else value for value in values.tolist()] == units
    assert from_units(values, nulls, column.type).equals(column)
    part_values, part_nulls = to_units(pa.chunked_array([column[1:], column[:1]]))
    assert from_units(part_values, part_nulls, column.type).to_pylist() == [
        *column.to_pylist()[1:],
        column[0].as_py(),
    ]


def test_values_that_do_not_fit_are_refused() -> None:
    """An end beyond a column's type never wraps around."""
    nulls = np.zeros(1, bool)
    for value, kind in ((2**40, pa.int32()), (2**40, pa.date32()), (1000, pa.decimal128(3, 1))):
        with pytest.raises(SchemaError):
            from_units(np.array([value]), nulls, kind)
    with pytest.raises(SchemaError):
        to_units(pa.array(["a"]))


def test_instants_are_floored() -> None:
    """An instant before 1970 belongs to the unit it lies in, and years beyond 9999 are refused."""
    instants = pa.array([-1, 1_999_999, None, -(10**17), 10**18], pa.timestamp("us"))
    values, outside = form_of(pa.timestamp("ms", tz="UTC")).take(instants, ISO)
    assert values.cast(pa.int64()).to_pylist() == [-1, 1999, None, None, None]
    assert outside.tolist() == [False, False, False, True, True]
    wide, outside = form_of(pa.timestamp("us", tz="UTC")).take(pa.array([5, 10**18], pa.timestamp("s")), ISO)
    assert wide.cast(pa.int64()).to_pylist() == [5_000_000, None]
    assert outside.tolist() == [False, True]
