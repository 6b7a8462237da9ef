"""What a run carries, as the audit reads it: files written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.carried_state import CAME, Carried, clock_in, read_carried
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.files.state_parts import Content, pack

HEAD = ["lasting", "c0ffee", 2, 9, 3]


def bound_policy() -> BoundPolicy:
    """A quasi-identifier and a payload, of text."""
    fields = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "x": {"role": "quasi", "type": "numeric", "as": "int"},
        "note": {"role": "sensitive"},
    }
    policy = {
        "version": 1, "k": 2, "window": "1d", "max_delay": "1d", "cohort": "lasting", "fields": fields,
    }  # fmt: skip
    columns = pa.schema([(name, pa.string()) for name in fields])
    return bind(parse_policy(policy, "test", "test"), columns, text=True, source="test")


def stream_of(table: pa.Table) -> bytes:
    """A table as it stands in a state."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def state_of(bound: BoundPolicy, faults: list[dict[str, Any] | None], *, pool: int = 0) -> bytes:
    """A carried state with a row for each of these faults, and people in the pool."""
    kinds = {column.name: column.arrow_type for column in bound.columns}
    cells: dict[str, list[Any]] = {"who": [], "when": [], "x": [], "note": []}
    for number, _ in enumerate(faults):
        for name, cell in zip(cells, (f"p{number}", 1000 * number, 7, "n"), strict=True):
            cells[name].append(cell)
    table = pa.table({name: pa.array(own, kinds[name]) for name, own in cells.items()})
    told = [None if fault is None else json.dumps(fault) for fault in faults]
    table = table.append_column(FAULT_COLUMN, pa.array(told, pa.string()))
    people, ends = np.arange(pool, dtype="<u8").tobytes(), np.full(pool, 5000, "<i8").tobytes()
    values = stream_of(pa.table({"x": pa.array(range(pool), kinds["x"])}))
    warm = pack(
        b"KFWS",
        1,
        Content(
            {"roster": {"head": HEAD}},
            {"waiting": b"", "pool_people": people, "pool_ends": ends, "pool_values": values},
        ),
    )
    meta = {
        "partition": "p", "epoch": "e", "place": 1, "clock": '{"last_end": 5000}', "waiting": 0,
        "batches": [["a", "b", len(faults)]],
    }  # fmt: skip
    return pack(b"KFCS", 1, Content(meta, {"batch_0": stream_of(table), "warm": warm}))


def carried_in(
    folder: Path, bound: BoundPolicy, books: list[CodeBook], data: bytes
) -> tuple[Carried, list[str]]:
    """What is read of a run that leaves this state and began with it."""
    for path in (folder / "restricted/carried/p.state", folder / "restricted/cohorts/p" / CAME):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    findings = Findings()
    return read_carried(folder, bound, books, findings), list(findings.messages())


def test_a_state_is_read_whole(tmp_path: Path) -> None:
    """Rows, pool, clock and the head of its roster; a row's faulty cell has the code that the input's cell has."""
    bound = bound_policy()
    books = [CodeBook(column) for column in bound.columns]
    place = [column.name for column in bound.columns].index("x")
    tall = books[place].codes_of_texts(["tall"])[0]
    fault = {"cells": {"x": "tall"}, "unread": ["x"]}
    carried, found = carried_in(tmp_path, bound, books, state_of(bound, [None, fault], pool=3))
    assert found == []
    assert carried.left is not None
    for each in (carried.came["p"], carried.left["p"]):
        assert (each.partition, each.epoch, each.place, each.clock, each.told) == ("p", "e", 1, 5000, 2)
        assert each.roster == ("c0ffee", 2, 9, 3)
        assert each.pool.tolist() == [0, 1, 2]
        assert [books[place].values[code] for code in each.values[:, 0]] == [0, 1, 2]
        assert books[place].values[each.codes[0, place]] == 7
        assert each.codes[1, place] == tall
    assert len(carried.rows_came(len(books))) == len(carried.rows_left(len(books))) == 2
    assert clock_in(tmp_path / "restricted/carried/p.state") == 5000


def test_what_is_no_state_is_named(tmp_path: Path) -> None:
    """Another file in the folder; a state that is cut; a run that leaves nothing has nothing at fault."""
    bound = bound_policy()
    books = [CodeBook(column) for column in bound.columns]
    findings = Findings()
    assert read_carried(tmp_path, bound, books, findings).left is None
    assert findings.messages() == ()
    data = state_of(bound, [None])
    _, found = carried_in(tmp_path, bound, books, data[:-1])
    assert len(found) == 2
    assert all("is damaged, or of other columns" in each for each in found)
    (tmp_path / "restricted/carried/notes.txt").touch()
    _, found = carried_in(tmp_path, bound, books, data)
    assert found == ["restricted/carried holds 1 entries that are no carried state"]
