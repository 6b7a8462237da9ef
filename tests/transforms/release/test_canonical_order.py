"""The canonical order depends on the rows and the secret, and on nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Field, Policy, Quasi, QuasiType, Role
from kanonflow.transforms.columns.row_bytes import content_digest, row_words
from kanonflow.transforms.columns.sort_keys import dense_ranks, runs, sort_keys
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.secret.seeds import Secret
from tests.transforms.window_rows import QUASIS, bound_policy, window_rows

pytestmark = pytest.mark.thorough

SECRET = Secret(bytes(range(32)))


def tied_rows() -> tuple[pa.Table, BoundPolicy]:
    """60 rows of 3 people at 2 ages, many with the same quasi-identifiers and person, some equal."""
    schema = pa.schema({"age": pa.int64(), "who": pa.string(), "shop": pa.string()})
    rng = np.random.default_rng(1)
    rows = pa.table(
        [rng.integers(0, 2, 60), rng.choice(["a", "b", "c"], 60), rng.choice(["x", "y", "z", "w"], 60)],
        schema=schema,
    )
    fields = (
        Field("age", Role.QUASI, quasi=Quasi(QuasiType.NUMERIC)),
        Field("who", Role.INDIVIDUAL),
        Field("shop", Role.SENSITIVE),
    )
    return rows, bind(Policy(name="t", k=2, fields=fields), schema, text=False, source="rows")


@pytest.mark.parametrize("seed", range(4))
def test_arrival_does_not_change_the_order(seed: int) -> None:
    """Rows that arrive shuffled and in other chunks come out as the same sequence of rows."""
    bound = bound_policy()
    for rows, policy in ((window_rows(200, seed, bound), bound), tied_rows()):
        expected = rows.take(pa.array(canonical_order(rows, policy, SECRET)))
        other = rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))
        other = pa.concat_tables([other.slice(0, 17), other.slice(17)])
        found = other.take(pa.array(canonical_order(other, policy, SECRET)))
        assert found.combine_chunks().equals(expected.combine_chunks())
        assert content_digest(found) == content_digest(expected)


def test_rows_are_ordered_by_quasi_identifiers_then_individual() -> None:
    """Nulls first, then by value, field by field in the policy's order; the individual comes last."""
    rows, bound = tied_rows()
    found = rows.take(pa.array(canonical_order(rows, bound, SECRET)))
    pairs = list(zip(found["age"].to_pylist(), found["who"].to_pylist(), strict=True))
    assert pairs == sorted(pairs)
    bound = bound_policy()
    rows = window_rows(300, 5, bound)
    found = rows.take(pa.array(canonical_order(rows, bound, SECRET)))
    values = zip(*(found[name].to_pylist() for name in (*QUASIS, "person")), strict=True)
    keys = [tuple((value is not None, value) for value in row) for row in values]
    assert keys == sorted(keys, key=lambda row: tuple((has, value) if has else (has,) for has, value in row))


def test_the_secret_orders_ties() -> None:
    """Among rows with equal quasi-identifiers and individual another secret leads to another order of
    payloads.
    """
    rows, bound = tied_rows()
    sequences = {
        tuple(rows["shop"].take(pa.array(canonical_order(rows, bound, Secret(bytes([i]) * 32)))).to_pylist())
        for i in range(8)
    }
    assert len(sequences) == 8


def test_an_empty_window_has_an_empty_order() -> None:
    """No rows, no order, no error."""
    rows, bound = tied_rows()
    assert canonical_order(rows.slice(0, 0), bound, SECRET).size == 0


VALUES = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "float": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "boolean": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "decimal": (pa.decimal128(30, 3), st.decimals(-(10**26), 10**26, places=3)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | st.sampled_from(["", "a", "ab", "b"]), max_size=3)),
    "numbers": (pa.list_(pa.int64()), st.lists(st.integers(-2, 2), max_size=70)),
}


@pytest.mark.parametrize("kind", VALUES)
@settings(derandomize=True, max_examples=40)
@given(data=st.data())
def test_sort_keys_order_values_totally(kind: str, data: st.DataObject) -> None:
    """Keys are in order exactly as the values are (text by its bytes, nulls first), slices included."""
    arrow, values = VALUES[kind]
    drawn = data.draw(st.lists(st.none() | values, min_size=1, max_size=20))
    array = pa.array([None, *drawn, None], arrow).slice(1, len(drawn))
    ranks = dense_ranks(sort_keys(array))
    for i, left in enumerate(drawn):
        for j, right in enumerate(drawn):
            assert (ranks[i] < ranks[j]) == (_comparable(left) < _comparable(right))


