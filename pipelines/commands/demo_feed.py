"""A card and bank transaction feed that is made up, but behaves like one.

Customers return day after day with the same quasi-identifiers; a few are far more active than most; hours
and weekdays have their rhythm; customers arrive and leave; some incomes are unknown; some rows come late and
a few are broken. Everything follows from a seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from kanonflow.pipelines.commands.demo_tables import (
    CATEGORIES,
    CHANNELS,
    CURRENCIES,
    HOURS,
    OCCUPATIONS,
    PLACES,
    WEEKDAYS,
)
from kanonflow.schemas.avro_schema import transaction_schema
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent

FEED_START = date(2024, 1, 1)
FORMATS = ("csv", "avro", "parquet")
LEAST_CUSTOMERS = 30

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)


class FeedError(Exception):
    """The feed cannot be written; the message says why."""

    exit_code = 2


@dataclass(frozen=True)
class FeedShape:
    """How large the feed is, and how regular.

    rows, days: size.     seed: everything else follows from it.
    rows_per_customer_day: mean activity, which sets the number of customers.
    leaving: share of customers that arrive or leave in between.     unknown_income: share of customers.
    late: share of rows that come hours or days after they were booked.     broken: share of broken rows.
    """

    rows: int
    days: int
    seed: int
    rows_per_customer_day: float = 2.5
    leaving: float = 0.2
    unknown_income: float = 0.08
    late: float = 0.003
    broken: float = 0.0005

    def __post_init__(self) -> None:
        if self.rows < 1 or self.days < 1 or self.seed < 0:
            raise ValueError("a feed needs at least 1 row and 1 day, and a seed of 0 or more")

    @property
    def customers(self) -> int:
        """How many customers the feed has in all."""
        return max(LEAST_CUSTOMERS, round(self.rows / (self.days * self.rows_per_customer_day)))


def demo_feed(shape: FeedShape) -> pa.Table:
    """The feed in the order in which its rows arrive, typed as ``transaction.avsc``.

    The broken rows of this typed form are customers whose home was never located (0, 0). O(rows log rows).
    """
    rng = np.random.default_rng(shape.seed)
    customers = _customers(shape, rng)
    who, booked_ms = _bookings(shape, customers, rng)
    columns: dict[str, pa.Array] = {
        "transaction_id": pa.array(np.char.mod("T%010d", rng.permutation(shape.rows))),
        "booked_at": pa.array(booked_ms, pa.timestamp("ms", "UTC")),
        "customer": pa.array(np.char.mod("C%06d", who)),
    }
    for name, column in customers.columns.items():
        columns[name] = column.take(pa.array(who))
    columns |= _payload(shape.rows, rng)
    table = pa.table({field["name"]: columns[field["name"]] for field in transaction_schema()["fields"]})
    unlocated = _some(shape, rng)
    for name in ("home_latitude", "home_longitude"):
        place = table.schema.get_field_index(name)
        values = table.column(place).to_numpy().copy()
        values[unlocated] = 0.0
        table = table.set_column(place, name, pa.array(values))
    delay_ms = rng.exponential(2_000, shape.rows) + np.where(
        rng.random(shape.rows) < shape.late, rng.uniform(0.1, 3, shape.rows) * _DAY_S * 1000, 0
    )
    return table.take(pa.array(np.argsort(booked_ms + delay_ms, kind="stable")))


def write_feed(shape: FeedShape, folder: Path, format: str = "csv") -> Path:
    """Write the feed as ``folder/transactions.<format>`` and return the path; equal shapes, equal bytes.

    As CSV some rows have an amount, a time or a customer that is none, or lack their last value.
    Raises FeedError when another feed is there: releases of it may be, too.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format}; expected one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"transactions.{format}"
    if create_if_absent(str(path), _encoded(demo_feed(shape), shape, format)) is Outcome.DIFFERENT:
        raise FeedError(f"{path} holds another feed; choose another --output")
    return path


def _encoded(table: pa.Table, shape: FeedShape, format: str) -> bytes:
    if format == "csv":
        return _csv(table, shape)
    if format == "avro":
        return avro_file(table, transaction_schema(), b"kanonflow's demo")
    out = pa.BufferOutputStream()
    pa.parquet.write_table(table, out, row_group_size=65_536)
    return out.getvalue().to_pybytes()


@dataclass(frozen=True)
class _Customers:
    """Stable properties of all customers. weight: relative activity, float64 (customers,).
    first, last: float64 (customers,): days between which a customer is there."""

    weight: np.ndarray
    first: np.ndarray
    last: np.ndarray
    columns: Mapping[str, pa.Array]


