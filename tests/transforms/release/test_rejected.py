"""Rejected rows as records: those of lasting cohorts say what classify says of the same rows under others."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.avro_schema import rejected_schema
from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.transforms.release.rejected import MESSAGES, fault_records, rejected_records
from kanonflow.transforms.rows.classify import classify
from tests.transforms.rows.test_classify import bound, day_end, text_rows, typed_rows

LASTING = bound(cohort="lasting")
WINDOW = bound(cohort="window")
CELLS = {
    "who": st.sampled_from(["u1", "u2", ""]),
    "when": st.sampled_from(["2020-01-01 12:00:00", "2020-01-02 01:00:00", "yesterday"]),
    "age": st.sampled_from(["1", "", "x", "121", "07"]),
    "income": st.sampled_from(["1", "-1", "1001", "inf", "1e2"]),
    "born": st.sampled_from(["1980-02-29", "1981-02-29", "0000-01-01", ""]),
    "sex": st.sampled_from(["F", "X", "Ärztin", "\u2028\"'\\", ""]),
    "amount": st.sampled_from(["1.5", "much"]),
}


@settings(derandomize=True, max_examples=150)
@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8))
def test_fault_records_are_those_of_classify(changes: list[dict[str, str | None]]) -> None:
    """Rejected at once and rejected later are together the rows, and the records, that another cohort rejects."""
    table = text_rows(*changes)
    ever, lasting = classify(table, WINDOW), classify(table, LASTING)
    later = fault_records(lasting.rows, LASTING)
    assert sorted(map(repr, [*lasting.rejected, *later])) == sorted(map(repr, ever.rejected))
    good = lasting.rows.filter(lasting.rows.column(FAULT_COLUMN).is_null())
    assert good.drop_columns([FAULT_COLUMN]).to_pylist() == ever.rows.to_pylist()


def test_typed_rows_have_the_same_records() -> None:
    """Also in their order, and of what an integer or a float held."""
    for change in ({"age": 130}, {"income": float("inf"), "sex": "X"}, {"income": 2000.0, "age": -1}):
        ever = classify(typed_rows(**change), bound(text=False, cohort="window")).rejected
        lasting = bound(text=False, cohort="lasting")
        assert fault_records(classify(typed_rows(**change), lasting).rows, lasting) == ever
        assert len(ever) == 1


def test_rows_without_a_fault_have_no_record() -> None:
    """Nor have no rows at all."""
    rows, _ = classify(text_rows({}, {"age": "old", "who": "u7"}, {}), LASTING)
    (record,) = fault_records(rows, LASTING)
    assert record["row"]["who"] == "u7"
    assert fault_records(rows.slice(0, 1), LASTING) == []
    assert fault_records(rows.slice(0, 0), LASTING) == []


def test_a_row_at_fault_may_be_rejected_for_something_else() -> None:
    """Its record holds the kept fields and no more, of a broken cell the text as it came, and fits its schema."""
    rows, _ = classify(text_rows({"age": "old", "income": "99999"}, {}), LASTING)
    records: list[Any] = rejected_records(rows, LASTING, "late")
    assert [record["message"] for record in records] == [MESSAGES["late"]] * 2
    assert [record["window_end"] for record in records] == [day_end(1)] * 2
    assert [list(record["row"]) for record in records] == [list(LASTING.input_columns)] * 2
    assert [record["row"]["age"] for record in records] == ["old", "39"]
    assert [record["row"]["income"] for record in records] == ["99999", "500"]
    fastavro.writer(io.BytesIO(), fastavro.parse_schema(rejected_schema()), records)


def test_other_cohorts_reject_as_ever() -> None:
    """The rows' own texts, for one reason."""
    rows, _ = classify(text_rows({"income": "99999"}), WINDOW)
    (record,) = rejected_records(rows, WINDOW, "too_few_peers", "who")
    assert (record["reason"], record["field"]) == ("too_few_peers", "who")
    assert record["row"]["income"] == "1000"
    assert rejected_records(pa.table(rows).slice(0, 0), WINDOW, "late") == []
