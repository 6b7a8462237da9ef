"""Checking rows against the policy: canonical types for the good ones, a reason for each of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundColumn, BoundPolicy
from kanonflow.schemas.canonical_columns import as_text, read_column
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.expected_forms import expected_instead
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.local_times import FIRST_SECOND
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Outside, Role
from kanonflow.schemas.text_inputs import NO_VALUE
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.value_units import from_units, to_units
from kanonflow.transforms.rows.elements import CellFault
from kanonflow.transforms.rows.payload_cells import coarse_cells
from kanonflow.transforms.rows.quasi_faults import QuasiFault
from kanonflow.transforms.rows.row_origins import RowOrigin, RowOrigins, told
from kanonflow.transforms.rows.split import END_OF_TIME_MS, window_bounds, window_numbers

_NEEDED = (Role.INDIVIDUAL, Role.TIME, Role.EVENT_ID)


class Classified(NamedTuple):
    """rows: the good rows, in the bound policy's canonical schema and in their order.
    rejected: a record of rejected.avsc for each of the others, in their order."""

    rows: pa.Table
    rejected: list[dict[str, Any]]


class ClassifiedPlaces(NamedTuple):
    """As ``Classified``; good: bool (n,), which rows of the input are the good ones."""

    rows: pa.Table
    rejected: list[dict[str, Any]]
    good: NDArray[np.bool_]


class _Checked(NamedTuple):
    """A column after its checks. ``raw``: as it came; ``read``: its canonical values, coarse where the policy says so,
    null where bad; ``unread``: which those are; ``values``: as read, outside of the domain cut to it where the policy
    says so, else null; ``problems``: (mask, reason, message). ``told``: by row, what came to cells whose fault was
    found before."""

    column: BoundColumn
    raw: pa.Array
    read: pa.Array
    unread: NDArray[np.bool_]
    values: pa.Array
    problems: list[tuple[NDArray[np.bool_], str, str]]
    told: Mapping[int, str | None]


def classify(
    batch: pa.RecordBatch | pa.Table,
    bound: BoundPolicy,
    *,
    source: str | None = None,
    arrived: NDArray[np.int64] | None = None,
    faults: Sequence[CellFault] = (),
) -> Classified:
    """Rows of an input, checked and cast.

    A row is rejected with the reason of its first bad field in the policy's order:
    bad_value (no value of its type, not finite, or it or its window outside of the years 1 to 9999), missing_value (no
    individual, time or event id), outside_domain (of a declared domain with ``outside: reject``), ahead (its time is
    later than its arrival by more than ``max_ahead``). The message
    names every bad field and no value. With ``outside: code`` values are cut to the domain's ends instead.

    Of lasting cohorts a row whose quasi-identifiers alone are at fault is handed on, with nulls in their place and what
    was wrong in FAULT_COLUMN (``quasi_faults``): its individual may be known, and then nothing reads them.

    source: where the rows came from, for the rejected records.     arrived: as ``arrivals`` gives it.
    faults: of cells of the batch that are null, found when its columns were made.
    Raises InputError when the batch lacks a column or has one of another type than the policy was bound to.
    Pure; O(rows x columns), vectorised, with per-row work for rejected rows only.
    """
    classified = classify_places(batch, bound, source=source, arrived=arrived, faults=faults)
    return Classified(classified.rows, classified.rejected)


def classify_places(
    batch: pa.RecordBatch | pa.Table,
    bound: BoundPolicy,
    *,
    source: str | None = None,
    arrived: NDArray[np.int64] | None = None,
    faults: Sequence[CellFault] = (),
    origins: RowOrigins | None = None,
) -> ClassifiedPlaces:
    """As ``classify``, for who needs to know which rows of the input are which.

    faults: of cells of the batch that are null, found when its columns were made. origins: where the rows came from;
    asked for those at fault only.
    """
    names = batch.schema.names
    attributes = bound.attributes
    checked = []
    for column in bound.columns:
        if column.source not in names:
            raise InputError(f"{source or 'a batch'}: has no column {column.source}, which the policy needs")
        raw = one_array(batch.column(names.index(column.source)))
        own = [fault for fault in faults if fault.field == column.source]
        checked.append(_check(column, raw, source, own, attribute=column.name in attributes))
        if column.field.role is Role.TIME and bound.policy.window_ms is not None:
            beyond = beyond_the_calendar(checked[-1].read, bound.policy)
            if beyond.any():
                checked[-1].problems.append(
                    (beyond, "bad_value", "its window ends outside of the years 1 to 9999")
                )
            early = ahead_of_arrival(checked[-1].read, arrived, bound.policy) & ~beyond
            if early.any():
                checked[-1].problems.append((early, "ahead", "later than its arrival by more than max_ahead"))
    bad = _at_fault([each for each in checked if each.column.name not in attributes], batch.num_rows)
    values, schema = [each.values for each in checked], bound.canonical_schema
    read_once = [each for each in checked if each.column.name in attributes]
    faulty = _at_fault(read_once, batch.num_rows) & ~bad
    places = _origins_of(np.flatnonzero(bad | faulty), origins)
    if FAULT_COLUMN in schema.names:
        values.append(_fault_cells(faulty, read_once, places))
    rows = pa.Table.from_arrays(values, schema=schema)
    if not bad.any():
        return ClassifiedPlaces(rows, [], ~bad)
    rejected = list(_rejected(np.flatnonzero(bad), checked, bound, source, places))
    return ClassifiedPlaces(rows.filter(pa.array(~bad)), rejected, ~bad)


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _check(
    column: BoundColumn, raw: pa.Array, source: str | None, faults: Sequence[CellFault], *, attribute: bool
) -> _Checked:
    """faults: of this column's cells. attribute: whether NO_VALUE may stand in the place of text."""
    raw = as_text(column, raw)
    read, bad = read_column(column, raw, source)
    read = coarse_cells(column, read)
    if attribute and form_of(raw.type).text:
        told_none = pc.equal(raw, NO_VALUE)
        if told_none.true_count:
            none = told_none.fill_null(False)
            bad = bad | np.asarray(none)
            read = pc.if_else(none, pa.scalar(None, read.type), read)
    problems = []
    for kind in dict.fromkeys((fault.reason, fault.message) for fault in faults):
        mask = np.zeros(len(raw), dtype=bool)
        mask[[fault.row for fault in faults if (fault.reason, fault.message) == kind]] = True
        problems.append((mask, *kind))
    if bad.any():
        kind = column.as_read.arrow_type
        problems.append((bad, "bad_value", f"not a value of type {kind}, or not finite"))
    if column.source != column.name:  # told of the field whose cells these are
        problems = []
    if read.null_count and column.field.role in _NEEDED:
        missing = np.asarray(read.is_null()) & ~bad
        missing[[fault.row for fault in faults]] = False
        if missing.any():
            problems.append(
                (missing, "missing_value", f"missing, but role: {column.field.role} needs a value")
            )
    values = read
    outside, inside_values = _apply_domain(column, read)
    if outside.any():
        if column.field.quasi is not None and column.field.quasi.outside is Outside.CODE:
            values = inside_values
        else:
            values = pc.if_else(pa.array(outside), pa.scalar(None, read.type), read)
            problems.append((outside, "outside_domain", "outside of the declared domain"))
    return _Checked(column, raw, read, bad, values, problems, {fault.row: fault.text for fault in faults})


