"""docs/notebooks: each cell, in order, by a kernel of Jupyter in an empty folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.thorough

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def executed(notebook: Path, folder: Path) -> Any:
    """The notebook after every cell has run. Raises CellExecutionError: one failed."""
    book = nbformat.read(notebook, as_version=4)
    nbformat.validate(book)
    NotebookClient(
        book, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return book


def said(book: Any, source: str) -> str:
    """What the cell with this in it has printed and shown."""
    (cell,) = (each for each in book.cells if each.cell_type == "code" and source in each.source)
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


@pytest.mark.timeout(280)
def test_the_notebook_goes_from_a_raw_file_to_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafted, explained, released, audited, reported and asked; commands with ``!`` end well, too."""
    (notebook,) = NOTEBOOKS
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    book = executed(notebook, tmp_path)
    assert "birth_date: {role: quasi" in said(book, "policy draft --input")
    assert "what to do:" in said(book, "kanonflow explain")
    assert "fits made-up/feed/transactions.csv" in said(book, "policy check")
    assert "rows released" in said(book, "kanonflow anonymize")
    assert "audit passed" in said(book, "kanonflow verify")
    assert "out/certificate.html" in said(book, "kanonflow report")
    assert "lower" in said(book, "release.estimate")
    assert "rows released of 20000" in said(book, "anonymize_table(")


def test_notebooks_are_kept_without_outputs() -> None:
    """What they print is made when they run; what somebody's run printed once is not true for long."""
    for notebook in NOTEBOOKS:
        for cell in nbformat.read(notebook, as_version=4).cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
