"""docs/beam.md runs: its YAML, its commands and its Python, one after the other, over one feed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.thorough

TEXT = (Path(__file__).parents[1] / "docs" / "beam.md").read_text()
ROWS = 90


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three days of 30 cards, and a row whose time is none; the policy and the secret of the page."""
    monkeypatch.chdir(tmp_path)
    lines = ["booked_at,card,age,zip,amount"]
    for number in range(ROWS):
        card = number % 30
        day, hour = 1 + number // 30, number % 24
        lines.append(
            f"2024-03-{day:02d}T{hour:02d}:00:00Z,c{card},{20 + card},0{1200 + card % 4},{number}.50"
        )
    lines.append("nonsense,c1,30,01201,1.00")
    Path("payments.csv").write_text("\n".join(lines) + "\n")
    policy, pipeline = blocks("yaml")
    Path("payments.yaml").write_text(policy)
    Path("payments-pipeline.yaml").write_text(pipeline)
    make_secret, _ = blocks("shell")
    subprocess.run(["bash", "-ec", make_secret], check=True)
    return tmp_path


def rows_of(folder: str, kind: str) -> list[dict[str, Any]]:
    """The rows of JSON files."""
    files = sorted(Path(folder).glob(f"{kind}*"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_the_yaml_pipeline_runs(feed: Path) -> None:
    """As the command that the page shows; every row is released or rejected."""
    _, command = blocks("shell")
    assert len(blocks("yaml")[1].splitlines()) <= 12
    ran = subprocess.run(
        ["bash", "-ec", command.replace("python ", f"{sys.executable} ", 1)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    released, rejected = rows_of("out-yaml", "released"), rows_of("restricted", "rejected-0")
    assert len(released) + len(rejected) == ROWS + 1
    assert Path("restricted").stat().st_mode & 0o777 == 0o700
    assert not list(Path("out-yaml").glob("rejected*"))
    assert len(released) > ROWS / 2
    assert released[0]["zip"].startswith("012")
    assert {"age_min", "age_max", "age_mid", "age_nulls"} <= set(released[0])
    named = "`reason`, `field`, `message`, `window_end`, `source`, `line` and `row`"
    assert named in TEXT
    assert set(rejected[0]) == set(re.findall(r"`(\w+)`", named))


def test_the_python_runs(feed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Block after block, in one program."""
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(block, names)
    released, rejected = rows_of("out-rows", "released"), rows_of("restricted", "rejected-rows")
    assert len(released) + len(rejected) == ROWS + 1
    assert set(released[0]) == {"zip", "least", "amount"}
    assert [each["row"]["booked_at"] for each in rejected if each["field"] == "booked_at"] == ["nonsense"]
    told = capfd.readouterr().out
    sums = [int(rows) for rows in re.findall(r"(\d+) rows released", told)]
    assert sum(sums) == len(released)
    (table,) = re.findall(r"(\d+) released, (\d+) rejected", told)
    assert int(table[0]) == len(released)
    assert sum(map(int, table)) == ROWS + 1
