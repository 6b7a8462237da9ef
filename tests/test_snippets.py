"""Each block of commands, code or configuration in README and docs/ is run by a test, or says why not.

A page is run as a whole, from its first block to its last, in an empty folder: by a test of this file, or by one that
``RUN_WHOLE`` names. Any other block has a mark behind it, as in the runbook (``test_runbook_marks``).
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import polars
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from tests.test_documents import ROOT, card_policy, feed
from tests.test_runbook_marks import MARK, is_test

pytestmark = pytest.mark.thorough

RUN_WHOLE = {
    "README.md": "tests/test_snippets.py::test_the_readme_runs",
    "docs/choosing.md": "tests/test_snippets.py::test_the_page_on_choosing_runs",
    "docs/running.md": "tests/test_snippets.py::test_the_page_on_runs_over_files_runs",
    "docs/python.md": "tests/test_snippets.py::test_the_page_on_python_runs",
    "docs/beam.md": "tests/test_beam_document.py::test_the_python_runs",
    "docs/tutorial.md": "tests/test_tutorial.py::"
    "test_the_tutorial_goes_from_a_file_as_people_have_it_to_an_audited_release",
    "docs/using-releases.md": "tests/test_using_releases.py::test_the_page_runs",
}
"""Pages whose fenced blocks are all run, one after the other; and by which test."""

LANGUAGES = ("bash", "sh", "python", "yaml", "java", "sql", "json")
PROGRAMS = (
    "kanonflow ",
    "make ",
    "python ",
    "pip ",
    "flink ",
    "gcloud ",
    "docker ",
    "kubectl ",
    "curl ",
    "bash ",
)
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES += [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    """A block of a page: whether it has fences, its language, its text, and the text before and behind it."""

    fenced: bool
    language: str
    text: str
    before: str
    behind: str


def blocks(text: str) -> Iterator[Block]:
    """Each fenced block, and each indented one that begins with a command."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL):
        yield Block(True, found[1], found[2], text[: found.start()], text[found.end() :])
    plain = re.sub(r"^```.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
    for found in re.finditer(r"(?:(?<=\n\n)|\A)(?: {4}[^\n]*\n)+", plain):
        if found[0].strip().startswith(PROGRAMS):
            yield Block(False, "", found[0], plain[: found.start()], plain[found.end() :])


def unrun(page: str, text: str) -> list[str]:
    """First lines of the blocks that no test runs and that have no mark behind them, before the next paragraph."""
    found = []
    for block in blocks(text):
        if block.fenced and (block.language not in LANGUAGES or page in RUN_WHOLE):
            continue
        mark = MARK.match(block.behind.lstrip("\n"))
        if mark is None or (
            mark[1] == "tried" and not all(is_test(name.strip(",")) for name in mark[2].split())
        ):
            found.append(block.text.splitlines()[0])
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    """By the test of its page, or by the one that its mark names."""
    assert not unrun(page, (ROOT / page).read_text())


def test_a_block_that_nobody_runs_is_seen() -> None:
    """Fenced or indented; a mark of a test that is not there is none."""
    text = "Do:\n\n    kanonflow stop out\n\nand\n\n```python\nprint()\n```\n"
    assert unrun("docs/x.md", text) == ["print()", "    kanonflow stop out"]
    assert unrun("README.md", text) == ["    kanonflow stop out"]
    assert unrun("docs/x.md", text.replace("out\n\n", "out\n\n<!-- not tried: no -->\n")) == ["print()"]
    assert unrun("docs/x.md", text + "<!-- tried: tests/none.py::test_none -->\n")[0] == "print()"
    assert unrun("docs/x.md", text + f"<!-- tried: {RUN_WHOLE['README.md']} -->\n") == [
        "    kanonflow stop out"
    ]


def test_the_tests_of_pages_are_there() -> None:
    """And the pages."""
    for page, test in RUN_WHOLE.items():
        assert (ROOT / page).is_file()
        assert is_test(test)


def run(page: str, folder: Path) -> str:
    """All fenced blocks of a page in a folder: files as the text before names them, commands, then its Python.

    Returns what they print.
    """
    commands = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    code, steps, said = "", [], ""
    for block in blocks((ROOT / page).read_text()):
        if block.language == "yaml":
            (folder / re.findall(r"`([\w-]+\.yaml)`", block.before)[-1]).write_text(block.text)
        elif block.language in ("bash", "sh"):
            steps.append(["bash", "-euc", block.text])
        elif block.language == "python":
            code += block.text
    for step in [*steps, *([[sys.executable, "-c", code]] if code else [])]:
        ran = subprocess.run(
            step, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=250
        )
        assert ran.returncode == 0, f"{step[-1]}\n{ran.stdout}\n{ran.stderr}"
        said += ran.stdout
    return said


def kept_secret(folder: Path) -> None:
    """A file with a secret, as a run wants it."""
    (folder / "secret").write_bytes(bytes(range(32)))
    (folder / "secret").chmod(0o600)


def test_the_readme_runs(tmp_path: Path) -> None:
    """Its policy on the demo's feed: released, audited, exported; then from Python, and in a pipeline of one's own."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    (tmp_path / "demo-out" / "feed").mkdir(parents=True)
    kept_secret(tmp_path)
    typed = demo_feed(FeedShape(4000, 7, 1))
    pyarrow.parquet.write_table(typed, tmp_path / "feed.parquet")
    subprocess.run(
        [
            Path(sys.executable).parent / "kanonflow",
            "demo",
            "--only-feed",
            "--rows=4000",
            "--output=demo-out",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    said = run("README.md", tmp_path)
    assert "audit passed" in said
    exported = polars.read_csv(tmp_path / "out" / "export.csv")
    assert {"window_start", "birth_date", "occupation", "amount"} < set(exported.columns)
    told = re.search(r"^(\d+) released, (\d+) rejected$", said, re.MULTILINE)
    assert told is not None
    assert int(told[1]) + int(told[2]) == typed.num_rows
    in_beam = sum(
        polars.read_avro(path).height for path in (tmp_path / "beam-out" / "release").glob("*.avro")
    )
    assert in_beam == int(told[1])


def test_before_and_after_are_of_the_demo() -> None:
    """The rows before are of its feed. Those after carry their payload, in one box of the policy's grid around them."""
    text = (ROOT / "README.md").read_text()
    before, after = (
        [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
        for table in re.findall(r"(?:^\|.*\n)+", text.partition("## Before and after")[2], re.MULTILINE)[:2]
    )
    assert len(before) == len(after) == 3
    rows = {
        (
            f"{row['booked_at']:%Y-%m-%d %H:%M:%S}",
            row["customer"],
            str(row["birth_date"]),
            row["occupation"],
            str(row["amount"]),
        )
        for row in demo_feed(FeedShape(20_000, 14, 1)).to_pylist()
    }
    assert {tuple(row) for row in before} <= rows
    assert sorted(row[-1] for row in before) == sorted(row[-1] for row in after)
    (box,) = {tuple(row[:3]) for row in after}
    first, last = map(date.fromisoformat, box[1].split(" to "))
    assert (first.month, first.day, last.month, last.day) == (1, 1, 12, 31)
    for booked, _, born, occupation, amount in before:
        assert booked.startswith(box[0])
        assert first <= date.fromisoformat(born) <= last
        assert occupation in box[2].split(", ")
        assert Decimal(amount) > 0


def test_the_page_on_choosing_runs(tmp_path: Path) -> None:
    """A draft of the demo's feed fits it; explain and compare print what the page shows."""
    said = run("docs/choosing.md", tmp_path)
    assert "fits made-up/feed/transactions.csv" in said
    shown = re.search(
        r"^    - People a window.*\n(?:    .*\n)+", (ROOT / "docs/choosing.md").read_text(), re.MULTILINE
    )
    assert shown is not None
    for line in shown[0].splitlines():
        assert line.strip() in said
    assert (tmp_path / "card.yaml").read_text() == card_policy()


def test_the_page_on_python_runs(tmp_path: Path) -> None:
    """A table and a pipeline release all of a feed that ``card.yaml`` fits."""
    (tmp_path / "card.yaml").write_text(card_policy())
    kept_secret(tmp_path)
    pyarrow.parquet.write_table(feed(), tmp_path / "feed.parquet")
    told = re.search(r"^(\d+) released, (\d+) rejected$", run("docs/python.md", tmp_path), re.MULTILINE)
    assert told is not None
    assert int(told[1]) > 300
    assert int(told[1]) + int(told[2]) == 400
    # Two days of newcomers, who wait for each other and enter together.
    assert len(list((tmp_path / "out" / "release").glob("*.avro"))) == 1


def test_the_page_on_runs_over_files_runs(tmp_path: Path) -> None:
    """Its commands, on a feed of two files: the audit passes."""
    (tmp_path / "card.yaml").write_text(card_policy())
    kept_secret(tmp_path)
    (tmp_path / "feed").mkdir()
    for name, rows in (("a", feed().slice(0, 200)), ("b", feed().slice(200))):
        with gzip.open(tmp_path / "feed" / f"{name}.csv.gz", "wb") as file:
            pyarrow.csv.write_csv(rows, file)
    assert "audit passed" in run("docs/running.md", tmp_path)


def test_the_readme_is_short_and_its_policy_too() -> None:
    """What is longer goes to a page of docs/."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    (policy,) = [block.text for block in blocks(text) if block.language == "yaml"]
    assert len(yaml.safe_load(policy)["fields"]) <= 5
