"""Each block of commands, code or configuration in README and docs/ is run by a test, or says why not.

A page is run as a whole, from its first block to its last, in an empty folder: by a test of this file, or by one that
``RUN_WHOLE`` names. Any other block has a mark behind it, as in the runbook (``test_runbook_marks``).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import os
import re
import shlex
import shutil
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
from apache_beam.options.pipeline_options import PipelineOptions

import kanonflow
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.pipelines.options import table
from tests.test_documents import ROOT, card_policy, feed
from tests.test_runbook_marks import MARK, PAGES, PROGRAMS, is_test, spoken

pytestmark = pytest.mark.thorough

RUN_WHOLE = {
    "README.md": "tests/test_snippets.py::test_the_readme_runs",
    "docs/choosing.md": "tests/test_snippets.py::test_the_page_on_choosing_runs",
    "docs/running.md": "tests/test_snippets.py::test_the_page_on_runs_over_files_runs",
    "docs/python.md": "tests/test_snippets.py::test_the_page_on_python_runs",
    "docs/beam.md": "tests/test_beam_document.py::test_the_python_runs",
    "docs/research.md": "tests/test_research_page.py::test_the_page_for_researchers_runs",
    "docs/tutorial.md": "tests/test_tutorial.py::"
    "test_the_tutorial_goes_from_a_file_as_people_have_it_to_an_audited_release",
    "docs/using-releases.md": "tests/test_using_releases.py::test_the_page_runs",
}
"""Pages whose fenced blocks are all run, one after the other; and by which test."""

LANGUAGES = ("bash", "sh", "python", "yaml", "java", "sql", "json")


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


STANDS_FOR = {
    r"--individual-file FILE": "--individual-file people.txt",
    r"\bFILE\b": "made-up/feed/transactions.csv",
    r"\bPOLICY\b": "draft.yaml",
    r"\bP\b": "clinic.yaml",
    r"\bF\b": "clinic.csv",
    r"\b(OUT|DIR)\b": "out",
    r"\bCOMMAND\b": "demo",
}
"""Words in commands of sentences, and what is there in their place (``a_place``)."""


def typed(command: str) -> int:
    """Type a command of ours in this folder; returns its exit code."""
    for word, there in STANDS_FOR.items():
        command = re.sub(word, there, command)
    arguments, _, to = command.partition(" > ")
    try:
        with Path(to or os.devnull).open("w") as file, contextlib.redirect_stdout(file):
            return main(shlex.split(arguments)[1:])
    except SystemExit as ended:  # --help
        return int(ended.code or 0)


@pytest.fixture(scope="module")
def a_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages have it: the demo's feed and a draft, ``card.yaml`` with a run, one line of which has no
    date, and a chain of three nights, people to forget, and a policy of another trade."""
    place = tmp_path_factory.mktemp("place")
    with contextlib.chdir(place):
        assert typed("kanonflow demo --only-feed --rows 3000 --days 7 --output made-up") == 0
        assert typed("kanonflow policy draft --input FILE > draft.yaml") == 0
        Path("card.yaml").write_text(card_policy())
        Path("feed").mkdir()
        with gzip.open("feed/a.csv.gz", "wb") as file:
            pyarrow.csv.write_csv(feed(), file)
            file.write(b"someday,7,7,1973-04-15,48.7,clerk,5.00,3\n")
        assert typed("kanonflow anonymize --policy card.yaml --input 'feed/*.csv.gz' --output out") == 0
        Path("people.txt").write_text("7\nnobody\n")
        Path("nights").mkdir()
        for night in range(3):
            rows = feed().slice(130 * night, 130)
            pyarrow.csv.write_csv(rows, f"nights/{night}.csv")
            command = (
                f"kanonflow anonymize --policy card.yaml --input nights/{night}.csv --output out{night + 1}"
            )
            assert typed(command + (f" --continue out{night}" if night else "")) == 0
        Path("clinic.yaml").write_text(
            "version: 1\nk: 3\nprotect: row\nfields:\n  age: {role: quasi, type: numeric, as: int}\n"
            "  illness: {role: sensitive}\n"
        )
        ill = (f"{20 + age},{'abcdefg'[age % 7]}" for age in range(60))
        Path("clinic.csv").write_text("\n".join(("age,illness", *ill)) + "\n")
    return place


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [page for page in PAGES if spoken(page)])
def test_commands_in_sentences_do_what_they_are_there_for(page: str, a_place: Path, tmp_path: Path) -> None:
    """Those without a mark are typed as they stand, one after the other, where what they name is there."""
    place = shutil.copytree(a_place, tmp_path / "place")
    with contextlib.chdir(place):
        for command in spoken(page):
            assert typed(command) == 0, command


