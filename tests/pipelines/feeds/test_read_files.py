"""What the sources read, and what they say of files that are broken."""

import base64
import datetime as dt
import gzip
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

from kanonflow.pipelines.audit.read.read_input import find_input
from kanonflow.pipelines.feeds import columnar_files
from kanonflow.pipelines.feeds.bounded_source import ReadBatches
from kanonflow.pipelines.feeds.csv_files import PLAIN, csv_header, sniff_delimiter
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import RawBatch, from_ipc
from tests.runners import bounded_pipeline, loopback_pipeline, streaming_pipeline

pytestmark = pytest.mark.thorough

CSV = b"name,age,city\nann,30,Bonn\nbob,,Ulm\n"
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def _avro_rows(count: int) -> list[dict[str, Any]]:
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return [
        {"n": n, "day": None if n % 3 else dt.date(2024, 1, 1), "at": at, "money": Decimal(n).scaleb(-2)}
        for n in range(count)
    ]


def _write_avro(path: Path, count: int) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, _avro_rows(count), codec="deflate")


def _read_all(path: Path) -> None:
    _read(path, input_schema(find_inputs([str(path)])).columns.names)


def _read(path: Path, columns: Sequence[str], form: CsvForm = PLAIN) -> tuple[list[Any], list[Any]]:
    """All rows as dicts, and all broken rows."""
    (file,) = find_inputs([str(path)])
    batches = list(read_batches(file, columns, form))
    rows = [row for batch in batches for row in from_ipc(batch.ipc).to_pylist()]
    return rows, [record for batch in batches for record in batch.broken]


def test_csv_is_text_of_the_columns_asked_for(tmp_path: Path) -> None:
    """No type is guessed, an empty cell is empty text, other columns are not carried."""
    path = tmp_path / "a.csv"
    path.write_bytes(CSV)
    assert input_schema(find_inputs([str(path)])).text
    rows, broken = _read(path, ["age", "name"])
    assert rows == [{"age": "30", "name": "ann"}, {"age": "", "name": "bob"}]
    assert broken == []


def test_csv_may_be_gzipped_have_a_mark_and_lines_within_values(tmp_path: Path) -> None:
    """CSV.gz, a byte order mark, CRLF, quoted delimiters and line ends are all one format."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbfname;age\r\n"a;b\nc";1\r\n'))
    assert _read(path, ["name", "age"]) == ([{"name": "a;b\nc", "age": "1"}], [])


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("a,b;c,d", ","), ("a;b", ";"), ("a\tb", "\t"), ("a|b", "|"), ("a", ","), ('"a,b,c";d', ";")],
)
def test_the_delimiter_is_the_most_frequent_one_outside_of_quotes(header: str, delimiter: str) -> None:
    """Of comma, semicolon, tab and pipe."""
    assert sniff_delimiter(header) == delimiter


def test_a_given_delimiter_wins(tmp_path: Path) -> None:
    """--delimiter is not second-guessed."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b;c\n1,2;3\n")
    assert csv_header(str(path), CsvForm(delimiter=";")).columns == ("a,b", "c")
    assert _read(path, ["c"], CsvForm(delimiter=";"))[0] == [{"c": "3"}]


def test_a_row_of_another_width_is_one_broken_row(tmp_path: Path) -> None:
    """Too few and too many values: reason unparseable with the line number, no values; the rest is read."""
    path = tmp_path / "a.csv"
    path.write_bytes(CSV + b"short,1\n" + b"eve,5,Kiel\n" + b"long,1,2,3\n" + b'"multi\nline",7,x\nshort,1\n')
    rows, broken = _read(path, ["name"])
    assert [row["name"] for row in rows] == ["ann", "bob", "eve", "multi\nline"]
    assert [record["message"] for record in broken] == [
        "line 4: 2 values where the header names 3",
        "line 6: 4 values where the header names 3",
        "line 9: 2 values where the header names 3",
    ]
    assert {(record["reason"], record["source"], record["field"]) for record in broken} == {
        ("unparseable", "a.csv", None)
    }
    assert all(record["row"] == {} for record in broken)


