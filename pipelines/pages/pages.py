"""A page as plain values, and its HTML: one file without scripts that loads nothing from anywhere.

    Page > Section > Paragraph, Items, Table, Figure

Every figure has a table under it, folded away, with the numbers that it was drawn from. A number stands there as
``<data value="exact">shown</data>``, so that a program reads what was measured, and a person what can be read.
Text is escaped, and what could move a terminal or a reader's eye is spelled out; the drawings are the only markup
that comes from outside of the template, and ``charts`` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

from kanonflow.pipelines.pages.missing_extra import templates
from kanonflow.pipelines.pages.palette import PALETTE
from kanonflow.pipelines.terminal.table import Cell, Number, Table
from kanonflow.schemas.printable import printable


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences. caption: what they are, under which they are folded away; "": they are shown."""

    items: tuple[str, ...]
    caption: str = ""


@dataclass(frozen=True)
class Chart:
    """A drawing, twice: for wide screens and for phones; SVG. said: what it shows, for who does not see it.

    legend: name and colour (of ``PALETTE``) of each series; () where there is one.
    """

    wide: str
    narrow: str
    said: str
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Figure:
    """A drawing under its title, with its numbers; chart: None where there is nothing to draw."""

    title: str
    chart: Chart | None
    table: Table


Block = Paragraph | Items | Table | Figure


@dataclass(frozen=True)
class Section:
    """anchor: its id on the page, which nothing else has."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Status:
    """What must be seen first, in a few words. kind: good, bad or open."""

    kind: str
    text: str


@dataclass(frozen=True)
class KeyNumber:
    """A number that is seen first, and what it is of, in a few words."""

    number: Cell
    text: str


@dataclass(frozen=True)
class Page:
    """title: of the document. kicker: whose page it is, above it. numbers: below the status. foot: small print."""

    title: str
    kicker: str
    status: Status | None
    sections: tuple[Section, ...]
    foot: tuple[str, ...] = ()
    numbers: tuple[KeyNumber, ...] = ()


def render_page(page: Page) -> str:
    """The HTML of a page; the same page gives the same bytes. Raises MissingExtraError: jinja2 is not installed."""
    jinja2 = templates()
    folder = resources.files("kanonflow.pipelines.pages")
    sources = {
        name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html.j2", "page.css")
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    return environment.get_template("page.html.j2").render(
        page=page, kind=lambda block: type(block).__name__, is_number=_is_number, palette=PALETTE
    )


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Number)


def _finalized(value: Any) -> Any:
    """Plain text without what controls a terminal or turns its direction; markup that is ours stays as it is."""
    return printable(value) if type(value) is str else value
