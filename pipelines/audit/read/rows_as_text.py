"""The audit's own reading of JSON lines and workbooks, row by row; what is a row stands in schemas/text_inputs.py."""

import datetime
import gzip
import json
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.audit.read.text_rows import BROKEN, check_names, numbered
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import NUMBERED, CsvForm
from kanonflow.schemas.text_inputs import MOST_SHEET_ROWS, NO_VALUE

_FAR = 30
_FOUL = re.compile("[\0\x1a\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


class _NoNumber:
    """What stands for NaN and Infinity, which JSON does not have."""


def json_schema(paths: Sequence[Path]) -> pa.Schema:
    """The paths of all objects of files of JSON lines: text, lists where they hold nothing else, null where nothing.

    Raises InputError: a file has no object, or its compression is damaged.
    """
    texts: set[str] = set()
    lists: set[str] = set()
    empty: set[str] = set()
    for path in paths:
        objects = 0
        for line in _json_lines(path):
            try:
                record = json.loads(line.decode("utf-8", "replace"), strict=False)
            except (ValueError, RecursionError):
                continue
            todo = [("", record)] if isinstance(record, dict) else []
            objects += len(todo)
            while todo:
                before, inner = todo.pop()
                for key, value in inner.items():
                    if _HALF.search(key):
                        continue
                    if isinstance(value, dict) and value:
                        todo.append((f"{before}{key}.", value))
                    else:
                        kind = empty if value in (None, {}) else lists if isinstance(value, list) else texts
                        kind.add(before + key)
        if not objects:
            raise InputError(f"{path}: no line is a JSON object")
    columns = dict.fromkeys(empty, pa.null()) | dict.fromkeys(lists, pa.list_(pa.string()))
    columns |= dict.fromkeys(texts, pa.string())
    for name in empty - lists - texts:
        if any(other.startswith(f"{name}.") for other in columns):
            del columns[name]
    return pa.schema(list(columns.items()))


def json_rows(path: Path, names: Sequence[str], attributes: Collection[str]) -> Iterator[list[str]]:
    """The cells of each line, "" for null; ``BROKEN`` of one that is no row. Raises InputError: damaged gzip.

    attributes: of those a cell that is no text is NO_VALUE.
    """
    yield from (_cells(line, names, attributes) for line in _json_lines(path))


def _cells(line: bytes, names: Sequence[str], attributes: Collection[str]) -> list[str]:
    lenient = bool(attributes)
    try:
        record = json.loads(
            line.decode("utf-8", "surrogateescape" if lenient else "strict"),
            parse_int=_number,
            parse_float=_number,
            parse_constant=_constant if lenient else _refuse,
            strict=not lenient,
        )
    except (ValueError, RecursionError):
        return BROKEN
    if not isinstance(record, dict):
        return BROKEN
    cells = []
    for name in names:
        value = _inner(record, name.split("."))
        cell = {True: "true", False: "false"}[value] if isinstance(value, bool) else value
        if cell is not None and (not isinstance(cell, str) or _FOUL.search(cell)):
            if name not in attributes:
                return BROKEN
            cell = NO_VALUE
        cells.append(cell or "")
    return cells


def _inner(record: Any, keys: Sequence[str]) -> Any:
    """What lies at a path: the whole of it may be a name, else its first parts are."""
    if not isinstance(record, dict):
        return None
    if (whole := ".".join(keys)) in record:
        return record[whole]
    tried = (_inner(record.get(".".join(keys[:n])), keys[n:]) for n in range(1, len(keys)))
    return next((value for value in tried if value is not None), None)


def _number(text: str) -> str:
    """A JSON number, written in one way."""
    if "e" in text.lower():
        try:
            number = Decimal(text)
        except ArithmeticError:
            return text
        if number and abs(number.adjusted()) > _FAR:
            return text
        text = f"{number:f}" if number else "0"
    whole, point, fraction = text.partition(".")
    text = whole + (point + fraction).rstrip("0").rstrip(".") if point else whole
    return text if text != "-0" else "0"


def _refuse(constant: str) -> Any:
    raise ValueError("no JSON")


def _constant(constant: str) -> _NoNumber:
    return _NoNumber()


def _json_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stored:
            packed = stored.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as stream:
            first = True
            for line in stream:
                bare = line[3:] if first and line[:3] == b"\xef\xbb\xbf" else line
                first = False
                if bare.strip():
                    yield bare.rstrip(b"\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the compressed file is damaged or cut off") from None


def sheet_rows(path: Path, form: CsvForm) -> Iterator[list[str]]:
    """The header, then the cells of each row of a workbook's first sheet; ``BROKEN`` of one beyond the header.

    Raises InputError: no workbook, or no usable header.
    """
    header: list[str] = []
    for row in _sheet(path):
        cells = [_spelled(value) for value in row]
        last = max((place for place, cell in enumerate(cells) if cell), default=-1)
        if last < 0:
            continue
        if not header:
            header = cells[: last + 1]
            if form.header == NUMBERED:
                header = numbered(header)
            check_names(path, header)
            yield header
        else:
            yield BROKEN if last >= len(header) else [*cells, *[""] * len(header)][: len(header)]
    if not header:
        raise InputError(f"{path}: the first sheet of the workbook is empty")


def _sheet(path: Path) -> Iterator[Sequence[Any]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(f"{path}: workbooks need the extra: pip install 'kanonflow[xlsx]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = load_workbook(path, data_only=True)
        sheet = book.worksheets[0]
        if sheet.max_row > MOST_SHEET_ROWS:
            raise InputError(f"{path}: the sheet says that it has more than {MOST_SHEET_ROWS:,} rows")
        yield from sheet.values
    except (OSError, MemoryError, GeneratorExit, InputError):
        raise
    except Exception as error:  # whatever the decoder trips over, the file is none
        raise InputError(f"{path}: not a workbook, or damaged ({type(error).__name__})") from None


def _spelled(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return _number(str(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case _:
            return str(value)
