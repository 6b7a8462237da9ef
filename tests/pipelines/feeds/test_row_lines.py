"""A rejected row's line and text are found in its file, however rows are written there."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines.feeds.csv_files import read_csv
from kanonflow.pipelines.feeds.input_files import find_inputs
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.feeds.row_lines import CsvLines, MessageOrigins, lines_by_number
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.row_origins import RowOrigin

CELLS = ("a", 'x"y', '"x,y"', '"li\nne"', '"q""q"', " s", "", '"closed"tail', "é", '"\r\n"')


def odd_file(rng: random.Random, path: Path) -> list[str]:
    """A CSV file of odd rows, some of another width; its columns."""
    end, width = rng.choice(("\n", "\r\n", "\r")), rng.randint(1, 4)
    columns = [f"h{number}" for number in range(width)]
    text = ("\ufeff" if rng.random() < 0.2 else "") + end * rng.randint(0, 2) + ",".join(columns) + end
    for _ in range(rng.randint(0, 30)):
        cells = [rng.choice(CELLS) for _ in range(width if rng.random() < 0.8 else rng.randint(1, 5))]
        text += ",".join(cells) + end * rng.randint(1, 2)
    path.write_text(text, encoding="utf-8", newline="")
    return columns


@pytest.mark.parametrize("seed", range(40))
def test_the_lines_are_those_of_the_readers_rows(tmp_path: Path, seed: int) -> None:
    """Row by row: quotes over lines, empty lines, all ends of lines, rows of another width between them."""
    path = tmp_path / "a.csv"
    columns = odd_file(random.Random(seed), path)
    read = [
        cells
        for batch in read_csv(str(path), columns, CsvForm(delimiter=","))
        if batch.rows is not None
        for cells in zip(*[column.to_pylist() for column in batch.rows.columns], strict=True)
    ]
    lines = CsvLines(str(path), CsvForm(delimiter=","))
    found = lines.find(range(len(read) + 2))
    assert list(found) == list(range(len(read)))
    parsed = [next(csv.reader(io.StringIO(raw, newline="")), [""]) for _, raw in found.values()]
    assert [tuple(cells) for cells in parsed] == read
    assert lines_by_number(str(path), CsvForm(delimiter=","), {line for line, _ in found.values()})[
        1
    ] == dict(found.values())
    some = sorted(random.Random(seed).sample(range(len(read)), min(3, len(read))))
    for again in (lines, pickle.loads(pickle.dumps(lines))):
        assert [again.find([row]) for row in (*some, *some)] == [{row: found[row]} for row in (*some, *some)]


def test_batches_know_where_their_rows_are(tmp_path: Path) -> None:
    """Over many blocks, behind broken rows of both kinds, and in a gzip file."""
    lines = [b"id,text"] + [b"%d,%s" % (number, b"x" * 80) for number in range(2, 40_001)]
    for number in (700, 20_000, 39_000):
        lines[number - 1] = b"oops"
    for number in (900, 901, 30_000):
        lines[number - 1] = b"%d,\xff" % number
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    (file,) = find_inputs([str(tmp_path / "a.csv.gz")])
    told = 0
    broken = []
    for batch in read_batches(file, ("id", "text")):
        broken += batch.broken
        ids = [int(each) for each in from_ipc(batch.ipc).column("id").to_pylist()]
        if not ids:
            continue
        assert batch.origins is not None
        rows = [0, len(ids) // 2, len(ids) - 1]
        for row, origin in zip(rows, batch.origins.of(rows), strict=True):
            raw = lines[ids[row] - 1].decode()
            assert origin == RowOrigin("a.csv.gz", ids[row], raw, "id,text")
            told += 1
    assert told >= 9
    assert sorted((record["line"], record["raw"], record["header"]) for record in broken) == [
        (700, "oops", "id,text"),
        (900, "900,\ufffd", "id,text"),
        (901, "901,\ufffd", "id,text"),
        (20_000, "oops", "id,text"),
        (30_000, "30000,\ufffd", "id,text"),
        (39_000, "oops", "id,text"),
    ]
    assert {record["expected"] for record in broken} == {
        "2 values, as many as the header names",
        "UTF-8 text without the characters NUL and SUB",
    }


def test_a_file_that_is_gone_costs_the_line_only(tmp_path: Path) -> None:
    """The row is rejected all the same."""
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\n")
    (file,) = find_inputs([str(path)])
    (batch,) = read_batches(file, ("a",))
    path.unlink()
    assert batch.origins is not None
    assert batch.origins.of([1]) == [RowOrigin("a.csv", None)]


def test_rows_of_other_files_have_numbers(tmp_path: Path) -> None:
    """From 1, over all batches of the file."""
    pq.write_table(pa.table({"n": np.arange(150_000)}), tmp_path / "a.parquet", row_group_size=40_000)
    (file,) = find_inputs([str(tmp_path / "a.parquet")])
    batches = list(read_batches(file, ("n",)))
    assert len(batches) > 1
    for batch in batches:
        numbers = from_ipc(batch.ipc).column("n").to_pylist()
        assert batch.origins is not None
        assert batch.origins.of([0, len(numbers) - 1]) == [
            RowOrigin("a.parquet", numbers[0] + 1),
            RowOrigin("a.parquet", numbers[-1] + 1),
        ]


def test_messages_lead_back_by_offset() -> None:
    """With their text where they are text, whether they were rows or not."""
    origins = MessageOrigins("cards/3", [70, 71, 75], [0, 2], [b'{"a": 1}', b"\xff", None])
    assert origins.of([0, 1]) == [RowOrigin("cards/3/70", 70, '{"a": 1}'), RowOrigin("cards/3/75", 75)]
    assert origins.of_message(1) == RowOrigin("cards/3/71", 71, "\ufffd")
    assert MessageOrigins("cards/3", [70], [0]).of([0]) == [RowOrigin("cards/3/70", 70)]
