"""Where rows came from is asked once a batch, for rows at fault only, and stands in what is said of them."""

from __future__ import annotations

from collections.abc import Sequence

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.transforms.release.rejected import fault_records, rejected_records
from kanonflow.transforms.rows.classify import classify_places
from kanonflow.transforms.rows.quasi_faults import QuasiFault
from kanonflow.transforms.rows.row_origins import RowOrigin
from tests.transforms.rows.test_classify import bound, text_rows


class Asked:
    """Origins that keep what they were asked."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """Row n stands on line n + 2."""
        self.rows.append(list(rows))
        return [RowOrigin("a.csv", row + 2, f"row {row}", "head") for row in rows]


def test_good_rows_ask_nothing() -> None:
    """Nor does a batch without rows."""
    origins = Asked()
    for table in (text_rows({}, {}), text_rows({}).slice(0, 0)):
        assert classify_places(table, bound(), origins=origins).rejected == []
    assert origins.rows == []


def test_rows_at_fault_lead_back() -> None:
    """Of other cohorts all at once; what was expected is that of the field that gave the reason."""
    origins = Asked()
    found = classify_places(
        text_rows({}, {"age": "old"}, {}, {"who": ""}), bound(cohort="window"), origins=origins
    )
    assert origins.rows == [[1, 3]]
    assert [(each["source"], each["line"], each["raw"], each["header"]) for each in found.rejected] == [
        ("a.csv", 3, "row 1", "head"),
        ("a.csv", 5, "row 3", "head"),
    ]
    assert "whole number" in found.rejected[0]["expected"]
    assert "individual" in found.rejected[1]["expected"]


def test_faults_of_attributes_keep_their_line_and_not_their_text() -> None:
    """They wait in state, where identifiers must not be; rejected at last, the row leads back to its line."""
    origins, lasting = Asked(), bound(cohort="lasting")
    found = classify_places(text_rows({"age": "old"}, {"who": ""}, {"sex": "X"}), lasting, origins=origins)
    assert origins.rows == [[0, 1, 2]]
    cells = found.rows.column(FAULT_COLUMN).to_pylist()
    assert not [cell for cell in cells if "row 0" in cell or "head" in cell]
    assert [QuasiFault.of_cell(cell).line for cell in cells] == [2, 4]
    records = fault_records(found.rows, lasting)
    assert [(each["source"], each["line"], each["raw"]) for each in records] == [
        ("a.csv", 2, None),
        ("a.csv", 4, None),
    ]
    assert "whole number" in records[0]["expected"]
    late = rejected_records(found.rows, lasting, "late")
    assert [(each["line"], each["expected"]) for each in late] == [(2, None), (4, None)]


def test_cells_of_older_builds_are_read() -> None:
    """State from before lines were known."""
    fault = QuasiFault.of_cell('{"reason":"bad_value","field":"age","message":"x","cells":{"age":"old"}}')
    assert (fault.line, fault.source, fault.expected) == (None, None, None)
