"""What a text input says: the one statement that the run's reader and the audit's own reader both follow.

CSV files
    Encoding    UTF-8, with or without a byte order mark; gzip where the file begins as gzip does.
    Lines       end with LF, CRLF or CR. Empty lines say nothing, also before the header. A line of spaces is a row.
    Delimiter   the one given, else that one of ``DELIMITERS`` which the header has most of outside of quotes.
    Quotes      a cell that begins with ``"`` goes on to the next single ``"``, over delimiters and line ends; ``""``
                in it is one quote. What follows the closing quote belongs to the cell. A quote elsewhere in a cell,
                also behind a space, is a character like others. A backslash is one too.
    Header      the first row: every column named, no name twice, all text. Else the file is refused.
    Cells       as they stand, spaces included. An empty cell is null, whether quoted or not. A word such as NULL is a
                text. There is no limit to a cell, but a row of more than ``MOST_ROW_BYTES`` may end a file's reading.

JSON messages
    One object in UTF-8 each. Numbers are written in one way, whatever way they came; what is missing is null.

Rows that are none (they are rejected as ``unparseable``, one record each, and the rest is read)
    - more or fewer cells than the header has;
    - a kept cell that is no text: with bytes that are not UTF-8, or with a character of ``NO_TEXT`` (but see below);
    - a quoted cell that does not end before the file does. It may have swallowed rows: files that are there at the
      start are refused whole, and of a file that arrives in a feed the rows before it are read;
    - a message that is no JSON object, or has a nested value, half of a surrogate pair or a character of
      ``NO_TEXT`` in a kept field.

Attributes of lasting cohorts
    Nothing reads the quasi-identifiers of somebody who is known, so a row is never none for one of them. Such a cell
    is handed on as ``NO_VALUE``, which is no value of any type (``bad_value``). A message is judged by its other kept
    fields alone: NaN, Infinity, control characters and bytes that are not UTF-8 elsewhere do not make it no object.

Cells as values of a type
    Spaces around are no matter, but to text. ASCII digits only.
    whole numbers    ``[+-]digits`` within the type
    other numbers    ``[+-]digits[.digits][e[+-]ddd]``, also ``.5`` and ``5.``; finite; decimals without rounding
    booleans         true, false, 1, 0, in any case
    dates            ``YYYY-MM-DD``
    instants         ``YYYY-MM-DD[ T]HH:MM[:SS[.f]][Z|+hh:mm]``, up to nine places of a second, cut to the type's unit;
                     without a zone in UTC; a date alone is its midnight

tests/pipelines/feeds/test_text_inputs.py holds a table of cases that runs through both readers.
"""

from __future__ import annotations

DELIMITERS = (",", ";", "\t", "|")
MOST_ROW_BYTES = 1 << 20
NO_TEXT = "\0\x1a"
"""NUL and SUB: two characters that no text has."""
NO_VALUE = "\x1a"
"""What stands for a quasi-identifier of lasting cohorts that is no value at all."""
