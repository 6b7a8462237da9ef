"""One value a cell: what ranges and sets become, and that they can be told apart again."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.analysis.flat_columns import flat_table, split_range, split_set
from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, release_form
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.errors import InputError
from tests.made_releases import AWKWARD, QUASIS, Made, made

RANGES = ("age", "height", "weight", "income", "born", "seen")
SETS = ("gender", "kids", "smoker")


def laid_flat(release: Made, form: str = "columns") -> dict[str, list[Any]]:
    """The columns of a flat release."""
    fields = release_form(release_avro_schema(release.bound), with_epoch=False).fields
    return flat_table(release.released, fields, form).to_pydict()


@pytest.mark.parametrize("seed", range(5))
def test_ends_nulls_and_what_is_exact_stay_what_they_are(seed: int) -> None:
    """Of every type; a null is a null and an empty text an empty text."""
    release = made(seed, lasting=True)
    flat, nested = laid_flat(release), release.released.to_pydict()
    for name in RANGES:
        for part in ("min", "max", "nulls"):
            assert flat[f"{name}_{part}"] == [cell[part] for cell in nested[name]]
    kept = [name for name in nested if name not in (*RANGES, *SETS)]
    assert kept[0] == "release_id"
    assert "class_id" in kept
    assert {name: flat[name] for name in kept} == {name: nested[name] for name in kept}
    assert None in flat["note"]
    assert "" in flat["note"]
    assert len(flat) == len(nested) + 3 * len(RANGES)


@pytest.mark.parametrize("seed", range(5))
def test_sets_can_be_told_apart_again(seed: int) -> None:
    """With separators, backslashes, the sign for nothing and the empty text among the categories."""
    release = made(seed, 60, nulls=0.3)
    flat, nested = laid_flat(release), release.released.to_pydict()
    for name in SETS:
        texts = [[_text(member) for member in cell] for cell in nested[name]]
        assert [split_set(cell) for cell in flat[name]] == texts


def test_no_two_sets_have_one_text() -> None:
    """All sets of up to three of the most awkward members there are, in each order."""
    signs = [None, "", "\\", "|", "\\N", "N", "\\|", "a"]
    sets: list[list[str | None]] = [[a] for a in signs]
    sets += [[a, b] for a in signs for b in signs if a != b]
    sets += [[a, b, c] for a in signs for b in signs for c in signs if len({a, b, c}) == 3]
    column = pa.array(sets, pa.list_(pa.string()))
    field = ReleasedField("x", Kind.SET, pa.string())
    texts = flat_table(pa.table({"x": column}), [field]).column("x").to_pylist()
    assert [split_set(text) for text in texts] == sets
    assert len(set(texts)) == len(sets)
    sliced = flat_table(pa.table({"x": column.slice(7, 90)}), [field]).column("x").to_pylist()
    assert sliced == texts[7:97]


def test_an_empty_set_is_damage() -> None:
    """There is none in a release, and its text would be that of the empty text."""
    column = pa.array([["a"], []], pa.list_(pa.string()))
    with pytest.raises(InputError, match="field x: an empty set"):
        flat_table(pa.table({"x": column}), [ReleasedField("x", Kind.SET, pa.string())])


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_ranges_say_all_of_them(seed: int) -> None:
    """Closed at both ends, for every type, with what stands for missing values."""
    release = made(seed, 60, nulls=0.5)
    flat, nested = laid_flat(release, "label"), release.released
    seen = set()
    for name in RANGES:
        kind = nested.schema.field(name).type.field("min").type
        for label, cell in zip(flat[name], nested.column(name).to_pylist(), strict=True):
            low, high, nulls = split_range(label)
            ends = [None if end is None else pa.scalar(end).cast(kind).as_py() for end in (low, high)]
            assert (*ends, nulls) == (cell["min"], cell["max"], cell["nulls"])
            seen.add((low is None, nulls))
    assert seen == {(False, False), (False, True), (True, True)}
    assert list(flat) == nested.schema.names


def test_a_label_is_what_a_person_expects() -> None:
    """Whole numbers, days, money; and what is no label is refused."""
    schema = release_avro_schema(made(0).bound)
    fields = [f for f in release_form(schema).fields if f.name in ("age", "born", "income")]
    cells = {
        "age": [{"min": 20, "max": 30, "nulls": False}, {"min": None, "max": None, "nulls": True}],
        "income": [{"min": Decimal("0.50"), "max": Decimal("9.00"), "nulls": True}] * 2,
        "born": [{"min": dt.date(1980, 1, 1), "max": dt.date(1984, 12, 31), "nulls": False}] * 2,
    }
    table = pa.table({f.name: pa.array(cells[f.name], _range(f)) for f in fields})
    flat = flat_table(table, fields, "label").to_pydict()
    assert flat == {
        "age": ["[20, 30]", "\\N"],
        "income": ["[0.50, 9.00]|\\N"] * 2,
        "born": ["[1980-01-01, 1984-12-31]"] * 2,
    }
    with pytest.raises(InputError, match="no label of a range"):
        split_range("[20, 30)")


def test_middles() -> None:
    """Of numbers halfway, of days and instants the one at or before; of a point the point; beyond the doubles' width
    finite; of nothing nothing."""
    numbers = [ReleasedField("x", Kind.RANGE, pa.float64())]
    cells = [(1.1, 1.1), (0.0, 1.0), (-1.7e308, 1.7e308), (None, None)]
    flat = flat_table(pa.table({"x": _ranges(cells, pa.float64())}), numbers, "mid").to_pydict()
    assert flat == {"x": [1.1, 0.5, 0.0, None]}
    days = [ReleasedField("x", Kind.RANGE, pa.date32())]
    cells = [(dt.date(1969, 12, 28), dt.date(1969, 12, 31)), (dt.date(2024, 2, 29), dt.date(2024, 2, 29))]
    flat = flat_table(pa.table({"x": _ranges(cells, pa.date32())}), days, "mid").to_pydict()
    assert flat == {"x": [dt.date(1969, 12, 29), dt.date(2024, 2, 29)]}
    money = [ReleasedField("x", Kind.RANGE, pa.decimal128(9, 2))]
    cells = [(Decimal("0.01"), Decimal("0.02"))]
    flat = flat_table(pa.table({"x": _ranges(cells, pa.decimal128(9, 2))}), money, "mid").to_pydict()
    assert flat == {"x": [0.015]}


def test_names_that_meet_are_refused_by_name() -> None:
    """``born`` as ranges beside a payload ``born_min``; as labels they do not meet."""
    fields = [
        ReleasedField("born", Kind.RANGE, pa.int32()),
        ReleasedField("born_min", Kind.EXACT, pa.int32()),
    ]
    table = pa.table({"born": _ranges([(1, 2)], pa.int32()), "born_min": pa.array([9], pa.int32())})
    with pytest.raises(InputError, match="born and born_min would both have a column born_min"):
        flat_table(table, fields)
    assert flat_table(table, fields, "label").to_pydict() == {"born": ["[1, 2]"], "born_min": [9]}
    with pytest.raises(InputError, match="none of columns, label, mid"):
        flat_table(table, fields, "wide")


def test_the_awkward_categories_are_there() -> None:
    """Else the tests above show nothing."""
    cells = made(1, 60).released.column("gender").to_pylist()
    assert {member for cell in cells for member in cell} >= {*AWKWARD, None}
    assert len(QUASIS) == len(RANGES) + len(SETS) + 1


def _text(member: Any) -> Any:
    return str(member).lower() if isinstance(member, bool) else None if member is None else str(member)


def _range(field: ReleasedField) -> pa.DataType:
    return pa.struct([("min", field.value), ("max", field.value), ("nulls", pa.bool_())])


def _ranges(cells: list[tuple[Any, Any]], kind: pa.DataType) -> pa.Array:
    rows = [{"min": low, "max": high, "nulls": low is None} for low, high in cells]
    return pa.array(rows, pa.struct([("min", kind), ("max", kind), ("nulls", pa.bool_())]))
