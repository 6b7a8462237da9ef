"""Windows of rows for tests: every type a quasi-identifier and a payload can have, with nulls."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Cohort, Field, Policy, Protection, Quasi, QuasiType, Role

NUMERIC, DATE, CATEGORICAL = QuasiType.NUMERIC, QuasiType.DATE, QuasiType.CATEGORICAL
SCHEMA = pa.schema(
    {
        "person": pa.string(),
        "when": pa.timestamp("ms", tz="UTC"),
        "age": pa.int32(),
        "lat": pa.float64(),
        "height": pa.float32(),
        "income": pa.decimal128(9, 2),
        "born": pa.date32(),
        "seen": pa.timestamp("ms", tz="UTC"),
        "job": pa.string(),
        "floor": pa.int64(),
        "member": pa.bool_(),
        "amount": pa.decimal128(12, 2),
        "shop": pa.string(),
        "mark": pa.binary(),
        "paid": pa.timestamp("us", tz="UTC"),
        "serial": pa.int64(),
        "rate": pa.float64(),
    }
)
QUASIS = {
    "age": Quasi(NUMERIC, domain=(Decimal(0), Decimal(120))),
    "lat": Quasi(NUMERIC, grid=Decimal("0.05")),
    "height": Quasi(NUMERIC),
    "income": Quasi(NUMERIC, weight=2.0),
    "born": Quasi(DATE),
    "seen": Quasi(DATE, grid="hour"),
    "job": Quasi(CATEGORICAL),
    "floor": Quasi(CATEGORICAL),
    "member": Quasi(CATEGORICAL),
}
ROLES = {"person": Role.INDIVIDUAL, "when": Role.TIME}


def bound_policy(k: int = 3, protect: Protection = Protection.ROW, individual: bool = True) -> BoundPolicy:
    """A policy over all of SCHEMA; without an individual the field ``person`` is an identifier."""
    roles = ROLES if individual else {**ROLES, "person": Role.IDENTIFIER}
    fields = [
        Field(
            name,
            roles.get(name, Role.QUASI if name in QUASIS else Role.SENSITIVE),
            quasi=QUASIS.get(name),
        )
        for name in SCHEMA.names
    ]
    afresh = Cohort.WINDOW if protect is Protection.INDIVIDUAL else None
    policy = Policy(
        name="test", k=k, fields=tuple(fields), window_ms=86_400_000, protect=protect, cohort=afresh
    )
    return bind(policy, SCHEMA, text=False, source="the test's rows")


def window_rows(n: int, seed: int, bound: BoundPolicy, people: int | None = None) -> pa.Table:
    """n canonical rows; ``people`` individuals share them about evenly (default n); many nulls."""
    rng = np.random.default_rng(seed)
    count = n if people is None else people

    def some(values: np.ndarray, share: float = 0.15) -> pa.Array:
        return pa.array(values, mask=rng.random(n) < share)

    columns = {
        "person": pa.array([f"p{row % count:05d}" for row in range(n)]),
        "when": pa.array(rng.integers(0, 86_400_000, n)),
        "age": some(rng.integers(18, 90, n)),
        "lat": some(rng.normal(45, 3, n).round(4)),
        "height": some(rng.normal(1.7, 0.1, n).astype(np.float32)),
        "income": pa.array(
            [None if rng.random() < 0.1 else Decimal(int(v)) / 100 for v in rng.integers(-(10**6), 10**6, n)]
        ),
        "born": some(rng.integers(-10_000, 12_000, n).astype(np.int32)),
        "seen": some(rng.integers(0, 10**12, n)),
        "job": some(rng.choice(np.array(["baker", "clerk", "Ärztin", "", "smith"], dtype=object), n)),
        "floor": some(rng.integers(-1, 3, n)),
        "member": some(rng.random(n) < 0.5),
        "amount": pa.array([Decimal(int(v)) / 100 for v in rng.integers(-(10**6), 10**6, n)]),
        "shop": some(rng.choice(np.array(["a", "b", "c"], dtype=object), n)),
        "mark": pa.array([bytes(rng.integers(0, 256, 3, dtype=np.uint8)) for _ in range(n)]),
        "paid": some(rng.integers(0, 10**15, n)),
        "serial": pa.array(rng.permutation(n)),
        "rate": some(rng.normal(0, 1, n)),
    }
    arrays = []
    for field in SCHEMA:
        array = columns[field.name]
        same_width = pa.types.is_temporal(field.type)
        arrays.append(array.view(field.type) if same_width else array.cast(field.type))
    return pa.table(arrays, schema=SCHEMA).select(bound.canonical_schema.names)