class Cells(NamedTuple):
    """What ``classify`` makes of one column by itself. read: canonical values. cut: the same, cut to the domain where
    the policy says so, null where a value is none. problems: each as (mask, reason)."""

    read: pa.Array
    cut: pa.Array
    problems: list[tuple[NDArray[np.bool_], str]]


def cells_of(column: BoundColumn, raw: pa.Array, source: str | None = None) -> Cells:
    """One column, checked. source: where it came from, for errors."""
    checked = _check(column, raw, source, (), attribute=False)
    return Cells(checked.read, checked.values, [(mask, reason) for mask, reason, _ in checked.problems])


def beyond_the_calendar(times: pa.Array, policy: Policy) -> NDArray[np.bool_]:
    """Mask of the times whose window, or the last release that may take them, no reader of dates can hold."""
    size = policy.window_ms or 0
    starts = window_numbers(times, policy) * size + policy.window_offset_ms
    last = starts + size + policy.max_delay_ms
    outside = (starts < FIRST_SECOND * 1000) | (last > END_OF_TIME_MS)
    return outside & np.asarray(times.is_valid())


def ahead_of_arrival(times: pa.Array, arrived: NDArray[np.int64] | None, policy: Policy) -> NDArray[np.bool_]:
    """Mask of the times that are later than their rows' arrival by more than ``max_ahead``."""
    if arrived is None:
        return np.zeros(len(times), dtype=bool)
    milliseconds, missing = to_units(times)
    return ~missing & (arrived >= 0) & (milliseconds > arrived + policy.ahead_limit_ms)


def _apply_domain(column: BoundColumn, values: pa.Array) -> tuple[NDArray[np.bool_], pa.Array]:
    """Mask of the values outside of the declared domain, and the values cut to it."""
    if column.domain is None:
        unlisted = column.unlisted(values)
        return (np.zeros(len(values), dtype=bool) if unlisted is None else unlisted), values
    low, high = column.domain
    units, nulls = to_units(values)
    outside = ~nulls & ((units < low) | (units > high))
    if not outside.any():
        return outside, values
    return outside, from_units(np.clip(units, low, high), nulls, column.arrow_type)