def test_line_numbers_hold_over_many_blocks(tmp_path: Path) -> None:
    """Broken rows far into a large file are found at their lines, in order, equal ones too."""
    path = tmp_path / "a.csv"
    lines = [b"id,text"] + [b"%d,%s" % (number, b"x" * 60) for number in range(2, 120_001)]
    wrong = list(range(1_000, 120_000, 9_973))
    for number in wrong:
        lines[number - 1] = b"oops"
    path.write_bytes(b"\n".join(lines))
    rows, broken = _read(path, ["id"])
    assert len(rows) == len(lines) - 1 - len(wrong)
    assert [record["message"].split(":")[0] for record in broken] == [f"line {number}" for number in wrong]


def test_bytes_that_are_not_utf8_break_their_row_only(tmp_path: Path) -> None:
    """A Latin-1 cell is a broken row that names the column; columns that are not kept do not matter."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"name,city\nann,Bonn\nbob,K\xf6ln\neve,Ulm\n")
    rows, broken = _read(path, ["name", "city"])
    assert [row["name"] for row in rows] == ["ann", "eve"]
    assert [(record["field"], record["message"]) for record in broken] == [
        ("city", "the row is not UTF-8 text, or holds the character NUL or SUB")
    ]
    assert len(_read(path, ["name"])[0]) == 3


def test_reading_again_gives_the_same_batches(tmp_path: Path) -> None:
    """Names, rows and broken rows of batches are stable, so that a retry rejects the same under the same
    name; another file's batches have other names."""
    body = b"id,text\n" + b"".join(b"%d,%s\n" % (n, b"y" * 50) if n % 40 else b"x\n" for n in range(60_000))
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(body)
    a, b = find_inputs([str(tmp_path / "*.csv")])

    def batches(file: Any) -> list[RawBatch]:
        return sorted(read_batches(file, ["id", "text"]))

    assert batches(a) == batches(a)
    names = [batch.name for file in (a, b) for batch in batches(file)]
    assert len(set(names)) == len(names)
    assert sum(len(batch.broken) for batch in batches(a)) == 1_500


def test_names_do_not_depend_on_where_the_files_are(tmp_path: Path) -> None:
    """Ids of batches use paths relative to the folder that all files share."""
    for folder in ("here", "there"):
        (tmp_path / folder / "x").mkdir(parents=True)
        (tmp_path / folder / "x" / "a.csv").write_bytes(CSV)
        (tmp_path / folder / "b.csv").write_bytes(CSV)
    found = [
        [file.name for file in find_inputs([str(tmp_path / folder / "**.csv")])]
        for folder in ("here", "there")
    ]
    assert found == [["b.csv", "x/a.csv"]] * 2


def test_a_file_that_two_patterns_match_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would be published twice; however its path is spelled."""
    (tmp_path / "a.csv").write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    (file,) = find_inputs([str(tmp_path / "*.csv"), "a.csv", "./a.csv"])
    assert (file.path, file.name) == (str(tmp_path / "a.csv"), "a.csv")


def test_avro_keeps_logical_types(tmp_path: Path) -> None:
    """Dates, timestamps and decimals arrive as such, over several blocks."""
    path = tmp_path / "a.avro"
    _write_avro(path, 20_000)
    schema = input_schema(find_inputs([str(path)]))
    assert not schema.text
    assert schema.columns.types == [
        pa.int64(),
        pa.date32(),
        pa.timestamp("ms", "UTC"),
        pa.decimal128(9, 2),
    ]
    rows, _ = _read(path, ["n", "day", "at", "money"])
    assert rows == _avro_rows(20_000)


def test_parquet_reads_only_the_columns_asked_for(tmp_path: Path) -> None:
    """In batches, whatever the size of a row group."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(40_000), "unused": ["x"] * 40_000}), path)
    (file,) = find_inputs([str(path)])
    batches = [from_ipc(batch.ipc) for batch in read_batches(file, ["n"])]
    assert [batch.num_rows for batch in batches] == [16_384, 16_384, 7_232]
    assert pa.concat_tables(batches).to_pydict() == {"n": list(range(40_000))}


