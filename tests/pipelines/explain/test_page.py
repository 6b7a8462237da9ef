"""The explanation as a page: every figure in a table, exactly, and readable in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.explain import write_page
from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.explain.page import explanation_page
from kanonflow.pipelines.explain.variants import Group
from tests.page_checks import check_page
from tests.page_reading import read_page
from tests.pipelines.explain.planted_feed import POLICY, canonical, planted_rows


def test_the_quick_page_holds_what_was_counted() -> None:
    """Sentences as text, counts as exact numbers; nothing is loaded, and no value of a record is told."""
    found = explain(*canonical(planted_rows(), POLICY), quick=True)
    html = explanation_page(found, "planted")
    page = read_page(html)
    assert not {"script", "link", "img"} & set(page.tags)
    assert all(" ".join(sentence.split()) in page.text for sentence in found.sentences)
    assert page.tables["windows"].column("too few") == [each.small for each in found.plain.windows]
    assert page.tables["alone"].column("share") == [each.share for each in found.plain.alone]
    assert len(page.tables["recommendations"].rows) == len(found.recommendations)
    assert html == explanation_page(found, "planted")
    assert not any(word in html for word in ("device 1", "shop 1", ">j1<", ">d1<"))


@pytest.fixture(scope="module")
def solved() -> Explanation:
    policy = POLICY + "solver: {evaluations_per_row: 30, threads: 1}\n"
    return explain(*canonical(planted_rows(), policy))


@pytest.mark.thorough
def test_every_figure_of_a_drawing_stands_in_a_table(solved: Explanation) -> None:
    """Losses of the grid by k and window, and of each group all that was measured."""
    assert solved.solved is not None
    page = read_page(explanation_page(solved, "planted"))
    grid = page.tables["loss_by_k_and_window"]
    costs = {each.variant.name: each.measures.cost for each in solved.solved.of(Group.GRID)}
    for row, exact in zip(grid.rows, grid.exact, strict=True):
        for place, length in enumerate(grid.head[1:], 1):
            name = f"{row[0].replace(' =', '')}, window {length}"
            assert (float(exact[place]) if place in exact else None) == costs.get(name)
    (own,) = (each for each in solved.solved.of(Group.GRID) if not each.variant.change)
    for name, group in (("grid", Group.GRID), ("without", Group.WITHOUT), ("protection", Group.PROTECTION)):
        table, tried = page.tables[f"tried_{name}"], solved.solved.of(group)
        tried = (own, *tried) if group is Group.WITHOUT else tried
        assert table.column("loss") == [each.measures.loss for each in tried]
        births = [
            next((width.median for width in each.measures.fields if width.field == "birth"), None)
            for each in tried
        ]
        assert table.column("birth") == births
    assert all(each.variant.promise in page.text for each in solved.solved.of(Group.PROTECTION))


@pytest.mark.thorough
@pytest.mark.browser
def test_the_page_is_readable_in_a_browser(browser: Any, solved: Explanation, tmp_path: Path) -> None:
    """On a phone and on a screen, in light and dark, by keyboard."""
    page = tmp_path / "page.html"
    page.write_text(explanation_page(solved, "planted"))
    check_page(browser, page)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside what is printed; a place that cannot be written is named."""
    pyarrow.csv.write_csv(planted_rows(), tmp_path / "in.csv")
    (tmp_path / "p.yaml").write_text(POLICY)
    command = [
        "explain",
        "--quick",
        "--policy",
        str(tmp_path / "p.yaml"),
        "--input",
        str(tmp_path / "in.csv"),
    ]
    assert cli.main([*command, "--html", str(tmp_path / "page.html")]) == 0
    assert "what to do:" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert cli.main([*command, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "--html" in capsys.readouterr().err


def test_the_page_is_for_its_owner_only(tmp_path: Path) -> None:
    """Mode 0600 whatever was there: it tells of the input. A link is replaced, and what it leads to stays."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "other").write_text("stays")
    found = explain(*canonical(planted_rows(), POLICY), quick=True)
    for target in (tmp_path / "new.html", tmp_path / "there.html", tmp_path / "link.html"):
        if target.stem == "there":
            target.write_text("old")
            target.chmod(0o644)
        if target.stem == "link":
            target.symlink_to(tmp_path / "other")
        write_page(found, str(tmp_path / "policy.yaml"), target)
        assert target.stat().st_mode & 0o777 == 0o600
        assert "<html" in target.read_text(encoding="utf-8")
    assert (tmp_path / "other").read_text() == "stays"
