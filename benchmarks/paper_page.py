"""What a page about a paper is made of: a line for each table and figure of its experiments, figures from results.

A line's ``ours`` reads the JSON files of benchmarks/results, so that no number is typed twice. What was not run has no
file or no line there, and the page says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.result_files import RESULTS, ResultTable, shown

NOT_PRINTED = "not printed in our copy"
NOT_RUN = "not run"


class NotRunError(LookupError):
    """A result that a page wants is in no file."""


@dataclass(frozen=True)
class Results:
    """The result files of a folder, read where a page asks for them."""

    folder: Path = RESULTS

    def rows(self, name: str, title: str, **where: object) -> list[dict[str, Any]]:
        """Lines of a table of ``<name>.json`` with these values, in its order; ``_`` in a column's name is a space.

        title: how the table's title begins. Raises NotRunError without such a file or line, LookupError without such
        a table or column.
        """
        path = self.folder / f"{name}.json"
        if not path.is_file():
            raise NotRunError(f"{name}.json")
        tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
        found = [table["rows"] for table in tables if table["title"].startswith(title)]
        if len(found) != 1:
            raise LookupError(f"{name}.json has {len(found)} tables whose titles begin with {title!r}")
        wanted = {column.replace("_", " "): value for column, value in where.items()}
        absent = [column for column in wanted if found[0] and column not in found[0][0]]
        if absent:
            raise LookupError(f"{name}.json, {title!r}: no column {', '.join(absent)}")
        lines = [row for row in found[0] if all(row[column] == value for column, value in wanted.items())]
        if not lines:
            raise NotRunError(f"{name}.json, {title!r}: {wanted}")
        return lines

    def one(self, name: str, title: str, column: str, **where: object) -> Any:
        """The value of ``column`` in the only line with these values. Raises as ``rows``, LookupError for several."""
        lines = self.rows(name, title, **where)
        if len(lines) != 1:
            raise LookupError(f"{name}.json, {title!r}: {len(lines)} lines with {where}")
        return lines[0][column]


Told = str | Callable[[Results], str]


@dataclass(frozen=True)
class Shown:
    """A table or a figure of a paper's experiments, or a claim of its text.

    item: as the paper numbers it. shows: what it shows. paper: what the running text prints, NOT_PRINTED for the rest.
    ours, comment: text, or what reads it from results. size: rows, k, data.
    """

    item: str
    shows: str
    paper: str
    ours: Told
    size: str
    comment: Told = ""


@dataclass(frozen=True)
class PaperPage:
    """name: of the file, ``paper_<name>.md``. paper: author, title, year. about: what to know before reading.

    shown: in the paper's own order. claims: sentences of its text, each with ``ours`` beginning with held or not held.
    tables: the cells behind the lines.
    """

    name: str
    paper: str
    about: str
    shown: tuple[Shown, ...]
    claims: tuple[Shown, ...] = ()
    tables: tuple[Callable[[Results], ResultTable], ...] = field(default=())

    @property
    def file(self) -> str:
        """Of the page, in the folder of results."""
        return f"paper_{self.name}.md"

    def text(self, results: Results) -> str:
        """The page, Markdown."""
        parts = [f"# {self.paper}", self.about.strip()]
        parts.append("Made by `python -m benchmarks.paper_pages` from the result files beside it.")
        parts.append("## Tables and figures\n\n" + _lines("table or figure", self.shown, results))
        if self.claims:
            parts.append("## What the text claims\n\n" + _lines("where", self.claims, results))
        made = [table for make in self.tables if (table := _made(make, results)) is not None]
        if made:
            parts += ["## Cells", *(table.render() for table in made)]
        return "\n\n".join(parts) + "\n"


def number(value: float) -> str:
    """A loss or a ratio, in four significant digits."""
    return shown(float(value))


def percent(value: float) -> str:
    """A percentage with one digit."""
    return f"{value:.1f}%"


def span(values: list[float], say: Callable[[float], str] = number) -> str:
    """The least and the largest."""
    return say(values[0]) if len(values) == 1 else f"{say(min(values))} to {say(max(values))}"


def _lines(first: str, items: tuple[Shown, ...], results: Results) -> str:
    columns = (first, "what it shows", "paper", "ours", "size", "comment")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for each in items:
        cells = (
            each.item,
            each.shows,
            each.paper,
            _told(each.ours, results),
            each.size,
            _told(each.comment, results),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _told(text: Told, results: Results) -> str:
    if isinstance(text, str):
        return text
    try:
        return text(results)
    except NotRunError:
        return NOT_RUN


def _made(make: Callable[[Results], ResultTable], results: Results) -> ResultTable | None:
    try:
        return make(results)
    except NotRunError:
        return None
