"""Which files a run reads, and what they hold: found by glob, one format, one schema."""

import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from kanonflow.pipelines.feeds.columnar_files import avro_file_schema, parquet_file_schema
from kanonflow.pipelines.feeds.csv_files import PLAIN, csv_header
from kanonflow.pipelines.feeds.json_lines import json_schema
from kanonflow.pipelines.feeds.standard_input import STANDARD_INPUT, spooled
from kanonflow.pipelines.feeds.stored_files import StoredFile, matching_files
from kanonflow.pipelines.feeds.workbooks import sheet_columns
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.files.storage import scheme_of


class FileFormat(StrEnum):
    """What we read."""

    AVRO = "avro"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    XLSX = "xlsx"

    @property
    def text(self) -> bool:
        """Whether all columns are text, and the policy says the types."""
        return self in _OF_TEXT


_OF_TEXT = (FileFormat.CSV, FileFormat.JSON, FileFormat.XLSX)
_ENDINGS = {
    ".avro": FileFormat.AVRO,
    **dict.fromkeys((".parquet", ".pq"), FileFormat.PARQUET),
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), FileFormat.CSV),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), FileFormat.JSON),
    ".xlsx": FileFormat.XLSX,
}


@dataclass(frozen=True)
class InputFile:
    """One file of the input.

    path: as the file system knows it.     size: bytes.
    name: the path relative to the folder that all files of the run share: the same on every machine, so that
        ids derived from it survive a retry elsewhere.
    """

    path: str
    name: str
    size: int
    format: FileFormat


@dataclass(frozen=True)
class InputSchema:
    """The columns that all files share. ``text``: all are text (CSV, JSON), and the policy says the types; ``csv``: as
    cells of files, of which the policy's ``csv`` speaks."""

    columns: pa.Schema
    text: bool
    csv: bool = False


def find_inputs(patterns: Sequence[str], kind: str | None = None) -> tuple[InputFile, ...]:
    """The files that the patterns match, each once, in the order of their names.

    A pattern of - is standard input (standard_input.py).
    kind: what they hold, a word of FileFormat; None: their names say it, of standard input CSV.

    Raises InputError: a pattern matches nothing or names a directory, a file is empty or of an unknown kind, or formats
    are mixed.
    """
    sizes: dict[str, int] = {}
    for pattern in patterns:
        if pattern == STANDARD_INPUT:
            sizes[spooled()] = os.path.getsize(spooled())
            continue
        matches = [match for match in _match(pattern) if not match.path.endswith("/")]
        if _is_directory(pattern):
            raise InputError(
                f"--input {pattern}: a directory; name its files, as in --input '{pattern.rstrip('/')}/*.csv'"
            )
        if not matches:
            raise InputError(f"--input {pattern}: no file matches")
        sizes.update((_absolute(match.path), match.size) for match in matches)
    names = _names(sorted(sizes))
    if STANDARD_INPUT in patterns:
        if len(names) > 1:
            raise InputError("--input -: standard input is one input by itself, beside no files")
        kind, names = kind or FileFormat.CSV, {spooled(): "stdin"}
    kinds = {path: FileFormat(kind) if kind else format_of(path) for path in names}
    files = tuple(InputFile(path, name, sizes[path], kinds[path]) for path, name in names.items())
    for file in files:
        if file.size == 0:
            raise InputError(f"{file.path}: the file is empty (0 bytes; an empty feed still has a header)")
        if file.format is not files[0].format:
            raise InputError(
                f"{file.path}: {file.format} next to {files[0].format} ({files[0].path});"
                " one run reads one format, so run once for each"
            )
    return files


def input_schema(files: Sequence[InputFile], form: CsvForm = PLAIN) -> InputSchema:
    """The schema that the files share; reads headers and footers only.

    Raises InputError: a file is not what its name says, or two files have different columns or types.
    """
    first = files[0]
    if first.format is FileFormat.JSON:  # an object lacks what it has no value of, and so may a file
        return InputSchema(json_schema([file.path for file in files]), text=True, csv=True)
    columns = file_schema(first, form)
    expected = dict(zip(columns.names, columns.types, strict=True))
    for file in files[1:]:
        other = file_schema(file, form)
        kinds = dict(zip(other.names, other.types, strict=True))
        if kinds != expected:
            differing = sorted(
                name for name in expected.keys() | kinds.keys() if expected.get(name) != kinds.get(name)
            )
            raise InputError(
                f"{file.path}: other columns or types than {first.path};"
                f" they differ in: {', '.join(differing)}"
            )
    return InputSchema(columns, first.format.text, first.format.text)


def file_schema(file: InputFile, form: CsvForm = PLAIN) -> pa.Schema:
    """The schema of one file; in files of text every column is a string. Raises InputError."""
    match file.format:
        case FileFormat.AVRO:
            return avro_file_schema(file.path)
        case FileFormat.PARQUET:
            return parquet_file_schema(file.path)
        case FileFormat.CSV:
            names = csv_header(file.path, form).columns
        case FileFormat.XLSX:
            names = sheet_columns(file.path, form)
        case FileFormat.JSON:
            return json_schema([file.path])
    return pa.schema([(name, pa.string()) for name in names])


def _match(pattern: str) -> list[StoredFile]:
    try:
        return matching_files(pattern)
    except (OSError, ValueError):
        raise InputError(f"--input {pattern}: this location cannot be listed") from None


def _is_directory(pattern: str) -> bool:
    return scheme_of(pattern) is None and os.path.isdir(pattern)


def _absolute(path: str) -> str:
    """One spelling for each local file, so that ./a.csv and a.csv are not read twice."""
    return os.path.abspath(path) if scheme_of(path) is None else path


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Each path relative to the folder that all share; unchanged where they share none (two file systems)."""
    schemes = {scheme_of(path) for path in paths}
    if len(schemes) > 1:
        return {path: path for path in paths}
    root = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    return {path: posixpath.relpath(path, root) for path in paths}


def format_of(path: str) -> FileFormat:
    """What a file holds, by its name. Raises InputError: nothing that we read."""
    for ending, kind in _ENDINGS.items():
        if path.lower().endswith(ending):
            return kind
    raise InputError(
        f"{path}: unknown kind of file; expected {', '.join(_ENDINGS)};"
        " --input-format says what files of another name hold"
    )
