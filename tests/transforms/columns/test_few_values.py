"""Columns of few rows are looked at by Python, others by Arrow: what comes of them is the same.

Tests take the same rows twice, once as if they were many.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas import hierarchy
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.transforms.columns import avro_encoding, row_bytes, sort_keys
from kanonflow.transforms.kinds import value_sets
from kanonflow.transforms.roster import pool
from tests.mixed_people import LEAVES, TREE, mixed_bound, mixed_values

WORDS = ["", "a", "ab", "Ü", "€", "\U0001f600", "\uffff", "x" * 63, "x" * 64]
LONG = "y" * 65
KINDS = (pa.string(), pa.binary())


def texts(seed: int, kind: pa.DataType, *, rows: int = 40, long: bool = False) -> pa.Array:
    """Some words, some nulls with content behind them, cut out of a longer array."""
    rng = np.random.default_rng(seed)
    words = [*WORDS, *([LONG] if long else [])]
    cells = [words[place].encode() for place in rng.integers(len(words), size=rows + 3)]
    whole = pa.array(cells, pa.binary())
    _, offsets, content = whole.buffers()
    there = pa.array(rng.random(rows + 3) < 0.8).buffers()[1]
    return pa.Array.from_buffers(kind, rows + 3, [there, offsets, content]).slice(2, rows)


def take_all_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every column counts as one of many rows."""
    for module in (sort_keys, row_bytes, avro_encoding, value_sets):
        monkeypatch.setattr(module, "FEW", -1)
    monkeypatch.setattr(hierarchy, "_FEW", -1)
    monkeypatch.setattr(pool, "_CELLS_AT_ONCE", 1)


def told(seed: int) -> list[object]:
    """All that is made of such columns."""
    found: list[object] = []
    for kind in KINDS:
        for long in (False, True):
            array = texts(seed, kind, long=long)
            table = pa.table({"a": array, "n": pa.array(range(len(array))), "b": texts(seed + 1, kind)})
            found += [row_bytes.row_words(table).tobytes(), row_bytes.content_digest(table)]
            found += [key.tolist() for key in sort_keys.sort_keys(array)]
            column = BoundColumn(Field("a", Role.INSENSITIVE), kind, from_text=False)
            starts = np.array([0, 5, 6, 40])
            boxes = value_sets.SetKind().hulls(column, array, np.arange(40), starts)
            found += [boxes.codes.tolist(), boxes.starts.tolist(), boxes.values.to_pylist()]
    longs = pa.array(np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 30))
    record = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}
    small = pa.array(np.random.default_rng(seed).integers(-70, 70, 30))
    found += [avro_encoding.encode_rows(pa.table({"x": each}), record) for each in (longs, small)]
    tree = hierarchy.Hierarchy(tuple(map(tuple, TREE)))
    found.append(tree.leaf_codes(pa.array([*LEAVES, None, "none of them"], pa.string())).tolist())
    rng = np.random.default_rng(seed)
    rows = mixed_values(60, rng)
    who, ends = rng.integers(1, 9, 60).astype(np.uint64), rng.integers(1, 5, 60)
    seen = pool.empty_pool(mixed_bound()).having_seen(who, ends, rows, mixed_bound())
    return [*found, seen.values.to_pylist(), seen.ends.tolist(), seen.changed.tolist()]


@pytest.mark.parametrize("seed", range(8))
def test_few_rows_come_to_what_many_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, digests, orders, boxes, cells of Avro, leaves and the pool, with nulls, long texts and none."""
    few = told(seed)
    take_all_as_many(monkeypatch)
    assert told(seed) == few


@pytest.mark.parametrize("many", [False, True])
def test_all_nulls_and_no_rows(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither has a text to begin with."""
    if many:
        take_all_as_many(monkeypatch)
    for kind in KINDS:
        nothing, nulls = pa.array([], kind), pa.nulls(3, kind)
        of_nothing, of_nulls = pa.table({"a": nothing}), pa.table({"a": nulls})
        assert row_bytes.row_words(of_nothing).shape[0] == 0
        assert len(set(map(bytes, row_bytes.row_words(of_nulls)))) == 1
        assert sort_keys.sort_keys(nulls)[0].tolist() == [0, 0, 0]
        assert row_bytes.content_digest(of_nothing) != row_bytes.content_digest(of_nulls)
