"""Reads pages of figures as a program does that knows HTML and nothing of how they were made."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class ReadTable:
    """head, rows: as shown. exact: of each row the values of its ``<data>`` by column, where it has any."""

    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    exact: list[dict[int, str]] = field(default_factory=list)

    def column(self, name: str) -> list[float | None]:
        """The exact numbers of a column; None where there is none."""
        place = self.head.index(name)
        return [float(found[place]) if place in found else None for found in self.exact]

    def shown(self, name: str) -> list[str]:
        """A column as a person reads it."""
        return [row[self.head.index(name)] for row in self.rows]

    def records(self) -> dict[str, list[str]]:
        """The cells after the first, by the first."""
        return {row[0]: row[1:] for row in self.rows}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, ReadTable] = {}
        self.tags: dict[str, int] = {}
        self.text: list[str] = []
        self.addresses: list[str] = []
        self._table: ReadTable | None = None
        self._cell: list[str] | None = None
        self._silent = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.addresses += [told[name] or "" for name in ("href", "src", "xlink:href") if name in told]
        if tag == "table":
            self._table = self.tables[str(told["data-name"])] = ReadTable()
        elif tag == "tr" and self._table is not None:
            self._table.rows.append([])
            self._table.exact.append({})
        elif tag in ("td", "th"):
            self._cell = []
        elif tag == "data" and self._table is not None:
            self._table.exact[-1][len(self._table.rows[-1])] = str(told["value"])
        self._silent = self._silent or tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._table is not None and self._cell is not None:
            self._table.rows[-1].append("".join(self._cell))
            self._cell = None
        elif tag == "thead" and self._table is not None:
            self._table.head = self._table.rows.pop()
            self._table.exact.pop()
        elif tag == "table":
            self._table = None
        if tag in ("style", "script"):
            self._silent = False

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
        if not self._silent:
            self.text.append(data)


@dataclass(frozen=True)
class ReadPage:
    """tables: by name. tags: how often each occurs. text: all that can be read. addresses: of links and sources."""

    tables: dict[str, ReadTable]
    tags: dict[str, int]
    text: str
    addresses: tuple[str, ...]


def read_page(html: str) -> ReadPage:
    """What a page holds."""
    reader = _Reader()
    reader.feed(html)
    return ReadPage(
        reader.tables, reader.tags, " ".join("".join(reader.text).split()), tuple(reader.addresses)
    )
