"""``--continue``: runs that begin with the cohorts of an earlier one, over real files."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines.cli import main

NIGHTS = 30
POLICY = """
version: 1
k: 3
window: 1d
cohort: lasting
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  height: {role: quasi, type: numeric, as: double}
  town: {role: insensitive}
  amount: {role: sensitive, as: "decimal(9,2)"}
partition_by: [town]
"""


def write_feed(folder: Path, nights: int, people: int = 40) -> None:
    """A file a night; everybody is there on the first, and about half on each other one. Towns keep their people."""
    rng = random.Random(3)
    known = [
        (
            f"p{who}",
            rng.randint(18, 80),
            rng.choice(["a", "b", "", "d"]),
            rng.uniform(1.5, 2.0),
            "AB"[who % 2],
        )
        for who in range(people)
    ]
    folder.mkdir()
    for night in range(nights):
        with (folder / f"{night:02}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["who", "when", "age", "job", "height", "town", "amount"])
            for who, age, job, height, town in known:
                for _ in range(rng.randint(1, 3) if night == 0 or rng.random() < 0.5 else 0):
                    minute = rng.randrange(1440)
                    when = f"2024-03-{night + 1:02} {minute // 60:02}:{minute % 60:02}:00"
                    out.writerow([who, when, age, job, f"{height:.3f}", town, f"{rng.random() * 99:.2f}"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policy, secret and feed."""
    place = tmp_path_factory.mktemp("nights")
    (place / "policy.yaml").write_text(POLICY)
    for name, byte in (("secret", 7), ("other", 9)):
        (place / name).write_bytes(bytes(range(byte, byte + 40)))
        (place / name).chmod(0o600)
    write_feed(place / "in", NIGHTS)
    return place


def anonymize(place: Path, files: str, output: Path, *flags: str, policy: str = "policy.yaml") -> int:
    """The command; secret and policy are the place's."""
    secret = (
        () if any(flag.startswith("--secret") for flag in flags) else ("--secret-file", str(place / "secret"))
    )
    given = ["--policy", str(place / policy), "--input", str(place / "in" / files), "--output", str(output)]
    return main(["anonymize", *given, *secret, *flags])


def published(output: Path) -> Counter[str]:
    """Everything published but ids, as a multiset; a row says its day."""
    rows: Counter[str] = Counter()
    for path in (output / "release").glob("*.avro"):
        with path.open("rb") as file:
            for row in fastavro.reader(file):
                assert isinstance(row, dict)
                rows[repr({name: row[name] for name in row if name not in ("release_id", "class_id")})] += 1
    return rows


def record(output: Path) -> dict[str, Any]:
    return json.loads((output / "restricted" / "run.json").read_text())


@pytest.fixture(scope="module")
def first(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first night, which founds all cohorts."""
    output = tmp_path_factory.mktemp("first") / "out"
    assert anonymize(place, "00.csv", output) == 0
    return output


def test_nights_that_continue_each_other_give_what_one_run_gives(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody is known from the first night and nothing waits: each night's boxes and payloads are the same, in one
    epoch, though each run has nothing of the earlier ones but the last directory. No row was rejected."""
    assert anonymize(place, "*.csv", tmp_path / "one") == 0
    assert "An epoch begins" in capsys.readouterr().err
    nightly, last = published(first), first
    for night in range(1, NIGHTS):
        output = tmp_path / f"night{night}"
        assert anonymize(place, f"{night:02}.csv", output, "--continue", str(last)) == 0
        shown = capsys.readouterr()
        assert "40 people are known from there" in shown.err
        assert "An epoch begins" not in shown.err
        assert not list((output / "restricted" / "rejected").iterdir())
        nightly += published(output)
        if last != first:
            shutil.rmtree(last)
        last = output
    assert nightly == published(tmp_path / "one")
    assert record(last)["epoch"] == record(first)["epoch"] != record(tmp_path / "one")["epoch"]
