"""Lasting cohorts: rows whose quasi-identifiers alone are at fault are handed on, with what was wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.schemas.text_inputs import NO_VALUE
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.release.matching_record import record_digests
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.rows.classify import classify, classify_places
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.quasi_faults import QuasiFault
from kanonflow.transforms.rows.split import split
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, row
from tests.transforms.rows.test_classify import bound, text_rows, typed_rows

LASTING = bound(cohort="lasting")
WINDOW = bound(cohort="window")


def fault_of(change: dict[str, Any]) -> dict[str, Any]:
    """The fault of one row with changes, that was handed on."""
    rows, rejected = classify(text_rows(change), LASTING)
    assert rejected == []
    found = json.loads(rows.column(FAULT_COLUMN)[0].as_py())
    assert isinstance(found, dict)
    return found


def test_only_lasting_cohorts_have_the_column() -> None:
    """It comes last, and is no column that is read or kept."""
    assert LASTING.canonical_schema.names == [*WINDOW.canonical_schema.names, FAULT_COLUMN]
    assert FAULT_COLUMN not in (*LASTING.input_columns, *WINDOW.canonical_schema.names)


def test_good_rows_have_no_fault() -> None:
    """Nor has a null, which is a value, nor a value that is cut to its domain."""
    rows, rejected = classify(text_rows({}, {"age": ""}, {"income": "-5"}), LASTING)
    assert (rejected, rows.schema) == ([], LASTING.canonical_schema)
    assert rows.column(FAULT_COLUMN).null_count == 3
    assert rows.column("income").to_pylist() == [500.0, 500.0, 0.0]


def test_a_fault_says_which_cells_are_as_they_came() -> None:
    """A cell that could not be read is; one outside of its domain is canonical. Faults of older states say nothing."""
    assert fault_of({"age": "old"})["unread"] == ["age"]
    assert fault_of({"age": " 121 ", "sex": "X"})["unread"] == []
    older = '{"reason":"bad_value","field":"age","message":"m","cells":{"age":"old"}}'
    assert list(QuasiFault.of_cell(older).unread) == []


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"age": "old"}, "bad_value", "age"),
        ({"income": "NaN"}, "bad_value", "income"),
        ({"born": "1981-02-29"}, "bad_value", "born"),
        ({"age": "121"}, "outside_domain", "age"),
        ({"sex": "X"}, "outside_domain", "sex"),
    ],
)
def test_a_row_at_fault_is_handed_on(change: dict[str, str], reason: str, field: str) -> None:
    """A null stands in the cell; reason, field and the text that came in the fault, no value in the message."""
    rows, rejected = classify(text_rows({"who": "u0"}, change, {"who": "u2"}), LASTING)
    assert rejected == []
    assert rows.column("who").to_pylist() == ["u0", "u1", "u2"]
    assert [value is None for value in rows.column(field).to_pylist()] == [False, True, False]
    none, cell, after = rows.column(FAULT_COLUMN).to_pylist()
    assert (none, after) == (None, None)
    fault = QuasiFault.of_cell(cell)
    assert (fault.reason, fault.field, dict(fault.cells)) == (reason, field, change)
    assert change[field] not in fault.message
    assert fault.to_cell() == cell


def test_a_fault_names_all_quasi_identifiers_and_what_was_cut() -> None:
    """The first one in the policy's order gives the reason; a cut value keeps its text beside it."""
    fault = fault_of({"age": "121", "income": "99999", "born": "never"})
    assert (fault["reason"], fault["field"]) == ("outside_domain", "age")
    assert [part.split(":")[0] for part in fault["message"].split("; ")] == ["age", "born"]
    assert fault["cells"] == {"age": "121", "income": "99999", "born": "never"}


@pytest.mark.parametrize("field", sorted(LASTING.attributes))
def test_what_is_no_value_is_a_fault_of_any_type(field: str) -> None:
    """Also where any text is a value."""
    fault = fault_of({field: NO_VALUE})
    assert (fault["reason"], fault["field"], fault["cells"]) == ("bad_value", field, {field: NO_VALUE})


def test_other_fields_know_no_mark() -> None:
    """Of payload it is the text that came."""
    rows, rejected = classify(text_rows({"who": NO_VALUE}), LASTING)
    assert (rejected, rows.column("who").to_pylist()) == ([], [NO_VALUE])
    assert rows.column(FAULT_COLUMN).null_count == 1


def test_records_with_half_a_surrogate_are_handed_on() -> None:
    """Of a quasi-identifier alone; of any other field the record is none, as ever."""
    half = "\ud800"
    feed = bound_feed(feed_policy(cohort="lasting"))
    ever = bound_feed(feed_policy(cohort="window"))
    rows = [row(1, 1, 0.5), row(2, 2, 0.5) | {"job": half}, row(3, 3, 0.5) | {"job": half, "town": half}]
    table, broken = rows_to_table(rows, feed)
    assert (table.num_rows, [each["field"] for each in broken]) == (2, ["town"])
    assert table.column("job").to_pylist()[1] == NO_VALUE
    assert len(rows_to_table(rows, ever).broken) == 2
    found = classify(table, feed)
    assert found.rejected == []
    assert [cell is None for cell in found.rows.column(FAULT_COLUMN).to_pylist()] == [True, False]


