"""The audit's own reading of the input and of the rejected rows, as codes of the fields' values.

CSV is cut into cells block by block, or by Python's csv module (text_columns.py); JSON lines go through its json module
and workbooks through openpyxl (rows_as_text.py), Avro through fastavro, Parquet through pyarrow. Nothing of the
pipeline's readers is used. Files are local.
"""

import glob
import os
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kanonflow.pipelines.audit.read.rows_as_text import json_rows, json_schema, sheet_rows
from kanonflow.pipelines.audit.read.text_columns import CHUNK_ROWS, columns_of_rows, text_columns
from kanonflow.pipelines.audit.read.text_rows import text_rows
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.settled_releases import NOTHING_SETTLED, RejectedParts, Settled
from kanonflow.schemas.text_form import CsvForm, with_delimiter

_PUBLISHED_FORM = "release_conflict"
_NO_ROW = "unparseable"


@dataclass(frozen=True)
class InputColumns:
    """The input's files and the schema they share. kind: what they hold. form: how CSV files are written."""

    files: tuple[Path, ...]
    schema: pa.Schema
    kind: str
    form: CsvForm

    @property
    def text(self) -> bool:
        """Whether all columns are text."""
        return self.kind in ("csv", "json", "xlsx")


@dataclass(frozen=True)
class InputRecords:
    """Every record of the input. ``codes`` int32 (n, c): a code for each kept field, in the bound policy's
    order. ``broken``: lines of text files that are no rows."""

    codes: np.ndarray
    broken: int


@dataclass(frozen=True)
class RejectedRecords:
    """What the run rejected. ``codes`` int32 (r, c) as in ``InputRecords``; ``broken``: lines that are no
    rows; ``conflicts``: rows of releases that lost their slot, which are kept in published form only.
    ``reasons``: why each of the r records was rejected; ``fields``: which field was at fault, None: none or all."""

    codes: np.ndarray
    reasons: tuple[str, ...]
    fields: tuple[str | None, ...]
    broken: int
    conflicts: int


def files_named(pattern: str) -> list[str]:
    """The files that a path or a glob names, from the root, so that one file has one name.

    A file or folder that is there by its name is that one.
    """
    path = Path(os.path.abspath(pattern))
    if path.is_file():
        return [str(path)]
    folder = next((each for each in path.parents if each.is_dir()), Path())
    rest = path.relative_to(folder)
    paths = glob.glob(os.path.join(glob.escape(str(folder)), str(rest)), recursive=True)
    return [each for each in paths if os.path.isfile(each)]


def find_input(patterns: Sequence[str], form: CsvForm, kind: str | None = None) -> InputColumns:
    """The files that the patterns match, and their schema.

    form: of those that are CSV.     kind: what they hold; None: what their names say.

    Raises InputError: nothing matches, formats are mixed, or a file is not what its name says.
    """
    paths: set[str] = set()
    for pattern in patterns:
        if pattern == "-":
            raise InputError(
                "--input -: an audit reads the rows that a run has read; name the file that holds them"
            )
        found = files_named(pattern)
        if Path(pattern).is_dir():
            raise InputError(
                f"--input {pattern}: a directory; name its files, as in --input '{pattern}/*.csv'"
            )
        if not found:
            raise InputError(f"--input {pattern}: no file matches")
        paths.update(found)
    files = tuple(Path(path) for path in sorted(paths))
    formats = {kind or _format(path) for path in files}
    if len(formats) > 1:
        raise InputError(
            f"--input: files of several formats ({', '.join(sorted(formats))}); give those of one"
        )
    if formats == {"json"}:  # an object lacks what it has no value of, and so may a file
        return InputColumns(files, json_schema(files), "json", form)
    schemas = [_schema(path, form, *formats) for path in files]
    for path, schema in zip(files, schemas, strict=True):
        if set(zip(schema.names, schema.types, strict=True)) != set(
            zip(schemas[0].names, schemas[0].types, strict=True)
        ):
            raise InputError(f"{path}: other columns or types than {files[0]}")
    return InputColumns(files, schemas[0], formats.pop(), form)


