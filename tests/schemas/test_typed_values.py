"""Values of typed columns as other types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.typed_values import cast_typed

INT, LONG, FLOAT, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
CENTS = pa.decimal128(9, 2)
NONE = object()
"""What cannot be a value of the other type."""


def decimals(*texts: str) -> list[Decimal]:
    """Decimals as they are written."""
    return [Decimal(text) for text in texts]


@pytest.mark.parametrize(
    ("own", "kind", "values", "expected"),
    [
        (
            DOUBLE,
            LONG,
            [17850.0, -0.0, 2.0**53 - 1, 2.0**53, 0.5, 1e300],
            [17850, 0, 2**53 - 1, NONE, NONE, NONE],
        ),
        (DOUBLE, INT, [-(2.0**31), 2.0**31], [-(2**31), NONE]),
        (FLOAT, LONG, [2.0**24 - 1, 2.0**24], [2**24 - 1, NONE]),
        (INT, LONG, [7], [7]),
        (LONG, INT, [2**31 - 1, 2**31, -(2**31) - 1], [2**31 - 1, NONE, NONE]),
        (LONG, DOUBLE, [2**53 - 1, 2**53, 1 - 2**53, -(2**53)], [2.0**53 - 1, NONE, 1 - 2.0**53, NONE]),
        (LONG, FLOAT, [2**24 - 1, 2**24], [2.0**24 - 1, NONE]),
        (LONG, CENTS, [1234567, 12345678], [Decimal("1234567.00"), NONE]),
        (LONG, TEXT, [-12], ["-12"]),
        (CENTS, LONG, decimals("17850.00", "0.00", "0.50"), [17850, 0, NONE]),
        (pa.decimal128(20, 0), LONG, [Decimal(2**63 - 1), Decimal(2**63)], [2**63 - 1, NONE]),
        (pa.decimal128(38, 10), LONG, decimals("0", "12", "1e-10"), [0, 12, NONE]),
        (CENTS, DOUBLE, decimals("0.30", "-1234567.89"), [0.3, -1234567.89]),
        (CENTS, pa.decimal128(5, 1), decimals("0.30", "0.35", "12345.00"), [Decimal("0.3"), NONE, NONE]),
        (CENTS, TEXT, decimals("1.50"), ["1.50"]),
        (DOUBLE, CENTS, [0.1, 12.5, 0.125, 1e9], [Decimal("0.10"), Decimal("12.50"), NONE, NONE]),
        (FLOAT, CENTS, [0.1], [Decimal("0.10")]),
        (FLOAT, DOUBLE, [0.5], [0.5]),
        (DOUBLE, FLOAT, [0.1, 1e300], [0.10000000149011612, NONE]),
        (DOUBLE, TEXT, [17850.0, 0.1, 1e300], ["17850", "0.1", "1e+300"]),
        (pa.bool_(), TEXT, [True, False], ["true", "false"]),
        (pa.date32(), TEXT, [18_293], ["2020-02-01"]),
    ],
)
def test_values_are_themselves_or_none(
    own: pa.DataType, kind: pa.DataType, values: list[Any], expected: list[Any]
) -> None:
    """Each value by itself, and all of them; what a type cannot hold is no value of it, and a null is none."""
    assert form_of(own).becomes(form_of(kind))
    for given, wanted in [
        (values, expected),
        *(([one], [other]) for one, other in zip(values, expected, strict=True)),
    ]:
        cast, bad = cast_typed(pa.array([*given, None], own), kind)
        assert cast.type == kind
        assert cast.to_pylist() == [None if each is NONE else each for each in (*wanted, None)]
        assert bad.tolist() == [each is NONE for each in (*wanted, None)]


def test_what_cannot_be() -> None:
    """Numbers are no days, truths no numbers, and bytes nothing else."""
    instant = pa.timestamp("us", tz="UTC")
    for own, kind in [
        (LONG, pa.date32()),
        (pa.bool_(), INT),
        (INT, pa.bool_()),
        (pa.binary(), TEXT),
        (TEXT, LONG),
    ]:
        assert not form_of(own).becomes(form_of(kind))
    assert form_of(pa.date32()).becomes(form_of(instant))
    assert form_of(instant).becomes(form_of(pa.date32()))
    assert not form_of(instant).becomes(form_of(TEXT))
