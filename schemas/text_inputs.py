"""What a text input says: the one statement that the run, the audit and a second reader among the tests follow.

CSV files
    Encoding    UTF-8 unless the policy's ``csv`` says another; with or without a byte order mark, which is no part of
                the header in any encoding. gzip where the file begins as gzip does. Bytes that are no character of the
                encoding are as those that are not UTF-8, below.
    Lines       end with LF, CRLF or CR. Empty lines say nothing, also before the header. A line of spaces is a row.
    Delimiter   the one given, else that one of ``DELIMITERS`` which the header has most of outside of quotes.
    Quotes      (``"``, or the policy's; where that is '', a quote is a character like others)
                a cell that begins with ``"`` goes on to the next single ``"``, over delimiters and line ends; ``""``
                in it is one quote. What follows the closing quote belongs to the cell, if it is on the line of the
                opening one. A quote elsewhere in a cell, also behind a space, is a character like others. A backslash
                is one too.
    Header      the first row: every column named, no name twice, all text, at most ``MOST_ROW_BYTES``, no byte order
                mark in front but the file's first character. Else the file is refused, unless the policy says
                ``header: numbered``: then a column without a name is called by its number (column_4), a name that was
                there already gets its column's number (email_4), and where the first row below has one cell more than
                the header, that is one more column without a name.
    Cells       as they stand, spaces included. An empty cell is null, whether quoted or not. So is one that is, without
                the spaces around it, a word of the policy's ``nulls``, quoted or not; else a word such as NULL is a
                text. There is no limit to a cell, but a row of more than ``MOST_ROW_BYTES`` may end a file's reading.

JSON messages, and files of JSON lines
    One object in UTF-8 each. Numbers are written in one way, whatever way they came; what is missing is null.
    Paths       an object's fields are columns by their path, with points between (customer.birth). A name that has
                points itself goes before a path. An empty object is null; a list is a nested value. A path with half
                of a surrogate pair in it is no column.
    Lines       end with LF or CRLF; blank ones say nothing. A byte order mark, and gzip where the file begins so, are
                as in CSV files. The columns of a file are the paths of all its lines that are objects.

Workbooks (.xlsx)
    The first sheet. Its first row that is not blank is the header (as of CSV files); blank rows say nothing. A sheet
    with a row numbered beyond ``MOST_SHEET_ROWS`` is none.
    Cells       numbers as JSON's; true, false; days as ``YYYY-MM-DD``, instants as ``YYYY-MM-DD HH:MM:SS[.f]``, both as
                the workbook's calendar has them; of a formula what it gave when the workbook was stored.
                Cells that a row lacks at its end are null.
    What ``csv`` says of ``decimal``, ``thousands`` and ``nulls`` goes for their texts, and for those of JSON lines.

Rows that are none (they are rejected as ``unparseable``, one record each, and the rest is read)
    - more or fewer cells than the header has; of a workbook, a cell behind its last column;
    - a kept cell that is no text: with bytes that are not UTF-8, or with a character of ``NO_TEXT`` (but see below);
    - a quoted cell that does not end before the file does, or goes over a line end and has text behind its closing
      quote, which is another row's then. It may have swallowed rows: files that are there at the start are refused
      whole, and of a file that arrives in a feed the rows before it are read, and nothing behind it;
    - a message or line that is no JSON object, or has a nested value, half of a surrogate pair or a character of
      ``NO_TEXT`` in a kept field.

Attributes of lasting cohorts
    Nothing reads the quasi-identifiers of somebody who is known, so a row is never none for one of them. Such a cell
    is handed on as ``NO_VALUE``, which is no value of any type (``bad_value``). A message is judged by its other kept
    fields alone: NaN, Infinity, control characters and bytes that are not UTF-8 elsewhere do not make it no object.

Cells as values of a type
    Spaces around are no matter, but to text. ASCII digits only.
    whole numbers    ``[+-]digits`` within the type, also with a fraction of zeros, as in 17850.0
    other numbers    ``[+-]digits[.digits][e[+-]ddd]``, also ``.5`` and ``5.``; finite; decimals without rounding
    booleans         true, false, 1, 0, in any case
    dates            ``YYYY-MM-DD``
    instants         ``YYYY-MM-DD[ T]HH:MM[:SS[.f]][Z|+hh:mm]``, up to nine places of a second, cut to the type's unit;
                     without a zone in the field's ``timezone``, else in UTC; a date alone is its midnight there
    Of CSV files, the point of all numbers is the policy's ``decimal``. Where it has ``thousands``, digits before the
    point may stand in groups of three with that sign between all of them (a first group of one to three digits), or
    without any; a space stands for each of ``text_form.BLANKS``.

Dates and instants of a field with a ``format`` (text_form.py), in all text, and in columns of whole numbers
    Nothing but what the format says is taken. What stands between directives stands there exactly.
    %Y               four digits, from 0001
    %y               two digits: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068
    %m %d            two digits, or one where no digit stands beside the directive; months 1 to 12, days of that month
    %b %B            the month's English name, its first three letters (%b) or all (%B), in any case
    %H %I            two digits, or one as above; 0 to 23, with %p (AM, PM, in any case) 1 to 12
    %M %S            two digits, 0 to 59
    %f               one to nine digits of a second
    %z               Z, +hh, +hhmm or +hh:mm
    epoch_s, epoch_ms   ``[+-]digits``, also with a fraction of zeros behind a point (whatever ``decimal`` says): whole
                     seconds or milliseconds since 1970 UTC
    A day takes what the format says of the time for nothing (it must be there all the same). An instant of which it
    says no time is that day's midnight. A column of whole numbers is written with as many digits as the format takes,
    with zeros in front, where it takes always the same number of them.
    A year beyond 9999 or before 1 is a bad value.

Local times (``timezone``, where the text, or the type of a typed column, says no zone)
    One that exists once is that instant. One that exists twice, or not at all, is a bad value; with ``fold: first`` it
    is read with the offset that holds before the clocks change, with ``fold: second`` with the one after.

tests/pipelines/feeds/test_text_inputs.py holds a table of cases that runs through both readers.
"""

from __future__ import annotations

INPUT_FORMATS = ("avro", "parquet", "csv", "json", "xlsx")
"""What files may hold; json: an object a line."""
DELIMITERS = (",", ";", "\t", "|")
MOST_ROW_BYTES = 1 << 20
MOST_SHEET_ROWS = 1 << 20
"""Of a workbook's sheet, which numbers its rows."""
NO_TEXT = "\0\x1a"
"""NUL and SUB: two characters that no text has."""
NO_VALUE = "\x1a"
"""What stands for a quasi-identifier of lasting cohorts that is no value at all."""
