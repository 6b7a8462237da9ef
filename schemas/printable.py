"""Text of others on a terminal: names of columns and files come from inputs, and may hold what a terminal obeys."""

from __future__ import annotations


def spellable(text: str) -> bool:
    """Whether it can be written: without half of a pair of surrogates, as JSON and YAML may spell it."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def printable(text: str, *, lines: bool = False) -> str:
    """The text with an escape (``\\x1b``, ``\\u202e``) for every character that is no letter, sign or space.

    Those are control characters, which move the cursor and colour; characters that turn the direction of writing or
    take no room, which make one name look like another; separators of lines. lines: line feeds of our own stay.
    Escaping twice changes nothing.
    """
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or (lines and each == "\n")
        else each.encode("unicode_escape", "surrogatepass").decode("ascii")
        for each in text
    )
