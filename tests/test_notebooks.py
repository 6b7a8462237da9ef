"""docs/notebooks: each cell, in order, by a kernel of Jupyter in an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.executed_notebooks import NOTEBOOKS, executed, output_of, skeleton, surroundings

pytestmark = pytest.mark.thorough


def said(book: Any, source: str) -> str:
    """What the cell with this in it has printed and shown."""
    (cell,) = (each for each in book.cells if each.cell_type == "code" and source in each.source)
    return output_of(cell)


@pytest.mark.timeout(280)
def test_the_notebook_goes_from_a_raw_file_to_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafted, explained, released, audited, reported and asked; commands with ``!`` end well, too."""
    (notebook,) = NOTEBOOKS
    for name, value in surroundings().items():
        monkeypatch.setenv(name, value)
    book = executed(notebook, tmp_path)
    assert "birth_date: {role: quasi" in said(book, "policy draft --input")
    assert "what to do:" in said(book, "kanonflow explain")
    assert "fits made-up/feed/transactions.csv" in said(book, "policy check")
    assert "rows released" in said(book, "kanonflow anonymize")
    assert "audit passed" in said(book, "kanonflow verify")
    assert "out/certificate.html" in said(book, "kanonflow report")
    assert "lower" in said(book, "release.estimate")
    assert "rows released of 20000" in said(book, "anonymize_table(")
    # What is kept of an earlier run is what this one prints, but for its numbers: make notebooks writes it anew.
    for before, after in zip(nbformat.read(notebook, as_version=4).cells, book.cells, strict=True):
        if after.cell_type == "code":
            assert skeleton(output_of(before)) == skeleton(output_of(after)), after.source


def test_notebooks_are_kept_with_their_outputs() -> None:
    """Who reads one on a page sees what it prints; nothing of the machine that it ran on, and no pictures."""
    for notebook in NOTEBOOKS:
        text = notebook.read_text()
        assert "/tmp/" not in text
        assert str(Path.home()) not in text
        for cell in nbformat.read(notebook, as_version=4).cells:
            if cell.cell_type == "code" and not cell.source.startswith("import re"):
                assert [output.output_type for output in cell.outputs] == ["stream"], cell.source
            assert "execution" not in cell.metadata


def test_a_skeleton_keeps_words_and_no_numbers() -> None:
    """A line that is new is seen; another count, share or time is not. Of data frames rows are not looked at."""
    assert skeleton("rows  1,234 (5.0%)\ntime 2.1 s") == skeleton("rows 7 (12.5%)\ntime   13.0 s")
    assert skeleton("rows 1\nnever 2") != skeleton("rows 1\nalways 2")
    frame = "shape: (5, 1)\n---\n town \n---\n str \n==="
    assert skeleton(f"{frame}\n Bonn") == skeleton(f"{frame}\n Kiel")
    assert skeleton(frame) != skeleton(frame.replace("town", "city"))
