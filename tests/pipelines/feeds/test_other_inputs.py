"""JSON lines, workbooks, records within records, standard input and numbered headers: by the run's reader and the
audit's own one, which share no code, and through the whole of draft, check, anonymize and verify."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines.audit.read.read_input import find_input
from kanonflow.pipelines.audit.read.rows_as_text import json_rows, sheet_rows
from kanonflow.pipelines.audit.read.text_rows import BROKEN, text_rows
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.draft import draft_from_input
from kanonflow.pipelines.feeds.arrived_file import as_input
from kanonflow.pipelines.feeds.directory_listing import look_at
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.feeds.standard_input import spooled
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import from_ipc

PLAIN, NUMBERED = CsvForm(), CsvForm(header="numbered")


def run_cells(
    path: Path, names: list[str], form: CsvForm, attributes: list[str]
) -> tuple[list[list[str]], int]:
    """The rows as the run reads them, "" for null, and how many are none."""
    rows: list[list[str]] = []
    broken = 0
    (file,) = find_inputs([str(path)])
    for batch in read_batches(file, names, form, attributes):
        table = from_ipc(batch.ipc)
        rows += [[row[name] or "" for name in names] for row in table.to_pylist()]
        broken += len(batch.broken)
    return rows, broken


class Line(NamedTuple):
    """json: a line. cells: of a, b.c and d as both readers say; None: it is no row. marked: the same where a is an
    attribute of cohorts that last."""

    json: bytes
    cells: list[str] | None
    marked: list[str] | None = None


LINES = {
    "flat": Line(b'{"a": "x", "b.c": "y", "d": null}', ["x", "y", ""]),
    "within": Line(b'{"b": {"c": "y"}, "a": true}', ["true", "y", ""]),
    "a name with a point goes first": Line(b'{"b": {"c": "y"}, "b.c": "z"}', ["", "z", ""]),
    "null above": Line(b'{"a": "", "b": null}', ["", "", ""]),
    "numbers": Line(b'{"a": 1.50, "b": {"c": -0}, "d": 1e2}', ["1.5", "0", "100"]),
    "all digits": Line(
        b'{"a": 12345678901234567890, "d": 0.1000000000000000055511151231257827}',
        ["12345678901234567890", "", "0.1000000000000000055511151231257827"],
    ),
    "far exponents": Line(b'{"a": 1E400, "d": 1e-7}', ["1E400", "", "0.0000001"]),
    "a later one counts": Line(b'{"a": 1, "a": 2}', ["2", "", ""]),
    "escapes": Line(b'{"a": "\\u00e9\\n"}', ["\u00e9\n", "", ""]),
    "a list elsewhere": Line(b'{"z": [1], "a": 1}', ["1", "", ""]),
    "a list": Line(b'{"a": [1], "d": 1}', None, ["\x1a", "", "1"]),
    "an object": Line(b'{"a": {"z": 1}, "d": 1}', None, ["\x1a", "", "1"]),
    "NaN": Line(b'{"a": NaN, "d": 1}', None, ["\x1a", "", "1"]),
    "NUL": Line(b'{"a": "\\u0000", "d": 1}', None, ["\x1a", "", "1"]),
    "half a pair": Line(b'{"a": "\\ud800", "d": 1}', None, ["\x1a", "", "1"]),
    "not UTF-8": Line(b'{"a": "\xff", "d": 1}', None, ["\x1a", "", "1"]),
    "no text in another": Line(b'{"a": 1, "d": "\\u001a"}', None, None),
    "no JSON": Line(b'{"a": 1', None),
    "no object": Line(b"[1]", None),
    "too deep": Line(b"[" * 100_000, None),
    "a text": Line(b'"a"', None),
}


@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_json_are_the_same_to_both_readers(tmp_path: Path, packed: bool) -> None:
    """Each as the table says, with blank lines and a byte order mark between; gzip changes nothing."""
    data = b"\xef\xbb\xbf" + b"\r\n \n".join(line.json for line in LINES.values())
    path = tmp_path / ("rows.ndjson.gz" if packed else "rows.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    names = ["a", "b.c", "d"]
    for attributes in ([], ["a"]):
        cells = [line.cells if line.cells or not attributes else line.marked for line in LINES.values()]
        whole = [each for each in cells if each is not None]
        assert run_cells(path, names, PLAIN, attributes) == (whole, len(cells) - len(whole))
        own = list(json_rows(path, names, attributes))
        assert [None if row is BROKEN else row for row in own] == cells


def test_columns_of_json_are_the_paths_of_all_lines_to_both_readers(tmp_path: Path) -> None:
    """Also where a file lacks some; a list alone is of lists; what is null above others is no column."""
    (tmp_path / "a.jsonl").write_text('{"x": {"y": 1, "z": null}, "l": [1], "n": null, "e": {}}\nno\n')
    # Of no column is a name that nobody can write.
    (tmp_path / "b.jsonl").write_text(
        '{"\\ud800": 1, "x": {"\\udfff": {"q": 2}}}\n{"x": null, "m": [1], "w": {"v": {"u": "1"}}}\n{"m": 3}\n'
    )
    files = [str(tmp_path / "?.jsonl")]
    columns = input_schema(find_inputs(files)).columns
    text, lists = pa.string(), pa.list_(pa.string())
    expected = {
        "x.y": text,
        "x.z": pa.null(),
        "l": lists,
        "n": pa.null(),
        "e": pa.null(),
        "m": text,
        "w.v.u": text,
    }
    assert dict(zip(columns.names, columns.types, strict=True)) == expected
    audited = find_input(files, PLAIN).schema
    assert dict(zip(audited.names, audited.types, strict=True)) == expected
    (tmp_path / "c.jsonl").write_text("no\n")
    for find in (lambda path: input_schema(find_inputs([path])), lambda path: find_input([path], PLAIN)):
        with pytest.raises(InputError, match="no line is a JSON object"):
            find(str(tmp_path / "c.jsonl"))


def test_damaged_gzip_of_json_is_an_error_behind_its_whole_rows(tmp_path: Path) -> None:
    """And the rows before it are handed on."""
    data = gzip.compress(os.urandom(64).hex().encode().join([b'{"a": "', b'"}\n']) * 9_000, 1)
    (tmp_path / "a.jsonl.gz").write_bytes(data[: len(data) // 2])
    (file,) = find_inputs([str(tmp_path / "a.jsonl.gz")])
    rows = 0
    with pytest.raises(InputError, match="damaged or cut off"):  # noqa: PT012
        for batch in read_batches(file, ["a"]):
            rows += from_ipc(batch.ipc).num_rows
    assert rows > 1_000
    with pytest.raises(InputError, match="damaged or cut off"):
        list(json_rows(tmp_path / "a.jsonl.gz", ["a"], []))


SHEET: list[tuple[list[Any], list[str] | None]] = [
    (["x", 1, 2.0, True, None], ["x", "1", "2", "true", ""]),
    ([None, None, None, None, None], []),
    ([" x ", -0.5, 1e20, False, "#N/A"], [" x ", "-0.5", "100000000000000000000", "false", "#N/A"]),
    (["", 0.1, 1 / 3, 12345678901, "a\nb"], ["", "0.1", "0.3333333333333333", "12345678901", "a\nb"]),
    (
        [
            datetime(2020, 1, 2),
            date(1999, 12, 31),
            datetime(2020, 1, 2, 3, 4, 5),
            time(3, 4),
            timedelta(hours=30),
        ],
        ["2020-01-02", "1999-12-31", "2020-01-02 03:04:05", "03:04:00", "1 day, 6:00:00"],
    ),
    (["short"], ["short", "", "", "", ""]),
    ([1, 2, 3, 4, 5, "beyond"], None),
]


def sheet(path: Path, rows: list[list[Any]]) -> Path:
    """A workbook whose second sheet nobody reads."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(["z"])
    book.save(path)
    return path


