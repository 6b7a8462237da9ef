"""Files of JSON lines (.jsonl, .ndjson, gzip too) as batches of text columns; what is a row stands in
schemas/text_inputs.py. A line that is no row is data, and the rest of the file is read."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import TextRows, is_compressed, open_text
from kanonflow.pipelines.feeds.message_values import JsonValues
from kanonflow.pipelines.feeds.stored_files import BEGINNING, WHOLE, Cut, FilePart
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import spellable

_AT_ONCE = 4_096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
_LISTS = pa.list_(pa.string())


def json_schema(paths: Sequence[str]) -> pa.Schema:
    """The paths of all objects in the files, in the order in which they come first.

    Text; of paths that hold lists alone, lists; of those that hold nothing, null, and none of them above another.
    O(the files): an object may lack what others have. Raises InputError: a file has no object, or damaged gzip.
    """
    columns: dict[str, pa.DataType] = {}
    for path in paths:
        objects = False
        for _, line in _lines(path):
            try:
                record = json.loads(line.decode(errors="replace"), strict=False)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                objects = True
                _note(record, "", columns)
        if not objects:
            raise InputError(f"{path}: no line is a JSON object, so it has no columns")
    columns = {name: kind for name, kind in columns.items() if spellable(name)}
    above = {name[: point.start()] for name in columns for point in re.finditer(r"\.", name)}
    return pa.schema([each for each in columns.items() if each[1] != pa.null() or each[0] not in above])


def _note(record: Mapping[str, Any], before: str, columns: dict[str, pa.DataType]) -> None:
    for key, value in record.items():
        name = before + key
        if isinstance(value, dict) and value:
            _note(value, f"{name}.", columns)
        elif value is None or value == {}:
            columns.setdefault(name, pa.null())
        elif not isinstance(value, list):
            columns[name] = pa.string()
        elif columns.get(name, pa.null()) == pa.null():
            columns[name] = _LISTS


def json_cuts(path: str, least: int) -> Iterator[Cut]:
    """Places between batches of ``read_json``, at least so many bytes apart; of a compressed file none. O(the file)."""
    with open_text(path) as stream:
        if is_compressed(stream):
            return
        last = 0
        for rows, (number, _) in enumerate(_filled(stream), 1):
            if rows % _AT_ONCE == 0 and (at := stream.tell()) - last >= least:
                last = at
                yield Cut(at, rows // _AT_ONCE, number)


def read_json(
    path: str, columns: Sequence[str], attributes: Collection[str] = (), part: FilePart = WHOLE
) -> Iterator[TextRows]:
    """The file's rows in order, with only the ``columns``; lines that are none with the rows before and behind them.

    attributes: as of ``read_csv``. Raises InputError: damaged gzip, once the rows before it are handed on.
    """
    return part.of(_decoded(_lines(path, part.begin), JsonValues(columns, attributes, "line")))


def _decoded(lines: Iterator[tuple[int, bytes]], decoder: JsonValues) -> Iterator[TextRows]:
    failure: InputError | None = None
    while failure is None:
        chunk: list[tuple[int, bytes]] = []
        try:
            chunk.extend(islice(lines, _AT_ONCE))
        except InputError as error:
            failure = error
        if not chunk:
            break
        numbers, values = zip(*chunk, strict=True)
        decoded = decoder.decode(values)
        broken = tuple(
            row._replace(line=numbers[place], raw=values[place].decode("utf-8", "surrogateescape"))
            for place, row in decoded.broken
        )
        good = decoded.places.tolist()
        yield TextRows(
            decoded.rows,
            broken,
            lines=tuple(numbers[place] for place in good),
            values=tuple(values[place] for place in good),
        )
    if failure is not None:
        raise failure


def _lines(path: str, begin: Cut = BEGINNING) -> Iterator[tuple[int, bytes]]:
    """Lines behind a cut that are not blank, and their numbers from 1. Raises InputError: damaged gzip."""
    try:
        with open_text(path) as stream:
            if begin.at:
                stream.seek(begin.at)
            yield from _filled(stream, begin.lines)
    except _DAMAGED:
        raise InputError(f"{path}: the compressed file is damaged or cut off") from None


def _filled(stream: BinaryIO, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, without their ends, and their numbers. before: lines of the file before them."""
    for number, line in enumerate(stream, before + 1):
        bare = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).rstrip(b"\r\n")
        if bare.strip():
            yield number, bare
