"""Candidate graph of the audit: which groups of input records fit into which groups of released rows.

An input record may stand behind a released row iff their partition values are equal, the record's window
lies in the release's range of windows, and every quasi-identifier of the record lies in the row's box.
Records that agree in (partition, window, quasi-identifiers) have the same candidate rows, and rows that agree
in (release, box) the same candidate records, so the graph is kept between groups with multiplicities.

Quasi-identifiers come as codes. An ordered field (numeric, date) is coded by the rank of its value among the
distinct input values, so that a closed interval of values is a closed interval of codes; a set field
(categorical) by any numbering of its values. A null is code -1.
"""

from dataclasses import dataclass

import numba
import numpy as np

from kanonflow.pipelines.audit.read.boxes import BoxSets
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.schemas.errors import InputError

# 4 bytes a pair here and 5 in the matching, at most 3 GB: a clear message instead of a killed process.
MOST_PAIRS = 330_000_000


@dataclass(frozen=True)
class RecordGroups:
    """Input records grouped by (partition, window, quasi-identifiers).

    ``codes`` int32 (g, d): one code a quasi field, -1 for null. ``partition`` int32 (g,) and ``window`` int64
    (g,): the window's number (0 without a time field). ``size`` int64 (g,): records in the group.
    ``group_of`` int32 (n,): the group of every record.
    """

    codes: np.ndarray
    partition: np.ndarray
    window: np.ndarray
    size: np.ndarray
    group_of: np.ndarray


@dataclass(frozen=True)
class RowGroups:
    """Released rows grouped by (release, box).

    ``low``, ``high`` int32 (b, d): closed code interval of an ordered field (low > high: it holds no number).
    ``nulls`` bool (b, d): the box holds null. ``set_of`` int32 (b, d): index into ``sets``, -1 for an ordered
    field. ``partition`` int32 (b,), -1 for values that no record has. ``first_window``, ``last_window`` int64
    (b,): closed range of the windows whose records may be in the release. ``release`` int32 (b,).
    ``size`` int64 (b,): rows in the group. ``group_of`` int32 (m,): the group of every row.
    """

    low: np.ndarray
    high: np.ndarray
    nulls: np.ndarray
    set_of: np.ndarray
    sets: BoxSets
    partition: np.ndarray
    first_window: np.ndarray
    last_window: np.ndarray
    release: np.ndarray
    size: np.ndarray
    group_of: np.ndarray


@dataclass(frozen=True)
class CandidateGraph:
    """Bipartite graph in CSR form: row group ``j`` has the candidates ``columns[indptr[j]:indptr[j + 1]]``.

    ``indptr`` int64 (b + 1,), ``columns`` int32 (pairs,): record groups. ``row_size`` int64 (b,) and
    ``record_size`` int64 (g,): how many rows and records each group stands for. ``row_turn`` int64 (b,) and
    ``record_turn`` int64 (g,): the last window of a row's candidates and the window of a record.
    """

    indptr: np.ndarray
    columns: np.ndarray
    row_size: np.ndarray
    record_size: np.ndarray
    row_turn: np.ndarray
    record_turn: np.ndarray

    @property
    def pairs(self) -> int:
        """Number of candidate pairs of groups."""
        return len(self.columns)


def group_records(codes: np.ndarray, partition: np.ndarray, window: np.ndarray) -> RecordGroups:
    """Group records by partition (n,), window number (n,) and codes (n, d)."""
    keys = np.column_stack([partition.astype(np.int64), window.astype(np.int64), codes.astype(np.int64)])
    first, group_of, size = group_rows(keys)
    return RecordGroups(
        codes=np.ascontiguousarray(codes[first], dtype=np.int32),
        partition=partition[first].astype(np.int32),
        window=window[first].astype(np.int64),
        size=size,
        group_of=group_of,
    )


def candidate_graph(records: RecordGroups, rows: RowGroups) -> CandidateGraph:
    """All pairs (row group, record group) such that the records may stand behind the rows.

    Records are sorted by (partition, window, most selective field); a row group looks only at its windows,
    and there only at the codes that its box allows in that field. Time is the number of pairs that pass this
    filter times the number of fields; memory 4 bytes a pair found.

    Raises:
        InputError: more than ``MOST_PAIRS`` pairs.
    """
    field_order = _selectivity_order(records, rows)
    block_key, row_first, row_last = _blocks(records, rows)
    primary = records.codes[:, field_order[0]]
    record_order = np.lexsort((primary, block_key))
    blocks, block_start = np.unique(block_key[record_order], return_index=True)
    codes = np.ascontiguousarray(records.codes[record_order][:, field_order])
    cardinality = _code_bounds(records, rows)[field_order]
    arguments = (
        codes,
        np.append(block_start, len(codes)).astype(np.int64),
        np.searchsorted(blocks, row_first, side="left"),
        np.searchsorted(blocks, row_last, side="right"),
        np.ascontiguousarray(rows.low[:, field_order]),
        np.ascontiguousarray(rows.high[:, field_order]),
        np.ascontiguousarray(rows.nulls[:, field_order]),
        np.ascontiguousarray(rows.set_of[:, field_order]),
        rows.sets.indptr,
        rows.sets.codes,
        np.concatenate([[0], np.cumsum(cardinality)]).astype(np.int64),
    )
    counts = np.zeros(len(rows.size), np.int64)
    order = record_order.astype(np.int32)
    _scan(*arguments, order, counts, np.zeros(0, np.int64), np.zeros(0, np.int32))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if indptr[-1] > MOST_PAIRS:
        raise InputError(
            f"the audit would have to hold {indptr[-1]} candidate pairs, more than {MOST_PAIRS}: "
            "the boxes are too wide for windows of this size; audit fewer windows at a time"
        )
    columns = np.empty(indptr[-1], np.int32)
    _scan(*arguments, order, counts, indptr, columns)
    return CandidateGraph(
        indptr=indptr,
        columns=columns,
        row_size=rows.size,
        record_size=records.size,
        row_turn=rows.last_window,
        record_turn=records.window,
    )