def test_a_csv_file_with_only_a_header_has_no_rows(tmp_path: Path) -> None:
    """Nothing happened is not an error."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"name,age\n")
    assert input_schema(find_inputs([str(path)])).columns.names == ["name", "age"]
    assert _read(path, ["name"]) == ([], [])


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def _avro_cut(path: Path) -> None:
    _write_avro(path, 50_000)
    _cut(path)


def _parquet_cut(path: Path) -> None:
    pq.write_table(pa.table({"n": range(1000)}), path)
    _cut(path)


def _gzip_cut(path: Path) -> None:
    path.write_bytes(gzip.compress(b"n\n" + b"".join(b"%d\n" % (n * n % 9973) for n in range(200_000))))
    _cut(path)


def _parquet_page(path: Path) -> None:
    pq.write_table(pa.table({"n": range(100_000)}), path, compression="gzip", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(bytes(data))


def _zone(kind: pa.DataType, value: Any, wrong: bytes) -> Callable[[Path], None]:
    """A Parquet file with times of a zone that is none."""

    def write(path: Path) -> None:
        pq.write_table(pa.table({"when": pa.array([value], kind)}), path)
        data = path.read_bytes()
        (stored,) = re.findall(rb"/////[A-Za-z0-9+/]+=*", data)
        schema = base64.b64decode(stored)
        assert b"UTC" in schema
        path.write_bytes(data.replace(stored, base64.b64encode(schema.replace(b"UTC", wrong))))

    return write


_MILLISECONDS = pa.timestamp("ms", "UTC")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.avro", b"Obj\x01broken", "not an Avro file"),
        ("a.avro", _avro_cut, "the Avro file is damaged or cut off"),
        ("a.parquet", b"PAR1 nothing PAR1", "not a Parquet file"),
        ("a.parquet", _parquet_cut, "not a Parquet file, or cut off"),
        ("a.parquet", _parquet_page, "the Parquet file is damaged or cut off"),
        ("a.parquet", _zone(_MILLISECONDS, 0, b"U/C"), "field when has a time zone that is not known here"),
        (
            "a.parquet",
            _zone(_MILLISECONDS, 0, b"U\xbfC"),
            "field when has a time zone that is not known here",
        ),
        ("a.parquet", _zone(pa.list_(_MILLISECONDS), [0], b"U/C"), "field when has a time zone"),
        ("a.csv", b"\n\xef\xbb\xbfn,m\n1,2\n", "the header begins with a byte order mark"),
        ("a.csv", b'a" ;";\r"\n1;2\n', "the header can be read in two ways"),
        ("a.csv", b"", "the file is empty (0 bytes"),
        ("a.csv", b"\n\n", "no header line"),
        ("a.csv", b"n,n\n1,2\n", "the header names a column more than once: n"),
        ("a.csv", b"n,,m\n1,2,3\n", "column 2 of the header has no name"),
        ("a.csv", "n,m\n1,2\n".encode("utf-16-le"), "the header is not text"),
        ("a.csv", b"n\xe4me\n1\n", "the header is not UTF-8 text"),
        ("a.csv", b'n\n"1\n' + b"2\n" * 2_000_000, "perhaps because a quoted value does not end"),
        ("a.csv", b'n,m\n1,2\n3,"4\n5,6\n', "a quoted value does not end"),
        ("a.csv.gz", b"n\n1\n", "not a gzip file"),
        ("a.csv.gz", _gzip_cut, "the compressed file is damaged or cut off"),
        ("a.xls", b"PK", "unknown kind of file"),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, name: str, content: Any, message: str) -> None:
    """An input that is no input ends with InputError: the file's name and what is wrong."""
    path = tmp_path / name
    content(path) if callable(content) else path.write_bytes(content)
    with pytest.raises(InputError) as error:
        _read_all(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_formats_and_columns_must_agree(tmp_path: Path) -> None:
    """One run reads one format with one set of columns; the error names the file that differs."""
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "b.csv").write_bytes(b"name,age,town\n")
    with pytest.raises(InputError, match=r"b\.csv: other columns.*differ in: city, town"):
        input_schema(find_inputs([str(tmp_path / "*.csv")]))
    _write_avro(tmp_path / "c.avro", 1)
    with pytest.raises(InputError, match=r"c\.avro: avro next to csv"):
        find_inputs([str(tmp_path / "*")])


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    """A typing mistake must not read as an empty feed."""
    with pytest.raises(InputError, match=r"--input .*nothing\*: no file matches"):
        find_inputs([str(tmp_path / "nothing*")])