def _customers(shape: FeedShape, rng: np.random.Generator) -> _Customers:
    n = shape.customers
    change = rng.uniform(0, shape.days, n)
    kind = rng.random(n)
    place = rng.choice(len(PLACES), n, p=_shares([place.weight for place in PLACES]))
    age = np.clip(np.where(rng.random(n) < 0.7, rng.normal(38, 11, n), rng.normal(66, 9, n)), 18, 95)
    born = (FEED_START - _EPOCH).days - (age * 365.25).astype(np.int64) - rng.integers(0, 366, n)
    occupation = rng.choice(len(OCCUPATIONS), n, p=_shares([job.weight for job in OCCUPATIONS]))
    income = np.array([job.income for job in OCCUPATIONS])[occupation] * rng.lognormal(0, 0.3, n)
    income_cents = np.clip(np.round(income, -2), 0, 499_900).astype(np.int64) * 100
    centre = np.array([[place.latitude, place.longitude] for place in PLACES])[place]
    home = np.round(centre + rng.normal(0, [0.08, 0.12], (n, 2)), 4)
    return _Customers(
        weight=rng.lognormal(0, 0.9, n),
        first=np.where(kind < shape.leaving / 2, change, 0.0),
        last=np.where((kind >= shape.leaving / 2) & (kind < shape.leaving), change, float(shape.days)),
        columns={
            "birth_date": pa.array(born.astype(np.int32), pa.date32()),
            "gender": _pick(["female", "male", "other"], rng.choice(3, n, p=[0.5, 0.49, 0.01])),
            "postcode_area": _pick([place.postcode_area for place in PLACES], place),
            "home_latitude": pa.array(home[:, 0]),
            "home_longitude": pa.array(home[:, 1]),
            "occupation": _pick([job.name for job in OCCUPATIONS], occupation),
            "income": _decimals(income_cents, 9, unknown=rng.random(n) < shape.unknown_income),
        },
    )


def _bookings(
    shape: FeedShape, customers: _Customers, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Who books, int64 (rows,), and when, int64 (rows,) in milliseconds since 1970.

    A customer's share of the rows is weight x presence; a row's day follows the weekdays' rhythm within the
    customer's presence, its time of day that of the hours.
    """
    weekday = (FEED_START.weekday() + np.arange(shape.days)) % 7
    until = np.concatenate([[0.0], np.cumsum(np.array(WEEKDAYS)[weekday])])
    whole_days = np.arange(shape.days + 1)
    begin, end = (np.interp(days, whole_days, until) for days in (customers.first, customers.last))
    activity = customers.weight * (end - begin)
    who = rng.choice(len(activity), shape.rows, p=activity / activity.sum())
    at = begin[who] + rng.random(shape.rows) * (end - begin)[who]
    day = np.minimum(np.searchsorted(until, at, side="right") - 1, shape.days - 1)
    hour = rng.choice(24, shape.rows, p=_shares(HOURS))
    second = day * _DAY_S + hour * 3600 + rng.integers(0, 3600, shape.rows)
    return who, ((FEED_START - _EPOCH).days * _DAY_S + second) * 1000


def _payload(rows: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    category = rng.choice(len(CATEGORIES), rows, p=_shares([kind.weight for kind in CATEGORIES]))
    typical = np.array([kind.typical_amount for kind in CATEGORIES])[category]
    cents = np.maximum(1, np.round(typical * rng.lognormal(0, 0.7, rows) * 100)).astype(np.int64)
    channels = np.cumsum([kind.channels for kind in CATEGORIES], axis=1)[category]
    channel = (rng.random(rows)[:, None] > channels[:, :-1] / channels[:, -1:]).sum(axis=1)
    currency = rng.choice(len(CURRENCIES), rows, p=_shares([weight for _, weight in CURRENCIES]))
    return {
        "amount": _decimals(cents, 12),
        "currency": _pick([code for code, _ in CURRENCIES], currency),
        "merchant_category": _pick([kind.name for kind in CATEGORIES], category),
        "channel": _pick(CHANNELS, channel),
    }


def _csv(table: pa.Table, shape: FeedShape) -> bytes:
    """The feed as text, a few rows broken in the ways that text allows."""
    rng = np.random.default_rng([shape.seed, 1])
    columns = {name: table.column(name).cast(pa.string()) for name in table.column_names}
    seconds = pa.compute.utf8_slice_codeunits(columns["booked_at"], 0, 19)
    columns["booked_at"] = seconds
    for name, text in (("amount", "n/a"), ("booked_at", "2024-13-45 99:00:00"), ("customer", "")):
        values = columns[name].to_numpy(zero_copy_only=False).copy()
        values[_some(shape, rng)] = text
        columns[name] = pa.array(values, pa.string())
    out = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(quoting_style="none")
    pa.csv.write_csv(pa.table(columns), out, options)
    lines = out.getvalue().to_pybytes().split(b"\n")
    for row in _some(shape, rng):
        lines[row + 1] = lines[row + 1].rsplit(b",", 1)[0]
    return b"\n".join(lines)


def _some(shape: FeedShape, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows to break: a share, at least one in a feed of 1000 rows or more. int64, sorted."""
    wanted = max(shape.broken * shape.rows / 5, float(shape.rows >= 1000 and shape.broken > 0))
    return np.sort(rng.choice(shape.rows, int(wanted), replace=False))


def _pick(values: list[str] | tuple[str, ...], codes: np.ndarray) -> pa.Array:
    return pa.array(values).take(pa.array(codes))


def _shares(weights: list[float] | tuple[float, ...]) -> np.ndarray:
    return np.array(weights, float) / np.sum(weights)


def _decimals(cents: np.ndarray, precision: int, unknown: np.ndarray | None = None) -> pa.Array:
    """int64 hundredths as decimal128(precision, 2); null where ``unknown``."""
    words = np.empty((len(cents), 2), np.int64)
    words[:, 0], words[:, 1] = cents, cents >> 63
    kind = pa.decimal128(precision, 2)
    values = pa.Array.from_buffers(kind, len(cents), [None, pa.py_buffer(words.tobytes())])
    if unknown is None:
        return values
    return pa.compute.if_else(pa.array(unknown), pa.scalar(None, kind), values)
