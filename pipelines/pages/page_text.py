"""A page as lines for a terminal: the same sections and tables, without their drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kanonflow.pipelines.pages.pages import Block, Figure, Items, Paragraph, Section
from kanonflow.schemas.printable import printable


def text_of(sections: Sequence[Section]) -> Iterator[str]:
    """The lines, sections in the order given. What could move a terminal is spelled out."""
    for section in sections:
        yield printable(f"{section.title.lower()}:")
        for block in section.blocks:
            yield from map(printable, _lines(block))


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield block.text
    elif isinstance(block, Items):
        yield from (f"{number}. {item}" for number, item in enumerate(block.items, 1))
    else:
        yield from (block.table if isinstance(block, Figure) else block).lines()
