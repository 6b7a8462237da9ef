"""Notebooks of docs/notebooks run, and kept with what they print: ``make notebooks`` writes them anew."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


_HEAD = 5


def executed(notebook: Path, folder: Path) -> Any:
    """The notebook after every cell has run, in a folder. Raises CellExecutionError: one failed."""
    book = nbformat.read(notebook, as_version=4)
    nbformat.validate(book)
    NotebookClient(
        book, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return book


def surroundings() -> dict[str, str]:
    """Of the environment: ``kanonflow`` is that of this Python."""
    return {"PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"}


def output_of(cell: Any) -> str:
    """What a cell has printed and shown, as text."""
    text = "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", ())
    )
    # A line that is written over and over stands between hiding the cursor and showing it, and is gone then.
    text = re.sub(r"\x1b\[\?25l.*?\x1b\[\?25h", "", text, flags=re.DOTALL)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", text)


def skeleton(text: str) -> list[str]:
    """The words of each line without their numbers, which a new secret or another machine makes other; of a data frame
    its head alone, however wide its columns are."""
    lines = text.splitlines()[: _HEAD if text.startswith("shape:") else None]
    return [
        " ".join(re.sub(r"[\d,.]*\d[\d,.]*", "#", re.sub("([─═])+", r"\1", line)).split()) for line in lines
    ]


def _kept(book: Any) -> Any:
    """Texts alone, in one piece a cell, without times and messages of the machine."""
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)  # times
        text = output_of(cell)
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
        cell.execution_count = None
    return book


def main() -> None:
    """Run each notebook in a folder of its own and write it back with its outputs."""
    os.environ.update(surroundings())
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(_kept(executed(notebook, Path(folder))), notebook)


if __name__ == "__main__":
    main()
