"""Where rejected rows lead back to: what a source knows of a row's place, asked for the rows that are rejected only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class RowOrigin(NamedTuple):
    """Where one row came from.

    source: its file, or its place in a topic. line: its number there, as in rejected.avsc; None: not known.
    raw: of text, the row as it came; what is not UTF-8 in it is U+FFFD. header: of CSV, the header's.
    """

    source: str | None
    line: int | None
    raw: str | None = None
    header: str | None = None


class RowOrigins(Protocol):
    """Of a batch, where its rows came from. It is asked after the batch was read, so good rows cost nothing."""

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """The origins of some rows of the batch, by their places in it, ascending."""
        ...


def told(origin: RowOrigin) -> dict[str, str | int | None]:
    """What a record of rejected.avsc says of an origin, but for its source."""
    return {"line": origin.line, "raw": origin.raw, "header": origin.header}
