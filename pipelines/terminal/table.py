"""One table for whoever reads: drawn as lines for a terminal, and on a page (``pages``).

A number is a value and how it is shown: the terminal and a page show it, and a page's markup has it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number, and how it is shown."""

    value: float
    shown: str

    def __str__(self) -> str:
        return self.shown


Cell = str | Number | None
"""Of a table; None: there is none."""


@dataclass(frozen=True)
class Table:
    """caption: what it holds, in words. folded: only the caption is seen on a page until somebody opens it.

    name: by which a program finds it there."""

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = True

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of each column, whether it holds numbers."""
        return tuple(
            any(isinstance(row[place], Number) for row in self.rows) for place in range(len(self.head))
        )

    def lines(self) -> Iterator[str]:
        """The caption, and the table in columns of equal width, numbers to the right."""
        yield f"- {self.caption}"
        rows = [["-" if cell is None else str(cell) for cell in row] for row in self.rows]
        left = [place for place, numeric in enumerate(self.numeric) if not numeric]
        yield from aligned([self.head, *rows], left=left)


def aligned(table: Sequence[Sequence[str]], left: Sequence[int] = (), indent: str = "    ") -> Iterator[str]:
    """The lines of a table in columns of equal width; to the right but for those of ``left``."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = [
            f"{cell:<{width}}" if place in left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield indent + "  ".join(cells).rstrip()


def labelled(rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The lines of a closing table: labels, and what stands behind each."""
    return aligned([(label, str(value)) for label, value in rows], left=(0, 1), indent="")


def rows_of(table: Iterable[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Rows as a Table has them."""
    return tuple(tuple(row) for row in table)


def count(value: int | None) -> Cell:
    """A whole number, with its thousands apart."""
    return None if value is None else Number(value, f"{value:,}")


def share(value: float | None, digits: int = 1) -> Cell:
    """A share as a percentage; its exact value is the share itself."""
    return None if value is None else Number(value, f"{value:.{digits}%}")


def decimal(value: float | None, digits: int = 4) -> Cell:
    """A number with so many digits behind the point."""
    return None if value is None else Number(value, f"{value:.{digits}f}")


def quantity(value: float | None) -> Cell:
    """A number of any size, with its first four digits."""
    if value is None:
        return None
    return Number(value, f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")