OF_OTHERS = set(
    re.findall(
        r"\S+",
        """
        --yaml_pipeline_file --savepoint_path --savepointPath --drain --state_backend --max_bundle_size
        --max_bundle_time_mills --checkpoint_timeout_millis --data-urlencode --prometheus
        --additional-experiments --build-arg --data-file --enable-streaming-engine --file --image --metadata-file
        --parameters --sdk-language --tag --template-file-gcs-location --hive_partitioning_mode
        --hive_partitioning_source_uri_prefix --source_format --use_avro_logical_types --compile-bytecode
        """,
    )
)
"""Flags on pages that are of other programs: Flink and its job server, gcloud, docker, bq, curl, uv."""


def flags_of_rooms() -> set[str]:
    """What the programs take that users of an installation do not have: measurements and trials."""
    sources = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tests" / "flink").glob("*.py")]
    found = {
        flag
        for source in sources
        for flag in re.findall(r'add_argument\(\s*"(--[a-z][\w-]*)"', source.read_text())
    }
    assert {"--rows-a-day", "--results"} <= found
    return found


def flags(text: str) -> set[str]:
    """Names of flags."""
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*\w", text))


def flags_of_beam() -> set[str]:
    """What Beam's options take, ours among them (``KanonflowOptions``)."""
    importlib.import_module(
        "kanonflow.pipelines.own_pipelines.pipeline_options"
    )  # only what is loaded is found
    found, kinds = set(), [PipelineOptions]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        kind._add_argparse_args(parser)
        found |= {name for action in parser._actions for name in action.option_strings}
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_of_a_page_is_one(page: str) -> None:
    """Of a command of ours, of Beam, or listed here; behind ``kanonflow NAME`` it is one that NAME takes."""
    text = (ROOT / page).read_text()
    beam, ours = flags_of_beam(), {option.name for option in table.OPTIONS}
    assert flags(text) <= ours | beam | OF_OTHERS | flags_of_rooms()
    for name, behind in re.findall(r"\bkanonflow ((?:policy )?[a-z]+)((?:[^`\n]|\\\n|\n +--)*)", text):
        if name in table.COMMANDS:
            taken = {option.name for option in table.options_of(name)} | {"--help"}
            more = beam | OF_OTHERS if table.COMMANDS[name].beam else set()
            assert flags(behind) <= taken | more, (name, behind)


def kept_secret(folder: Path) -> None:
    """A file with a secret, as a run wants it."""
    (folder / "secret").write_bytes(bytes(range(32)))
    (folder / "secret").chmod(0o600)


def shown_tables() -> tuple[list[list[str]], list[list[str]]]:
    """The cells of the README's two tables of rows, before and after, with their heads."""
    text = (ROOT / "README.md").read_text().partition("## Before and after")[2]
    before, after = (
        [
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            for line in table.splitlines()
        ]
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[:2]
    )
    return before, after


def _form(text: str) -> str:
    return re.sub(r"\d", r"\\d", re.escape(text))


def _years(label: str) -> int:
    first, last = (date.fromisoformat(day) for day in re.findall(r"[\d-]{10}", label))
    return last.year - first.year + 1


def test_the_readme_runs(tmp_path: Path) -> None:
    """Its policy on the demo's feed: released, audited, exported; then from Python, and in a pipeline of one's own."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    (tmp_path / "demo-out" / "feed").mkdir(parents=True)
    subprocess.run(
        [
            Path(sys.executable).parent / "kanonflow",
            "demo",
            "--only-feed",
            "--output=demo-out",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    said = run("README.md", tmp_path)
    assert "audit passed" in said
    exported = polars.read_csv(tmp_path / "out" / "export.csv")
    after = shown_tables()[1]
    columns = after[0]
    assert set(columns) < set(exported.columns)
    (box,) = {tuple(row[:3]) for row in after[2:]}
    shown = dict(zip(columns, box, strict=False))
    first = exported.row(0, named=True)
    assert re.fullmatch(_form(shown["window_start"]), first["window_start"])
    # The box on the page is a usual one: half of the rows have a wider one.
    years = exported["birth_date"].map_elements(_years, polars.Int64).median()
    values = exported["occupation"].str.count_matches(r"\|").median()
    assert abs(_years(shown["birth_date"]) - years) <= 1
    assert abs(shown["occupation"].count("|") - values) <= 1
    told = re.search(r"^(\d+) released, (\d+) rejected$", said, re.MULTILINE)
    assert told is not None
    assert int(told[1]) + int(told[2]) == 20_000
    assert re.search(r"^ *birth_date_from +birth_date_to +value +lower", said, re.MULTILINE)
    in_beam = sum(
        polars.read_avro(path).height for path in (tmp_path / "beam-out" / "release").glob("*.avro")
    )
    assert in_beam == int(told[1])


def test_before_and_after_are_of_the_demo() -> None:
    """The rows before are of its feed. Those after carry their payload, in one box of the policy's grid around them."""
    before, after = (table[2:] for table in shown_tables())
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
    first, last = map(date.fromisoformat, kanonflow.split_range(box[1])[:2])
    assert (first.month, first.day, last.month, last.day) == (1, 1, 12, 31)
    for booked, _, born, occupation, amount in before:
        assert booked[:10] == box[0][:10]
        assert first <= date.fromisoformat(born) <= last
        assert occupation in kanonflow.split_set(box[2])
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
