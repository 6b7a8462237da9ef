"""Feeds of a few rows, written down one by one, under a policy of cohort: lasting."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.dry_run.feed import Feed, feed_of
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy

BEGIN = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
Visit = tuple[str, int, int | None]
"""Who, in which hour since BEGIN, with which age."""


def toy_bound(table: pa.Table, *, k: int = 2, payload: Sequence[str] = (), **head: Any) -> BoundPolicy:
    """A policy over who, when, age and what else there is; fields of ``payload`` are published."""
    fields: dict[str, Any] = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "domain": [0, 120]},
        **{name: {"role": "insensitive"} for name in payload},
    }
    for name, change in head.pop("fields", {}).items():
        fields[name] = {**fields.get(name, {}), **change}
    solver = {"evaluations_per_row": 20, "threads": 1}
    mapping = {"version": 1, "k": k, "window": "1h", "cohort": "lasting", "others": "drop", "solver": solver}
    return bind(
        parse_policy({**mapping, **head, "fields": fields}, "t", "t"), table.schema, text=False, source="t"
    )


def visits(rows: Sequence[Visit], **columns: Sequence[Any]) -> pa.Table:
    """A table of visits, in the order given, and further columns."""
    return pa.table(
        {
            "who": pa.array([who for who, _, _ in rows], pa.string()),
            "when": pa.array(
                [BEGIN + dt.timedelta(hours=hour) for _, hour, _ in rows], pa.timestamp("ms", "UTC")
            ),
            "age": pa.array([age for _, _, age in rows], pa.int64()),
            **columns,
        }
    )


def toy(rows: Sequence[Visit], **head: Any) -> tuple[Feed, BoundPolicy]:
    """A feed of visits, and their policy. Of ``head``, columns: further ones of the table; name: the type of who."""
    kind = head.pop("name", pa.string())
    table = visits(rows, **head.pop("columns", {}))
    table = table.set_column(0, "who", table.column("who").cast(kind))
    bound = toy_bound(table, **head)
    return feed_of(kept_rows(table, bound), bound), bound


def kept_rows(table: pa.Table, bound: BoundPolicy) -> pa.Table:
    """The fields that a policy keeps, in its types."""
    kept = pa.schema([bound.canonical_schema.field(name) for name in bound.input_columns])
    return table.select(list(bound.input_columns)).cast(kept)