@settings(derandomize=True, max_examples=60)
@given(data=st.data(), count=st.integers(0, 12))
def test_ranks_are_those_of_several_keys_together(data: st.DataObject, count: int) -> None:
    """Keys of small ranges, which one number holds, and of ranges that none does; signed and unsigned."""
    kinds = st.sampled_from([(np.int64, -2, 2), (np.int64, -(2**63), 2**63 - 1), (np.uint64, 0, 2**64 - 1)])
    keys = []
    for kind, low, high in data.draw(st.lists(kinds, min_size=1, max_size=4)):
        values = st.sampled_from([low, high]) | st.integers(low, high)
        keys.append(np.array(data.draw(st.lists(values, min_size=count, max_size=count)), dtype=kind))
    rows = list(zip(*(key.tolist() for key in keys), strict=True))
    assert dense_ranks(keys).tolist() == [sorted(set(rows)).index(row) for row in rows]


def _comparable(value: object) -> tuple:
    """A value in a form whose Python order is the expected one."""
    match value:
        case None:
            return (0,)
        case list():
            return (1, tuple(_comparable(item) for item in value))
        case str():
            return (1, value.encode())
        case float():
            return (1, value, np.copysign(1, value))
        case _:
            return (1, value)


def test_row_words_are_equal_exactly_for_equal_rows() -> None:
    """Lines of words tell rows apart as their values do, whatever the chunks and offsets."""
    rows, _ = tied_rows()
    lines = [bytes(line) for line in row_words(rows)]
    values = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(set(zip(lines, values, strict=True))) == len(set(lines)) == len(set(values))
    bound = bound_policy()
    rows = window_rows(50, 3, bound)
    chunked = pa.concat_tables([rows.slice(0, 7), rows.slice(7)])
    assert np.array_equal(row_words(rows.slice(5, 20)), row_words(chunked)[5:25])
    assert content_digest(rows.slice(5, 20)) == content_digest(chunked.slice(5, 20))


def test_row_words_tell_nulls_from_values_in_every_column() -> None:
    """70 columns, more than a word has bits: a null is another line than a zero or an empty text, wherever it is."""
    names = [f"c{n}" for n in range(70)]
    full = {name: pa.array([0] if n % 2 else [""]) for n, name in enumerate(names)}
    tables = [pa.table(full)] + [pa.table({**full, name: pa.nulls(1, full[name].type)}) for name in names]
    lines = [bytes(line) for table in tables for line in row_words(table)]
    assert len(set(lines)) == len(tables)


@settings(derandomize=True, max_examples=60)
@given(
    texts=st.lists(st.none() | st.binary(max_size=9) | st.binary(min_size=60, max_size=70), max_size=12),
    begin=st.integers(0, 3),
)
def test_row_words_tell_texts_apart(texts: list[bytes | None], begin: int) -> None:
    """Short and long ones, zeros at their ends, nulls; whole and sliced: equal lines for equal texts and no others."""
    texts = [*texts, b"a", b"a\0", b"", None, b"a"]
    lines = row_words(pa.table({"text": pa.array(texts, pa.binary()).slice(begin)}))
    found = [bytes(line) for line in lines]
    assert len(set(zip(found, texts[begin:], strict=True))) == len(set(found)) == len(set(texts[begin:]))


def test_a_content_digest_tells_contents_apart() -> None:
    """Order, a null instead of an empty text, shifted borders, a name or a type: each has another digest."""
    tables = [
        pa.table({"a": ["x", "yz"]}),
        pa.table({"a": ["yz", "x"]}),
        pa.table({"a": ["xy", "z"]}),
        pa.table({"b": ["x", "yz"]}),
        pa.table({"a": pa.array([b"x", b"yz"])}),
        pa.table({"a": ["", None]}),
        pa.table({"a": [None, ""]}),
        pa.table({"a": pa.array([], pa.string())}),
        pa.table({"a": pa.array([0], pa.int64())}),
        pa.table({"a": pa.array([None], pa.int64())}),
    ]
    assert len({content_digest(table) for table in tables}) == len(tables)


@settings(derandomize=True, max_examples=80)
@given(
    rows=st.lists(
        st.sampled_from(
            [None, [], ["a"], ["b"], ["a", None], ["a", "b"], ["b", "a"], [None], ["a", "b", "c"]]
        ),
        max_size=25,
    ),
    begin=st.integers(0, 3),
)
def test_runs_begin_where_a_value_differs_from_the_one_before(rows: list[Any], begin: int) -> None:
    """Lists and structs of text, numbers and nulls, whole and sliced: a run holds equal values, and all of them."""
    lists = pa.array(rows, pa.list_(pa.string()))
    numbers = pa.array([None if row is None else len(row) / 2 for row in rows], pa.float64())
    structs = pa.StructArray.from_arrays([numbers, lists], names=["n", "items"])
    for array in (lists, structs, numbers, lists.cast(pa.list_(pa.binary()))):
        values = array.slice(begin)
        heads, counts = runs(values)
        found = values.to_pylist()
        expected = [at for at in range(len(found)) if at == 0 or found[at] != found[at - 1]]
        assert heads.tolist() == expected
        assert np.repeat(heads, counts).size == len(found)
