"""Can every released row be given its own input record? A maximum flow between groups.

A matching between records and rows that uses ``f`` pairs of a record group and a row group is, because the
members of a group have the same neighbours, any flow with value ``f`` on that pair: rows of group ``j`` send
``row_size[j]`` units, records of group ``i`` take ``record_size[i]``, and a candidate pair carries any
number. The release is a generalization of the records iff the flow fills both sides.
"""

from dataclasses import dataclass

import numba
import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph

# Columns of the pool of pairs that carry flow; each record group keeps its own as a doubly linked list.
_EDGE, _ROW, _FLOW, _NEXT, _PREVIOUS = range(5)


@dataclass(frozen=True)
class Placement:
    """A maximum placement of rows on records.

    ``placed``: units of flow. ``row_left`` int64 (b,) and ``record_left`` int64 (g,): what remains unplaced.
    ``flow_row`` int32 (p,), ``flow_record`` int32 (p,), ``flow`` int64 (p,): the pairs that carry flow.
    ``phases``: rounds of augmentation that were needed after the greedy start.
    """

    placed: int
    row_left: np.ndarray
    record_left: np.ndarray
    flow_row: np.ndarray
    flow_record: np.ndarray
    flow: np.ndarray
    phases: int

    @property
    def perfect(self) -> bool:
        """Whether every row has a record and every record a row."""
        return not self.row_left.any() and not self.record_left.any()


def place(graph: CandidateGraph) -> Placement:
    """Maximum flow from rows to records: greedy start, then Dinic's blocking flows, window after window.

    Rows of early windows are settled first, on the oldest records that fit: what a window leaves over then
    never has to be pushed back through the windows after it. A phase costs O(pairs reached) and a window
    needs O(sqrt(n)) of them for groups of one (Hopcroft-Karp); memory is 4 bytes a pair, because only pairs
    that carry flow (at most one a row) are stored with more than an index.
    """
    row_left = graph.row_size.copy()
    record_left = graph.record_size.copy()
    most = int(min(graph.row_size.sum(), graph.record_size.sum(), graph.pairs))
    pool = np.empty((most + 1, 5), np.int64)
    entry_of = np.full(graph.pairs, -1, np.int32)
    head = np.full(len(record_left), -1, np.int32)
    cursor = np.zeros(2, np.int64)
    cursor[1] = -1
    row_order = np.lexsort((np.diff(graph.indptr), graph.row_turn))
    demand = np.zeros(len(record_left), np.int64)
    _tally(graph.columns, demand)
    rank = np.empty(len(record_left), np.int64)
    rank[np.lexsort((demand, graph.record_turn))] = np.arange(len(rank))
    turns = graph.row_turn[row_order]
    stage_start = np.concatenate([[0], np.flatnonzero(np.diff(turns)) + 1, [len(turns)]]).astype(np.int64)
    phases = _fill(
        row_order, stage_start, graph.indptr, graph.columns, rank,
        row_left, record_left, pool, entry_of, head, cursor,
    )  # fmt: skip
    kept = np.flatnonzero(entry_of >= 0)
    entries = entry_of[kept]
    return Placement(
        placed=int(graph.row_size.sum() - row_left.sum()),
        row_left=row_left,
        record_left=record_left,
        flow_row=pool[entries, _ROW].astype(np.int32),
        flow_record=graph.columns[kept],
        flow=pool[entries, _FLOW].copy(),
        phases=int(phases),
    )


@numba.njit(cache=True, nogil=True)
def _tally(columns, demand):  # type: ignore[no-untyped-def]
    """Candidate rows of every record; numpy's bincount would first widen all pairs to 8 bytes."""
    for record in columns:
        demand[record] += 1


@numba.njit(cache=True, nogil=True)
def _add(edge, row, record, amount, pool, entry_of, head, cursor):  # type: ignore[no-untyped-def]
    """Put ``amount`` units on an edge; a new pair goes to the front of its record's list."""
    entry = entry_of[edge]
    if entry >= 0:
        pool[entry, _FLOW] += amount
        return
    entry = cursor[1]
    if entry >= 0:
        cursor[1] = pool[entry, _NEXT]
    else:
        entry = cursor[0]
        cursor[0] += 1
    pool[entry, _EDGE] = edge
    pool[entry, _ROW] = row
    pool[entry, _FLOW] = amount
    pool[entry, _PREVIOUS] = -1
    pool[entry, _NEXT] = head[record]
    if head[record] >= 0:
        pool[head[record], _PREVIOUS] = entry
    head[record] = entry
    entry_of[edge] = entry


@numba.njit(cache=True, nogil=True)
def _take(entry, record, amount, pool, entry_of, head, cursor, record_at):  # type: ignore[no-untyped-def]
    """Take ``amount`` units off a pair; an emptied pair leaves its list and the walk's position steps over
    it."""
    pool[entry, _FLOW] -= amount
    if pool[entry, _FLOW] > 0:
        return
    before, after = pool[entry, _PREVIOUS], pool[entry, _NEXT]
    if record_at[record] == entry:
        record_at[record] = after
    if before >= 0:
        pool[before, _NEXT] = after
    else:
        head[record] = after
    if after >= 0:
        pool[after, _PREVIOUS] = before
    entry_of[pool[entry, _EDGE]] = -1
    pool[entry, _NEXT] = cursor[1]
    cursor[1] = entry


