"""Whole runs under a policy whose payload tells less: inputs, protections, chains, and what the audit finds."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that
from openpyxl import Workbook

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.own_pipelines.anonymize_rows import AnonymizeRows
from kanonflow.transforms.rows import payload_cells
from tests.page_reading import read_page
from tests.pipelines.audit.good_runs import read
from tests.runners import bounded_pipeline

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
name: told
k: 3
window: 1d
max_delay: 1d
PROTECTION
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time, timezone: Europe/Prague}
  age: {role: quasi, type: numeric, as: int}
  amount: {role: sensitive, as: "decimal(9,2)", round: 10, bottom: 0, top: 80}
  mcc: {role: insensitive, truncate: 2, accept_risk: made up}
  hour: {role: insensitive, from: when, as: hour, accept_risk: made up}
"""
PROTECTIONS = {
    "lasting": "cohort: lasting\nintake: 9",
    "window": "cohort: window",
    "row": "protect: row",
}
PEOPLE, DAYS = 30, 3
HEAD = ("who", "when", "age", "amount", "mcc")


def lines(days: range) -> list[tuple[str, ...]]:
    """Two rows a day of everybody; many amounts lie half way between two multiples, and many rows are alike."""
    found = []
    for day in days:
        rng = random.Random(day)
        for who in range(PEOPLE):
            for _ in range(2):
                when = f"2024-03-{day:02}T{rng.randrange(1, 24):02}:30:00"
                amount = rng.choice(["5.00", "15.00", "-3.10", "12.34", "87.65", f"{rng.random() * 90:.2f}"])
                found.append((f"p{who}", when, str(18 + who), amount, rng.choice(["5411", "5499", "6011"])))
    return found


LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in zip(HEAD, ("string", LOCAL, "int", "double", "string"), strict=True)
    ],
}


def written(folder: Path, days: range, kind: str) -> Path:
    """The rows as a file."""
    rows = lines(days)
    path = folder / f"{days[0]}.{kind}"
    if kind == "csv":
        path.write_text("\n".join(map(",".join, [HEAD, *rows])) + "\n")
        return path
    if kind == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(HEAD, row, strict=True))) + "\n" for row in rows))
        return path
    if kind == "xlsx":
        book = Workbook()
        for row in [HEAD, *rows]:
            book.active.append(row)
        book.save(path)
        return path
    who, when, age, amount, mcc = map(list, zip(*rows, strict=True))
    if kind == "avro":
        spelled = [
            list(map(datetime.fromisoformat, when)),
            list(map(int, age)),
            [round(float(each), 2) for each in amount],
        ]
        records = [dict(zip(HEAD, row, strict=True)) for row in zip(who, *spelled, mcc, strict=True)]
        with path.open("wb") as file:
            fastavro.writer(file, AVRO, records)
        return path
    columns = {
        "who": who,
        "when": pa.array(when).cast(pa.timestamp("us")),
        "age": pa.array(map(int, age), pa.int32()),
        "amount": pa.array(map(Decimal, amount), pa.decimal128(12, 3)),
        "mcc": mcc,
    }
    pq.write_table(pa.table(columns), path)
    return path


def due(days: range) -> Counter[tuple[Any, ...]]:
    """What is published of the rows, worked out a third time."""
    found: Counter[tuple[Any, ...]] = Counter()
    for _, when, _, amount, mcc in lines(days):
        tens = (Decimal(amount) / 10).quantize(Decimal(1), ROUND_HALF_EVEN) * 10
        # The clocks of Prague did not change in these days.
        local = datetime.fromisoformat(when).replace(tzinfo=ZoneInfo("Europe/Prague"))
        assert local.astimezone(UTC).hour == (local.hour - 1) % 24
        found[int(min(max(tens, Decimal(0)), Decimal(80))), mcc[:2], local.hour] += 1
    return found


