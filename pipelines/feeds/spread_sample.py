"""Some rows of every part of a feed: what is looked at before anything is released.

The first rows of a feed say little of the rest of it: a system was replaced, an export changed its dates in May. So
rows are taken from places spread over all of it, at most ``MOST_ROWS`` of them, the same ones for the same seed.

    Parquet  row groups spread over each file       Avro  blocks behind byte offsets spread over each file
    CSV      lines behind byte offsets spread over each file. Small feeds are read through. So are files in which a byte
             offset means nothing: JSON lines, workbooks, compressed ones, those whose encoding hides line ends, and
             those whose rows cannot be told from lines in quotes. Of these no more than ``MOST_READ`` bytes are read,
             from the front.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from kanonflow.pipelines.feeds.columnar_files import avro_blocks_behind, parquet_row_groups, read_parquet
from kanonflow.pipelines.feeds.csv_files import CsvHeader, csv_header, parse_options
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile, file_schema
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.files.storage import open_stored
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

MOST_ROWS = 20_000
MOST_FILES = 32
SMALL_FEED = 16 << 20
"""Bytes up to which the files are read through."""
MOST_READ = 64 << 20
"""Bytes of cells up to which a feed is read through that cannot be read at offsets."""
PLACES = 64
PIECE = 1 << 16
_LEAST_OF_A_FILE = 100
_MOST_GROUPS = 16
_BATCHES_OF_A_GROUP = 4
_MOST_GROUP_ROWS = 1_000_000
"""Of a Parquet file that are decoded where runs are wanted of few row groups."""
_MOST_PIECE = 8 << 20
_MOST_OF_A_PART = 0.8
_BLOCKS_FACTOR = 4
_GZIP_MAGIC = b"\x1f\x8b"
_PLAIN_ENCODINGS = ("utf-8", "ascii", "cp12", "iso8859", "koi8")
"""Encodings, as Python names them, in which the bytes of a line end, a quote and a delimiter are nothing else."""
_NO_CHARACTER = "[\0\x1a\ufffd]"


class FileSample(NamedTuple):
    """Rows of one file, with the columns asked for, as they come: text of CSV files, typed of others.

    broken: rows of the sample that are none (``unparseable``). places: how many places of the file they are from.
    whole: whether they are all rows of it. front: whether they are from its beginning only.
    """

    file: InputFile
    rows: pa.Table
    broken: int = 0
    places: int = 1
    whole: bool = False
    front: bool = False

    @property
    def looked_at(self) -> int:
        """The rows that were looked at, those that are none included."""
        return self.rows.num_rows + self.broken


def spread_sample(
    files: Sequence[InputFile],
    columns: Sequence[str],
    csv: CsvForm | None = None,
    *,
    most: int = MOST_ROWS,
    seed: int = 0,
    reading: Reading = read_batches,
    runs: int | None = None,
) -> tuple[FileSample, ...]:
    """Rows of at most ``MOST_FILES`` of the files, about ``most`` in all, in the order of the files.

    A file has rows by its size, and some in any case. reading: how one is read through. runs: the rows are to be so
    many runs, as long as the quota of a file lets them be; None: single rows where these lie further apart.
    Deterministic. O(most) rows, and some MB at the places.
    Raises InputError: a file is damaged where it was read.
    """
    chosen = [files[place] for place in _spread(len(files), MOST_FILES)]
    size = sum(file.size for file in chosen)
    rng = np.random.default_rng(seed)
    csv = csv or CsvForm()
    blocks = []
    for file in chosen:
        quota = max(_LEAST_OF_A_FILE, most * file.size // size)
        places = max(4, PLACES * file.size // size) if runs is None else max(1, runs * file.size // size)
        thin = None if runs is None else places
        small, most_read = size <= SMALL_FEED, max(PIECE, MOST_READ * file.size // size)
        match file.format:
            case FileFormat.CSV:
                sample = (
                    None if small else _at_offsets(file, columns, csv, quota, places, rng, runs is not None)
                )
                blocks.append(
                    sample
                    or _through(reading(file, columns, csv), file, columns, csv, quota, most_read, thin)
                )
            case FileFormat.JSON | FileFormat.XLSX:
                blocks.append(
                    _through(reading(file, columns, csv), file, columns, csv, quota, most_read, thin)
                )
            case FileFormat.PARQUET:
                blocks.append(_row_groups(file, columns, csv, quota, thin))
            case FileFormat.AVRO:
                blocks.append(
                    _through(reading(file, columns, csv), file, columns, csv, quota, most_read, thin)
                    if file.size * 8 <= SMALL_FEED and small
                    else _blocks(file, columns, csv, quota, places, rng, runs is not None)
                )
    return tuple(blocks)


def _spread(count: int, most: int) -> list[int]:
    """At most so many numbers of 0 .. count-1, as far apart as can be."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64)).tolist() if count else []


