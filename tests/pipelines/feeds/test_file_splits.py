"""A file that is read in splits gives the batches that it gives as a whole, wherever it is cut."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.feeds import bounded_source, columnar_files, csv_files, json_lines, row_lines
from kanonflow.pipelines.feeds.bounded_source import FileSplit, ReadBatches, file_splits
from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile, find_inputs
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import NUMBERED, CsvForm
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

CELLS = (
    "a",
    'x"y',
    '"x,y"',
    '"li\nne"',
    '"q""q"',
    " s",
    "",
    '"closed"tail',
    "é",
    '"\r\n"',
    '"\n\n"',
    "\udcff",
    "\0",
)


class Reading(NamedTuple):
    """What came of a file. rows: of each batch its name, its bytes and where each row of it is from. broken: in an
    order of their own, for where they come among batches is uncertain. failure: the error that ended it."""

    rows: list[tuple[Any, ...]]
    broken: list[str]
    failure: str | None


def reading(splits: Iterable[FileSplit], columns: Sequence[str], form: CsvForm) -> Reading:
    """Split after split. Of what fails, broken rows do not count: nobody sees them."""
    rows, broken, names = [], list[str](), list[str]()
    try:
        for split in splits:
            for batch in read_batches(split.file, columns, form, (), split.part):
                names.append(batch.name)
                broken += map(repr, batch.broken)
                if batch.origins is not None:
                    places = range(from_ipc(batch.ipc).num_rows)
                    rows.append((batch.name, batch.ipc, batch.origins.of(places)))
    except InputError as error:
        return Reading(rows, [], str(error))
    assert len(set(names)) == len(names)
    return Reading(rows, sorted(broken), None)


def same_in_splits(path: Path, columns: Sequence[str], form: CsvForm = PLAIN, least: int = 1) -> int:
    """Read the file in both ways and compare; how many splits it has."""
    (file,) = find_inputs([str(path)])
    splits = list(file_splits(file, form, least))
    assert reading(splits, columns, form) == reading([FileSplit(file)], columns, form)
    return len(splits)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few rows in files of all kinds."""
    for module in (csv_files, row_lines):
        monkeypatch.setattr(module, "BLOCK_BYTES", 48)
    monkeypatch.setattr(csv_files, "_REMEMBERED_BLOCKS", 1_000)  # the reader parses so many ahead
    monkeypatch.setattr(columnar_files, "ROWS_PER_BATCH", 16)
    monkeypatch.setattr(json_lines, "_AT_ONCE", 8)


class Table(NamedTuple):
    """A CSV file by its parts. rows: cells of each row, of any number, and how many lines end behind it."""

    header: str
    rows: list[tuple[list[str], int]]
    end: str
    mark: bool
    ended: bool
    numbered: bool
    quote: str

    @property
    def data(self) -> bytes:
        """The file. Rows of another width begin in their own way, so that no other text is theirs."""
        lines = [
            ",".join(cells if len(cells) == 2 else [f"r{number}", *cells[1:]]) + self.end * ends
            for number, (cells, ends) in enumerate(self.rows)
        ]
        text = self.header + self.end + "".join(lines)
        text = ("\ufeff" if self.mark else "") + (text if self.ended else text.rstrip("\r\n"))
        return text.replace('"', self.quote or '"').encode("utf-8", "surrogateescape")

    @property
    def form(self) -> CsvForm:
        """How it is written."""
        return CsvForm(delimiter=",", quote=self.quote, header=NUMBERED if self.numbered else None)


widths = st.sampled_from((2, 2, 2, 2, 2, 1, 3))
one_row = widths.flatmap(lambda width: st.lists(st.sampled_from(CELLS), min_size=width, max_size=width))
tables = st.builds(
    Table,
    header=st.sampled_from(("h0,h1", '"h0",h1', "\n\nh0,h1", '"h0","h,1"')),
    rows=st.lists(st.tuples(one_row, st.integers(1, 3)), max_size=40),
    end=st.sampled_from(("\n", "\r\n", "\r")),
    mark=st.booleans(),
    ended=st.booleans(),
    numbered=st.booleans(),
    quote=st.sampled_from(('"', '"', "'", "")),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables, st.sampled_from((1, 100)))
