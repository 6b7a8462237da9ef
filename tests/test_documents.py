"""What the documents show runs, and what they point to exists."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.promises.promises import PROMISES

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = (
    "pipelines",
    "transforms",
    "solvers",
    "schemas",
    "policies",
    "tests",
    "docs",
    "benchmarks",
    "deploy",
)


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


def feed() -> pa.Table:
    """Two days of 30 card holders, as ``card.yaml`` wants them."""
    random = np.random.default_rng(1)
    card = random.integers(0, 30, 400)
    return pa.table(
        {
            "booked_at": pa.array(random.integers(0, 172_800, 400) * 1000, pa.timestamp("ms", "UTC")),
            "card": pa.array(card).cast(pa.string()),
            "name": pa.array(card).cast(pa.string()),
            "born": pa.array(card * 200, pa.int32()).cast(pa.date32()),
            "latitude": 48 + card / 10,
            "occupation": pa.array(["cook", "clerk", "nurse"]).take(pa.array(card % 3)),
            "amount": pa.array(random.integers(100, 9999, 400))
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(12, 2)),
            "shop": pa.array(random.integers(0, 9, 400)).cast(pa.string()),
        }
    )


def card_policy() -> str:
    """``card.yaml`` of docs/choosing.md, which other pages use."""
    (policy,) = blocks(ROOT / "docs" / "choosing.md", "yaml")
    return policy


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_place_named_exists(document: Path) -> None:
    """Files and folders of the project in backticks; a name may stand for several with ``*``.

    A decision that another one has replaced, which it names, may speak of what is no longer there.
    """
    text = document.read_text()
    if later := re.search(r"^\*Replaced by \[\d+\]\((.*?)\)", text, re.MULTILINE):
        assert (document.parent / later[1]).is_file()
        return
    places = re.findall(rf"`((?:{'|'.join(ROOMS)})/[\w./*-]*)`", text)
    made = {"benchmarks/results"}
    missing = [place for place in places if place not in made and not any(ROOT.glob(place.rstrip("/")))]
    assert not missing, missing


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The names of all tests."""
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_named_exists(document: Path, known: set[str]) -> None:
    """A promise whose test was renamed or dropped is noticed."""
    text = document.read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    for shown in re.findall(r"<!-- shown: (.*?) -->", text, re.DOTALL):
        named |= {name.strip() for name in shown.split(",")}
    assert named <= known, sorted(named - known)


NO_PROMISE = {
    ("docs/faq.md", "Is the result anonymous in the sense of the GDPR?"): "it says that nobody can",
    ("docs/faq.md", "How far is it from the optimum?"): "a figure, held against its file",
    ("docs/dataflow.md", "Sizing"): "advice, from Dataflow's documents; nothing ran there",
}
"""Sections of pages that promise something, and have no test of their own; with the reason."""


@pytest.mark.parametrize("page", ["faq", "choosing", "kafka", "dataflow"])
def test_every_section_that_promises_names_its_tests(page: str) -> None:
    """In a comment, or behind a command; sections of questions and answers are the answers."""
    name = f"docs/{page}.md"
    heading = r"^\*\*(.+?)\*\* " if page == "faq" else r"^## (.+)$"
    parts = re.split(heading, (ROOT / name).read_text(), flags=re.MULTILINE)[1:]
    assert len(parts) > 10
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        named = re.search(r"<!-- (shown|tried): ", text) is not None
        assert named is ((name, title) not in NO_PROMISE), title


