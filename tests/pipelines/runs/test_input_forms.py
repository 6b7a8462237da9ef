"""Whole runs over text and types as people have them: released in the types that the policy says, and audited."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines import cli

pytestmark = pytest.mark.thorough

HEAD = """
version: 1
k: 3
protect: individual
solver: {evaluations_per_row: 20, threads: 1}
"""
ROWS = 120


def released(out: Path) -> list[dict[str, Any]]:
    """The rows of all releases."""
    return [row for path in sorted((out / "release").glob("*.avro")) for row in _records(path)]


def rejected(out: Path) -> list[dict[str, Any]]:
    """What was rejected."""
    return [row for path in (out / "restricted" / "rejected").glob("*.avro") for row in _records(path)]


def _records(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        return list(fastavro.reader(stream))  # type: ignore[arg-type]


def changed(flags: list[str], out: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """What the audit ends with once each rejected row is changed."""
    for path in (out / "restricted" / "rejected").glob("*.avro"):
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            schema, rows = reader.writer_schema, list(reader)
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, map(change, rows))  # type: ignore[arg-type]
    return cli.main(["verify", *flags, "--release", str(out)])


GERMAN = """
csv: {encoding: cp1250, decimal: ",", thousands: ".", nulls: [NA, "-"], quote: "'"}
fields:
  konto: {role: individual}
  geboren: {role: quasi, type: date, format: "%d.%m.%Y"}
  einkommen: {role: quasi, type: numeric}
  stadt: {role: quasi, type: categorical}
  gebucht: {role: sensitive, format: "%d.%m.%Y %H:%M", timezone: Europe/Prague, accept_risk: made up}
  betrag: {role: sensitive, as: "decimal(9,2)", accept_risk: made up}
"""
TOWNS = ("Plzeň", "Žďár", "Třebíč", "NA")


def _german_line(row: int) -> str:
    booked = dt.datetime(2020, 3, 1) + dt.timedelta(hours=7 * row)
    return (
        f"k{row};{row % 28 + 1}.{row % 12 + 1}.{1950 + row % 40};{1 + row % 9}.{row % 10}50,5;{TOWNS[row % 4]};"
        f"{booked:%d.%m.%Y %H:%M};'{row},25'"
    )


def test_a_file_in_the_forms_of_its_country(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commas, points, days first, words for null, another encoding and clocks that change: rows in are rows out, and
    what is none is rejected as it came. A rejected row that stands for another one fails the audit."""
    lines = [_german_line(row) for row in range(ROWS)]
    good = [row for row in range(ROWS) if row not in (10, 20, 30)]
    lines[10] = lines[10].replace(lines[10].split(";")[1], "1960-11-11")  # a good date elsewhere
    lines[20] = lines[20].replace(";'20,25'", ";20.25")
    lines[30] = lines[30].replace(lines[30].split(";")[4], "29.03.2020 02:30")  # no clock showed it
    text = "konto;geboren;einkommen;stadt;gebucht;betrag\n" + "\n".join(lines) + "\n"
    (tmp_path / "in.csv").write_bytes(text.encode("cp1250"))
    (tmp_path / "policy.yaml").write_text(HEAD + GERMAN)
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(tmp_path / "in.csv")]
    out = tmp_path / "out"
    assert cli.main(["anonymize", *flags, "--output", str(out)]) == 0
    rows, gone = released(out), rejected(out)
    told = sorted((row["reason"], row["field"], tuple(row["unread"])) for row in gone)
    assert told == [("bad_value", name, (name,)) for name in ("betrag", "geboren", "gebucht")]
    assert {row["row"][row["field"]] for row in gone} == {"1960-11-11", "20.25", "29.03.2020 02:30"}
    assert len(rows) == len(good)
    assert sorted(row["betrag"] for row in rows) == [Decimal(f"{row}.25") for row in good]
    booked = min(row["gebucht"] for row in rows)
    assert booked == dt.datetime(2020, 2, 29, 23, tzinfo=dt.UTC)
    assert {town for row in rows for town in row["stadt"]} == {None, *TOWNS[:3]}
    assert cli.main(["verify", *flags, "--release", str(out)]) == 0
    # The date that is none here would be a good one as canonical text.
    assert changed(flags, out, lambda row: row | {"unread": []}) == 1
    assert "are not in the input" in capsys.readouterr().out


TYPED = """
fields:
  account: {role: individual}
  client: {role: quasi, type: categorical, as: string}
  born: {role: quasi, type: date, as: date}
  at: {role: sensitive, accept_risk: made up}
  fine: {role: insensitive, accept_risk: made up}
  ref: {role: insensitive, accept_risk: made up}
  paid: {role: sensitive, timezone: Europe/Prague, accept_risk: made up}
  customer: {role: insensitive, as: long, accept_risk: made up}
"""
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "account", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "client", "type": ["null", "int"]},
        {"name": "born", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "at", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
        {"name": "fine", "type": {"type": "long", "logicalType": "time-micros"}},
        {
            "name": "ref",
            "type": ["null", {"type": "fixed", "name": "Ref", "size": 16, "logicalType": "uuid"}],
        },
        {"name": "paid", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "customer", "type": ["null", "double"]},
    ],
}