@example(Table("h0,h1", [(['"li\nne"', '"\n\n"'], 1)] * 20, "\n", True, True, False, '"'), 1)
@example(Table("h0,h1", [(["a", "\udcff"], 1), (["b"], 2)] * 20, "\r\n", False, True, False, '"'), 1)
@example(Table("h0,h1", [(['x"y', '"closed"tail'], 3)] * 20, "\r", False, False, True, '"'), 1)
def test_csv_in_splits(
    tmp_path_factory: pytest.TempPathFactory, small_blocks: None, table: Table, least: int
) -> None:
    """Names, bytes, lines and texts of rows and broken rows: quotes over lines, all ends of lines, marks, headers."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(table.data)
    column = "h1" if "h,1" not in table.header or not table.quote else "h,1"
    try:
        same_in_splits(path, [column], table.form, least)
    except InputError:  # of the header
        assert not table.quote


def rows_of_text(count: int, cell: str = "x") -> bytes:
    """A CSV file of so many rows of 8 bytes and more."""
    return b"a,b\n" + b"".join(b"%04d,%s\n" % (number, cell.encode()) for number in range(count))


@pytest.mark.parametrize(
    ("data", "splits"),
    [
        (rows_of_text(60), 9),
        (rows_of_text(60, '"y\nz"'), 14),
        (rows_of_text(1), 1),
        (b"a,b\n", 1),
        # A quote that nothing closes: refused at the same place, with the rows before it.
        (rows_of_text(30) + b'1,"open\n' + rows_of_text(30), 6),
        # A quote that another row closes: the reader stops before it, and nothing is cut behind.
        (rows_of_text(30) + b'1,"open\n2,b\n3,"c"\n' + rows_of_text(30), 5),
        # A row of more bytes than two blocks.
        (rows_of_text(30) + b"1," + b"y" * 200 + b"\n" + rows_of_text(30), 11),
        # No complete row in the first block: the reader passes over it, so batches cannot be numbered.
        (b"a,b\n" + b"1\n" * 40 + rows_of_text(60), 1),
        # Blocks without complete rows further on.
        (rows_of_text(30) + b"1\n" * 100 + rows_of_text(30), 14),
        (rows_of_text(30) + b"\n" * 200 + rows_of_text(30), 14),
        # The first cell of a row is a byte order mark.
        (rows_of_text(5) + "\ufeff0001,x\n".encode() * 40, 10),
    ],
)
def test_csv_that_is_odd(tmp_path: Path, small_blocks: None, data: bytes, splits: int) -> None:
    """Whole and in splits the same, errors included; and files are cut that can be."""
    (tmp_path / "a.csv").write_bytes(data)
    assert same_in_splits(tmp_path / "a.csv", ["a", "b"]) == splits


def test_a_header_that_is_written_anew(tmp_path: Path, small_blocks: None) -> None:
    """Its quotes are followed as the reader sees them; as they stand they are another row's."""
    (tmp_path / "a.csv").write_bytes(b'"h\n0"x,b\n' + rows_of_text(60).removeprefix(b"a,b\n"))
    assert same_in_splits(tmp_path / "a.csv", ["b"], CsvForm(header=NUMBERED)) > 3


ENCODED = [
    ("utf-16", "a,b\n" + "1,x\n" * 200),
    ("cp1250", "a,b\n" + "1,ž\n" * 200),
    ("latin-1", "a,b\n" + "1,é\n" * 200),
]


@pytest.mark.parametrize(("encoding", "text"), ENCODED)
def test_other_encodings_stay_whole(tmp_path: Path, small_blocks: None, encoding: str, text: str) -> None:
    """What is read are not the file's bytes."""
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    assert same_in_splits(tmp_path / "a.csv", ["a", "b"], CsvForm(encoding=encoding)) == 1


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv", "a.jsonl.gz"])
def test_compressed_text_stays_whole(tmp_path: Path, small_blocks: None, name: str) -> None:
    """Whatever the file is called."""
    data = b"".join(b'{"a": "%d"}\n' % n for n in range(300)) if "json" in name else rows_of_text(300)
    (tmp_path / name).write_bytes(gzip.compress(data))
    assert same_in_splits(tmp_path / name, ["a"]) == 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_json_lines_in_splits(tmp_path: Path, small_blocks: None, end: bytes) -> None:
    """Blank lines, lines that are no object, a mark in front, a last line without an end."""
    rng = random.Random(7)
    lines = [b'{"a": "%d", "b": "\xc3\xa9"}' % n for n in range(100)]
    for number in rng.sample(range(1, 100), 40):
        lines[number] = rng.choice((b"", b"  \t", b"[1]", b'{"a": "\xff"}', b" {}"))
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + end.join(lines))
    assert same_in_splits(tmp_path / "a.jsonl", ["a", "b"]) > 8
    assert same_in_splits(tmp_path / "a.jsonl", ["a", "b"], least=600) in (2, 3)