@pytest.mark.parametrize(
    "change",
    [
        {"who": "", "age": "old"},
        {"when": "yesterday", "sex": "X"},
        {"amount": "much", "age": "121", "born": "never"},
        {"amount": "much"},
    ],
)
def test_faults_of_other_fields_reject_at_once(change: dict[str, str]) -> None:
    """With the same record as ever, which lists those of quasi-identifiers too."""
    table = text_rows({}, change)
    found, ever = classify_places(table, LASTING), classify_places(table, WINDOW)
    assert found.rejected == ever.rejected
    assert len(found.rejected) == 1
    assert found.good.tolist() == ever.good.tolist() == [True, False]
    assert found.rows.drop_columns([FAULT_COLUMN]) == ever.rows


def test_typed_rows_at_fault() -> None:
    """Values that never were text are told as text."""
    rows, rejected = classify(typed_rows(income=float("nan"), age=130), bound(text=False, cohort="lasting"))
    assert (rejected, rows.column("income")[0].as_py(), rows.column("age")[0].as_py()) == ([], None, None)
    assert QuasiFault.of_cell(rows.column(FAULT_COLUMN)[0].as_py()).cells == {"age": "130", "income": "nan"}


def faulty_rows() -> pa.Table:
    """Rows of two people over two days that are equal but for what was wrong with them."""
    changes: list[dict[str, str | None]] = [
        {"who": who, "when": f"2020-01-0{day} 12:00:00", "age": age}
        for who in ("u1", "u2")
        for day in (1, 2)
        for age in ("old", "older", "121", "old", "")
    ]
    rows, rejected = classify(text_rows(*changes), LASTING)
    assert rejected == []
    return rows


def test_the_column_travels() -> None:
    """Through the split by windows, and as bytes."""
    rows = faulty_rows()
    parts = split(rows, LASTING)
    assert [number for _, number, _ in parts] == [18262, 18263]
    for _, number, batch in parts:
        own = rows.filter(pa.array(np.arange(20) // 5 % 2 == number - 18262))
        assert from_ipc(to_ipc(batch)).equals(own.combine_chunks())


def test_faults_are_part_of_what_tells_rows_apart() -> None:
    """Rows that came in another order are one sequence in canonical order; another fault is another content."""
    rows = faulty_rows()
    ordered = rows.take(pa.array(canonical_order(rows, LASTING, SECRET)))
    for seed in range(5):
        mixed = rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))
        again = mixed.take(pa.array(canonical_order(mixed, LASTING, SECRET)))
        assert again.equals(ordered)
        assert content_digest(again) == content_digest(ordered)
    one, other = (classify(text_rows({"age": age}), LASTING).rows for age in ("old", "older"))
    assert one.drop_columns([FAULT_COLUMN]) == other.drop_columns([FAULT_COLUMN])
    assert content_digest(one) != content_digest(other)


def test_the_column_waits_with_its_rows() -> None:
    """In the bytes of a partition's state."""
    rows = faulty_rows()
    state = WarmState(waiting=rows, waiting_reason=("too_few_peers",) * rows.num_rows)
    kept = warm_state_from_bytes(state.to_bytes()).waiting
    assert kept is not None
    assert kept.equals(rows)


def test_matching_records_know_kept_fields_only() -> None:
    """A record's digest is over those, with or without the column."""
    rows = faulty_rows()
    assert record_digests(rows, b"key") == record_digests(rows.drop_columns([FAULT_COLUMN]), b"key")


def test_the_column_stays_within() -> None:
    """Through bags, repeats, waiting and rejection: neither releases nor rejected rows have a column of its name.

    Rows whose trade is outside of the domain, among good ones; some repeated, some late, some of too few people.
    """
    bound_rows = bound_feed(feed_policy(cohort="lasting", max_delay="1h", events=True, towns=True))
    feed = [
        row(number, number % 9, number % 4 + 0.5, town="Ulm" if number % 40 == 1 else "Bonn")
        | ({"job": f"pirate {number}"} if number % 5 == 0 else {})
        for number in range(80)
    ]
    step = DrivenPartitions(bound_rows, SECRET)
    step.send([*feed, *feed[:10]])
    step.advance(START + 4 * HOUR)
    step.send(feed[10:15])
    step.finish()
    assert step.released
    for table in step.tables():
        assert not [name for name in table.schema.names if name.startswith("__")]
    records = [record for each in step.rejected for record in each.records]
    assert {"duplicate_event", "awaits_intake", "late"} <= {record["reason"] for record in records}
    assert {tuple(record["row"]) for record in records} == {bound_rows.input_columns}
    broken = [record for record in records if (record["row"]["job"] or "").startswith("pirate")]
    assert broken
    for record in broken:
        assert record["row"]["job"] == f"pirate {record['row']['reference'][1:]}"
