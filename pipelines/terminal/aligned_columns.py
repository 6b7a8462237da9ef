"""Tables of text, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def aligned(table: Sequence[Sequence[str]], left: Sequence[int] = ()) -> Iterator[str]:
    """The lines of a table in columns of equal width, indented; to the right but for those of ``left``."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = [
            f"{cell:<{width}}" if place in left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "    " + "  ".join(cells).rstrip()
