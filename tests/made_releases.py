"""Releases made without a solver: rows of every type in groups drawn at random, under the boxes that the product
publishes, with the rows they come from."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.columns.parquet_encoding import parquet_file
from kanonflow.transforms.publishing.boxes import box_columns, hull_boxes, snapped_boxes

K = 3
DAY_MS = 86_400_000
FIRST_MS = 1_709_251_200_000
"""2024-03-01T00:00:00 UTC."""
JOBS = [("baker", "craft", "*"), ("smith", "craft", "*"), ("clerk", "office", "*"), ("judge", "office", "*")]
AWKWARD = ["F", "M", "", "a|b", "\\N", "back\\slash", "[1, 2]", 'say "x", y', "ü\n", "|", "null"]
"""Categories that a careless text of a set would mix up."""
SCHEMA = pa.schema(
    [
        ("who", pa.string()),
        ("when", pa.timestamp("ms", "UTC")),
        ("age", pa.int32()),
        ("height", pa.float64()),
        ("weight", pa.float32()),
        ("income", pa.decimal128(9, 2)),
        ("born", pa.date32()),
        ("seen", pa.timestamp("ms", "UTC")),
        ("gender", pa.string()),
        ("kids", pa.int64()),
        ("smoker", pa.bool_()),
        ("job", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("score", pa.float64()),
        ("count", pa.int64()),
        ("flag", pa.bool_()),
        ("note", pa.string()),
        ("raw", pa.binary()),
        ("at", pa.time64("us")),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("uid", pa.uuid()),
    ]
)
FIELDS: dict[str, Any] = {
    "who": {"role": "individual"},
    "when": {"role": "time"},
    "age": {"role": "quasi", "type": "numeric", "domain": [0, 100], "outside": "code", "grid": 10},
    "height": {"role": "quasi", "type": "numeric"},
    "weight": {"role": "quasi", "type": "numeric", "grid": "exact"},
    "income": {"role": "quasi", "type": "numeric", "grid": 0.5},
    "born": {"role": "quasi", "type": "date"},
    "seen": {"role": "quasi", "type": "date", "grid": "hour"},
    "gender": {"role": "quasi", "type": "categorical"},
    "kids": {"role": "quasi", "type": "categorical"},
    "smoker": {"role": "quasi", "type": "categorical"},
    "job": {"role": "quasi", "type": "hierarchy", "hierarchy": [list(row) for row in JOBS]},
    **{
        name: {"role": "sensitive"}
        for name in ("amount", "score", "count", "flag", "note", "raw", "at", "day", "moment", "uid")
    },
}
QUASIS = tuple(name for name, field in FIELDS.items() if field["role"] == "quasi")


class Made(NamedTuple):
    """rows: canonical, a released row each, in the order of ``released`` but for payload within a group."""

    bound: BoundPolicy
    rows: pa.Table
    released: pa.Table


def every_kind(lasting: bool = False, windows: bool = True) -> BoundPolicy:
    """The policy with a field of every type in every role. lasting: for cohorts that last."""
    head: dict[str, Any] = {"version": 1, "k": K, "name": "every-kind"}
    fields = dict(FIELDS)
    if windows:
        head |= {"window": "1d", "cohort": "lasting" if lasting else "window"}
        head |= {"max_delay": "1d"} if lasting else {}
    else:
        fields["when"] = {"role": "identifier"}
    return bind(parse_policy(head | {"fields": fields}, "test", "test"), SCHEMA, text=False, source="test")


def drawn_rows(seed: int, count: int, nulls: float = 0.2, gathered: bool = True) -> pa.Table:
    """Rows with values of all types. gathered: ends repeat and ranges are narrow."""
    draw = random.Random(seed)

    def one(value: Any) -> Any:
        return None if draw.random() < nulls else value

    def row(number: int) -> dict[str, Any]:
        day = draw.randrange(4)
        return {
            "who": f"p{number}",
            "when": dt.datetime.fromtimestamp(
                (FIRST_MS + day * DAY_MS + draw.randrange(DAY_MS)) / 1000, dt.UTC
            ),
            # The domain ends at 100: what is beyond was coded when the row was read.
            "age": one(min(draw.randrange(0, 120 if not gathered else 40), 100)),
            "height": one(draw.choice([1.5, 1.625, 1.75, draw.uniform(1.4, 2.1)])),
            "weight": one(draw.choice([60.5, 70.25, 80.0])),
            "income": one(Decimal(draw.randrange(0, 500_000)) / 100),
            "born": one(dt.date(1950, 1, 1) + dt.timedelta(draw.randrange(0, 20_000))),
            "seen": one(dt.datetime(1969, 12, 30, tzinfo=dt.UTC) + dt.timedelta(hours=draw.randrange(100))),
            "gender": one(draw.choice(AWKWARD)),
            "kids": one(draw.randrange(4)),
            "smoker": one(draw.random() < 0.5),
            "job": one(draw.choice(JOBS)[0]),
            "amount": one(Decimal(draw.randrange(-10_000, 50_000)) / 100),
            "score": one(draw.gauss(0, 1)),
            "count": one(draw.randrange(-3, 8)),
            "flag": one(draw.random() < 0.5),
            "note": one(draw.choice(["", "x", 'say "x", y', "two\nlines", "\\N", "NULL", "é"])),
            "raw": one(draw.choice([b"", b"\x00\xff", b"ab"])),
            "at": one(dt.time(draw.randrange(24), 30, 0, draw.randrange(10**6))),
            "day": one(dt.date(2024, 1, 1) + dt.timedelta(draw.randrange(60))),
            "moment": one(dt.datetime(2024, 1, 1, 0, 0, 0, draw.randrange(10**6), tzinfo=dt.UTC)),
            "uid": one(f"{draw.getrandbits(128):032x}"),
        }

    schema = SCHEMA.set(SCHEMA.get_field_index("uid"), pa.field("uid", pa.string()))
    return pa.Table.from_pylist([row(number) for number in range(count)], schema)


def made(
    seed: int, count: int = 30, *, nulls: float = 0.2, lasting: bool = False, windows: bool = True
) -> Made:
    """A release of drawn rows in random groups of K to 2 K - 1; payloads change places within them.

    A row's window is that of its group: from the day of its first to that of its last row.
    """
    bound = every_kind(lasting, windows)
    rows = drawn_rows(seed, count, nulls)
    draw = np.random.default_rng(seed)
    group_of = draw.permutation(np.minimum(np.arange(count) // K, max(count // K, 1) - 1))
    if draw.random() < 0.5:
        # Groups of similar age, as a solver makes them.
        ages = np.array([-1 if age is None else age for age in rows.column("age").to_pylist()])
        group_of[np.argsort(ages, kind="stable")] = np.sort(group_of)
    order = np.argsort(group_of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(group_of))]).astype(np.int64)
    boxes = snapped_boxes(hull_boxes(rows, bound, Groups(order, starts, group_of)))
    schema = release_arrow_schema(bound)
    columns: dict[str, Any] = dict(box_columns(boxes))
    payload = np.arange(count)
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    days = np.asarray(rows.column("when").cast(pa.int64())) // DAY_MS
    for start, end in pairwise(starts.tolist()):
        members = order[start:end]
        payload[members] = draw.permutation(members)
        first[members], last[members] = days[members].min() * DAY_MS, (days[members].max() + 1) * DAY_MS
    for column in bound.payload:
        columns[column.published_name] = rows.column(column.name).take(pa.array(payload))
    columns["release_id"] = pa.repeat(f"r{seed:08d}", count)
    for name, times in (("window_start", first), ("window_end", last)):
        mask = np.full(count, not windows)
        columns[name] = pa.array(times, pa.int64(), mask=mask).cast(pa.timestamp("ms", "UTC"))
    columns["class_id"] = pa.array(group_of.astype(np.int64) * 7 + 1)
    return Made(bound, rows, pa.table([columns[name] for name in schema.names], schema=schema))


def write_release(
    folder: Path, release: Made, epoch: int = 7, name: str | None = None, suffix: str = ".avro"
) -> Path:
    """The release as a run writes it, below ``folder/release``; its file. suffix: of its format."""
    place = folder / "release"
    place.mkdir(parents=True, exist_ok=True)
    name = name or release.released.column("release_id")[0].as_py()
    schema = release_avro_schema(release.bound, epoch)
    path = place / f"{name}{suffix}"
    avro = suffix == ".avro"
    path.write_bytes(
        avro_file(release.released, schema, b"0123456789abcdef")
        if avro
        else parquet_file(release.released, schema)
    )
    return path