def _code_bounds(records: RecordGroups, rows: RowGroups) -> np.ndarray:
    """Length int64 (d,) of a table over the codes -1, 0, ... of each field, those of published sets
    included."""
    return (
        np.maximum(records.codes.max(axis=0, initial=-1), rows.sets.codes.max(initial=-1)).astype(np.int64)
        + 2
    )


def _blocks(records: RecordGroups, rows: RowGroups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One sortable int64 for (partition, window) of records, and each row group's closed range of it."""
    windows, window_rank = np.unique(records.window, return_inverse=True)
    stride = len(windows) + 1
    base = rows.partition.astype(np.int64) * stride
    first = base + np.searchsorted(windows, rows.first_window, side="left")
    last = base + np.searchsorted(windows, rows.last_window, side="right") - 1
    nowhere = rows.partition < 0
    first[nowhere], last[nowhere] = -1, -2
    return records.partition.astype(np.int64) * stride + window_rank, first, last


def _selectivity_order(records: RecordGroups, rows: RowGroups) -> np.ndarray:
    """Fields by the mean share of record groups that a box lets through, smallest first."""
    shares = []
    bounds = _code_bounds(records, rows)
    for field in range(records.codes.shape[1]):
        frequency = np.bincount(records.codes[:, field] + 1, minlength=int(bounds[field]))
        cumulative = np.concatenate([[0], np.cumsum(frequency)])
        set_of = rows.set_of[:, field]
        if len(set_of) and set_of[0] >= 0:
            mass = np.concatenate([[0], np.cumsum(frequency[rows.sets.codes + 1])])
            covered = mass[rows.sets.indptr[set_of + 1]] - mass[rows.sets.indptr[set_of]]
        else:
            top = np.minimum(rows.high[:, field] + 2, len(frequency))
            bottom = np.minimum(rows.low[:, field] + 1, len(frequency))
            covered = np.maximum(cumulative[top] - cumulative[bottom], 0)
        shares.append(float((covered + frequency[0] * rows.nulls[:, field]).mean()) if len(covered) else 0.0)
    return np.argsort(shares, kind="stable")


@numba.njit(cache=True, nogil=True)
def _lower_bound(codes, start, stop, value):  # type: ignore[no-untyped-def]
    """First position in codes[start:stop, 0], which is sorted, that is not below value."""
    while start < stop:
        middle = (start + stop) // 2
        if codes[middle, 0] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@numba.njit(cache=True, nogil=True)
def _scan(  # type: ignore[no-untyped-def]
    codes, block_start, first_block, last_block, low, high, nulls, set_of, set_indptr, set_codes, mark_start,
    order, counts, indptr, columns,
):  # fmt: skip
    """Count (``indptr`` empty) or write the candidates of every row group.

    A set is tested by a mark: position (field, code) holds the number of the last row group whose box has
    that code. Field 0 is the sorted one: its ranges are found by bisection.
    """
    fill = len(indptr) > 0
    fields = codes.shape[1]
    mark = np.full(mark_start[-1], -1, np.int64)
    for row in range(len(first_block)):
        for field in range(1, fields):
            chosen = set_of[row, field]
            if chosen >= 0:
                for position in range(set_indptr[chosen], set_indptr[chosen + 1]):
                    mark[mark_start[field] + set_codes[position] + 1] = row
        found = 0
        chosen = set_of[row, 0]
        ranges = 2 if chosen < 0 else 1 + set_indptr[chosen + 1] - set_indptr[chosen]
        for block in range(first_block[row], last_block[row]):
            for part in range(ranges):
                if part == 0:
                    if not nulls[row, 0]:
                        continue
                    bottom, top = -1, -1
                elif chosen < 0:
                    bottom, top = low[row, 0], high[row, 0]
                else:
                    bottom = set_codes[set_indptr[chosen] + part - 1]
                    top = bottom
                position = _lower_bound(codes, block_start[block], block_start[block + 1], bottom)
                while position < block_start[block + 1] and codes[position, 0] <= top:
                    inside = True
                    for field in range(1, fields):
                        code = codes[position, field]
                        if code < 0:
                            inside = nulls[row, field]
                        elif set_of[row, field] >= 0:
                            inside = mark[mark_start[field] + code + 1] == row
                        else:
                            inside = low[row, field] <= code <= high[row, field]
                        if not inside:
                            break
                    if inside:
                        if fill:
                            columns[indptr[row] + found] = order[position]
                        found += 1
                    position += 1
        counts[row] = found
