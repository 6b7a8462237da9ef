"""Whole runs over a field with a hierarchy: released as labels, audited, and refused where a label lies."""

from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.hierarchy_builders import ranges_by_doubling
from kanonflow.schemas.hierarchy_file import parse_hierarchy
from tests.hierarchy_text import render_hierarchy

pytestmark = pytest.mark.thorough

TOWNS = parse_hierarchy(
    "Breda;Brabant;south;*\nTilburg;Brabant;south;*\nGoes;Zeeland;south;*\nMiddelburg;Zeeland;south;*\n"
    "Assen;Drenthe;north;*\nEmmen;Drenthe;north;*\nGroningen;Groningen (province);north;*\n"
)
POLICY = """
version: 1
k: 3
{head}
solver: {{evaluations_per_row: 50, threads: 1}}
fields:
  who: {{role: {who}}}
  town: {{role: quasi, type: hierarchy, hierarchy: towns.csv}}
  age: {{role: quasi, type: numeric, as: int, domain: [0, 100]}}
  amount: {{role: sensitive, as: int, accept_risk: numbers of a test}}
"""
SHAPES = {
    "rows": ("", "identifier"),
    "classes": ("protect: individual", "individual"),
}


def _write(folder: Path, shape: str) -> list[str]:
    generator = np.random.default_rng(5)
    head, who = SHAPES[shape]
    (folder / "policy.yaml").write_text(POLICY.format(head=head, who=who))
    (folder / "towns.csv").write_text("\n".join(";".join(row) for row in TOWNS.rows) + "\n")
    lines = ["who,town,age,amount"]
    for row in range(80):
        town = "" if row % 16 == 3 else TOWNS.leaves[int(generator.integers(7))]
        lines.append(f"p{row},{town},{generator.integers(20, 80)},{row}")
    lines.append("p99,Atlantis,33,99")
    (folder / "in.csv").write_text("\n".join(lines) + "\n")
    return ["--policy", str(folder / "policy.yaml"), "--input", str(folder / "in.csv")]


def _released(folder: Path) -> tuple[Path, Any, list[dict[str, Any]]]:
    (path,) = (folder / "out" / "release").glob("*.avro")
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        return path, reader.writer_schema, list(reader)


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_are_released_and_audited(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every shape releases labels that the audit accepts; a value without a leaf is rejected; lower labels fail."""
    flags = _write(tmp_path, shape)
    assert cli.main(["anonymize", *flags, "--output", str(tmp_path / "out")]) == 0
    path, schema, rows = _released(tmp_path)
    labels = {row["town"] for row in rows}
    assert len(rows) == 80
    assert labels <= {*TOWNS.extents, None}
    assert labels - set(TOWNS.leaves)
    verify = ["verify", *flags, "--release", str(tmp_path / "out")]
    capsys.readouterr()
    assert cli.main(verify) == 0
    assert "Atlantis" not in capsys.readouterr().out
    for wrong, reason in (("Atlantis", "a label that its hierarchy does not have"), ("Assen", "")):
        changed = [{**row, "town": wrong if row["town"] == rows[-1]["town"] else row["town"]} for row in rows]
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, changed)
        assert cli.main(verify) == 1
        said = capsys.readouterr()
        assert reason in said.out + said.err


LEVELS = """
version: 1
k: 3
{head}
solver: {{method: {method}, suppression: 0.1}}
fields:
  town: {{role: quasi, type: hierarchy, hierarchy: towns.csv}}
  age: {{role: quasi, type: hierarchy, as: int, hierarchy: ages.csv}}
  amount: {{role: sensitive, as: int, accept_risk: numbers of a test}}
  {who}
others: drop
"""


@pytest.mark.parametrize("method", ["ola", "kgen"])
def test_levels_are_released_and_audited(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each field at one level; classes of k, shuffled; suppressed rows are rejected; the audit agrees."""
    flags = _write(tmp_path, "rows")
    (tmp_path / "policy.yaml").write_text(LEVELS.format(method=method, head="", who=""))
    ages = ranges_by_doubling(range(100), 10)
    (tmp_path / "ages.csv").write_text(render_hierarchy(ages))
    out = str(tmp_path / "out")
    assert cli.main(["anonymize", *flags, "--output", out, "--matching-records"]) == 0
    path, schema, rows = _released(tmp_path)
    reasons: Counter[str] = Counter()
    for file in (tmp_path / "out" / "restricted" / "rejected").glob("*.avro"):
        with file.open("rb") as stream:
            reasons.update(record["reason"] for record in fastavro.reader(stream))
    assert reasons.pop("outside_domain") == 1
    assert set(reasons) == {"suppressed"}
    assert 0 < reasons["suppressed"] <= 8
    assert len(rows) == 80 - reasons["suppressed"]
    for name, tree in (("town", TOWNS), ("age", ages)):
        levels = [
            {level for level, labels in enumerate(tree.labels) if row[name] in labels}
            for row in rows
            if row[name] is not None
        ]
        assert set.intersection(*levels)
    assert min(Counter((row["town"], row["age"]) for row in rows).values()) >= 3
    verify = ["verify", *flags, "--release", out, "--matching-records"]
    assert cli.main(verify) == 0
    capsys.readouterr()
    assert cli.main(["policy", "check", flags[1]]) == 0
    assert "stands at one level of its hierarchy; at most 0.1 of" in capsys.readouterr().out
    age = next(age for age in ages.labels[0] if age not in {row["age"] for row in rows})
    changed = [{**row, "age": age if row["age"] == rows[0]["age"] else row["age"]} for row in rows]
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, changed)
    assert cli.main(verify) == 1


def test_levels_keep_individuals_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Individuals with one to three rows: closed classes that the audit of individuals takes; nobody in two of them."""
    flags = _write(tmp_path, "rows")
    text = LEVELS.format(method="ola", head="protect: individual", who="who: {role: individual}")
    (tmp_path / "policy.yaml").write_text(text)
    (tmp_path / "ages.csv").write_text(render_hierarchy(ranges_by_doubling(range(100), 10)))
    header, *lines = (tmp_path / "in.csv").read_text().split()
    # Every third person twice, every fifth once more, and p0 once in another town.
    more = [line for place, line in enumerate(lines[:80]) for _ in range((place % 3 == 0) + (place % 5 == 0))]
    odd = "p0,Assen,77,1" if "Assen" not in lines[0] else "p0,Goes,77,1"
    (tmp_path / "in.csv").write_text("\n".join([header, *lines, *more, odd]) + "\n")
    out = str(tmp_path / "out")
    assert cli.main(["anonymize", *flags, "--output", out, "--matching-records"]) == 0
    _, _, rows = _released(tmp_path)
    assert len(rows) > 60
    assert cli.main(["verify", *flags, "--release", out, "--matching-records"]) == 0
    said = capsys.readouterr().out
    assert "suppressed" in said or "individual_over_limit" in said


def test_the_check_of_a_policy_counts_values_without_a_leaf(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It tells how many rows would be rejected for want of a leaf, and shows none of their values."""
    flags = _write(tmp_path, "rows")
    cli.main(["policy", "check", flags[1], *flags[2:]])
    said = capsys.readouterr()
    assert "town: 1 different value in 1 row of the data without a leaf" in said.out + said.err
    assert "Atlantis" not in said.out + said.err
