"""Dates and instants under a hierarchy of days, from every kind of input: released as labels, audited, or refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.hierarchy_builders import date_hierarchy

pytestmark = pytest.mark.thorough

DAYS = "{calendar: [month, quarter, year], domain: [1969-12-20, 1971-01-23]}"
FIRST = date(1969, 12, 20)
TREE = date_hierarchy([FIRST + timedelta(days) for days in range(400)], ("month", "quarter", "year"))
POLICY = """
version: 1
k: 3
solver: {solver}
fields:
  born: {{role: quasi, type: hierarchy, {value} hierarchy: {tree}}}
  town: {{role: quasi, type: hierarchy, hierarchy: [[a, "*"], [b, "*"]]}}
  amount: {{role: sensitive, as: int, accept_risk: numbers of a test}}
"""
SEARCH = "{evaluations_per_row: 50, threads: 1}"
EAST = timezone(timedelta(hours=2))


def moments(n: int = 60) -> list[datetime | None]:
    """Instants in UTC at all hours, one in twelve missing, the last one a day that the hierarchy does not have."""
    generator = np.random.default_rng(4)
    start = datetime(1969, 12, 20, tzinfo=UTC)
    found: list[datetime | None] = [
        None if row % 12 == 5 else start + timedelta(minutes=int(generator.integers(400 * 1440)))
        for row in range(n - 1)
    ]
    # Just before midnight, before and after 1970.
    found[0], found[1] = (
        datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
    )
    return [*found, datetime(2003, 2, 1, 12, tzinfo=UTC)]


def _csv(folder: Path, spelled: Callable[[datetime], str]) -> Path:
    lines = ["born,town,amount"]
    for row, moment in enumerate(moments()):
        lines.append(f"{'' if moment is None else spelled(moment)},{'ab'[row % 2]},{row}")
    (folder / "in.csv").write_text("\n".join(lines) + "\n")
    return folder / "in.csv"


def _parquet(folder: Path, kind: pa.DataType) -> Path:
    naive = pa.types.is_timestamp(kind) and kind.tz is None
    cells = [None if m is None else m.replace(tzinfo=None) if naive else m for m in moments()]
    if pa.types.is_date(kind):
        cells = [None if m is None else m.date() for m in moments()]  # type: ignore[misc]
    table = pa.table(
        {
            "born": pa.array(cells, kind),
            "town": ["ab"[row % 2] for row in range(60)],
            "amount": pa.array(range(60), pa.int32()),
        }
    )
    pq.write_table(table, folder / "in.parquet")
    return folder / "in.parquet"


def _avro(folder: Path, logical: str) -> Path:
    kind = {"type": "int" if logical == "date" else "long", "logicalType": logical}
    fields = [{"name": "born", "type": ["null", kind]}, {"name": "town", "type": "string"}]
    schema = {"type": "record", "name": "Row", "fields": [*fields, {"name": "amount", "type": "int"}]}
    rows: list[dict[str, Any]] = []
    for row, moment in enumerate(moments()):
        cell: Any = moment
        if moment is not None and logical == "date":
            cell = moment.date()
        elif moment is not None and logical.startswith("local"):
            cell = moment.replace(tzinfo=None)
        rows.append({"born": cell, "town": "ab"[row % 2], "amount": row})
    with (folder / "in.avro").open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), rows)
    return folder / "in.avro"


INPUTS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "text": ("", lambda folder: _csv(folder, lambda moment: moment.date().isoformat())),
    "text as date": (
        "as: date,",
        lambda folder: _csv(folder, lambda moment: f" {moment.date().isoformat()} "),
    ),
    "text as timestamp": (
        "as: timestamp,",
        lambda folder: _csv(folder, lambda m: m.astimezone(EAST).isoformat()),
    ),
    "date32": ("", lambda folder: _parquet(folder, pa.date32())),
    "date64": ("", lambda folder: _parquet(folder, pa.date64())),
    "seconds": ("", lambda folder: _parquet(folder, pa.timestamp("s", tz="UTC"))),
    "milliseconds": ("", lambda folder: _parquet(folder, pa.timestamp("ms", tz="UTC"))),
    "microseconds, no zone": ("", lambda folder: _parquet(folder, pa.timestamp("us"))),
    "nanoseconds, a zone": ("", lambda folder: _parquet(folder, pa.timestamp("ns", tz="America/New_York"))),
    "avro date": ("", lambda folder: _avro(folder, "date")),
    "avro millis": ("", lambda folder: _avro(folder, "timestamp-millis")),
    "avro micros": ("as: timestamp,", lambda folder: _avro(folder, "timestamp-micros")),
    "avro local micros": ("", lambda folder: _avro(folder, "local-timestamp-micros")),
}


def _rejected(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in (folder / "out" / "restricted" / "rejected").glob("*.avro"):
        with file.open("rb") as stream:
            found += list(fastavro.reader(stream))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("solver", [SEARCH, "{method: ola, suppression: 0.1}"])
def test_days_are_generalized_by_the_calendar(
    name: str, solver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row's label stands above its day in UTC; what has no leaf is rejected; the audit reads the same days."""
    value, write = INPUTS[name]
    (tmp_path / "policy.yaml").write_text(POLICY.format(value=value, solver=solver, tree=DAYS))
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(write(tmp_path))]
    cli.main(["policy", "check", flags[1], *flags[2:]])
    said = capsys.readouterr()
    assert "born: 1 different value in 1 row of the data without a leaf" in said.out + said.err
    assert "2003" not in said.out + said.err
    assert cli.main(["anonymize", *flags, "--output", str(tmp_path / "out")]) == 0
    (path,) = (tmp_path / "out" / "release").glob("*.avro")
    with path.open("rb") as stream:
        rows: list[Any] = list(fastavro.reader(stream))
    labels = {row["born"] for row in rows}
    assert labels <= {*TREE.extents, None}
    assert len(labels) > 1
    gone = _rejected(tmp_path)
    assert len(rows) + len(gone) == 60
    assert [record["row"]["born"] for record in gone if record["reason"] == "outside_domain"] == [
        "2003-02-01"
    ]
    verify = ["verify", *flags, "--release", str(tmp_path / "out")]
    assert cli.main(verify) == 0
    # Another day's label in the place of one: the audit looks the days up by itself.
    month = next(label for label in TREE.labels[1] if label not in labels)
    with path.open("rb") as stream:
        schema = fastavro.reader(stream).writer_schema
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [{**row, "born": month} for row in rows])  # type: ignore[arg-type]
    assert cli.main(verify) == 1


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms", tz="UTC")])
def test_a_hierarchy_without_days_is_refused_with_what_to_do(
    kind: pa.DataType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first row; the field, its type in the input, and two ways out; no label of the hierarchy."""
    seasons = '[[spring, "*"], [autumn, "*"]]'
    (tmp_path / "policy.yaml").write_text(POLICY.format(value="", solver=SEARCH, tree=seasons))
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(_parquet(tmp_path, kind))]
    assert cli.main(["anonymize", *flags, "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "fields.born: is " in said
    assert "its hierarchy is not one of days; build it, as in {calendar: [month, year]" in said
    assert "spring" not in said
    assert not list(tmp_path.glob("out/release/*"))