def anchors(document: Path) -> set[str]:
    """Of the headings of a document, as the places that show Markdown make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_of_the_root_lead_to_files_and_headings(document: Path) -> None:
    """Of README and its neighbours; those within docs/ are checked where the site is built (``test_site``)."""
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        there = ROOT / path if path else document
        assert there.exists(), link
        if anchor:
            assert anchor in anchors(there), link


def test_the_drawn_group_is_that_of_the_readme() -> None:
    """Whose rows a test finds in the demo; and figures of the site's home are those of the results."""
    words = re.findall(r">([^<>]+)</text>", (ROOT / "docs/assets/group.svg").read_text())
    readme = (ROOT / "README.md").read_text()
    dates = [date for word in words for date in re.findall(r"\d{4}-\d\d-\d\d", word)]
    assert len(dates) == 5
    assert len([word for word in words if re.fullmatch(r"\d+\.\d\d", word)]) == 6
    for word in (*dates, *(word for word in words if re.fullmatch(r"\d+\.\d\d", word))):
        assert word in readme, word
    worth = (ROOT / "benchmarks/results/worth.md").read_text()
    row = re.findall(
        r"^\| sparkov +\| 5 +\| (row|Mondrian) .*?\| ([\d.]+) +\| \d+ of 6 +\| \d+ of 6", worth, re.MULTILINE
    )
    told = re.findall(
        r"(\d\.\d)% of the rows in the wrong band, Mondrian's (\d\.\d)%", (ROOT / "docs/index.md").read_text()
    )
    assert told == [tuple(f"{float(value):.1f}" for _, value in row)]


def test_decisions_are_numbered_without_gaps() -> None:
    """``NNN-title.md`` with the number and a title in the first line; what, why and what was rejected inside."""
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.name[:3] for path in files] == [f"{number:03d}" for number in range(1, len(files) + 1)]
    for path in files:
        text = path.read_text()
        assert text.startswith(f"# {path.name[:3]}: "), path.name
        for part in ("**What.**", "**Rejected.**"):
            assert part in text, f"{path.name}: {part}"


def test_the_page_says_what_is_proved_as_the_policies_do() -> None:
    """Guarantees call one promise proved, the one whose object does; rules and measures are tested."""
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    table = text.partition("**Proved, and tested only.**")[2].partition("\n\n| what")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    proved = [line for line in lines if line.split(" | ")[1].startswith("proved")]
    promised = [each for each in PROMISES if "a proof that a machine checks" in each.evidence]
    assert [line.split("`")[1] for line in proved] == [f"cohort: {each.cohort}" for each in promised]
    for each in ("`cohort: window`", "`protect: row`", "`diversity`, `closeness`", "measures of risk"):
        (line,) = (line for line in lines if line.startswith(f"| {each}"))
        assert line.endswith("| tested, not proved |")
    for key in ("diversity", "closeness"):
        (entry,) = (
            line for line in (ROOT / "docs" / "policy.md").read_text().splitlines() if f"| `{key}` |" in line
        )
        assert entry.endswith("Tested, not proved. |")


def _result_rows(name: str, title: str) -> list[dict[str, Any]]:
    """A table of a results file, by the beginning of its title."""
    record = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    (table,) = (table for table in record["tables"] if table["title"].startswith(title))
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def test_figures_of_renewals_are_those_of_their_benchmark() -> None:
    """The table of cohorts.md, line by line."""
    text = (ROOT / "docs" / "cohorts.md").read_text(encoding="utf-8")
    lines = [line for line in text.split("figures_of_renewals")[1].splitlines() if line.startswith("| ")]
    told = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[1:16]]
    measured = _result_rows("renewal", "People of an epoch that ended")
    assert told == [
        (
            row["feed"],
            str(row["cohorts of"]),
            f"{row['before']:.3f}",
            f"`{row['renewed']}` {row['after']:.3f}",
            str(row["least"]),
            f"{row['mean']:.1f}",
            f"{row['alone %']:.0f}%",
            f"{row['kept %']:.0f}%",
        )
        for row in measured
    ]