def test_cells_of_a_workbook_are_the_same_to_both_readers(tmp_path: Path) -> None:
    """Of each type that a cell has; blank rows say nothing, a cell behind the header breaks its row."""
    names = ["a", "b", "c", "d", "e"]
    path = sheet(tmp_path / "a.xlsx", [[], names, *(row for row, _ in SHEET)])
    expected = [cells for _, cells in SHEET if cells != []]
    whole = [cells for cells in expected if cells is not None]
    assert run_cells(path, names, PLAIN, []) == (whole, len(expected) - len(whole))
    assert [None if row is BROKEN else row for row in sheet_rows(path, PLAIN)] == [names, *expected]


@pytest.mark.parametrize(
    ("data", "error"),
    [(b"PK\3\4no", "not a workbook"), (b"a,b\n", "not a workbook"), (None, "sheet of the workbook is empty")],
)
def test_what_is_no_workbook_is_said(tmp_path: Path, data: bytes | None, error: str) -> None:
    """By both readers."""
    path = tmp_path / "a.xlsx"
    if data is None:
        sheet(path, [])
    else:
        path.write_bytes(data)
    with pytest.raises(InputError, match=error):
        input_schema(find_inputs([str(path)]))
    with pytest.raises(InputError, match=error):
        find_input([str(path)], PLAIN)


