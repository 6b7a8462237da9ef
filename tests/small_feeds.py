"""Small feeds of people in towns, hour by hour, and the policies over them: what the stateful step is tested with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.secret.seeds import Secret

HOUR = 3_600_000
START = 1_709_251_200_000
"""2024-03-01T00:00:00 UTC: the first hour of every feed."""
SECRET = Secret(bytes(range(7, 39)))
JOBS = ("baker", "clerk", "nurse", "smith")
AGES = {"domain": [0, 120], "outside": "code"}
TRADES = {"domain": [*JOBS, *(f"other {number}" for number in range(12))]}

Row = dict[str, str | None]


def feed_policy(
    people: bool = True,
    towns: bool = False,
    events: bool = False,
    running: bool = False,
    age: Mapping[str, Any] | None = None,
    **head: Any,
) -> Policy:
    """k = 3, windows of an hour, a search of a few evaluations. people: whether ``who`` is an individual.

    Individuals are put together afresh in each window unless ``head`` says otherwise.
    towns: one partition each. events: whether ``event`` tells repeats. running: domains are those of the data;
    else they are wide, so that no row is held back because it would cost too much. age: further keys of that field,
    head: of the file.
    """
    fields: dict[str, Any] = {
        "who": {"role": "individual" if people else "identifier"},
        "when": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "as": "int", **({} if running else AGES), **(age or {})},
        "job": {"role": "quasi", "type": "categorical", **({} if running else TRADES)},
        "town": {"role": "insensitive"},
        "amount": {"role": "sensitive", "as": "double"},
        "reference": {"role": "insensitive"},
    }
    if events:
        fields["event"] = {"role": "event_id"}
    else:
        head.setdefault("others", "drop")  # every row has one
    if towns:
        head["partition_by"] = ["town"]
    solver = {"evaluations_per_row": 20, "threads": 1}
    if people and head.get("window", "1h") is not None and head.get("protect") != "row":
        head.setdefault("cohort", "window")
    if head.get("window", "1h") is None:
        fields["when"] = {"role": "identifier"}
        del head["window"]
    else:
        head.setdefault("window", "1h")
    return parse_policy({"version": 1, "k": 3, "solver": solver, "fields": fields} | head, "test", "test")


def bound_feed(policy: Policy) -> BoundPolicy:
    """The policy over records of text."""
    return bind(policy, text_schema(policy), text=True, source="test")


def row(number: int, who: int, hour: float, **changes: Any) -> Row:
    """One record: the ``number``-th (its unique reference), of person ``who``, so many hours after START."""
    when = dt.datetime.fromtimestamp((START + int(hour * HOUR)) / 1000, dt.UTC)
    values: Row = {
        "who": f"p{who}",
        "when": when.isoformat(),
        "age": str(20 + (who * 7) % 60),
        "job": JOBS[who % 4],
        "town": "Bonn",
        "amount": f"{(number * 37) % 1000}.5",
        "reference": f"r{number}",
        "event": f"e{number}",
    }
    return values | changes


def hourly(hours: int, rows: int, people: int, seed: int = 1, towns: Sequence[str] = ("Bonn",)) -> list[Row]:
    """``rows`` records an hour of people drawn anew each hour, in the order of time; the same seed, the same feed."""
    rng = np.random.default_rng(seed)
    feed = []
    for hour in range(hours):
        minutes = np.sort(rng.random(rows))
        for minute in minutes:
            who = int(rng.integers(people))
            town = towns[int(rng.integers(len(towns)))]
            feed.append(row(len(feed), who, hour + 0.99 * float(minute), town=town))
    return feed


def canonical(rows: Sequence[Row], bound: BoundPolicy) -> pa.Table:
    """Records as the rows that a window holds; none of them may be broken."""
    good, rejected = classify(rows_to_table(rows, bound).table, bound)
    assert not rejected
    return good


def references(table: pa.Table) -> list[str]:
    """The unique references in a release, sorted."""
    return sorted(table.column("reference").to_pylist())