def _typed_rows() -> list[dict[str, Any]]:
    generator = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for row in range(ROWS):
        ref = UUID(bytes=generator.bytes(16))
        rows.append(
            {
                "account": UUID(bytes=generator.bytes(16)),
                "client": None if row % 20 == 5 else row % 4,
                "born": dt.datetime(1950 + row % 40, row % 12 + 1, 1, 12, tzinfo=dt.UTC),
                "at": None if row % 30 == 7 else dt.time(row % 24, row % 60, 0, 1_000 * row),
                "fine": dt.time(row % 24, 0, 0, row),
                "ref": None if row % 30 == 8 else ref,
                "paid": dt.datetime(2020, 7, 1) + dt.timedelta(hours=row),
                "customer": None if row % 30 == 9 else 17850.0 + row,
            }
        )
    rows[10]["customer"] = 17850.5
    rows[20]["customer"] = 2.0**53
    rows[30]["paid"] = dt.datetime(2020, 10, 25, 2, 30)
    return rows


def _avro(folder: Path, rows: list[dict[str, Any]]) -> Path:
    held = [row | {"ref": None if row["ref"] is None else row["ref"].bytes} for row in rows]
    with (folder / "in.avro").open("wb") as stream:
        fastavro.writer(stream, SCHEMA, held)
    return folder / "in.avro"


def _parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    kinds = {
        "account": pa.uuid(),
        "client": pa.int8(),
        "born": pa.timestamp("us", tz="UTC"),
        "at": pa.time32("ms"),
        "fine": pa.time64("ns"),
        "ref": pa.uuid(),
        "paid": pa.timestamp("ns"),
        "customer": pa.float64(),
    }
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    pq.write_table(pa.table(columns), folder / "in.parquet")
    return folder / "in.parquet"


@pytest.mark.parametrize("write", [_avro, _parquet], ids=["avro", "parquet"])
def test_a_typed_file_with_ids_and_clocks(
    tmp_path: Path, write: Callable[[Path, list[dict[str, Any]]], Path]
) -> None:
    """UUIDs are text, times of day themselves, 17850.0 is 17850, local times instants; what is none is rejected; the
    audit reads the same, and finds a time of day that changed."""
    rows = _typed_rows()
    (tmp_path / "policy.yaml").write_text(HEAD + TYPED)
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(write(tmp_path, rows))]
    out = tmp_path / "out"
    assert cli.main(["anonymize", *flags, "--output", str(out)]) == 0
    gone = rejected(out)
    assert sorted((row["reason"], row["field"]) for row in gone) == [
        ("bad_value", "customer"),
        ("bad_value", "customer"),
        ("bad_value", "paid"),
    ]
    good = [row for number, row in enumerate(rows) if number not in (10, 20, 30)]
    found = released(out)
    for name, expected in {
        "at": [row["at"] for row in good],
        "fine": [row["fine"] for row in good],
        "ref": [None if row["ref"] is None else str(row["ref"]) for row in good],
        "paid": [row["paid"].replace(tzinfo=dt.UTC) - dt.timedelta(hours=2) for row in good],
        "customer": [None if row["customer"] is None else int(row["customer"]) for row in good],
    }.items():
        assert Counter(row[name] for row in found) == Counter(expected), name
    assert {value for row in found for value in row["client"]} == {None, "0", "1", "2", "3"}
    assert {type(row["born"]["min"]) for row in found} == {dt.date}
    assert cli.main(["verify", *flags, "--release", str(out)]) == 0
    (path,) = (out / "release").glob("*.avro")
    with path.open("rb") as stream:
        schema: Any = fastavro.reader(stream).writer_schema
    wrong = [row | ({"fine": dt.time(1, 2, 3, 4)} if number == 0 else {}) for number, row in enumerate(found)]
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, wrong)
    assert cli.main(["verify", *flags, "--release", str(out)]) == 1


NUMBERED = """
fields:
  konto: {role: individual}
  geboren: {role: quasi, type: date, format: "%Y%m%d"}
  alter: {role: quasi, type: numeric}
"""


def test_a_column_of_whole_numbers_that_are_days(tmp_path: Path) -> None:
    """0 for "none", as such columns have it, is a bad value with the zeros that the format takes, to the run and to the
    audit; and so is one below 0."""
    born = [19_800_101 + row % 28 for row in range(ROWS)]
    born[7], born[11] = 0, -5
    table = pa.table({"konto": [f"k{row}" for row in range(ROWS)], "geboren": born, "alter": [40] * ROWS})
    pq.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "policy.yaml").write_text(HEAD + NUMBERED)
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(tmp_path / "in.parquet")]
    out = tmp_path / "out"
    assert cli.main(["anonymize", *flags, "--output", str(out)]) == 0
    assert sorted(row["row"]["geboren"] for row in rejected(out)) == ["-0000005", "00000000"]
    assert len(released(out)) == ROWS - 2
    assert cli.main(["verify", *flags, "--release", str(out)]) == 0