@pytest.mark.parametrize("number", [str(10**12), "1048577"])
def test_a_workbook_that_numbers_a_row_beyond_the_last_is_refused(tmp_path: Path, number: str) -> None:
    """The rows before it would be made, each as a blank one, for days."""
    whole, path = sheet(tmp_path / "whole.xlsx", [["a"], [1], [2]]), tmp_path / "a.xlsx"
    with zipfile.ZipFile(whole) as given, zipfile.ZipFile(path, "w") as changed:
        for part in given.namelist():
            data = given.read(part)
            changed.writestr(
                part, data.replace(b'r="3"', f'r="{number}"'.encode()).replace(b"A3", b"A" + number.encode())
            )
    with pytest.raises(InputError, match="row's number is beyond 1,048,576"):
        run_cells(path, ["a"], PLAIN, [])
    with pytest.raises(InputError, match="more than 1,048,576 rows"):
        list(sheet_rows(path, PLAIN))


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b,a,\n1,2,3,\n4,5\n", ["a", "b", "a_3", "column_4"], [["1", "2", "3", ""]]),
        ("a,b\n1,2,\n3,4\n", ["a", "b", "column_3"], [["1", "2", ""]]),
        ("a,b\n1,2\n3,4,\n", ["a", "b"], [["1", "2"]]),
        ("a_2,a,a\n1,2,3\n", ["a_2", "a", "a_3"], [["1", "2", "3"]]),
        ("a,a_2,a_3,a,a_4\n", ["a", "a_2", "a_3", "a_4_", "a_4"], []),
        ('\ufeff\n"a\n,""b",,a\r\n1,2,3\r\n', ['a\n,"b', "column_2", "a"], [["1", "2", "3"]]),
        ("a,a\r1,2\r3,4\r", ["a", "a_2"], [["1", "2"], ["3", "4"]]),
        ("a,a", ["a", "a_2"], []),
    ],
)
def test_numbered_headers_are_the_same_to_both_readers(
    tmp_path: Path, text: str, names: list[str], rows: list[list[str]]
) -> None:
    """Equal names, none, and rows that end with a delimiter."""
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    assert input_schema(find_inputs([str(path)]), NUMBERED).columns.names == names
    assert run_cells(path, names, NUMBERED, [])[0] == rows
    own = list(text_rows(path, NUMBERED))
    assert own[0] == names
    assert [row for row in own[1:] if row is not BROKEN] == rows


def feed(rows: int = 240) -> Iterator[dict[str, Any]]:
    """People with a birth and a town, and what they paid on three days."""
    rng = np.random.default_rng(3)
    for n in range(rows):
        who = int(rng.integers(60))
        yield {
            "id": n,
            "at": datetime(2024, 3, 1 + n % 3, n % 24, tzinfo=UTC),
            "customer": {
                "no": UUID(int=who + 1),
                "birth": date(1940 + who, 1 + who % 12, 1 + who % 28),
                "home": None if who % 10 == 0 else {"town": f"Stra\u00dfe {who % 7}", "lat": 50 + who / 7},
            },
            "pay": {"amount": int(rng.integers(90)) / 4, "tags": ["a"]},
        }


POLICY = """version: 1
name: nested
k: 3
window: 1d
max_delay: 3d
cohort: window
solver: {evaluations_per_row: 20, threads: 1}
fields:
  id: {role: identifier}
  at: {role: time}
  customer.no: {role: individual, as: string}
  customer.birth: {role: quasi, type: date}
  customer.home.town: {role: quasi, type: categorical}
  customer.home.lat: {role: identifier}
  pay.amount: {role: sensitive, as: double}
"""