@pytest.mark.parametrize("rows_of_a_block", [1, 5, 16, 37, 64])
def test_avro_in_splits(tmp_path: Path, small_blocks: None, rows_of_a_block: int) -> None:
    """Blocks of any size: batches go on over their ends. Behind a damaged block nothing is cut."""
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "r", "fields": fields}
    path = tmp_path / "a.avro"
    with path.open("wb") as stream:
        writer = fastavro.write.Writer(stream, schema, codec="deflate", sync_interval=1 << 20)  # type: ignore[arg-type]
        for number in range(150):
            writer.write({"a": number, "b": None if number % 7 else "é" * number})
            if number % rows_of_a_block == 0:
                writer.dump()
        writer.flush()
    assert same_in_splits(path, ["b", "a"]) > 2
    assert same_in_splits(path, ["a"], least=200) > 1
    data, cuts = path.read_bytes(), list(columnar_files.avro_cuts(str(path), 1))
    half = len(data) // 2
    for damaged in (data[:half], data[:half] + bytes(20) + data[half + 20 :]):
        path.write_bytes(damaged)
        assert same_in_splits(path, ["a"]) >= 1
    path.write_bytes(data[:half] + data[half + 20 :])
    assert same_in_splits(path, ["a"]) <= 1 + sum(cut.at <= half for cut in cuts)


@pytest.mark.parametrize("rows_of_a_group", [1, 5, 16, 37, 64, 200])
def test_parquet_in_splits(tmp_path: Path, small_blocks: None, rows_of_a_group: int) -> None:
    """Row groups of any size: batches go on over their ends."""
    table = pa.table(
        {
            "a": range(150),
            "b": pa.array([None if number % 7 else str(number) for number in range(150)]),
            "d": pa.array([{"e": [number, None]} for number in range(150)]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows_of_a_group)
    splits = same_in_splits(tmp_path / "a.parquet", ["b", "a"])
    assert (splits > 1) == (rows_of_a_group < 150)
    assert same_in_splits(tmp_path / "a.parquet", ["d.e", "a"], least=300) <= splits


def test_parquet_is_cut_by_rows_too(tmp_path: Path, small_blocks: None) -> None:
    """Rows of a few bytes: where groups begin with a batch, and further apart where they do not."""
    pq.write_table(pa.table({"a": [0] * 600}), tmp_path / "a.parquet", row_group_size=48)
    cuts = list(columnar_files.parquet_cuts(str(tmp_path / "a.parquet"), 1 << 40, 100))
    assert [(cut.at, cut.skipped) for cut in cuts] == [(3, 0), (6, 0), (9, 0), (12, 0)]
    pq.write_table(pa.table({"a": [0] * 600}), tmp_path / "a.parquet", row_group_size=50)
    cuts = list(columnar_files.parquet_cuts(str(tmp_path / "a.parquet"), 1 << 40, 100))
    assert [(cut.at, cut.skipped) for cut in cuts] == [(4, 8), (8, 0)]


def test_parquet_of_dictionaries_stays_whole(tmp_path: Path, small_blocks: None) -> None:
    """Batches end where another dictionary begins, so nobody knows how many are before a row group."""
    codes = pa.array([str(number % 3) for number in range(150)]).dictionary_encode()
    pq.write_table(pa.table({"a": range(150), "b": codes}), tmp_path / "a.parquet", row_group_size=37)
    assert same_in_splits(tmp_path / "a.parquet", ["a", "b"]) == 1


def test_small_files_are_not_opened(tmp_path: Path) -> None:
    """A file of less than two splits is one, and nobody looks for more."""
    for kind in FileFormat:
        file = InputFile(str(tmp_path / f"none.{kind}"), "none", 4 << 20, kind)
        assert list(file_splits(file)) == [FileSplit(file)]


def test_a_pipeline_reads_splits(tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All batches of all splits, each once, and rows are counted, broken ones included."""
    (tmp_path / "a.csv").write_bytes(rows_of_text(100) + b"broken\n")
    (tmp_path / "b.csv").write_bytes(rows_of_text(1))
    files = find_inputs([str(tmp_path / "*.csv")])
    expected = sorted(
        (batch.name, batch.ipc) for file in files for batch in read_batches(file, ["a"]) if not batch.broken
    )
    monkeypatch.setattr(bounded_source, "file_splits", _in_small_splits)

    def check(batches: list[RawBatch]) -> None:
        assert sorted((batch.name, batch.ipc) for batch in batches if not batch.broken) == expected

    with beam.Pipeline("FnApiRunner") as pipeline:
        assert_that(pipeline | ReadBatches(files, ["a"]), check)
    counters = pipeline.result.metrics().query(beam.metrics.MetricsFilter().with_name("rows_read"))[
        "counters"
    ]
    assert [counter.result for counter in counters] == [102]


def _in_small_splits(file: InputFile, form: CsvForm) -> list[FileSplit]:
    splits = list(file_splits(file, form, 100))
    assert (len(splits) > 3) == (file.name == "a.csv")
    return splits


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_that_are_forgotten_are_counted(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    """Whatever they end with, and also where a block ends between CR and LF."""
    stream = io.BytesIO(end.join(b"%03d" % number for number in range(900)))
    lines = csv_files._RememberedLines(stream, csv_files.CsvHeader(("a",), ","), "")
    monkeypatch.setattr(csv_files, "_REMEMBERED_BLOCKS", 4)
    while lines.read(7):
        pass
    assert lines.number_of("899") == 900