def cells(rows: list[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The payload of released rows."""
    return Counter((int(Decimal(row["amount"])), row["mcc"], row["hour"]) for row in rows)


class Place:
    """A folder with a policy and a secret."""

    def __init__(self, folder: Path, protection: str = "window") -> None:
        self.folder = folder
        (folder / "secret").write_bytes(bytes(range(7, 47)))
        (folder / "secret").chmod(0o600)
        self.lasting = protection == "lasting"
        self.policy(POLICY.replace("PROTECTION", PROTECTIONS[protection]))

    def policy(self, text: str) -> None:
        """Another policy."""
        (self.folder / "policy.yaml").write_text(text)

    def run(self, source: Path, output: str, *flags: str) -> int:
        """``kanonflow anonymize``; its exit code."""
        secret = ["--secret-file", str(self.folder / "secret"), "--output", str(self.folder / output)]
        return main(["anonymize", *self._flags(source), *secret, *flags])

    def verify(self, source: Path, output: str) -> int:
        """``kanonflow verify``; its exit code."""
        secret = ["--secret-file", str(self.folder / "secret")] if self.lasting else []
        return main(["verify", *self._flags(source), *secret, str(self.folder / output)])

    def rows(self, output: str) -> list[Mapping[str, Any]]:
        """All released rows."""
        return [
            row for path in (self.folder / output / "release").glob("[!.]*.avro") for row in read(path)[1]
        ]

    def _flags(self, source: Path) -> list[str]:
        return ["--policy", str(self.folder / "policy.yaml"), "--input", str(source)]


@pytest.mark.parametrize(
    ("protection", "kind"),
    [*product(PROTECTIONS, ["csv", "parquet"]), *product(["window"], ["avro", "jsonl", "xlsx"])],
)
def test_released_payload_is_on_its_grid_and_passes_the_audit(
    tmp_path: Path, protection: str, kind: str
) -> None:
    """Of text and of typed columns, under every protection: two rows that come to be equal are still two."""
    place, days = Place(tmp_path, protection), range(1, DAYS + 1)
    source = written(tmp_path, days, kind)
    assert place.run(source, "out") == 0
    assert place.verify(source, "out") == 0
    assert cells(place.rows("out")) == due(days)
    assert max(due(days).values()) > 3
    page = read_page((tmp_path / "out/certificate.html").read_text()).text
    assert "rounded to multiples of 10, at least 0, at most 80" in page
    assert "No field is published as it is" in page
    report = read_page((tmp_path / "out/restricted/report.html").read_text()).text
    assert "the hour of the day, 0 to 23, Europe/Prague" in report


def test_rows_of_a_pipeline_go_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dicts with values of Python: through AnonymizeRows, with what is wrong beside them."""
    monkeypatch.chdir(tmp_path)
    Place(tmp_path)
    days = range(1, DAYS + 1)
    rows = [
        dict(zip(HEAD, (who, datetime.fromisoformat(when), int(age), Decimal(amount), mcc), strict=True))
        for who, when, age, amount, mcc in lines(days)
    ]

    def checked(released: list[Any]) -> None:
        assert cells([row._asdict() for row in released]) == due(days)

    with bounded_pipeline() as pipeline:
        step = AnonymizeRows("policy.yaml", secret_file="secret", error_handling={"output": "rejected"})
        made = pipeline | beam.Create(rows) | step
        assert_that(made["rows"] if "rows" in made else made["good"], checked)


def _exact(number: Decimal, step: Decimal, limits: Any) -> Decimal:
    return number


def _half_up(number: Decimal, step: Decimal, limits: Any) -> Decimal:
    return (number / step).quantize(Decimal(1), ROUND_HALF_UP) * step


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("_nearest", _exact),
        ("_nearest", _half_up),
        ("shown_seconds", lambda instants, zone: np.asarray(instants.cast(pa.int64())) // 1_000),
    ],
    ids=["exact", "half up", "hours of UTC"],
)
def test_the_audit_finds_payload_off_its_grid(
    name: str,
    broken: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exact where the policy says round, rounded the other way, and read off another place's clocks."""
    place = Place(tmp_path)
    source = written(tmp_path, range(1, 3), "csv")
    monkeypatch.setattr(payload_cells, name, broken)
    assert place.run(source, "out") == 0
    monkeypatch.undo()
    capsys.readouterr()
    assert place.verify(source, "out") != 0
    assert "the payload is not that of the input" in "".join(capsys.readouterr())


def test_a_chain_knows_rows_by_what_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows wait over a night; the same file again is refused; one whose rows differ below the grid only is not."""
    place = Place(tmp_path, "lasting")
    first, second = (written(tmp_path, range(day, day + 1), "csv") for day in (1, 2))
    assert place.run(first, "one", "--carry") == 0
    again = tmp_path / "again.csv"
    again.write_text(first.read_text() + "\n")
    assert place.run(again, "two", "--continue", str(tmp_path / "one")) != 0
    assert place.run(second, "two", "--continue", str(tmp_path / "one")) == 0
    assert place.verify(first, "one") == 0
    assert place.verify(second, "two") == 0
    assert cells([*place.rows("one"), *place.rows("two")]) == due(range(1, 3))


def test_rejected_rows_are_told_by_the_audit(tmp_path: Path) -> None:
    """Cells that are no values, and rows that came with too few others."""
    place = Place(tmp_path)
    source = written(tmp_path, range(1, 3), "csv")
    alone = ["p1,2024-03-09T10:00:00,30,12.34,5411", "p2,2024-03-09T11:00:00,31,17.00,5412"]
    unread = ["p3,soon,30,1.00,5411", "p4,2024-03-01T10:00:00,30,much,5411"]
    source.write_text(source.read_text() + "\n".join([*alone, *unread]) + "\n")
    assert place.run(source, "out") == 0
    assert place.verify(source, "out") == 0
    rejected = [
        row for path in (tmp_path / "out/restricted/rejected").rglob("*.avro") for row in read(path)[1]
    ]
    told = {row["row"]["who"]: (row["reason"], row["field"], row["row"]["amount"]) for row in rejected}
    assert told["p1"] == ("too_few_peers", None, "10.00")
    assert told["p3"][:2] == ("bad_value", "when")
    assert told["p4"] == ("bad_value", "amount", "much")


def test_shards_take_payload_on_its_grid(tmp_path: Path) -> None:
    """A plan of people, and rows that go by it."""
    place, days = Place(tmp_path, "lasting"), range(1, DAYS + 1)
    people = "\n".join(f"p{who},{18 + who}" for who in range(PEOPLE))
    (tmp_path / "people.csv").write_text(f"who,age\n{people}\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text() + "people: people.csv\n")
    source, plan = written(tmp_path, days, "parquet"), str(tmp_path / "plan.json")
    flags = ["--policy", str(policy), "--input", str(source), "--shards", "2", "--accept-small"]
    assert main(["plan", *flags, "--output", plan]) == 0
    assert place.run(source, "out", "--plan", plan) == 0
    assert place.verify(source, "out") == 0
    assert cells(place.rows("out")) == due(days)
