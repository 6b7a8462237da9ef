"""The pages of papers: each names every table and figure of its paper's experiments, and is what the results say."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.paper_page import NOT_RUN, PaperPage, Results, Shown
from benchmarks.paper_pages import PAGES, write_pages
from benchmarks.paper_runs import improvement
from benchmarks.result_files import RESULTS, Findings
from benchmarks.small_example import PRINTED, built_loss, example_table, printed_loss

# What each paper's experiments have, as their captions number it. S2 has an example and no experiments.
EXPERIMENTS = {
    "s0": ("Fig. 4", "Table 6", "Fig. 5", "Fig. 6", "Fig. 7", "Fig. 8", "Fig. 9"),
    "s1": ("Table 5", "Table 6", "Fig. 7", "Fig. 8", "Fig. 9", "Fig. 10"),
    "s2": ("Fig. 1", "Table I", "Fig. 2"),
    "s4": ("Table 2", *(f"Fig. {number}" for number in range(4, 16))),
}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_a_page_names_every_table_and_figure(page: PaperPage) -> None:
    """In the paper's order, each with what it shows, and ours or a word that it was not run."""
    assert [each.item for each in page.shown if each.item in EXPERIMENTS[page.name]] == list(
        EXPERIMENTS[page.name]
    )
    text = page.text(Results())
    for each in (*page.shown, *page.claims):
        assert all((each.item, each.shows, each.paper, each.ours, each.size)), each.item
        assert re.search(rf"^\| {re.escape(each.item)} \| {re.escape(each.shows)} \|", text, re.MULTILINE)


@each_page
def test_a_page_on_disk_is_what_the_results_say(page: PaperPage) -> None:
    """`python -m benchmarks.paper_pages` would change nothing."""
    assert (RESULTS / page.file).read_text(encoding="utf-8") == page.text(Results())


@each_page
def test_no_measured_number_is_typed(page: PaperPage) -> None:
    """What stands under ours comes from results, or is without decimals."""
    for each in (*page.shown, *page.claims):
        assert callable(each.ours) or not re.search(r"\d\.\d", each.ours), each.item


def test_claims_are_judged() -> None:
    """Each sentence of a paper's text is said to hold or not where it was run."""
    for page in PAGES:
        for line in (
            page.text(Results()).split("## What the text claims")[-1].split("## ")[0].splitlines()[4:]
        ):
            ours = line.split(" | ")[3] if line else "held"
            assert ours == NOT_RUN or "held" in ours or "times" in ours, line


def made_page(ours: Callable[[Results], str]) -> PaperPage:
    """One line."""
    return PaperPage("x", "X", "About.", (Shown("Fig. 1", "loss", "1.5", ours, "3 rows"),))


def test_pages_read_results_and_say_what_was_not_run(tmp_path: Path) -> None:
    """A value by its file, table and columns; without file or line it was not run; a wrong column is an error."""
    page = made_page(lambda results: str(results.one("a", "Loss", "GCP", rows=3, own_name="b")))
    assert f"| {NOT_RUN} | 3 rows |" in page.text(Results(tmp_path))
    lines = [{"rows": 3, "own name": "b", "GCP": 0.25}, {"rows": 4, "own name": "b", "GCP": 0.5}]
    (tmp_path / "a.json").write_text(json.dumps({"tables": [{"title": "Loss, k = 5", "rows": lines}]}))
    assert "| Fig. 1 | loss | 1.5 | 0.25 | 3 rows |  |" in page.text(Results(tmp_path))
    absent = made_page(lambda results: str(results.one("a", "Loss", "GCP", rows=5)))
    assert NOT_RUN in absent.text(Results(tmp_path))
    for wrong in ({"title": "Loss", "line": 3}, {"title": "Time"}, {"title": "Loss", "own_name": "b"}):
        asked = dict(wrong)
        title = str(asked.pop("title"))
        with pytest.raises(LookupError, match=r"a\.json"):
            made_page(lambda results, title=title, asked=asked: results.one("a", title, "GCP", **asked)).text(
                Results(tmp_path)
            )


def test_pages_of_an_empty_folder_are_written(tmp_path: Path) -> None:
    """With nothing run every page is there, and says so in each line that reads results."""
    written = write_pages(tmp_path)
    assert [path.name for path in written] == [page.file for page in PAGES]
    for page, path in zip(PAGES, written, strict=True):
        text = path.read_text(encoding="utf-8")
        assert text.count(f"| {NOT_RUN} |") >= sum(
            callable(each.ours) for each in (*page.shown, *page.claims)
        )


def test_a_column_named_twice_is_refused() -> None:
    """JSON would keep one of them."""
    with pytest.raises(ValueError, match="named twice"):
        Findings("x", "").table("Loss", ["data", "start", "start"])


def test_the_example_of_s2_is_as_printed() -> None:
    """Its graph is 3-regular over the eight tuples; improved by a tenth, which is what the page tells."""
    assert sorted(row for slot in PRINTED for row in slot) == sorted(list(range(8)) * 3)
    assert all(own in slot and len(set(slot)) == 3 for own, slot in enumerate(PRINTED))
    assert improvement(printed_loss(), built_loss(example_table(), "hungarian")) == pytest.approx(
        10.8, abs=0.1
    )
