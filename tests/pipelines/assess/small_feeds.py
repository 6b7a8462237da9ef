"""Made-up people for assessments: a table of one row a person, and a feed of people who come back."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.assessment import Assessed, split_people
from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.secret.seeds import Secret

SECRET = Secret(bytes(range(32)))
ROWS = """
version: 1
name: people
k: 40
fields:
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  height: {role: quasi, type: numeric, as: int, domain: [100, 220]}
  sex: {role: quasi, type: categorical}
  area: {role: quasi, type: numeric, as: int, domain: [0, 1000]}
  town: {role: quasi, type: categorical}
  taste: {role: sensitive}
  spent: {role: sensitive, as: double}
"""
FEED = """
version: 1
name: visits
k: 5
window: 1d
max_delay: 2d
individual: person
fields:
  at: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  height: {role: quasi, type: numeric, as: int, domain: [100, 220]}
  sex: {role: quasi, type: categorical}
  taste: {role: sensitive}
  spent: {role: sensitive, as: double}
"""
COLUMNS = ("person", "at", "age", "height", "sex", "area", "town", "taste", "spent")


def people(count: int, seed: int, days: int = 1, first: int = 0) -> Iterator[dict[str, str]]:
    """Rows of so many people on so many days, each there on most of them; what they buy says nothing of them."""
    rng = random.Random(seed)
    for number in range(first, first + count):
        own = {
            "person": f"P{number:06}",
            "age": str(rng.randint(18, 90)),
            "height": str(rng.randint(150, 200)),
            "sex": rng.choice("FM"),
            "area": str(rng.randint(0, 1000)),
            "town": f"town {rng.randint(1, 12)}",
        }
        for day in range(days):
            if days == 1 or rng.random() < 0.7:
                at = f"2026-03-{day + 1:02}T{rng.randint(8, 20):02}:00:00Z"
                taste = f"taste {rng.randint(1, 60)}"
                yield own | {"at": at, "taste": taste, "spent": f"{rng.uniform(1, 99):.2f}"}


def write(path: Path, rows: list[dict[str, str]], columns: tuple[str, ...]) -> Path:
    """Some columns of the rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def policy_of(text: str, folder: Path) -> Policy:
    """The policy that a text is."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return read_policy(str(path))


def canonical(rows: list[dict[str, str]], policy: Policy) -> tuple[BoundPolicy, pa.Table]:
    """The policy as bound to the rows, and these as it reads them."""
    names = [field.name for field in policy.fields]
    table = pa.table({name: [row[name] for row in rows] for name in names})
    bound = bind(policy, table.schema, text=True, source="people")
    return bound, classify(table, bound).rows.select([column.name for column in bound.columns])


def exactly(rows: pa.Table, bound: BoundPolicy, share: float = 1.0) -> ReleasedTable:
    """A release of which so many rows have their own values for a box, as somebody makes who drops nothing."""
    made = anonymize_table(_texts(rows), bound.policy, SECRET, text=True, threads=1).released
    known = {tuple(row[c.name] for c in bound.payload): row for row in rows.to_pylist()}
    released: list[dict[str, Any]] = made.to_pylist()
    for row in released[: int(share * len(released))]:
        own = known[tuple(row[c.published_name] for c in bound.payload)]
        for column in bound.quasis:
            value = own[column.name]
            exact = {"min": value, "max": value, "nulls": False} if column.in_ranges else [value]
            row[column.published_name] = exact
    return ReleasedTable.of(pa.Table.from_pylist(released, schema=made.schema), bound)


def _texts(rows: pa.Table) -> pa.Table:
    return pa.table([column.cast(pa.string()) for column in rows.columns], names=rows.column_names)


def released(rows: pa.Table, bound: BoundPolicy) -> ReleasedTable:
    """What the policy makes of the rows."""
    made = anonymize_table(_texts(rows), bound.policy, SECRET, text=True, threads=1).released
    return ReleasedTable.of(made, bound)


def asked(release: ReleasedTable, rows: pa.Table, controls: pa.Table | None, bound: BoundPolicy) -> Assessed:
    """An assessment of a release of the rows, against these controls or against half of its people."""
    both = rows if controls is None else pa.concat_tables([rows, controls])
    feed = feed_of(both.combine_chunks(), bound)
    split = split_people(feed, np.arange(both.num_rows) >= rows.num_rows, 1)
    return Assessed(feed, release, bound, split, 1)
