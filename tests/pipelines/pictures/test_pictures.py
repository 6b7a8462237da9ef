"""Pictures of a release say what it says, and nothing of a person."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.pages.pages import Paragraph
from kanonflow.pipelines.pictures.field_shapes import field_shapes
from kanonflow.pipelines.pictures.one_group import one_group
from kanonflow.pipelines.pictures.place_boxes import place_boxes
from kanonflow.pipelines.pictures.released_sample import released_sample
from kanonflow.pipelines.pictures.value_parts import are_parts, part_names, parts_of
from kanonflow.pipelines.terminal.table import Number, Table
from tests.pipelines.report.told_runs import record, release_schema, released_rows, write_avro

DRAW = random.Random(7)
COLUMNS: dict[str, pa.Array] = {
    "ages": pa.array([DRAW.randrange(17, 92) for _ in range(400)], pa.int32()),
    "incomes": pa.array(
        [Decimal(f"{DRAW.lognormvariate(10, 1):.2f}") for _ in range(400)], pa.decimal128(12, 2)
    ),
    "births": pa.array([dt.date(1930, 1, 1) + dt.timedelta(DRAW.randrange(27_000)) for _ in range(400)]),
    "days": pa.array([dt.date(2024, 1, 1) + dt.timedelta(DRAW.randrange(70)) for _ in range(400)]),
    "moments": pa.array(
        [
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=DRAW.randrange(40_000))
            for _ in range(400)
        ],
        pa.timestamp("us", "UTC"),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_parts_have_the_rows_that_lie_in_them(name: str) -> None:
    """Counted once more, row by row; edges are round and few, and the least and largest value stand nowhere."""
    values = COLUMNS[name].to_pylist()
    parts = parts_of(COLUMNS[name])
    assert parts is not None
    assert are_parts(parts)
    edges = [dt.date.fromisoformat(edge) if isinstance(edge, str) else edge for edge in parts["edges"]]
    as_days = [each.date() if isinstance(each, dt.datetime) else each for each in values]
    counted = Counter(sum(edge <= value for edge in edges) for value in as_days)
    assert parts["rows"] == [counted[place] for place in range(len(edges) + 1)]
    assert 3 <= len(edges) <= 13
    assert len(part_names(parts)) == len(parts["rows"])
    assert not {min(as_days), max(as_days)} & set(edges)
    if name == "births":
        assert all((each.month, each.day) == (1, 1) for each in edges)


def test_words_are_the_most_frequent_and_the_rest() -> None:
    """Truths are words; what cannot be drawn is not."""
    words = [word for number in range(14) for word in [f"w{number:02}"] * (20 - number)]
    assert parts_of(pa.array([*words, None])) == {
        "values": [f"w{number:02}" for number in range(9)],
        "rows": [*range(20, 11, -1), sum(range(7, 12))],
    }
    assert parts_of(pa.array([True, False, True])) == {"values": [True, False], "rows": [2, 1, 0]}
    for nothing in (
        pa.array([], pa.int64()),
        pa.array([5, 5, 5]),
        pa.array([dt.time(3)]),
        pa.array([float("nan")]),
    ):
        assert parts_of(nothing) is None


@pytest.mark.parametrize(
    "wrong", [None, {}, {"rows": [1]}, {"edges": [1], "rows": [1]}, {"edges": [[1]], "rows": [1, 2]}]
)
def test_what_are_no_parts_is_seen(wrong: Any) -> None:
    """A file may hold anything."""
    assert not are_parts(wrong)


@pytest.fixture
def release(tmp_path: Path) -> ReleasedTable:
    """101 boxes of all widths."""
    write_avro(tmp_path / "a.avro", release_schema(), released_rows(record("window", 0, DRAW), 101))
    table = released_sample(tmp_path).table
    assert table is not None
    return table


def exact(table: Table, column: str) -> list[float]:
    """Its numbers."""
    cells = [row[table.head.index(column)] for row in table.rows]
    return [cell.value for cell in cells if isinstance(cell, Number)]


def test_a_field_is_drawn_as_estimate_counts_it(release: ReleasedTable) -> None:
    """By parts of the input, the shares of the release are those of ``estimate``; what would have to move is told."""
    seen = {
        "age": {"edges": [40, 60], "rows": [50, 30, 20]},
        "city": {"values": ["city 0", "city 7"], "rows": [60, 10, 30]},
        "born": {"edges": ["1980-02-01"], "rows": [70, 30]},
    }
    figures = {figure.title.split(":")[0]: figure for figure in field_shapes(release, seen)}
    assert list(figures) == ["age", "born", "city"]
    asked = {
        "age": [0, 40, 60, 200],
        "born": ["1900-01-01", "1980-02-01", "2100-01-01"],
        "city": [
            "city 0",
            "city 7",
            tuple(f"city {number}" for number in range(101) if number not in (0, 7)),
        ],
    }
    for name, by in asked.items():
        with pytest.warns(UserWarning, match="wide"):
            values = release.estimate("count", by={name: by}).table.column("value").to_pylist()
        shares = exact(figures[name].table, "release")
        assert shares == pytest.approx([value / 101 for value in values], abs=1e-9)
        before = [rows / 100 for rows in seen[name]["rows"]]
        assert exact(figures[name].table, "input") == pytest.approx(before)
        moved = sum(abs(one - other) for one, other in zip(before, shares, strict=True)) / 2
        assert figures[name].title == f"{name}: {moved:.1%} of the rows would have to move"


def test_without_the_input_a_field_is_drawn_by_the_release(release: ReleasedTable) -> None:
    """In parts of its own, and nothing is said to move."""
    figures = list(field_shapes(release, {}))
    assert [figure.title for figure in figures] == ["age", "born", "city"]
    for figure in figures:
        assert figure.table.head[1:] == ("release",)
        assert sum(exact(figure.table, "release")) == pytest.approx(1)


def test_numbers_that_are_categories_are_drawn_by_the_release(release: ReleasedTable) -> None:
    """A field whose input has edges and whose release has sets, or the other way round."""
    seen = {"city": {"edges": [3.0], "rows": [1, 2]}, "age": {"values": [30], "rows": [1, 2]}}
    assert {figure.title for figure in field_shapes(release, seen)} == {"age", "born", "city"}
    assert part_names({"values": [3, True], "rows": [1, 2, 3]}) == ["3", "true", "others"]


def ranges(names: dict[str, list[tuple[float, float]]]) -> ReleasedTable:
    """A release of ranges of doubles."""
    schema = release_schema()
    age = next(field for field in schema["fields"] if field["name"] == "age")
    kinds = [
        {"name": name, "kanonflow": {"role": "quasi", "type": "numeric"}}
        | {"type": {**age["type"], "name": f"range_{number}", "fields": _doubles(age["type"]["fields"])}}
        for number, name in enumerate(names)
    ]
    rows = [
        {"release_id": "a", "window_start": None, "window_end": None}
        | {name: {"min": ends[at][0], "max": ends[at][1], "nulls": False} for name, ends in names.items()}
        for at in range(len(next(iter(names.values()))))
    ]
    schema = schema | {"fields": [*schema["fields"][:3], *kinds]}
    from kanonflow.pipelines.analysis.released_fields import release_form

    form = release_form(schema, with_epoch=False)
    return ReleasedTable(pa.Table.from_pylist(rows, schema=form.arrow), form)


def _doubles(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [field | {"type": ["null", "double"]} if field["name"] != "nulls" else field for field in fields]


def test_boxes_of_a_map_lie_with_north_up() -> None:
    """By the names of the fields, whatever is narrower; equal boxes are one, with its rows."""
    wide, narrow = [(6.0, 9.0), (6.0, 9.0), (7.0, 14.0)], [(0.0, 1.0), (0.0, 1.0), (9.0, 10.0)]
    (figure,) = place_boxes(ranges({"home_latitude": wide, "income": narrow, "home_longitude": wide}))
    assert figure.title == "home_latitude over home_longitude"
    assert [[cell.value for cell in row if isinstance(cell, Number)] for row in figure.table.rows] == [
        [6, 9, 6, 9, 2],
        [7, 14, 7, 14, 1],
    ]
    (figure,) = place_boxes(ranges({"a": wide, "b": narrow, "c": narrow}))
    assert figure.title == "c over b"
    assert not list(place_boxes(ranges({"a": wide})))


def test_one_group_shows_invented_people_in_its_box(release: ReleasedTable) -> None:
    """Rows of the release as they are; before them people who lie in the box, the same each time."""
    words, before, after = one_group(release)
    assert isinstance(words, Paragraph)
    assert "invented" in words.text
    assert isinstance(before, Table)
    assert isinstance(after, Table)
    assert before.head == after.head == ("age", "born", "city", "amount")
    assert list(one_group(release)) == [words, before, after]
    for person, row in zip(before.rows, after.rows, strict=True):
        low, high = _ends(str(row[0]))
        assert low <= int(str(person[0])) <= high
        assert str(person[2]) in str(row[2]).split("|")
        assert person[3] == row[3]


def _ends(label: str) -> tuple[int, int]:
    ends = [int(end) for end in label.strip("[]").split(", ")]
    return ends[0], ends[-1]


def test_edges_ascend() -> None:
    """Whatever is drawn."""
    for column in COLUMNS.values():
        parts = parts_of(column)
        assert parts is not None
        assert all(one < other for one, other in pairwise(parts["edges"]))
