"""The order that the audit demands is the order that the pipeline publishes in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.files.avro_cells import cells_of_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.order import check_order
from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Field, Policy, Quasi, QuasiType, Role
from kanonflow.transforms.publishing.publish import published_order

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [-3, 0, 12, None]),
    "real": (pa.float64(), [-0.0, 0.0, -1.5, 2.5, None]),
    "single": (pa.float32(), [-0.0, 0.0, 0.1, None]),
    "text": (pa.string(), ["", "a", "aa", "B", "é", "\U0001f600", "\ufffd", None]),
    "raw": (pa.binary(), [b"", b"\x00", b"\xff", b"a", None]),
    "truth": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 1, 1), None]),
    "at": (pa.timestamp("us", tz="UTC"), [dt.datetime(2024, 1, n, tzinfo=dt.UTC) for n in (1, 2)]),
    "money": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("1.50"), Decimal("10.00"), None]),
}


def release(seed: int) -> tuple[pa.Table, BoundPolicy]:
    """Sixty random rows with a range, a set, and payload of every type."""
    quasis = {
        "age": Field("age", Role.QUASI, quasi=Quasi(QuasiType.NUMERIC)),
        "town": Field("town", Role.QUASI, quasi=Quasi(QuasiType.CATEGORICAL)),
    }
    fields = (*quasis.values(), *(Field(name, Role.SENSITIVE) for name in TYPES))
    kinds = {"age": pa.float64(), "town": pa.string()} | {name: kind for name, (kind, _) in TYPES.items()}
    bound = bind(Policy(name="t", k=2, fields=fields), pa.schema(kinds), text=False, source="rows")
    schema = release_arrow_schema(bound)
    random = np.random.default_rng(seed)

    def pick(values: list[Any]) -> Any:
        return values[random.integers(len(values))]

    ranges = [{"min": -1.0, "max": 2.0, "nulls": False}, {"min": -1.0, "max": 2.0, "nulls": True}]
    ranges += [{"min": None, "max": None, "nulls": True}, {"min": -0.0, "max": 2.0, "nulls": False}]
    sets = [["a"], ["a", "b"], [None], [None, "a"], ["b"]]
    rows = [
        {"release_id": "r", "window_start": None, "window_end": None, "age": pick(ranges), "town": pick(sets)}
        | {name: pick(values) for name, (_, values) in TYPES.items()}
        for _ in range(60)
    ]
    return pa.Table.from_pylist(rows, schema=schema), bound


def found(table: pa.Table, bound: BoundPolicy) -> tuple[str, ...]:
    """What the audit says of the order of these rows."""
    findings = Findings()
    check_order("r", cells_of_rows(table.to_pylist()), bound, findings)
    return findings.messages()


@pytest.mark.parametrize("seed", range(5))
def test_the_published_order_passes(seed: int) -> None:
    """Rows as the pipeline sorts them, of every type, with nulls, negative zeros and ties."""
    table, bound = release(seed)
    assert found(table.take(pa.array(published_order(table))), bound) == ()


@pytest.mark.parametrize("seed", range(5))
def test_every_other_order_is_found(seed: int) -> None:
    """Any two different neighbours exchanged are noticed."""
    table, bound = release(seed)
    order = published_order(table)
    rows = table.take(pa.array(order)).to_pylist()
    for place in range(len(rows) - 1):
        if repr(rows[place]) != repr(rows[place + 1]):
            swapped = order.copy()
            swapped[[place, place + 1]] = order[[place + 1, place]]
            assert found(table.take(pa.array(swapped)), bound)
