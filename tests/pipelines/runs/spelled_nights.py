"""Nights of one feed whose ids and files differ in form: the same people and rows, written otherwise."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.pipelines.cli import main

POLICY = """
version: 1
name: nights
k: 3
window: 1d
cohort: lasting
solver: {evaluations_per_row: 5, threads: 1}
fields:
  who: {role: individual}
  when: {role: time, as: timestamp}
  age: {role: quasi, type: numeric, as: int}
  amount: {role: sensitive, as: "decimal(9,2)", accept_risk: made up}
"""
PEOPLE = 60
COLUMNS = ("who", "when", "age", "amount")
Rows = list[dict[str, Any]]


def padded(who: int) -> str:
    """As a system of record exports it."""
    return f"{7919 + 13 * who:08}"


def number(who: int) -> int:
    """As a data warehouse has it."""
    return 7919 + 13 * who


def night_rows(day: int, spell: Callable[[int], Any] = padded, people: Sequence[int] = range(PEOPLE)) -> Rows:
    """A row or two of each person on a day."""
    rng = random.Random(day)
    age = {who: random.Random(who).randint(18, 80) for who in people}
    return [
        {
            "who": spell(who),
            "when": dt.datetime(2024, 3, day, rng.randrange(24), rng.randrange(60), tzinfo=dt.UTC),
            "age": age[who],
            "amount": Decimal(rng.randrange(1000, 9999)) / 100,
        }
        for who in people
        for _ in range(rng.randint(1, 2))
    ]


def write(path: Path, rows: Rows, ids: pa.DataType | None = None) -> Path:
    """The rows as the file's name says. ids: of the typed formats, the type of the ids; None: text."""
    if path.suffix == ".avro":
        kind = {pa.int64(): "long", pa.int32(): "int", pa.binary(): "bytes"}.get(ids or pa.string(), "string")
        amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
        when = {"type": "long", "logicalType": "timestamp-millis"}
        kinds = dict(zip(COLUMNS, (kind, when, "int", amount), strict=True))
        fields = [{"name": name, "type": each} for name, each in kinds.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)
        return path
    if path.suffix == ".parquet":
        types = (ids or pa.string(), pa.timestamp("ms", tz="UTC"), pa.int32(), pa.decimal128(9, 2))
        schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return path
    file = io.StringIO(newline="")
    out = csv.writer(file)
    out.writerow(COLUMNS)
    for row in rows:
        out.writerow([row["who"], f"{row['when']:%Y-%m-%d %H:%M:%S}", row["age"], row["amount"]])
    data = file.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


class Nights:
    """A place with a policy and a secret, and the command over its files."""

    def __init__(self, place: Path, policy: str = POLICY) -> None:
        self.place, self.secret = place, "secret"
        (place / "policy.yaml").write_text(policy)
        (place / "secret").write_bytes(bytes(range(7, 47)))
        (place / "secret").chmod(0o600)

    def run(
        self, output: str, *files: Path | str, flags: Sequence[str] = (), policy: str | None = None
    ) -> int:
        """``kanonflow anonymize``; its exit code. flags: beside policy, input, output and secret."""
        name = "policy.yaml"
        if policy is not None:
            name = f"policy-{output}.yaml"
            (self.place / name).write_text(policy)
        given = [
            "--policy",
            str(self.place / name),
            "--secret-file",
            str(self.place / self.secret),
            "--quiet",
        ]
        for file in files:
            given += ["--input", str(file)]
        return main(["anonymize", *given, "--output", str(self.place / output), *flags])

    def on(self, earlier: str, output: str, *files: Path | str, **given: Any) -> int:
        """The same with ``--continue``."""
        flags = ("--continue", str(self.place / earlier), *given.pop("flags", ()))
        return self.run(output, *files, flags=flags, **given)