def as_json(value: Any) -> str:
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def flat(record: dict[str, Any]) -> list[Any]:
    """The cells that the policy names, and the list."""
    home = record["customer"]["home"] or {"town": None, "lat": None}
    return [
        *(record["id"], record["at"].replace(tzinfo=None), str(record["customer"]["no"])),
        *(record["customer"]["birth"], home["town"], home["lat"], record["pay"]["amount"], "a"),
    ]


NAMES = [
    "id",
    "at",
    "customer.no",
    "customer.birth",
    "customer.home.town",
    "customer.home.lat",
    "pay.amount",
    "pay.tags",
]


def record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def written(folder: Path, kind: str) -> Path:
    """The feed as a file of a kind."""
    path, records = folder / f"feed.{kind}", list(feed())
    match kind:
        case "jsonl":
            path.write_text("".join(f"{json.dumps(each, default=as_json)}\n" for each in records))
        case "jsonl.gz":
            path.write_bytes(gzip.compress(written(folder, "jsonl").read_bytes()))
        case "xlsx":
            sheet(path, [NAMES, *map(flat, records)])
        case "csv":
            cells = [["" if cell is None else str(cell) for cell in flat(record)] for record in records]
            path.write_text("\n".join(",".join(row) for row in [NAMES, *cells]) + "\n")
        case "parquet":
            texts = [
                {**each, "customer": {**each["customer"], "no": str(each["customer"]["no"])}}
                for each in records
            ]
            pq.write_table(pa.Table.from_pylist(texts), path)
        case "avro":
            town = [{"name": "town", "type": "string"}, {"name": "lat", "type": "double"}]
            customer = [
                {"name": "no", "type": {"type": "string", "logicalType": "uuid"}},
                {"name": "birth", "type": {"type": "int", "logicalType": "date"}},
                {"name": "home", "type": ["null", record("home", town)]},
            ]
            tags = {"type": "array", "items": "string"}
            pay = [{"name": "amount", "type": "double"}, {"name": "tags", "type": tags}]
            fields = [
                {"name": "id", "type": "long"},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "customer", "type": record("customer", customer)},
                {"name": "pay", "type": record("pay", pay)},
            ]
            with path.open("wb") as stream:
                fastavro.writer(stream, fastavro.parse_schema(record("r", fields)), records)
    return path


