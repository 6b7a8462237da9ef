"""A sample of a feed: rows of all of it, whole ones, the same each time, and no more than it says."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines.feeds import spread_sample as module
from kanonflow.pipelines.feeds.csv_files import CsvHeader
from kanonflow.pipelines.feeds.input_files import find_inputs
from kanonflow.pipelines.feeds.spread_sample import FileSample, spread_sample, whole_rows
from kanonflow.schemas.text_form import CsvForm

ROWS = 30_000


def text(n: int) -> str:
    """A value with a quote, a delimiter and a line end in it."""
    return f'note {n}, "so"\nand more'


def as_csv(path: Path) -> Path:
    """Numbered rows; every note stands in quotes over two lines."""
    with path.open("w", newline="") as file:
        file.write("n,note\n")
        for n in range(ROWS):
            file.write(f'{n},"{text(n).replace(chr(34), chr(34) * 2)}"\n')
    return path


def as_gzip(path: Path) -> Path:
    """The same, compressed."""
    path.write_bytes(gzip.compress(as_csv(path.with_suffix(".tmp")).read_bytes(), 1))
    return path


def as_parquet(path: Path, rows: int = 1_000) -> Path:
    """The same, in row groups of so many rows."""
    table = pa.table({"n": list(range(ROWS)), "note": [text(n) for n in range(ROWS)]})
    pq.write_table(table, path, row_group_size=rows)
    return path


def as_avro(path: Path) -> Path:
    """The same, in blocks."""
    fields = [{"name": "n", "type": "long"}, {"name": "note", "type": "string"}]
    with path.open("wb") as file:
        records = ({"n": n, "note": text(n)} for n in range(ROWS))
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, records, sync_interval=4_000)
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "feed.csv": as_csv,
    "feed.csv.gz": as_gzip,
    "feed.parquet": as_parquet,
    "one_group.parquet": lambda path: as_parquet(path, ROWS),
    "feed.avro": as_avro,
}


def sample(path: Path, most: int = 600, seed: int = 0) -> FileSample:
    """The sample of one file."""
    (found,) = spread_sample(find_inputs([str(path)]), ["note", "n"], most=most, seed=seed)
    return found


@pytest.mark.parametrize("small", [True, False], ids=["read through", "at offsets"])
@pytest.mark.parametrize("name", WRITERS)
def test_rows_come_from_all_of_the_file_and_are_whole(
    name: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tenth of the file has rows, each row is one of the file's, and twice the same seed gives the same."""
    if not small:
        monkeypatch.setattr(module, "SMALL_FEED", 0)
    path = WRITERS[name](tmp_path / name)
    found = sample(path)
    numbers = [int(n) for n in found.rows.column("n").to_pylist()]
    assert found.rows.column("note").to_pylist() == [text(n) for n in numbers]
    assert len(set(numbers)) == len(numbers)
    assert {n * 10 // ROWS for n in numbers} == set(range(10))
    assert len(numbers) <= 1_300
    assert (found.broken, found.whole, found.front) == (0, False, False)
    assert sample(path).rows.equals(found.rows)


@pytest.mark.parametrize("small", [True, False], ids=["read through", "at offsets"])
@pytest.mark.parametrize("name", WRITERS)
def test_runs_are_rows_that_follow_each_other(
    name: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four runs of 400 rows, one in each fourth of the file, whole rows and each once; the same every time."""
    if not small:
        monkeypatch.setattr(module, "SMALL_FEED", 0)
        monkeypatch.setattr(module, "PIECE", 4_096)
    path = WRITERS[name](tmp_path / name)
    (found,) = spread_sample(find_inputs([str(path)]), ["note", "n"], most=1_600, runs=4)
    numbers = [int(n) for n in found.rows.column("n").to_pylist()]
    assert found.rows.column("note").to_pylist() == [text(n) for n in numbers]
    begins = [n for n, before in zip(numbers, [-9, *numbers], strict=False) if n != before + 1]
    assert len(begins) == 4
    assert [n * 4 // ROWS for n in begins[:-1]] == [0, 1, 2]
    assert sorted({*numbers}) == numbers
    assert 1_500 <= len(numbers) <= 1_600
    (again,) = spread_sample(find_inputs([str(path)]), ["note", "n"], most=1_600, runs=4)
    assert again.rows.equals(found.rows)


def test_runs_of_large_rows_are_as_long_as_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is as large as its rows are; what comes to most of a file that may be read through is read through."""
    monkeypatch.setattr(module, "SMALL_FEED", 0)
    monkeypatch.setattr(module, "PIECE", 4_096)
    path = as_csv(tmp_path / "feed.csv")
    (found,) = spread_sample(find_inputs([str(path)]), ["n"], most=8_000, runs=2)
    assert 7_000 <= found.rows.num_rows <= 8_000
    (whole,) = spread_sample(find_inputs([str(path)]), ["n"], most=ROWS, runs=2)
    assert whole.whole
    assert whole.rows.num_rows == ROWS


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    """Then figures are no estimates."""
    (tmp_path / "a.csv").write_text("n,note\n1,x\n2,y\n3\n")
    found = sample(tmp_path / "a.csv")
    assert (found.rows.num_rows, found.broken, found.looked_at, found.whole) == (2, 1, 3, True)


def test_of_a_file_without_offsets_no_more_is_read_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed text has none; the sample says that it is of the beginning."""
    monkeypatch.setattr(module, "MOST_READ", 100_000)
    found = sample(as_gzip(tmp_path / "feed.csv.gz"))
    assert found.front
    assert max(int(n) for n in found.rows.column("n").to_pylist()) < ROWS - 1


def test_torn_rows_and_bytes_of_no_character_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At offsets as elsewhere: a fourth lacks a cell, a fourth is not UTF-8."""
    monkeypatch.setattr(module, "SMALL_FEED", 0)
    lines = [b"1,x", b"2", b"3,\xe9", b"4,y"] * 20_000
    (tmp_path / "a.csv").write_bytes(b"n,note\n" + b"\n".join(lines) + b"\n")
    found = sample(tmp_path / "a.csv", most=4_000)
    assert found.broken / found.looked_at == pytest.approx(0.5, abs=0.02)


def test_files_are_spread_over_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many files some, the first and the last among them."""
    monkeypatch.setattr(module, "MOST_FILES", 3)
    for n in range(9):
        (tmp_path / f"{n}.csv").write_text(f"n,note\n{n},x\n")
    found = spread_sample(find_inputs([str(tmp_path / "*.csv")]), ["n"], CsvForm())
    assert [each.file.name for each in found] == ["0.csv", "4.csv", "8.csv"]


def test_whole_rows_of_a_piece_are_rows_of_the_file() -> None:
    """Wherever a piece begins, inside of quotes too, what is cut out of it begins and ends where rows do."""
    rows = [f'{n},"{text(n).replace(chr(34), chr(34) * 2)}",{n % 7}\n' for n in range(40)]
    file = "".join(rows).encode()
    borders = {sum(map(len, rows[:n])) for n in range(len(rows) + 1)}
    for begin in range(len(file) // 2):
        found = whole_rows(file[begin:], CsvHeader(("n", "note", "b"), ","), '"')
        assert found is not None
        assert file.endswith(found)
        assert len(file) - len(found) in borders
        assert len(file) - len(found) - begin <= max(map(len, rows))


def test_rows_that_cannot_be_told_from_quoted_lines_are_not_guessed() -> None:
    """Where neither way of reading has rows of the header's width, nothing is cut out."""
    lines = "".join(f'a {n} "b\n' for n in range(40))
    assert whole_rows(lines.encode(), CsvHeader(("n", "note", "b"), ","), '"') is None