def bind_input(
    policy: Policy,
    patterns: Sequence[str],
    delimiter: str | None,
    kind: str | None = None,
    *,
    messages: bool = False,
) -> tuple[BoundPolicy, InputColumns]:
    """The policy bound to the files that the patterns match, and those.

    delimiter: of CSV files; None: the policy's, or what the header has most of. kind: as of ``find_input``.
    messages: the files are copies of messages, of which the policy's ``csv`` says nothing.
    Raises PolicyError, InputError.
    """
    columns = find_input(patterns, with_delimiter(None if messages else policy.csv, delimiter), kind)
    source, csv = str(columns.files[0]), columns.text and not messages
    return bind(policy, columns.schema, text=columns.text, source=source, csv=csv), columns


def read_input(columns: InputColumns, bound: BoundPolicy, books: Sequence[CodeBook]) -> InputRecords:
    """All records of the files as codes. Raises InputError when a file is damaged."""
    parts: list[np.ndarray] = []
    broken = 0
    for path in columns.files:
        if columns.text:
            found, bad = _read_text(path, [each.source for each in bound.columns], books, columns)
            parts += found
            broken += bad
        else:
            parts += _read_typed(path, columns, bound, books)
    return InputRecords(_stack(parts, len(books)), broken)


def read_rejected(
    folder: Path, bound: BoundPolicy, books: Sequence[CodeBook], settled: Settled = NOTHING_SETTLED
) -> RejectedRecords:
    """All rejected rows in ``folder``/*.avro (none if there is no folder), or below it of several runs. Raises
    InputError.

    settled: what a wrong state made, whose rows are no rejected ones any more.
    """
    parts: list[np.ndarray] = []
    reasons: list[str] = []
    fields: list[str | None] = []
    broken = conflicts = 0
    paths = sorted(folder.rglob("*.avro"))
    parts_in = {each.parent: RejectedParts(settled) for each in paths}
    for path in paths if settled.lines else ():
        for record in avro_records(path):
            parts_in[path.parent].meet(record, path.name)
    for path in paths:
        rows: list[dict[str, Any]] = []
        came: list[Container[str]] = []
        for record in avro_records(path):
            if not parts_in[path.parent].counts(record, path.name):
                continue
            if record.get("reason") == _NO_ROW:
                broken += 1
            elif record.get("reason") == _PUBLISHED_FORM:
                conflicts += 1
            else:
                rows.append(record.get("row") or {})
                came.append(frozenset(record.get("unread") or ()))
                reasons.append(str(record.get("reason")))
                fields.append(record.get("field"))
        parts.append(
            np.column_stack(
                [
                    book.codes_of_rejected(_cells_of(name, rows, came), len(rows))
                    for book, name in zip(books, (each.name for each in bound.columns), strict=True)
                ]
            )
        )
    return RejectedRecords(_stack(parts, len(books)), tuple(reasons), tuple(fields), broken, conflicts)


def _cells_of(
    name: str, rows: Sequence[dict[str, Any]], came: Sequence[Container[str]]
) -> Iterator[tuple[str | None, bool]]:
    """The cells of a field in rejected rows, each with whether it stands there as it came."""
    for row, unread in zip(rows, came, strict=True):
        yield row.get(name), name in unread


def avro_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of an Avro file. Raises InputError when it is none, or damaged."""
    with path.open("rb") as stream:
        try:
            yield from fastavro.reader(stream)  # type: ignore[misc]
        except OSError:
            raise
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            raise InputError(f"{path}: not an Avro file, or damaged ({type(error).__name__})") from None


def metrics_records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records in ``folder``; of one place, the published release's before the withheld one's."""
    for path in sorted(folder.glob("*.avro")):
        yield from avro_records(path)


def told_metrics(folder: Path) -> dict[str, dict[str, Any]]:
    """The metrics of published releases, by id."""
    return {each["release_id"]: each for each in metrics_records(folder) if each.get("released", True)}


