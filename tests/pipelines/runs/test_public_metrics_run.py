"""``metrics: public`` from the command to the files that leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines import cli

POLICY = """\
version: 1
k: 3
window: 1h
metrics: public
cohort: window
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120], outside: code}
  amount: {role: sensitive}
"""
SHOWN = (
    "release_id policy window_start window_end k protect cohort rows_released rows_waiting rows_rejected"
    " waiting_reasons individuals classes gcp ncp epoch against publish_member publish_group values"
)


def records(folder: Path) -> list[dict[str, Any]]:
    """Those of all Avro files of a folder."""
    found = []
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as file:
            found += [record for record in fastavro.reader(file) if isinstance(record, dict)]
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run: two hours of 12 people, of whom one has 7 rows in the second; then a lonely one."""
    folder = tmp_path_factory.mktemp("public")
    owners = [(0, who) for who in range(12)] + [(1, who) for who in [*range(12), *[0] * 6]] + [(5, 1)]
    lines = [
        f"p{who},2024-03-01T0{hour}:10:00Z,{20 + 3 * who},{number}"
        for number, (hour, who) in enumerate(owners)
    ]
    (folder / "in.csv").write_text("\n".join(["who,when,age,amount", *lines]) + "\n")
    (folder / "p.yaml").write_text(POLICY)
    names = {"policy": "p.yaml", "input": "in.csv", "output": "out"}
    flags = [part for flag, name in names.items() for part in (f"--{flag}", str(folder / name))]
    assert cli.main(["anonymize", *flags, "--quiet"]) == 0
    return folder / "out"


def test_public_files_hold_the_list_and_nothing_else(out: Path) -> None:
    """One a release, none of the windows that released nothing; their schema names nothing that is withheld."""
    shown = records(out / "metrics")
    assert [path.name for path in sorted((out / "metrics").iterdir())] == [
        path.name for path in sorted((out / "release").iterdir())
    ]
    assert len(shown) == 2
    assert all(record.keys() == set(SHOWN.split()) for record in shown)
    for path in (out / "metrics").iterdir():
        with path.open("rb") as file:
            schema = str(fastavro.reader(file).writer_schema)
        assert not any(name in schema for name in ("evaluations", "loss_end", "gcp_hull", "public_from"))


def test_public_files_say_what_the_releases_say(out: Path) -> None:
    """Rows are those of the release file, losses those of its boxes; six rows that were left out leave no trace in
    them, though the exact record has them."""
    exact = {record["release_id"]: record for record in records(out / "restricted" / "metrics")}
    rows = records(out / "release")
    left_out = set()
    for record in records(out / "metrics"):
        ages = [row["age"] for row in rows if row["release_id"] == record["release_id"]]
        widths = [(age["max"] - age["min"]) / 120 for age in ages]
        assert record["rows_released"] == len(ages)
        assert record["ncp"] == {"age": round(sum(widths) / len(widths), 3)}
        assert record["gcp"] == record["ncp"]["age"]
        assert (record["rows_waiting"], record["rows_rejected"], record["waiting_reasons"]) == (0, {}, {})
        told = exact[record["release_id"]]
        left_out.add(told["rows_new"] + told["rows_waited"] - told["rows_released"])
    assert max(left_out) >= 6
