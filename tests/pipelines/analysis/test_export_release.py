"""``kanonflow export``: what polars, DuckDB, pandas and Arrow read of it is what was released, of every type."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis import export_release
from kanonflow.pipelines.analysis.export_release import _without_formulas
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.schemas.release_format import SCHEMA_KEY
from tests.made_releases import made, write_release
from tests.pipelines.small_runs import people


@pytest.fixture(params=[".avro", ".parquet"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Three releases with nulls in every kind of field, in each format."""
    for seed in range(3):
        write_release(tmp_path / "run", made(seed, 40, lasting=True), suffix=request.param)
    return tmp_path / "run"


def exported(*arguments: str) -> int:
    """The command's exit code."""
    return cli.main(["export", *arguments])


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """In an order of content."""
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


def read(folder: Path, names: list[str]) -> pa.Table:
    """A data set as Arrow reads it, without the partition."""
    return pyarrow.parquet.read_table(folder, partitioning=None).select(names)


@pytest.mark.parametrize("flat", ["columns", "label", "mid"])
def test_parquet_holds_what_was_released(run: Path, flat: str) -> None:
    """Each row once, with its types, by the last day of its window; the schema says of which policy it is."""
    assert exported(str(run), "--to", "parquet", "--flat", flat) == 0
    expected = read_release(run).flat(flat)
    assert rows(read(run / "export.parquet", expected.schema.names)) == rows(expected)
    parts = sorted((run / "export.parquet").rglob("*.parquet"))
    assert len(parts) > 2
    for part in parts:
        table = pyarrow.parquet.read_table(part, partitioning=None)
        assert table.schema.types == expected.schema.types
        (day,) = {part.parent.name}
        last = {f"window={(end - _MILLISECOND).date()}" for end in table.column("window_end").to_pylist()}
        assert last == {day}
    told = pyarrow.parquet.read_schema(parts[0]).metadata
    assert (told[b"kanonflow.k"], told[b"kanonflow.policy"]) == (b"3", b"every-kind")


@pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")
def test_rows_are_cut_into_shares_that_add_up_in_duckdb(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranges by edges, sets, dates by periods: SUM(share) is what ``estimate`` counts, of Parquet and of CSV. What the
    parts do not hold is told."""
    cut = ("--flat", "shares", "--by", "age=0,20,40,200", "--by", "gender=each", "--by", "born=40y")
    assert exported(str(run), "--to", "parquet", *cut, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    release = read_release(run)
    by = {"age": [0, 20, 40, 200], "gender": "each", "born": "40y"}
    expected = {
        (row["age_from"], row["gender"], row["born_from"]): row["value"]
        for row in release.estimate("count", by=by).rows()
        if row["value"]
    }
    query = "SELECT age_from, gender, born_from, sum(share) FROM {} GROUP BY ALL"
    found = duckdb.sql(query.format(f"read_parquet('{run}/export.parquet/*/*.parquet')")).fetchall()
    assert {row[:3]: row[3] for row in found} == pytest.approx(expected)
    assert told["rows"] == len(release)
    assert told["within"] == pytest.approx(sum(expected.values()))
    assert told["within"] < len(release) - 1
    assert exported(str(run), "--to", "csv", *cut) == 0
    outcome = capsys.readouterr()
    assert "rows; what lies outside of them is not written" in outcome.err
    assert f"{len(release):,} rows" in outcome.out
    ((count,),) = duckdb.sql(f"SELECT sum(share) FROM read_csv('{run}/export.csv')").fetchall()
    assert count == pytest.approx(told["within"])
    for wrong, says in (
        (("--flat", "shares"), "needs the parts of fields"),
        (("--by", "age=each"), "is for --flat shares alone"),
        (("--hierarchy", "job=jobs.csv"), "is for the parts of --by"),
        ((*cut[:2], "--by", "age=0,old"), "age: an edge is no value"),
        ((*cut[:2], "--by", "nobody=each"), "nobody"),
    ):
        assert exported(str(run), "--to", "parquet", "--output", str(run / "no"), *wrong) == 2
        assert says in capsys.readouterr().err
    assert not (run / "no").exists()


def test_polars_reads_it(run: Path) -> None:
    """With the types, nulls apart from empty texts, and the partition as a day."""
    exported(str(run), "--to", "parquet")
    frame = polars.read_parquet(run / "export.parquet", hive_partitioning=True)
    expected = read_release(run).flat()
    assert rows(frame.drop("window").to_arrow().select(expected.schema.names)) == rows(expected)
    assert frame.schema["window"] == polars.Date
    assert frame.schema["born_mid"] == polars.Date
    assert frame.schema["amount"] == polars.Decimal(12, 2)


def test_duckdb_reads_it_without_a_network(run: Path) -> None:
    """Nothing is installed or loaded from elsewhere for Parquet; types, nulls and the partition."""
    exported(str(run), "--to", "parquet")
    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(config=offline) as connection:
        connection.sql("set timezone = 'UTC'")
        source = f"read_parquet('{run}/export.parquet/**/*.parquet', hive_partitioning = true)"
        kinds = dict(row[:2] for row in connection.sql(f"describe from {source}").fetchall())
        expected = read_release(run).flat()
        names = ", ".join(
            f'"{name}"' for name in expected.schema.names if name not in ("window_start", "seen")
        )
        found = connection.sql(f"select {names} from {source}").arrow().read_all()
        assert rows(found) == rows(expected.select(found.schema.names))
    assert kinds["window"] == "DATE"
    assert kinds["amount"] == "DECIMAL(12,2)"
    assert kinds["at"] == "TIME"
    assert kinds["raw"] == "BLOB"
    assert kinds["moment"] == "TIMESTAMP WITH TIME ZONE"


def test_pandas_reads_it(run: Path) -> None:
    """With Arrow's types, in which a missing whole number does not become a fraction; and it can be grouped."""
    exported(str(run), "--to", "parquet")
    frame = pandas.read_parquet(run / "export.parquet", dtype_backend="pyarrow")
    expected = read_release(run).flat()
    found = pa.Table.from_pandas(frame, preserve_index=False).select(expected.schema.names)
    assert rows(found) == rows(expected)
    by_gender = frame.groupby("gender")["amount"].count()
    assert int(by_gender.sum()) == int(frame["amount"].notna().sum()) > 50


def test_csv_keeps_nulls_apart_from_empty_texts(run: Path) -> None:
    """As Arrow, polars and DuckDB read it, when they are told not to make nulls of quoted texts."""
    assert exported(str(run), "--to", "csv") == 0
    expected = read_release(run).flat()
    notes = expected.column("note").to_pylist()
    assert {None, "", "two\nlines", "NULL"} <= set(notes)
    path = run / "export.csv"
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=options)
    assert table.column_names == expected.column_names
    assert table.column("note").to_pylist() == notes
    assert polars.read_csv(path)["note"].to_list() == notes
    told = duckdb.sql(f"select note from read_csv('{path}', allow_quoted_nulls = false)").fetchall()
    assert [note for (note,) in told] == notes
    assert table.column("gender").to_pylist() == expected.column("gender").to_pylist()
    for name in ("age_min", "born_max", "seen_mid", "kids", "job", "count", "day"):
        cells = table.column(name).cast(expected.column(name).type).to_pylist()
        assert cells == expected.column(name).to_pylist(), name
    coded = {None: None, b"": "", b"\x00\xff": "AP8=", b"ab": "YWI="}
    assert table.column("raw").to_pylist() == [coded[cell] for cell in expected.column("raw").to_pylist()]


