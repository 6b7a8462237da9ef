"""Whole runs over hierarchies that a policy describes: decimals, quantiles, dates by format, stars of any text."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.released_table import hierarchies_of, read_release
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import load_policy
from tests.pipelines.audit.good_runs import change_rows

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
max_rejected: 0.2
{head}
fields:
  who: {{role: {who}}}
  {time}
  fare: {{role: quasi, type: hierarchy, as: "decimal(9,1)",
         hierarchy: {{widths: [0.5, 10], domain: [0, 49.9], step: 0.1}}}}
  income: {{role: quasi, type: hierarchy, as: int,
           hierarchy: {{quantiles: [800, 1500, 2400], domain: [0, 3999]}}}}
  born: {{role: quasi, type: hierarchy, as: date,
         hierarchy: {{formats: ["%m/%Y", "%Y"], domain: [1990-01-01, 1993-12-31]}}}}
  vat: {{role: quasi, type: prefix, size: 5}}
  amount: {{role: sensitive, as: int, accept_risk: numbers of a test}}
others: drop
"""
QUASIS = ("fare", "income", "born", "vat")
SHAPES = {
    "lasting": ("window: 1d\nmax_delay: 1d\nintake: 12", "individual", "when: {role: time}"),
    "row": ("", "identifier", ""),
    "levels": ("protect: row\nsolver: {method: ola, suppression: 0.05}", "identifier", ""),
}
PEOPLE = 40
WRONG = (
    {"fare": Decimal("50.0")},
    {"income": 4000},
    {"born": dt.date(1989, 12, 31)},
    {"vat": "NL8"},
)


def _cells(person: int) -> dict[str, Any]:
    """Somebody's quasi-identifiers; one has no fare."""
    own = np.random.default_rng(person)
    return {
        "fare": None if person == 5 else Decimal(int(own.integers(0, 500))) / 10,
        "income": int(own.integers(0, 4000)),
        "born": dt.date(1990, 1, 1) + dt.timedelta(int(own.integers(0, 1400))),
        "vat": f"{own.choice(['NL', 'DE'])}{own.integers(100, 900)}",
    }


def _rows(shape: str) -> list[dict[str, Any]]:
    rows = []
    for day in range(1, 4) if SHAPES[shape][2] else (1,):
        when = dt.datetime(2024, 3, day, 10, tzinfo=dt.UTC)
        rows += [{"who": f"p{person}", "when": when, **_cells(person)} for person in range(PEOPLE)]
    first = dt.datetime(2024, 3, 1, 10, tzinfo=dt.UTC)
    rows += [{"who": f"q{number}", "when": first, **_cells(1), **wrong} for number, wrong in enumerate(WRONG)]
    return [{**row, "amount": number} for number, row in enumerate(rows)]


def _write(folder: Path, shape: str, kind: str) -> tuple[list[str], list[dict[str, Any]]]:
    head, who, time = SHAPES[shape]
    rows = _rows(shape)
    (folder / "policy.yaml").write_text(POLICY.format(head=head, who=who, time=time))
    types = {"fare": pa.decimal128(9, 1), "when": pa.timestamp("ms", "UTC"), "amount": pa.int32()}
    table = pa.Table.from_pylist(rows)
    for name, each in types.items():
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(each))
    path = folder / f"in.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        lines = [",".join(table.column_names)]
        for row in table.to_pylist():
            row["when"] = f"{row['when']:%Y-%m-%d %H:%M:%S}"
            lines.append(",".join("" if cell is None else str(cell) for cell in row.values()))
        path.write_text("\n".join(lines) + "\n")
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(bytes(range(32)))
    return ["--policy", str(folder / "policy.yaml"), "--input", str(path)], rows


def _lowered(rows: list[dict[str, Any]]) -> None:
    """One label is that of somebody else."""
    rows[0]["fare"] = "0.0"


def _holds(label: str | None, value: Any, name: str) -> bool:
    """What a label says, written once more."""
    if label in (None, "*") or value is None:
        return label == "*" or value is None
    if label == str(value):
        return True
    if name == "vat":
        return str(value).startswith(label.rstrip("*"))
    if name == "born":
        return f"{value:%m/%Y}".endswith(label)
    ends = re.fullmatch(r"\[([\d.]+), ([\d.]+)([\])])", label)
    assert ends is not None, label
    low, high = Decimal(ends[1]), Decimal(ends[2])
    return low <= value <= high and (ends[3] == "]" or value < high)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_described_hierarchies_are_checked_released_and_audited(
    shape: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check fits but for the four wrong values, each row lies below its labels, what is no value is rejected, and
    the audit passes; a label that is lowered is found."""
    flags, rows = _write(tmp_path, shape, kind)
    out = tmp_path / "out"
    secret = ["--secret-file", str(tmp_path / "secret")]
    assert cli.main(["policy", "draft", "--input", flags[-1]]) == 0
    assert cli.main(["policy", "check", *flags]) == 0, capsys.readouterr()
    assert cli.main(["anonymize", *flags, "--output", str(out), *secret, "--quiet"]) == 0
    capsys.readouterr()
    verify = ["verify", *flags, "--release", str(out), *(secret if shape == "lasting" else [])]
    assert cli.main(verify) == 0, capsys.readouterr()
    released = read_release(out).arrow().to_pylist()
    assert len(released) >= (100 if shape == "lasting" else 37)
    labels: dict[str, set[str | None]] = {name: set() for name in QUASIS}
    for row in released:
        own = rows[row["amount"]]
        assert own["who"][0] == "p"
        for name in QUASIS:
            labels[name].add(row[name])
            assert _holds(row[name], own[name], name), (name, row[name])
    assert sum(len(each - {"*", None}) for each in labels.values()) > 0
    (path, *_) = sorted((out / "release").glob("*.avro"))
    change_rows(path, _lowered)
    assert cli.main(verify) == 1


def test_a_release_is_asked_by_its_labels(tmp_path: Path) -> None:
    """With the policy's hierarchies a leaf and a node can be asked for; nobody writes a file of rows."""
    flags, rows = _write(tmp_path, "row", "csv")
    out = tmp_path / "out"
    assert (
        cli.main(
            ["anonymize", *flags, "--output", str(out), "--secret-file", str(tmp_path / "secret"), "--quiet"]
        )
        == 0
    )
    policy = load_policy(tmp_path / "policy.yaml")
    names = ("who", *QUASIS, "amount")
    bound = bind(policy, pa.schema([(name, pa.string()) for name in names]), text=True, source="test")
    table = read_release(out, hierarchies=hierarchies_of(bound))
    (found,) = table.estimate("count", where={"born": "1991"}).arrow()["value"].to_pylist()
    truth = sum(row["born"].year == 1991 for row in rows if row["who"][0] == "p")
    assert found == pytest.approx(truth, abs=6)
