"""The quote of another row, found block by block, against one look at the whole."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.feeds.open_quotes import OpenQuotes


def naive(text: str) -> int | None:
    """Where a quoted cell that went over a line end has text behind its closing quote; None: nowhere."""
    place = 0
    while place < len(text):
        cell = re.compile(r'"((?:[^"]|"")*)"(?!")|[^,\r\n]*').match(text, place)
        assert cell is not None
        if cell[1] is None:
            if text[place] == '"':
                return None
            place = cell.end()
        else:
            behind = text[cell.end() : cell.end() + 1]
            if re.search(r"[\r\n]", cell[1]) and behind not in ("", ",", "\r", "\n"):
                return cell.end() - 1
            rest = re.compile(r"[^,\r\n]*").match(text, cell.end())
            assert rest is not None
            place = rest.end()
        place += 1
    return None


@settings(max_examples=3_000)
@example('aaa,"\r"""a', [1, 6])
@example('aa""\r"a', [3, 1])
@given(st.text('"",\n\ra', max_size=40), st.lists(st.integers(1, 9), max_size=40))
def test_blocks_of_any_size_give_what_the_whole_gives(text: str, sizes: list[int]) -> None:
    """Quotes, delimiters and line ends by chance; blocks that end anywhere."""
    data, blocks = text.encode(), []
    for size in [*sizes, len(text)]:
        blocks.append(data[:size])
        data = data[size:]
    blocks = [block for block in blocks if block]
    quotes, before, found = OpenQuotes(b",", b'"'), 0, None
    for block, following in zip(blocks, [*blocks, b""][1:], strict=True):
        place = quotes.torn(block, following)
        if place is not None:
            found = before + place
            break
        before += len(block)
    assert found == naive(text)