def test_a_pattern_without_a_folder_is_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell reads it, umlauts and all."""
    for name in ("umsätze-1.csv", "umsätze-2.csv"):
        (tmp_path / name).write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    for pattern in ("*.csv", "umsätze-?.csv", "./*.csv"):
        assert [file.path for file in find_inputs([pattern])] == [
            str(tmp_path / "umsätze-1.csv"),
            str(tmp_path / "umsätze-2.csv"),
        ]


@pytest.mark.parametrize("open_pipeline", [bounded_pipeline, loopback_pipeline, streaming_pipeline])
def test_the_transform_reads_all_files(tmp_path: Path, open_pipeline: Callable[..., Any]) -> None:
    """All rows of all files arrive, once, on every runner."""
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "b.csv").write_bytes(CSV.replace(b"ann", b"eve"))
    files = find_inputs([str(tmp_path / "*.csv")])
    with open_pipeline() as pipeline:
        names = (
            pipeline
            | ReadBatches(files, ["name"])
            | beam.FlatMap(lambda batch: from_ipc(batch.ipc).column("name").to_pylist())
        )
        assert_that(names, equal_to(["ann", "bob", "eve", "bob"]))


class Failing:
    """A file on storage that goes away when half of it is read."""

    def __init__(self, path: Path, failure: type[Exception]) -> None:
        self._stream = path.open("rb")
        self._failure = failure
        self._half = path.stat().st_size // 2

    def read(self, size: int = -1) -> bytes:
        if self._stream.tell() + max(size, 0) > self._half:
            raise self._failure("storage")
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.mark.parametrize("failure", [ConnectionResetError, BufferError])
@pytest.mark.parametrize("ending", ["avro", "parquet"])
def test_storage_that_fails_is_not_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, failure: type[Exception]
) -> None:
    """A feed counts a damaged file as read: what fails for now must be an error of its own."""
    path = tmp_path / f"a.{ending}"
    rows = [{"n": number} for number in range(200_000)]
    if ending == "avro":
        with path.open("wb") as stream:
            fields = [{"name": "n", "type": "long"}]
            fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10_000)
    (file,) = find_inputs([str(path)])
    assert sum(from_ipc(batch.ipc).num_rows for batch in read_batches(file, ["n"], None)) == 200_000
    monkeypatch.setattr(columnar_files, "open_stored", lambda path: Failing(Path(path), failure))
    with pytest.raises((columnar_files.StorageError, failure)):
        list(read_batches(file, ["n"], None))


def test_what_files_of_another_name_hold_can_be_said(tmp_path: Path) -> None:
    """By --input-format, to the run and to the audit; without it the error says so."""
    path = tmp_path / "export.dat"
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match="--input-format says what files of another name hold"):
        find_inputs([str(path)])
    (file,) = find_inputs([str(path)], "csv")
    assert input_schema([file]).csv
    assert [row for batch in read_batches(file, ["b"]) for row in from_ipc(batch.ipc).to_pylist()] == [
        {"b": "2"}
    ]
    assert find_input([str(path)], PLAIN, "csv").text
    pq.write_table(pa.table({"a": [1]}), tmp_path / "table.bin")
    (file,) = find_inputs([str(tmp_path / "table.bin")], "parquet")
    assert not input_schema([file]).text
    assert find_input([str(tmp_path / "table.bin")], PLAIN, "parquet").schema.names == ["a"]
