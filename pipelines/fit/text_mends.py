"""What to say in a policy of a CSV file that cannot be read as it is: its encoding, its delimiter."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Sequence

from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_inputs import DELIMITERS
from kanonflow.transforms.files.storage import open_stored

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 1 << 18
_PLACES = 8
_SIGNS = (*DELIMITERS, "^", "~", ":", "#")
_OF_CENTRAL_EUROPE = frozenset(b"\x8a\x8d\x8e\x9a\x9d\x9e\xb3\xb9\xe8\xec\xef\xf2\xf8\xf9")
"""Bytes of letters that Czech, Polish and Slovak write often in cp1250, and Western languages rarely in cp1252."""


def encoding_mend(file: InputFile, csv: CsvForm) -> str:
    """What to say of the encoding of a CSV file whose bytes are no text in the declared one; "": they are.

    Told by the byte order mark, by NULs, and by which bytes there are. Reads some KB at a few places.
    """
    try:
        pieces = _pieces(file)
    except (OSError, zlib.error):
        return ""
    guess = guessed_encoding(pieces)
    declared = codecs.lookup(csv.encoding).name
    if guess is None or codecs.lookup(guess).name == declared:
        return ""
    if guess in ("cp1250", "cp1252"):
        other = "cp1252 (Western Europe)" if guess == "cp1250" else "cp1250 (Central Europe)"
        return (
            f"bytes that are not UTF-8: say csv: {{encoding: {guess}}}, or {other}, by which it was written"
        )
    return f"it is written in {guess}: say csv: {{encoding: {guess}}}"


def likely_encoding(file: InputFile) -> str | None:
    """The encoding that a CSV file looks to be written in; None: UTF-8, or it cannot be told."""
    try:
        guess = guessed_encoding(_pieces(file))
    except (OSError, zlib.error):
        return None
    return None if guess == "utf-8" else guess


def guessed_encoding(pieces: Sequence[bytes]) -> str | None:
    """The encoding that bytes from a text file are in, the first piece from its beginning; None: compressed, or none.

    cp1250 and cp1252 stand for the encodings of one byte a character, which no byte can tell apart for sure.
    """
    first = pieces[0] if pieces else b""
    if first.startswith(b"\x1f\x8b"):
        return None
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    data = b"".join(pieces)
    if not data:
        return None
    even, odd = first[0::2].count(0), first[1::2].count(0)
    if even + odd > len(first) // 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    if all(map(_is_utf8, pieces)):
        return "utf-8"
    high = [byte for byte in data if byte >= 0x80]
    central = sum(byte in _OF_CENTRAL_EUROPE for byte in high)
    return "cp1250" if 2 * central >= len(high) else "cp1252"


def delimiter_mend(header: str, delimiter: str) -> str:
    """What to say of the delimiter of a header of one column that has another sign often; "": it has none.

    header: its text. delimiter: the sign that it was read with.
    """
    sign = frequent_sign(header, delimiter)
    if sign is None:
        return ""
    told = "tab" if sign == "\t" else f'"{sign}"'
    return (
        f"the header is one column when it is read by {_named(delimiter)}, and has {header.count(sign)} of"
        f" {_named(sign)}: say csv: {{delimiter: {told}}}"
    )


def frequent_sign(header: str, delimiter: str) -> str | None:
    """The sign beside ``delimiter`` that a header has most of; None: it has none that separates anywhere."""
    counts = {sign: header.count(sign) for sign in _SIGNS if sign != delimiter}
    sign = max(counts, key=lambda each: counts[each])
    return sign if counts[sign] else None


def _named(sign: str) -> str:
    return "tab" if sign == "\t" else sign


def _is_utf8(piece: bytes) -> bool:
    """Whether bytes from the middle of a text are UTF-8: up to three at either end may be of a character cut off."""
    for begin in range(4):
        for end in range(4):
            try:
                piece[begin : len(piece) - end].decode()
            except UnicodeDecodeError:
                continue
            return True
    return False


def _pieces(file: InputFile) -> list[bytes]:
    """Bytes of a file's beginning, and of places behind it."""
    if file.format is not FileFormat.CSV:
        return []
    with open_stored(file.path) as stream:
        pieces = [stream.read(_LOOKED_AT)]
        if pieces[0].startswith(b"\x1f\x8b"):
            return [zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(pieces[0], _LOOKED_AT)]
        for place in range(1, _PLACES if file.size > _LOOKED_AT else 1):
            stream.seek(max(_LOOKED_AT, place * file.size // _PLACES))
            pieces.append(stream.read(_LOOKED_AT // _PLACES))
    return [piece for piece in pieces if piece]