def test_in_few_rows_at_a_time(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows there are, so many are held; the days' files are parts then."""
    monkeypatch.setattr(export_release, "HELD_ROWS", 30)
    held: list[int] = []
    by_day = export_release._by_day

    def watched(*arguments: Any) -> Iterator[tuple[int | None, pa.Table]]:
        for day, table in by_day(*arguments):
            held.append(table.num_rows)
            yield day, table

    monkeypatch.setattr(export_release, "_by_day", watched)
    exported(str(run), "--to", "parquet")
    expected = read_release(run).flat()
    assert rows(read(run / "export.parquet", expected.schema.names)) == rows(expected)
    written = [pyarrow.parquet.read_metadata(p).num_rows for p in (run / "export.parquet").rglob("*.parquet")]
    assert sum(written) == sum(held) == 120
    assert list((run / "export.parquet").rglob("part-00001.parquet"))


def test_what_is_there_is_not_replaced(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file, a folder, a link to nothing; and nothing is left beside them."""
    for to in ("parquet", "csv"):
        assert exported(str(run), "--to", to) == 0
        assert exported(str(run), "--to", to) == 2
        assert f"export.{to}: is there already, and is not replaced" in capsys.readouterr().err
    (run / "link").symlink_to(run / "nowhere")
    assert exported(str(run), "--to", "csv", "--output", str(run / "link")) == 2
    assert exported(str(run), "--to", "csv", "--output", str(run / "no" / "such.csv")) == 2
    assert "cannot be written (No such file or directory)" in capsys.readouterr().err
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_failure_leaves_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged release among others: its name, exit code 2, and neither target nor traces."""
    damaged = sorted((run / "release").iterdir())[2]
    data, avro = damaged.read_bytes(), damaged.suffix == ".avro"
    damaged.write_bytes(data[:-40] if avro else data[:60] + bytes(40) + data[100:])
    kind = "Avro" if avro else "Parquet"
    for to in ("parquet", "csv"):
        assert exported(str(run), "--to", to) == 2
        assert f"{damaged}: a damaged {kind} file" in capsys.readouterr().err
    assert {path.name for path in run.iterdir()} == {"release"}


def test_only_what_is_released_is_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that goes on, or was stopped, has files that are no releases, and a folder that is nobody's business."""
    (run / "restricted").write_text("whoever opens this as a folder fails")
    (run / "release" / ".hidden.avro").write_text("half a file")
    (run / "release" / "notes.txt").write_text("x")
    assert exported(str(run), "--to", "parquet") == 0
    out, err = capsys.readouterr()
    assert "3 releases that were there, 120 rows, windows from 2024-03-01 to 2024-03-04, epoch 0000" in out
    assert "2 entries beside the releases are none" in err


def test_runs_that_continue_each_other(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several directories are one data set; of several epochs it says that nothing is promised over them."""
    write_release(tmp_path / "next", made(8, 12, lasting=True))
    target = tmp_path / "both"
    assert exported(str(run), str(tmp_path / "next"), "--to", "parquet", "--output", str(target)) == 0
    out, err = capsys.readouterr()
    assert ("132 rows" in out, err) == (True, "")
    write_release(tmp_path / "other", made(9, 12, lasting=True), epoch=8)
    arguments = [str(run), str(tmp_path / "other"), "--to", "csv", "--json"]
    assert exported(*arguments) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["epochs"] == ["0000000000000007", "0000000000000008"]
    assert (told["rows"], told["releases"], told["first_day"]) == (132, 4, "2024-03-01")
    assert "of 2 epochs; nothing is promised over several of them together" in err


def test_what_cannot_be_read_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and what to do: no folder, no releases, a topic, another policy, the same release twice, another
    file."""
    write_release(tmp_path / "afresh", made(5, 12))
    (tmp_path / "empty" / "release").mkdir(parents=True)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "x.avro").write_text("no Avro")
    for name, data in (("strange", b"no Parquet"), ("of others", _parquet({})), ("no JSON", _parquet(b"{"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.parquet").write_bytes(data)
    (tmp_path / "cut").mkdir()
    whole = write_release(tmp_path / "whole", made(5, 12), suffix=".parquet").read_bytes()
    (tmp_path / "cut" / "x.parquet").write_bytes(whole[:-9])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.parquet").write_bytes(whole[:60] + bytes(40) + whole[100:])
    write_release(tmp_path / "twice", made(5, 12), suffix=".avro")
    write_release(tmp_path / "twice", made(5, 12), suffix=".parquet")
    for directories, told in (
        (["nowhere"], "no such folder; give the --output of a run"),
        (["empty"], "no releases here"),
        (["run", "afresh"], "is of another form than"),
        (["run", "run"], "the same release twice"),
        (["foreign"], "not an Avro file, or damaged"),
        (["twice"], "the same release twice"),
        (["strange"], "not a Parquet file, or damaged"),
        (["cut"], "not a Parquet file, or damaged"),
        (["no JSON"], "not a Parquet file, or damaged"),
        (["of others"], "is no release of kanonflow"),
        (["bad"], "a damaged Parquet file"),
    ):
        assert exported(*(str(tmp_path / name) for name in directories), "--to", "csv") == 2
        assert told in capsys.readouterr().err
    assert exported("kafka://host:9092/topic", "--to", "csv") == 2
    assert "copy them here first" in capsys.readouterr().err


def _parquet(schema: object) -> bytes:
    """A file of others with something under the key of a release's schema."""
    out = BytesIO()
    with pyarrow.parquet.ParquetWriter(out, pa.schema([("x", pa.int64())])) as writer:
        writer.write_table(pa.table({"x": [1]}))
        told = schema if isinstance(schema, bytes) else json.dumps(schema)
        writer.add_key_value_metadata({SCHEMA_KEY: told})
    return out.getvalue()


def test_runs_of_both_formats_are_one_data_set(tmp_path: Path) -> None:
    """A run may continue another one in another format: the same rows as of two runs in Avro."""
    for seed, suffix in ((0, ".avro"), (1, ".parquet")):
        write_release(tmp_path / f"mixed{seed}", made(seed, 40, lasting=True), suffix=suffix)
        write_release(tmp_path / f"avro{seed}", made(seed, 40, lasting=True))
    mixed, avro = (
        read_release(*(tmp_path / f"{name}{seed}" for seed in range(2))) for name in ("mixed", "avro")
    )
    assert mixed.arrow().equals(avro.arrow())
    assert mixed.arrow().schema.equals(avro.arrow().schema)


def test_a_feed_without_windows_is_one_file(tmp_path: Path) -> None:
    """There is no day to part it by."""
    release = made(4, 20, windows=False)
    write_release(tmp_path, release)
    exported(str(tmp_path), "--to", "parquet")
    (part,) = (tmp_path / "export.parquet").iterdir()
    assert pyarrow.parquet.read_table(part).num_rows == 20


def test_a_field_of_the_name_of_the_partition_keeps_it(tmp_path: Path) -> None:
    """The partition takes another name."""
    path = write_release(tmp_path, made(4, 20, lasting=True))
    _rename(path, "note", "window")
    exported(str(tmp_path), "--to", "parquet")
    assert {path.name.split("=")[0] for path in (tmp_path / "export.parquet").iterdir()} == {"window_day"}
    frame = polars.read_parquet(tmp_path / "export.parquet", hive_partitioning=True)
    assert frame.schema["window"] == polars.String


def _rename(path: Path, name: str, other: str) -> None:
    """Write a release again with another name for a field."""
    import fastavro

    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema = json.loads(reader.metadata["avro.schema"])
        records = list(reader)
    for field in schema["fields"]:
        if field["name"] == name:
            field["name"] = other
    for record in records:
        record[other] = record.pop(name)
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records)


_MILLISECOND = pandas.Timedelta(milliseconds=1).to_pytimedelta()


CELLS = [
    "=1+1",
    "+SUM(A1)",
    "-2+3",
    "@x",
    "\tcmd",
    "-5",
    "+49",
    "-1,5",
    "-3.2e-5",
    "-",
    "plain",
    "a=b",
    "",
    None,
]


def test_formulas_are_told_of_and_neutralized_on_wish() -> None:
    """Text that a spreadsheet runs gets a ' before it, numbers with a sign do not, and nothing is changed unasked."""
    table = pa.table({"note": CELLS, "number": pa.array([-5] * len(CELLS), pa.int64())})
    same, found = _without_formulas(table, neutralize=False)
    assert found == 5
    assert same.equals(table)
    mended, found = _without_formulas(table, neutralize=True)
    assert found == 5
    assert mended["note"].to_pylist() == [*(f"'{cell}" for cell in CELLS[:5]), *CELLS[5:]]
    assert mended["number"].equals(table["number"])


def test_a_release_with_formulas_is_exported_as_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says how many cells there are, and which flag mends them; with it the file has none."""
    run = people()
    for rows in run.releases.values():
        for number, each in enumerate(rows):
            each["ref"] = f"=cmd|{number}"
    _, _, out = run.write(tmp_path)
    count = sum(map(len, run.releases.values()))
    assert exported(str(out), "--to", "csv", "--output", str(tmp_path / "plain.csv")) == 0
    assert f"{count} cells begin as a formula" in capsys.readouterr().err
    assert (
        exported(str(out), "--to", "csv", "--neutralize-formulas", "--output", str(tmp_path / "safe.csv"))
        == 0
    )
    assert "have ' before them" in capsys.readouterr().err
    assert (tmp_path / "plain.csv").read_text().count('"=cmd') == count
    safe = (tmp_path / "safe.csv").read_text()
    assert safe.count('"=cmd') == 0
    assert safe.count("\"'=cmd") == count
