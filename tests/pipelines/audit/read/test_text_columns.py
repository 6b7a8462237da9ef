"""Columns of a CSV file, block by block: the cells of Python's csv module, whatever the blocks."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.read import text_columns as module
from kanonflow.pipelines.audit.read.text_columns import no_text, plain_cells, text_columns
from kanonflow.pipelines.audit.read.text_rows import BROKEN, text_rows
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_inputs import NO_VALUE

PLAIN = CsvForm(delimiter=",")
PIECES = [
    b"1",
    b",",
    b",",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b'"',
    b'"x"',
    b'""',
    "\u00fc".encode(),
    b"\xff",
    b"\0",
    b" ",
]
LINES = [
    b"1,2\n",
    b'"1,1",2\n',
    b'1,""\n',
    b",\n",
    b'"1""1",2\n',
    b'"1\n1",2\n',
    b"1\n",
    b"\n",
    b"1,2\r\n",
    b"\x1a,2\n",
]


def by_rows(path: Path, form: CsvForm = PLAIN) -> tuple[list[list[str]], int]:
    """What the csv module reads, row by row."""
    _, *rows = text_rows(path, form)
    whole = [row for row in rows if row is not BROKEN and not no_text(row)]
    return whole, len(rows) - len(whole)


def by_columns(
    path: Path, form: CsvForm = PLAIN, lenient: tuple[str, ...] = ()
) -> tuple[list[list[str]], int]:
    """The same, column by column."""
    chunks = list(text_columns(path, form, next(text_rows(path, form)), lenient))
    rows = [
        list(row) for cells, _ in chunks for row in zip(*(each.to_pylist() for each in cells), strict=True)
    ]
    return rows, sum(broken for _, broken in chunks)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(PIECES) | st.sampled_from(LINES), max_size=30),
    st.sampled_from([4, 9, 40, 2**20]),
)
@example([b'"1\n', b"1,2\n", b"1,2\n", b'1"x,2\n', b"1,2\n"], 4)
@example([b"1,2\n", b"1,2\r3,4\n", b"1,2"], 9)
def test_columns_say_what_rows_say(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int
) -> None:
    """Quotes, line ends and widths of all kinds, where blocks end anywhere."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(b"a,b\n" + b"".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert by_columns(path) == by_rows(path)


@pytest.mark.parametrize("width", [1, 3])
def test_other_widths_and_forms_say_what_rows_say(tmp_path: Path, width: int) -> None:
    """One column, in which an empty line is no row; a header behind empty lines and a byte order mark; gzip; UTF-16."""
    header, row = ";".join("abc"[:width]), ";".join(["1", "'2;2'", ""][:width])
    text = f"\n\n{header}\n{row}\n\n{row}\n'{row.replace(chr(39), '')}'\n"
    form = CsvForm(delimiter=";", quote="'")
    for number, data in enumerate([text.encode(), text.encode("utf-8-sig"), gzip.compress(text.encode())]):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(data)
        assert by_columns(path, form) == by_rows(path, form) != ([], 0)
    path.write_bytes(text.encode("utf-16"))
    wide = CsvForm(delimiter=";", quote="'", encoding="utf-16")
    assert by_columns(path, wide) == by_rows(path, wide) != ([], 0)


def test_a_block_behind_one_that_is_not_plain_is_cut_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad row makes no file slow."""
    monkeypatch.setattr(module, "_BLOCK", 1_000)
    rows = [b"1,2\n"] * 2_000
    rows[700] = b"1,2,3\n"
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n" + b"".join(rows))
    plain: list[bool] = []

    def watched(*arguments: object) -> object:
        cells = plain_cells(*arguments)  # type: ignore[arg-type]
        plain.append(cells is not None)
        return cells

    monkeypatch.setattr(module, "plain_cells", watched)
    assert by_columns(path) == ([["1", "2"]] * 1_999, 1)
    assert plain.count(False) == 1
    assert plain[-1]


@pytest.mark.parametrize("block", [b"1,2\n3,4", b"1,2", b"1,", b'1,2\n"3\n', b""])
def test_a_block_that_ends_within_a_row_is_not_plain(block: bytes) -> None:
    """Whoever cuts a file hands on whole lines; of others nothing is written behind what is there for it."""
    assert plain_cells(block, CsvForm(), 2, [0, 1]) is None


def test_of_attributes_a_cell_that_is_no_text_is_no_value(tmp_path: Path) -> None:
    """Of any other field its row is none."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n\xff,1\n2,\xff\n")
    assert by_columns(path, lenient=("a",)) == ([[NO_VALUE, "1"]], 1)