def _thinned(rows: pa.Table, most: int, runs: int | None = None) -> pa.Table:
    """At most so many of the rows, as far apart as can be, or in so many runs that are."""
    if rows.num_rows <= most:
        return rows
    if runs is None:
        return rows.take(pa.array(_spread(rows.num_rows, most))).combine_chunks()
    parts = [rows.slice(begin, end - begin) for begin, end in _runs(rows.num_rows, most, runs)]
    return pa.concat_tables(parts).combine_chunks()


def _runs(count: int, most: int, runs: int) -> list[tuple[int, int]]:
    """Begin and end of so many runs of 0 .. count-1, as far apart as can be, of ``most`` numbers in all."""
    if count <= most:
        return [(0, count)]
    length = -(-most // runs)
    begins = np.linspace(0, count - length, runs).astype(np.int64).tolist()
    ends = [*begins[1:], count]
    return [(begin, min(begin + length, end)) for begin, end in zip(begins, ends, strict=True)]


def _cut(batches: Iterable[pa.RecordBatch], runs: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    """What of the runs stands in each batch. Nothing else is held."""
    at = 0
    for batch in batches:
        for begin, end in runs:
            low, high = max(begin, at), min(end, at + batch.num_rows)
            if low < high:
                yield batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= runs[-1][1]:
            return


def _through(
    batches: Iterable[RawBatch],
    file: InputFile,
    columns: Sequence[str],
    csv: CsvForm,
    quota: int,
    most_read: int,
    runs: int | None,
) -> FileSample:
    """Every so many-th row of the file, or runs, or of as much of it as may be read."""
    tables: list[pa.Table] = []
    broken, read, front = 0, 0, False
    for batch in batches:
        if read > most_read:
            front = True
            break
        rows = from_ipc(batch.ipc)
        tables.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        broken += len(batch.broken)
        read += tables[-1].nbytes
    rows = _joined(file, columns, csv, tables)
    thinned = _thinned(rows, quota, runs)
    # Broken rows are thinned as the others are.
    broken_share = broken if thinned is rows else -(-broken * thinned.num_rows // rows.num_rows)
    return FileSample(
        file,
        thinned,
        broken_share,
        min(PLACES, max(1, thinned.num_rows)),
        thinned is rows and not front,
        front,
    )


def _row_groups(
    file: InputFile, columns: Sequence[str], csv: CsvForm, quota: int, runs: int | None
) -> FileSample:
    sizes = [group.rows for group in parquet_row_groups(file.path)]
    groups = _spread(len(sizes), _MOST_GROUPS if runs is None else min(_MOST_GROUPS, runs))
    share = -(-quota // max(1, len(groups)))
    tables = []
    for group in groups:
        batches = read_parquet(file.path, columns, [group])
        if runs is None:
            kept = list(islice(batches, _BATCHES_OF_A_GROUP))
        else:
            held = min(sizes[group], _MOST_GROUP_ROWS // len(groups))
            kept = list(_cut(batches, _runs(held, share, -(-runs // len(groups)))))
        if kept:
            table = pa.Table.from_batches(kept)
            tables.append(_thinned(table, share) if runs is None else table.slice(0, share))
    rows = _joined(file, columns, csv, tables)
    return FileSample(file, rows, 0, max(1, min(PLACES, rows.num_rows)), rows.num_rows == sum(sizes))


def _blocks(
    file: InputFile,
    columns: Sequence[str],
    csv: CsvForm,
    quota: int,
    places: int,
    rng: np.random.Generator,
    runs: bool,
) -> FileSample:
    offsets = rng.permutation((np.arange(places) * file.size) // places)
    share = -(-quota // places)
    found: dict[int, pa.Table] = {}
    rows = 0
    for offset, batches in avro_blocks_behind(file.path, columns, offsets.tolist(), share if runs else 1):
        if batches:
            table = pa.Table.from_batches(batches)
            found[offset] = table.slice(0, share) if runs else _thinned(table, share)
            rows += table.num_rows
        # A block may hold any number of rows, and each costs its decoding.
        if rows > _BLOCKS_FACTOR * quota:
            break
    tables = [found[offset] for offset in sorted(found)]
    return FileSample(file, _joined(file, columns, csv, tables), 0, max(1, len(tables)))


def _at_offsets(
    file: InputFile,
    columns: Sequence[str],
    csv: CsvForm,
    quota: int,
    places: int,
    rng: np.random.Generator,
    runs: bool,
) -> FileSample | None:
    """Rows behind offsets, one random offset in each of as many equal parts of the file; None: that is not sound.

    runs: a place has its share of the rows however large they are, by those of the file's beginning; None also
    where that comes to most of a file that can be read through.
    """
    if not codecs.lookup(csv.encoding).name.startswith(_PLAIN_ENCODINGS):
        return None
    header = csv_header(file.path, csv)
    part = file.size // places
    tables, broken, share = [], 0, -(-quota // places)
    with open_stored(file.path) as stream:
        beginning = _read(stream, PIECE)
        if beginning.startswith(_GZIP_MAGIC):
            return None
        piece = PIECE
        if runs:
            first = whole_rows(beginning, header, csv.quote)
            if first is None:
                return None
            table, torn = _parsed(first, header, columns, csv)
            wanted = int(1.1 * share * len(first) / max(1, table.num_rows + torn))
            if wanted > _MOST_OF_A_PART * part and file.size <= MOST_READ:
                return None
            piece = max(PIECE, min(wanted, part, _MOST_PIECE))
        for place in range(places):
            stream.seek(place * part + int(rng.integers(max(1, part - piece))))
            rows = whole_rows(_read(stream, piece), header, csv.quote)
            if rows is None:
                return None
            table, torn = _parsed(rows, header, columns, csv)
            taken = min(share, table.num_rows)
            tables.append(table.slice(0, taken))
            broken += torn if taken == table.num_rows else -(-torn * taken // table.num_rows)
    if not any(table.num_rows for table in tables):
        return None
    return FileSample(file, pa.concat_tables(tables), broken, places)


def _read(stream: BinaryIO, size: int) -> bytes:
    """As many bytes as there are: some file systems give less than they are asked for."""
    parts = [b"."]
    while parts[-1] and (rest := size - sum(map(len, parts[1:]))) > 0:
        parts.append(stream.read(rest))
    return b"".join(parts[1:])


def whole_rows(piece: bytes, header: CsvHeader, quote: str) -> bytes | None:
    """Of bytes from the middle of a CSV file, those of the rows that are whole; None: it cannot be told.

    Whether the piece begins inside of quotes is not known. Both are tried: the right one is that under which rows have
    as many cells as the header, and quotes begin where cells do. O(bytes), vectorised.
    """
    data = np.frombuffer(piece, dtype=np.uint8)
    ends = data == ord("\n")
    if not quote or quote.encode() not in piece:
        return _between(piece, np.flatnonzero(ends))
    # Bytes count to 255 and then from 0 again: odd stays odd.
    outside = np.cumsum(data == ord(quote), dtype=np.uint8) & 1
    signs = data == ord(header.delimiter)
    quotes = np.flatnonzero(data == ord(quote))
    # A quote in a cell is written twice: the second one opens what the first one closed.
    begins = np.isin(data[quotes - 1], [ord(header.delimiter), ord("\n"), ord(quote)]) | (quotes == 0)
    best, most = None, 0.5
    for parity in (0, 1):
        places = np.flatnonzero(ends & (outside == parity))
        if places.size < 2:
            continue
        widths = np.diff(np.searchsorted(np.flatnonzero(signs & (outside == parity)), places)) + 1
        opening = begins[outside[quotes] != parity]
        right = float((widths == len(header.columns)).mean()) * (
            float(opening.mean()) if opening.size else 1.0
        )
        if right > most:
            best, most = places, right
    return None if best is None else _between(piece, best)


def _between(piece: bytes, ends: np.ndarray[tuple[int], np.dtype[np.intp]]) -> bytes | None:
    """What stands between the first and the last end of a row; None: that is no row."""
    return piece[int(ends[0]) + 1 : int(ends[-1]) + 1] if ends.size > 1 else None


def _parsed(rows: bytes, header: CsvHeader, columns: Sequence[str], csv: CsvForm) -> tuple[pa.Table, int]:
    """Rows of text as a table of text, and how many of them are none."""
    try:
        text, strange = rows.decode(csv.encoding), b"\0" in rows or b"\x1a" in rows
    except UnicodeDecodeError:
        text, strange = rows.decode(csv.encoding, "replace"), True
    encoded, torn = text.encode(), 0

    def skip(row: Any) -> str:
        nonlocal torn
        torn += 1
        return "skip"

    table = pyarrow.csv.read_csv(
        BytesIO(encoded),
        read_options=pyarrow.csv.ReadOptions(
            column_names=list(header.columns), block_size=len(encoded) + 1, use_threads=False
        ),
        parse_options=parse_options(header.delimiter, csv.quote, skip),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header.columns, pa.string()),
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    )
    if strange:
        bad = _any(pc.match_substring_regex(column, _NO_CHARACTER) for column in table.columns)
        if bad is not None:
            whole = table.num_rows
            table = table.filter(pc.invert(bad))
            torn += whole - table.num_rows
    return table, torn


def _any(masks: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray | None:
    either: pa.ChunkedArray | None = None
    for mask in masks:
        either = mask if either is None else pc.or_(either, mask)
    return either


def _joined(file: InputFile, columns: Sequence[str], csv: CsvForm, tables: Sequence[pa.Table]) -> pa.Table:
    """The tables as one; without any, one of the file's types that has no rows."""
    if tables:
        return pa.concat_tables(tables)
    schema = file_schema(file, csv)
    return pa.schema([schema.field(name) for name in columns]).empty_table()
