"""What the documents show runs, and what they point to exists."""

import ast
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_named_exists(document: Path) -> None:
    """A promise whose test was renamed or dropped is noticed."""
    known = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    text = document.read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    for shown in re.findall(r"<!-- shown: (.*?) -->", text, re.DOTALL):
        named |= {name.strip() for name in shown.split(",")}
    assert named <= known, sorted(named - known)


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


def test_decisions_are_numbered_without_gaps() -> None:
    """``NNN-title.md`` with the number and a title in the first line; what, why and what was rejected inside."""
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.name[:3] for path in files] == [f"{number:03d}" for number in range(1, len(files) + 1)]
    for path in files:
        text = path.read_text()
        assert text.startswith(f"# {path.name[:3]}: "), path.name
        for part in ("**What.**", "**Rejected.**"):
            assert part in text, f"{path.name}: {part}"