@numba.njit(cache=True, nogil=True)
def _greedy(  # type: ignore[no-untyped-def]
    row_order, indptr, columns, rank, row_left, record_left, pool, entry_of, head, cursor
):
    """Rows in order, each taking the free records of the smallest rank."""
    for row in row_order:
        while row_left[row] > 0:
            best = -1
            for edge in range(indptr[row], indptr[row + 1]):
                record = columns[edge]
                if record_left[record] > 0 and (best < 0 or rank[record] < rank[columns[best]]):
                    best = edge
            if best < 0:
                break
            record = columns[best]
            amount = min(row_left[row], record_left[record])
            _add(best, row, record, amount, pool, entry_of, head, cursor)
            row_left[row] -= amount
            record_left[record] -= amount


@numba.njit(cache=True, nogil=True)
def _levels(  # type: ignore[no-untyped-def]
    roots,
    indptr,
    columns,
    row_left,
    record_left,
    pool,
    head,
    row_level,
    record_level,
    row_at,
    record_at,
    queue,
):
    """Breadth-first levels from those ``roots`` that have units left.

    A record has the level of the row it was reached from, the rows that use it have the next one. Every node
    reached starts its exploration anew. Returns the level of the nearest record with room (-1: none) and the
    number of rows in ``queue``, which are all that were reached.
    """
    tail = 0
    for row in roots:
        if row_left[row] > 0:
            row_level[row] = 0
            row_at[row] = indptr[row]
            queue[tail] = row
            tail += 1
    nearest = -1
    front = 0
    while front < tail:
        row = queue[front]
        front += 1
        level = row_level[row]
        if nearest >= 0 and level > nearest:
            break
        for edge in range(indptr[row], indptr[row + 1]):
            record = columns[edge]
            if record_level[record] >= 0:
                continue
            record_level[record] = level
            record_at[record] = head[record]
            if record_left[record] > 0:
                nearest = level
                continue
            entry = head[record]
            while entry >= 0:
                other = pool[entry, _ROW]
                if row_level[other] < 0:
                    row_level[other] = level + 1
                    row_at[other] = indptr[other]
                    queue[tail] = other
                    tail += 1
                entry = pool[entry, _NEXT]
    return nearest, tail


@numba.njit(cache=True, nogil=True)
def _deepen(  # type: ignore[no-untyped-def]
    root, nearest, indptr, columns, row_left, record_left, pool, entry_of, head, cursor,
    row_level, record_level, row_at, record_at, path_row, path_entry,
):  # fmt: skip
    """Depth-first search along rising levels: sends what ``root`` has left over shortest augmenting paths.

    The path is row, edge, record, pair that carries flow, row, ...: units are added to its edges and taken
    off its pairs. ``row_at`` and ``record_at`` hold how far each node has been explored in this phase; a
    pair that is new in this phase leads back by a level and need not be seen.
    """
    depth = 0
    path_row[0] = root
    while row_left[root] > 0:
        row = path_row[depth]
        edge = row_at[row]
        if edge == indptr[row + 1]:
            if depth == 0:
                return
            depth -= 1
            record = columns[row_at[path_row[depth]]]
            record_at[record] = pool[path_entry[depth + 1], _NEXT]
            continue
        record = columns[edge]
        if record_level[record] != row_level[row]:
            row_at[row] += 1
        elif record_left[record] > 0:
            amount = min(row_left[root], record_left[record])
            for step in range(1, depth + 1):
                amount = min(amount, pool[path_entry[step], _FLOW])
            for step in range(1, depth + 1):
                middle = columns[row_at[path_row[step - 1]]]
                _take(path_entry[step], middle, amount, pool, entry_of, head, cursor, record_at)
            for step in range(depth + 1):
                edge = row_at[path_row[step]]
                _add(edge, path_row[step], columns[edge], amount, pool, entry_of, head, cursor)
            row_left[root] -= amount
            record_left[record] -= amount
            depth = 0
        else:
            entry = record_at[record]
            while entry >= 0 and row_level[pool[entry, _ROW]] != row_level[row] + 1:
                entry = pool[entry, _NEXT]
            record_at[record] = entry
            if entry < 0 or row_level[row] == nearest:
                row_at[row] += 1
            else:
                depth += 1
                path_row[depth] = pool[entry, _ROW]
                path_entry[depth] = entry


@numba.njit(cache=True, nogil=True)
def _fill(  # type: ignore[no-untyped-def]
    row_order, stage_start, indptr, columns, rank, row_left, record_left, pool, entry_of, head, cursor
):
    """Place the rows stage by stage: greedily, then by blocking flows until no augmenting path is left.

    A row that has no augmenting path when its stage ends has none later either, so every stage is final.
    Returns the number of phases of all stages.
    """
    rows, records = len(row_left), len(record_left)
    row_level = np.full(rows, -1, np.int32)
    record_level = np.full(records, -1, np.int32)
    row_at = np.empty(rows, np.int64)
    record_at = np.empty(records, np.int64)
    queue = np.empty(rows, np.int32)
    path_row = np.empty(rows, np.int32)
    path_entry = np.empty(rows, np.int64)
    phases = 0
    for stage in range(len(stage_start) - 1):
        roots = row_order[stage_start[stage] : stage_start[stage + 1]]
        _greedy(roots, indptr, columns, rank, row_left, record_left, pool, entry_of, head, cursor)
        while True:
            nearest, reached = _levels(
                roots, indptr, columns, row_left, record_left, pool, head,
                row_level, record_level, row_at, record_at, queue,
            )  # fmt: skip
            if nearest >= 0:
                phases += 1
                for root in roots:
                    if row_left[root] > 0:
                        _deepen(
                            root, nearest, indptr, columns, row_left, record_left, pool, entry_of, head,
                            cursor, row_level, record_level, row_at, record_at, path_row, path_entry,
                        )  # fmt: skip
            for position in range(reached):
                row = queue[position]
                row_level[row] = -1
                for edge in range(indptr[row], indptr[row + 1]):
                    record_level[columns[edge]] = -1
            if nearest < 0:
                break
    return phases