def _at_fault(checked: list[_Checked], rows: int) -> NDArray[np.bool_]:
    """Which rows one of the columns has a problem with, bool (n,)."""
    at_fault = np.zeros(rows, dtype=bool)
    for mask, _, _ in (problem for each in checked for problem in each.problems):
        at_fault |= mask
    return at_fault


def _fault_cells(
    faulty: NDArray[np.bool_], quasis: list[_Checked], places: Mapping[int, RowOrigin]
) -> pa.Array:
    """FAULT_COLUMN of all rows: null but for those in ``faulty``, bool (n,)."""
    if not faulty.any():
        return pa.nulls(faulty.size, pa.string())
    indices = np.flatnonzero(faulty)
    take = pa.array(indices)
    came = {each.column.name: _texts(each, indices, take) for each in quasis}
    kept = {each.column.name: render_text(each.values.take(take)).to_pylist() for each in quasis}
    cells = np.full(faulty.size, None, dtype=object)
    for number, index in enumerate(indices):
        reason, field, message, expected = _told(quasis, index)
        place = places.get(int(index))
        texts = {name: lines[number] for name, lines in came.items() if lines[number] != kept[name][number]}
        unread = _unread(quasis, index)
        cells[index] = QuasiFault(
            reason, field, message, texts, unread, expected, *(place or ())[:2]
        ).to_cell()
    return pa.array(cells, pa.string())


def _origins_of(indices: NDArray[np.int64], origins: RowOrigins | None) -> Mapping[int, RowOrigin]:
    """Where these rows came from, by row; asked once, for a file is read in its order."""
    if origins is None or not indices.size:
        return {}
    rows = indices.tolist()
    return dict(zip(rows, origins.of(rows), strict=True))


def _told(checked: list[_Checked], index: np.int64) -> tuple[str, str, str, str]:
    """Reason and field of a row's first problem, in the columns' order, the message of all of them, and what was
    expected in that field."""
    faults = [
        (column.column, reason, message)
        for column in checked
        for mask, reason, message in column.problems
        if mask[index]
    ]
    first, reason, _ = faults[0]
    message = "; ".join(f"{column.name}: {message}" for column, _, message in faults)
    return reason, first.name, message, expected_instead(first, reason)


def _unread(checked: list[_Checked], index: np.int64) -> tuple[str, ...]:
    """The fields of which a row's text is what came."""
    return tuple(
        column.column.name for column in checked if column.unread[index] or int(index) in column.told
    )


def _rejected(
    indices: NDArray[np.int64],
    checked: list[_Checked],
    bound: BoundPolicy,
    source: str | None,
    places: Mapping[int, RowOrigin],
) -> Iterator[dict[str, Any]]:
    take = pa.array(indices)
    texts = {column.column.name: _texts(column, indices, take) for column in checked}
    ends = _window_ends(checked, take, bound)
    for number, index in enumerate(indices):
        reason, field, message, expected = _told(checked, index)
        place = places.get(int(index)) or RowOrigin(source, None)
        yield {
            "reason": reason,
            "field": field,
            "message": message,
            "window_end": ends[number],
            "source": place.source,
            **told(place),
            "expected": expected,
            "unread": list(_unread(checked, index)),
            "row": {name: cells[number] for name, cells in texts.items()},
        }


def _texts(column: _Checked, indices: NDArray[np.int64], take: pa.Array) -> list[str | None]:
    """Cells of the rows at ``indices`` as canonical text; where a cell could not be read, the text that came."""
    cells = render_text(column.read.take(take)).to_pylist()
    if column.unread.any():
        came = render_text(column.raw.take(take)).to_pylist()
        cells = [came[n] if column.unread[index] else cells[n] for n, index in enumerate(indices)]
    if column.told:
        cells = [column.told.get(int(index), cells[n]) for n, index in enumerate(indices)]
    return cells


def _window_ends(checked: list[_Checked], take: pa.Array, bound: BoundPolicy) -> list[int | None]:
    """End of each rejected row's own window, in milliseconds; None where its time is not known."""
    times = next((column.read for column in checked if column.column.field.role is Role.TIME), None)
    if times is None or bound.policy.window_ms is None:
        return [None] * len(take)
    times = times.take(take)
    numbers = window_numbers(times, bound.policy)
    dated = np.asarray(times.is_valid()) & ~beyond_the_calendar(times, bound.policy)
    return [
        window_bounds(int(number), bound.policy)[1] if valid else None
        for number, valid in zip(numbers, dated, strict=True)
    ]
