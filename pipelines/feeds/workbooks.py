"""The first sheet of a workbook (.xlsx) as batches of text columns, read by openpyxl; what is a row, and how a cell is
spelled, stands in schemas/text_inputs.py."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from io import BytesIO
from itertools import islice
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import PLAIN, BrokenRow, TextRows, header_names
from kanonflow.pipelines.feeds.message_values import canonical_number
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import spellable
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_inputs import MOST_SHEET_ROWS, NO_TEXT, NO_VALUE
from kanonflow.transforms.files.storage import open_stored

_AT_ONCE = 4_096


def sheet_columns(path: str, form: CsvForm = PLAIN) -> tuple[str, ...]:
    """The columns that the header names. Raises InputError: no workbook, or no usable header."""
    return _header(path, _rows(path), form)


def read_sheet(
    path: str, columns: Sequence[str], form: CsvForm = PLAIN, attributes: Collection[str] = ()
) -> Iterator[TextRows]:
    """The sheet's rows in order, with only the ``columns``. attributes: as of ``read_csv``. Raises InputError."""
    rows = _rows(path)
    names = _header(path, rows, form)
    places = [names.index(name) for name in columns]
    schema = pa.schema([(name, pa.string()) for name in columns])
    while chunk := list(islice(rows, _AT_ONCE)):
        broken, lines, kept_rows = [], [], []
        for line, cells in chunk:
            padded = [*cells, *[""] * (len(names) - len(cells))]
            row = [padded[place] for place in places]
            fault = _fault(line, padded, row, names, columns, attributes)
            if fault is not None:
                broken.append(fault)
                continue
            lines.append(line)
            kept_rows.append([NO_VALUE if _is_foul(cell) else cell for cell in row])
        arrays = [pa.array([row[n] for row in kept_rows], pa.string()) for n in range(len(columns))]
        yield TextRows(
            pa.RecordBatch.from_arrays(arrays, schema=schema), tuple(broken), lines=tuple(lines), values=None
        )


def _fault(
    line: int,
    cells: Sequence[str],
    row: Sequence[str],
    names: Sequence[str],
    columns: Sequence[str],
    attributes: Collection[str],
) -> BrokenRow | None:
    if any(cells[len(names) :]):
        wide = f"a row has a cell behind the last of {len(names)} columns"
        return BrokenRow(None, wide, f"{len(names)} cells at most, as many as the header names", line)
    for name, cell in zip(columns, row, strict=True):
        if name not in attributes and _is_foul(cell):
            return BrokenRow(name, f"{name}: is not text, or holds the character NUL or SUB", line=line)
    return None


def _is_foul(cell: str) -> bool:
    return any(sign in cell for sign in NO_TEXT) or not spellable(cell)


def _header(path: str, rows: Iterator[tuple[int, list[str]]], form: CsvForm) -> tuple[str, ...]:
    """The names of the first row that is not blank, as far as its last cell. ``rows`` goes on behind it."""
    _, cells = next(rows, (0, []))
    if not cells:
        raise InputError(
            f"{path}: the first sheet of the workbook is empty; its first row must name the columns"
        )
    return header_names(path, cells, form)


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, to their last cell that is not, and their numbers from 1. Raises InputError."""
    try:
        import openpyxl
    except ImportError:
        raise InputError(f"{path}: workbooks need the extra: pip install 'kanonflow[xlsx]'") from None
    with open_stored(path) as stored, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and drawings that are not read
        data = BytesIO(stored.read())
        try:
            book = openpyxl.load_workbook(data, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
                if number > MOST_SHEET_ROWS:  # by its own numbers: reading all before would not end
                    raise InputError(
                        f"{path}: a row's number is beyond {MOST_SHEET_ROWS:,}, a sheet's most; is it damaged?"
                    )
                cells = [_text(value) for value in row]
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    yield number, cells
        except (MemoryError, InputError):
            raise
        except Exception as error:  # whatever the decoder trips over, the file is none
            raise InputError(f"{path}: not a workbook (.xlsx), or damaged ({type(error).__name__})") from None


def _text(value: Any) -> str:
    """A cell's value, spelled in one way."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return canonical_number(repr(value))
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
