"""Rejected rows as records: the row as canonical text, and why. Raw data, for restricted places only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.rows.quasi_faults import QuasiFault
from kanonflow.transforms.rows.row_places import RowPlaces
from kanonflow.transforms.rows.split import window_bounds, window_numbers

MESSAGES = {
    "late": "arrived after the last release that could take it",
    "too_few_peers": "fewer than k individuals were there within max_delay",
    "awaits_intake": "too few people who had not been seen before came within max_delay to form a cohort with",
    "intake_too_large": "more people who had not been seen before waited than can enter together; a smaller intake"
    " takes them in before so many wait",
    "individual_over_limit": "its individual has more rows than enough others share, within max_delay",
    "held_back": "hiding its individual would have cost more than leaving it out, within max_delay",
    "not_diverse": "no class of enough different sensitive values was found that costs less, within max_delay",
    "known_otherwise": "with it, who knows what against says would be left with too few people",
    "suppressed": "too few share its labels at the released levels, or its individual has several labels",
    "duplicate_event": "its event id was seen before",
    "gate_refused": "the release did not pass the gate; this is a fault of the software, please report it",
}


def rejected_records(
    rows: pa.Table, bound: BoundPolicy, reason: str, field: str | None = None
) -> list[dict[str, Any]]:
    """One record of rejected.avsc for each canonical row, all for the same reason. O(n d)."""
    if rows.num_rows == 0:
        return []
    told = [(reason, field, MESSAGES[reason])] * rows.num_rows
    return _records(rows, bound, told, _faults(rows))


def fault_records(rows: pa.Table, bound: BoundPolicy) -> list[dict[str, Any]]:
    """One record of rejected.avsc for each canonical row whose quasi-identifiers were at fault, in their order. O(n d).

    rows: of lasting cohorts, of individuals who are not known; a row without a fault has no record.
    Each is what ``classify`` would have made of the row without lasting cohorts, but for its source, as of all rows
    that are rejected once they are in a window.
    """
    if rows.num_rows == 0:
        return []
    rows = rows.filter(rows.column(FAULT_COLUMN).is_valid())
    faults = _faults(rows)
    told = [(fault.reason, fault.field, fault.message) for fault in faults if fault is not None]
    return _records(rows, bound, told, faults)


def _faults(rows: pa.Table) -> list[QuasiFault | None]:
    """What was wrong with each row's quasi-identifiers."""
    if FAULT_COLUMN not in rows.schema.names:
        return [None] * rows.num_rows
    cells = whole(rows.column(FAULT_COLUMN)).to_pylist()
    return [None if cell is None else QuasiFault.of_cell(cell) for cell in cells]


def _records(
    rows: pa.Table,
    bound: BoundPolicy,
    told: Sequence[tuple[str, str | None, str]],
    faults: Sequence[QuasiFault | None],
) -> list[dict[str, Any]]:
    """A record of each row. told: reason, field and message of each. faults: of each; their texts stand in the row."""
    names = [column.name for column in bound.columns]
    texts = {name: render_text(whole(rows.column(name))).to_pylist() for name in names}
    ends: list[int | None] = [None] * rows.num_rows
    if bound.policy.window_ms is not None and bound.policy.time is not None:
        numbers = window_numbers(whole(rows.column(bound.policy.time.name)), bound.policy)
        ends = [window_bounds(int(number), bound.policy)[1] for number in numbers]
    return [
        {
            "reason": reason,
            "field": field,
            "message": message,
            "window_end": ends[index],
            "source": fault.source if fault else None,
            "line": fault.line if fault else None,
            "raw": None,
            "header": None,
            "expected": fault.expected if fault and fault.reason == reason else None,
            "unread": list(fault.unread) if fault else [],
            "row": {name: cells[index] for name, cells in texts.items()} | dict(fault.cells if fault else {}),
        }
        for index, ((reason, field, message), fault) in enumerate(zip(told, faults, strict=True))
    ]


def at_places(records: Iterable[Mapping[str, Any]], places: RowPlaces) -> Iterator[dict[str, Any]]:
    """The records of rows with their places, as part, and as source where their line is not known: written a second
    time, each is the same row."""
    for row, record in enumerate(records):
        place = places.of(row)
        yield {**record, "source": place if record.get("line") is None else record["source"], "part": place}