def _format(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    ending = name.rpartition(".")[2]
    kinds = {"pq": "parquet", "jsonl": "json", "ndjson": "json"}
    return kinds.get(ending, ending if ending in ("avro", "parquet", "xlsx") else "csv")


def _schema(path: Path, form: CsvForm, kind: str) -> pa.Schema:
    match kind:
        case "avro":
            return _schema_of_leaves(_avro_schema(path))
        case "parquet":
            try:
                return _schema_of_leaves(pq.read_schema(path))
            except (pa.ArrowException, OSError):
                raise InputError(f"{path}: not a Parquet file, or cut off") from None
        case _:
            names = next((sheet_rows if kind == "xlsx" else text_rows)(path, form))
            return pa.schema([(name, pa.string()) for name in names])


def _avro_schema(path: Path) -> pa.Schema:
    with path.open("rb") as stream:
        try:
            written = fastavro.reader(stream).writer_schema
        except OSError:
            raise
        except Exception as error:  # whatever the decoder trips over, the header is not one
            raise InputError(f"{path}: not an Avro file ({type(error).__name__})") from None
    try:
        return avro_to_arrow(written)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _leaves(
    fields: Iterable[pa.Field], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """The fields within structs, by the keys on the way, and their types."""
    for field in fields:
        if isinstance(field.type, pa.StructType) and field.type.num_fields:
            yield from _leaves(list(field.type), (*above, field.name))
        else:
            yield (*above, field.name), field.type


def _schema_of_leaves(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(".".join(keys), kind) for keys, kind in _leaves(schema)])


def text_chunks(
    path: Path, names: Sequence[str], columns: InputColumns, attributes: Collection[str] = ()
) -> Iterator[tuple[list[pa.Array], int]]:
    """Some columns of a file of text, in chunks; with each how many lines were no rows.

    attributes: of those a cell that is no text is NO_VALUE, where it elsewhere makes a line none.
    """
    if columns.kind == "csv":
        yield from text_columns(path, columns.form, names, attributes)
        return
    lenient = [name in attributes for name in names]
    if columns.kind == "json":
        rows, header = json_rows(path, names, attributes), list(names)
    else:
        rows = sheet_rows(path, columns.form)
        header = next(rows)
    yield from columns_of_rows(rows, [header.index(name) for name in names], lenient)


def _read_text(
    path: Path, names: Sequence[str], books: Sequence[CodeBook], columns: InputColumns
) -> tuple[list[np.ndarray], int]:
    parts: list[np.ndarray] = []
    broken = 0
    attributes = [name for name, book in zip(names, books, strict=True) if book.attribute]
    for cells, bad in text_chunks(path, names, columns, attributes):
        broken += bad
        parts.append(
            np.column_stack([book.codes_of_column(each) for book, each in zip(books, cells, strict=True)])
        )
    return parts, broken


def _read_typed(
    path: Path, columns: InputColumns, bound: BoundPolicy, books: Sequence[CodeBook]
) -> Iterator[np.ndarray]:
    for cells in typed_chunks(path, columns, [each.source for each in bound.columns]):
        yield np.column_stack([book.codes_of_column(each) for book, each in zip(books, cells, strict=True)])


def typed_chunks(path: Path, columns: InputColumns, names: Sequence[str]) -> Iterator[list[pa.Array]]:
    """Some columns of an Avro or Parquet file, as it has them, in chunks of rows. Raises InputError: it is damaged."""
    if columns.kind == "avro":
        records = avro_records(path)
        leaves = {".".join(keys): keys for keys, _ in _leaves(_avro_schema(path))}
        while chunk := list(islice(records, CHUNK_ROWS)):
            yield [
                _column([_at(record, leaves[name]) for record in chunk], columns.schema.field(name).type)
                for name in names
            ]
        return
    try:
        file = pq.ParquetFile(path)
        ways = {".".join(keys): keys for keys, _ in _leaves(file.schema_arrow)}
        for batch in file.iter_batches(CHUNK_ROWS, columns=list(dict.fromkeys(names))):
            yield [pc.struct_field(batch.to_struct_array(), list(ways[name])) for name in names]
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: the Parquet file is damaged or cut off") from None


def _at(record: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        record = None if record is None else record.get(key)
    return record


def _column(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """Cells as fastavro returns them, as a column of the type that the file's schema says."""
    if kind == pa.uuid():
        cells = [each.bytes if isinstance(each, UUID) else each for each in cells]
        return pa.ExtensionArray.from_storage(kind, pa.array(cells, pa.binary(16)))
    return pa.array(cells, kind)


def _stack(parts: Sequence[np.ndarray], columns: int) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros((0, columns), np.int32)