def test_figures_of_readers_are_those_of_their_benchmark() -> None:
    """The table that guarantees begin with, line by line; and what its sentences and the README say in words."""
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    told = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in text.splitlines()
        if line.startswith(("| 1 ", "| 3 "))
    ]
    measured = {row["the reader knows"]: row for row in _result_rows("readers", "Bundles left")}
    assert len(told) == 7
    for name, left, below, alone in told:
        row = measured[name]
        assert left == f"{row['left, mean']:.1f}"
        assert below == f"{row['below k %']:.0f}% of the people"
        assert alone == f"{row['one left %']:.1f}%"
    strongest = measured["1 row by its window and amt to 1"]["of cases one left %"]
    assert f"for {strongest:.0f}% of all purchases" in text
    assert f"for {strongest:.0f}% of the purchases" in (ROOT / "README.md").read_text(encoding="utf-8")
    (counts,) = _result_rows("readers", "Row counts")
    few, alone_count = counts["shared by fewer than 5 %"], counts["by nobody else %"]
    assert f"{few:.0f}% of the person-days" in text
    assert f"{alone_count:.0f}% one" in text
    shared = {row["field"]: row["of one value %"] for row in _result_rows("readers", "Payload")}
    assert f"all rows of {shared['category']:.0f}% of the groups" in text
    assert f"`is_fraud` of {shared['is_fraud']:.0f}%" in text
    assert (shared["merchant"], shared["amt"]) == (0.0, 0.0)
    absence = [row["advantage from 5 rows on"] for row in _result_rows("readers", "Absence")]
    assert [f"{each:.2f}" for each in absence] == ["1.00", "0.99", "0.45"]
    assert "an advantage of 1.00 and .99" in text
    assert ".45 from five rows on" in text


def test_figures_of_membership_are_those_of_their_benchmark() -> None:
    """Of those who never were in a release, in guarantees and in the table of benchmarks."""
    text = " ".join((ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").split())
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    found = {
        (row["people"], row["release"][:7], row["k"]): row for row in _result_rows("membership", "Outsiders")
    }
    rows = found[10_000, "protect", 5]
    none, few = (f"{rows[name]:.0f}%" for name in ("in no box %", "in fewer than k %"))
    assert f"at k = 5 leaves {none} in no box and {few} in one to four" in text
    assert f"at k=5 leaves {none} in no box, {few} in one to four" in page
    told = {
        (people, release, k): f"{row['advantage from k rows on']:.2f}".lstrip("0")
        for (people, release, k), row in found.items()
    }
    row, window, mondrian = (
        (told[10_000, release, 5], told[10_000, release, 10]) for release in ("protect", "cohort:", "anonypy")
    )
    assert f"an advantage of {row[0]} (k = 10: {row[1]})" in text
    assert f"Closed classes leave {window[0]} ({window[1]})" in text
    assert f"a coarser Mondrian (anonypy) {mondrian[0]} ({mondrian[1]})" in text
    assert f"{told[1500, 'protect', 5]} in row mode for 1,500 people" in text
    for name, (five, ten) in (("protect: row` ", row), ("cohort: window`) ", window), ("anonypy ", mondrian)):
        assert f"{name}{five} and {ten}" in page


def test_figures_of_cargo_and_of_warm_starts_are_those_of_their_files() -> None:
    """Of the pages that tell them: rows, seconds, losses of merging from either start, and of graphs on weeks."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    solvers = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    cargo = {
        (row["attributes"], row["method"]): row["CPU s"]
        for row in _result_rows("lattices", "Cargo 2000")
        if row["data"] == "cargo2000"
    }
    exact, many = cargo[12, "ola"], cargo[25, "kgen"]
    assert (
        f"OLA exact to 12 attributes ({exact:.0f} s), KGen's 5,000 checks of 25 attributes in {many:.1f} s"
        in page
    )
    assert f"12 fields of Cargo in {exact:.0f} s" in solvers
    assert f"5,000 checks: {many:.1f} s for 3,942 rows of 25 fields" in solvers
    merged = {
        row["feed"]: (row["warm"], row["cold"])
        for row in _result_rows("lasting", "Merging")
        if row["evaluations a row"] == 50
    }
    for feed in ("sparkov days", "sparkov weeks", "complete_journey weeks"):
        warm, cold = (f"{loss:.4f}".lstrip("0") for loss in merged[feed])
        assert f"{warm} and {cold} on" in page
    weeks = {
        row["budget"]: row["warm/cold"]
        for row in _result_rows("warm_start_weeks", "Cold")
        if row["mode"] == "row"
    }
    assert f"{100 * (1 - weeks['0.333 x default']):.1f}% less loss after a third" in page
    assert f".{1000 * (weeks['1 x default'] - 1):.0f}% more" in page