KINDS = ["jsonl", "jsonl.gz", "xlsx", "csv", "parquet", "avro"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_nested_feed_is_released_and_audited_in_full(tmp_path: Path, kind: str) -> None:
    """Check, anonymize and verify under one policy that names fields by their paths, whatever the file."""
    path, policy, out = written(tmp_path, kind), tmp_path / "policy.yaml", tmp_path / "out"
    policy.write_text(POLICY + "  pay.tags: {role: identifier}\n")
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    (tmp_path / "secret").chmod(0o600)
    secret = ["--secret-file", str(tmp_path / "secret")]
    both = ["--policy", str(policy), "--input", str(path)]
    assert main(["policy", "check", *both[1:]]) == 0
    assert main(["anonymize", *both, "--output", str(out), "--matching-records", *secret]) == 0
    assert main(["verify", *both, "--release", str(out), "--matching-records", *secret]) == 0
    released, rejected = (
        [row for file in sorted((out / place).glob("*.avro")) for row in fastavro.reader(file.open("rb"))]
        for place in ("release", "restricted/rejected")
    )
    paid = [row["pay_amount"] for row in released] + [float(each["row"]["pay.amount"]) for each in rejected]
    assert sorted(paid) == sorted(each["pay"]["amount"] for each in feed())
    towns = {town for row in released for town in row["customer_home_town"]}
    assert towns == {None, *(f"Stra\u00dfe {n}" for n in range(7))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_nested_feed_gives_a_draft(tmp_path: Path, kind: str) -> None:
    """Fields by their paths, with the same roles and types whatever the file; lists are identifiers."""
    text = draft_from_input([str(written(tmp_path, kind))], answered=True)
    for line in (
        "customer.no: {role: individual",
        "customer.birth: {role: quasi, type: date",
        "customer.home.town: {role: quasi, type: categorical",
        "pay.tags: {role: ",
    ):
        assert line in text.replace('"', ""), text
    assert kind in ("xlsx", "csv") or "pay.tags: {role: identifier}" in text.replace('"', "")


def test_lines_that_are_none_are_rejected_and_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their number, as they came; the other rows are released, and the audit counts as many."""
    path, policy, out = written(tmp_path, "jsonl"), tmp_path / "policy.yaml", tmp_path / "out"
    lines = path.read_text().splitlines()
    bad = ['{"id": 1, "pay"', '{"id": 2, "at": [1]}', lines[9].replace('"birth": "', '"birth": "x')]
    path.write_text("\n".join([*lines[:5], bad[0], *lines[5:9], bad[2], *lines[10:], bad[1]]) + "\n")
    policy.write_text(POLICY + "others: drop\n")
    both = ["--policy", str(policy), "--input", str(path)]
    assert main(["anonymize", *both, "--output", str(out)]) == 0
    assert main(["verify", *both, "--release", str(out)]) == 0
    assert main(["rejected", str(out), "--policy", str(policy), "--to", str(tmp_path / "bad.jsonl")]) == 0
    assert sorted((tmp_path / "bad.jsonl").read_text().splitlines()) == sorted(bad)
    assert "feed.jsonl:6,242" in capsys.readouterr().out or main(["rejected", str(out)]) == 0


def test_a_file_of_json_may_lack_fields_of_the_feed(tmp_path: Path) -> None:
    """Of a directory that files arrive in: what none of its objects has is null, a nested value is no misfit."""
    quasi = {"role": "quasi", "type": "numeric", "as": "int"}
    fields = {"q": quasi, "x": {"role": "insensitive"}, "i": {"role": "identifier"}}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "t", "t")
    bound = bind(policy, pa.schema([(name, pa.string()) for name in fields]), text=True, csv=True, source="t")
    (tmp_path / "a.jsonl").write_text('{"q": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"q": 1, "y": 1}\n')
    assert as_input(look_at(str(tmp_path), "a.jsonl"), bound, PLAIN).name == "a.jsonl"  # type: ignore[arg-type]
    with pytest.raises(InputError, match="without a role: y"):
        as_input(look_at(str(tmp_path), "b.jsonl"), bound, PLAIN)  # type: ignore[arg-type]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What stands in standard input."""

    def put(data: bytes) -> None:
        spooled.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    yield put
    spooled.cache_clear()


def test_standard_input_is_drafted_checked_and_anonymized(
    tmp_path: Path, piped: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reads it once into a private file; CSV unless it is said otherwise. An audit does not take it."""
    policy, out = tmp_path / "policy.yaml", tmp_path / "out"
    csv, lines = written(tmp_path, "csv").read_bytes(), written(tmp_path, "jsonl").read_bytes()
    policy.write_text(POLICY + "  pay.tags: {role: identifier}\n")
    piped(csv)
    assert main(["policy", "draft", "--input", "-"]) == 0
    assert "name: stdin" in capsys.readouterr().out
    assert os.stat(spooled()).st_mode & 0o777 == 0o600
    piped(gzip.compress(lines))
    assert main(["policy", "check", str(policy), "--input", "-", "--input-format", "json"]) == 0
    piped(csv)
    assert main(["anonymize", "--policy", str(policy), "--input", "-", "--output", str(out)]) == 0
    (tmp_path / "feed").write_bytes(csv)
    verify = ["verify", "--policy", str(policy), "--release", str(out), "--input"]
    assert main([*verify, str(tmp_path / "feed.csv")]) == 0
    assert main([*verify, "-"]) == 2
    assert "name the file that holds them" in capsys.readouterr().err
    with pytest.raises(InputError, match="by itself"):
        find_inputs(["-", str(tmp_path / "feed.csv")])


def test_draft_proposes_a_numbered_header(tmp_path: Path) -> None:
    """Of equal names, and of rows that end with a delimiter; a file without rows is said to be one."""
    path = tmp_path / "a.csv"
    for header, more in (("who;mail;mail", ""), ("who;mail;pay;", ";"), ("who;mail;pay", ";")):
        rows = [f"{n % 60};u{n % 60}@x.org;{n % 7}{more}" for n in range(300)]
        path.write_text("\n".join([header, *rows]) + "\n")
        text = draft_from_input([str(path)], answered=True)
        assert 'header: "numbered"' in text, text
        (tmp_path / "p.yaml").write_text(text)
        assert find_inputs([str(path)])
        names = input_schema(find_inputs([str(path)]), NUMBERED).columns.names
        assert all(f"  {name}: {{role" in text for name in names), text
    path.write_text("who;mail\n")
    with pytest.raises(InputError, match="columns, and no row"):
        draft_from_input([str(path)])
