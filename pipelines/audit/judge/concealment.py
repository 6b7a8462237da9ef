"""How many rows could be a record's, and how many individuals could be behind a row, over all releases.

A pair (record, row) is *allowed* iff some perfect matching of all records and rows uses it. A candidate that
no perfect matching uses protects nobody: with records a, b and rows {a}, {a, b}, record a has two candidate
rows, but only one way to match them exists.

**Allowed pairs from components.** Direct every candidate pair from its row group to its record group (the
flow on it can grow), and every pair that carries flow also back (its flow can shrink). For a flow that fills
both sides, records ``r`` of group ``i`` and rows ``s`` of group ``j`` that are candidates of each other are
allowed iff the pair (i, j) carries flow or ``i`` and ``j`` lie in one strongly connected component of this
graph:

- *Carries flow.* Some record of ``i`` is matched with some row of ``j``. Records of a group have the same
  candidates, and so have its rows, so exchanging them for ``r`` and ``s`` gives a perfect matching
  with (r, s).
- *One component, no flow.* The arc j -> i lies on a simple directed cycle. It does not use i -> j, which does
  not exist without flow. Add one unit on the cycle's arcs from rows to records and take one off those from
  records to rows, which carry at least one: group totals stay, and the flow on (i, j) is now one: first case.
- *Neither.* Suppose a perfect matching used (r, s). Its flow minus ours has zero net at every group, so it
  splits into directed cycles, growing on arcs row -> record and shrinking on arcs record -> row of pairs
  where ours carries flow: cycles of this graph. The one through j -> i puts both into one component.
  Contradiction.

A pair that carries flow has both arcs, so it lies within a component: the test is the component alone.
"""

from dataclasses import dataclass

import numba
import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph
from kanonflow.pipelines.audit.judge.matching import Placement


@dataclass(frozen=True)
class GroupMembers:
    """Distinct individuals of each record group with their number of records in it, in CSR form.

    ``indptr`` int64 (g + 1,), ``individual`` int32 (e,), ``count`` int64 (e,).
    """

    indptr: np.ndarray
    individual: np.ndarray
    count: np.ndarray


@dataclass(frozen=True)
class Concealment:
    """Allowed candidates. ``components``: strongly connected components of the graph of groups.

    ``row_component`` int32 (b,), ``record_component`` int32 (g,). ``rows_of_record`` int64 (g,): allowed
    rows of each record of the group. ``records_of_row``, ``individuals_of_row`` int64 (b,): allowed records,
    and distinct individuals among them, of each row of the group. ``oldest_window`` int64 (b,): the oldest
    window of an allowed record.
    """

    components: int
    row_component: np.ndarray
    record_component: np.ndarray
    rows_of_record: np.ndarray
    records_of_row: np.ndarray
    individuals_of_row: np.ndarray
    oldest_window: np.ndarray


def group_members(group_of: np.ndarray, individual: np.ndarray, groups: int) -> GroupMembers:
    """Members of every group from the group (n,) and the individual's number (n,) of every record."""
    people = int(individual.max(initial=0)) + 1
    key, count = np.unique(group_of.astype(np.int64) * people + individual, return_counts=True)
    indptr = np.searchsorted(key // people, np.arange(groups + 1)).astype(np.int64)
    return GroupMembers(indptr, (key % people).astype(np.int32), count.astype(np.int64))


def conceal(
    graph: CandidateGraph, placement: Placement, members: GroupMembers, window: np.ndarray
) -> Concealment:
    """Allowed candidates of every group, for a perfect ``placement``; ``window`` int64 (g,) of record groups.

    Time O(pairs x individuals in a record group); memory O(groups) beyond the graph.

    Raises:
        ValueError: the placement is not perfect: allowed pairs are then not defined.
    """
    if not placement.perfect:
        raise ValueError("allowed pairs are defined only for a perfect placement")
    rows, records = len(graph.row_size), len(graph.record_size)
    order = np.argsort(placement.flow_record, kind="stable")
    back_start = np.searchsorted(placement.flow_record[order], np.arange(records + 1)).astype(np.int64)
    component, components = _components(graph.indptr, graph.columns, back_start, placement.flow_row[order])
    row_component, record_component = component[:rows], component[rows:]
    rows_of_record = np.zeros(records, np.int64)
    records_of_row = np.zeros(rows, np.int64)
    individuals_of_row = np.zeros(rows, np.int64)
    oldest_window = np.zeros(rows, np.int64)
    _count(
        graph.indptr, graph.columns, component, graph.row_size, graph.record_size,
        members.indptr, members.individual, np.full(int(members.individual.max(initial=0)) + 1, rows, np.int32),
        window, rows_of_record, records_of_row, individuals_of_row, oldest_window,
    )  # fmt: skip
    return Concealment(
        components=int(components),
        row_component=row_component,
        record_component=record_component,
        rows_of_record=rows_of_record,
        records_of_row=records_of_row,
        individuals_of_row=individuals_of_row,
        oldest_window=oldest_window,
    )


@numba.njit(cache=True, nogil=True)
def _components(indptr, columns, back_start, back_row):  # type: ignore[no-untyped-def]
    """Tarjan's strongly connected components, iterative, rows first and then records; no copy of the
    pairs."""
    rows = len(indptr) - 1
    nodes = rows + len(back_start) - 1
    component = np.full(nodes, -1, np.int32)
    index = np.full(nodes, -1, np.int32)
    lowest = np.empty(nodes, np.int32)
    at = np.empty(nodes, np.int64)
    at[:rows] = indptr[:rows]
    at[rows:] = back_start[:-1]
    waiting = np.empty(nodes, np.int32)
    path = np.empty(nodes, np.int32)
    waiting_count = 0
    visited = 0
    components = 0
    for root in range(nodes):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            node = path[depth]
            if index[node] < 0:
                index[node] = visited
                lowest[node] = visited
                visited += 1
                waiting[waiting_count] = node
                waiting_count += 1
            stop = indptr[node + 1] if node < rows else back_start[node - rows + 1]
            if at[node] < stop:
                following = rows + columns[at[node]] if node < rows else back_row[at[node]]
                at[node] += 1
                if index[following] < 0:
                    depth += 1
                    path[depth] = following
                elif component[following] < 0:
                    lowest[node] = min(lowest[node], index[following])
                continue
            if lowest[node] == index[node]:
                while True:
                    waiting_count -= 1
                    member = waiting[waiting_count]
                    component[member] = components
                    if member == node:
                        break
                components += 1
            depth -= 1
            if depth >= 0:
                lowest[path[depth]] = min(lowest[path[depth]], lowest[node])
    return component, components


@numba.njit(cache=True, nogil=True)
def _count(  # type: ignore[no-untyped-def]
    indptr, columns, component, row_size, record_size, member_start, member, seen, window,
    rows_of_record, records_of_row, individuals_of_row, oldest_window,
):  # fmt: skip
    """Sums over allowed pairs; ``seen`` holds the last row group that counted an individual; more than
    there are: none did."""
    rows = len(row_size)
    for row in range(rows):
        oldest = np.iinfo(np.int64).max
        for edge in range(indptr[row], indptr[row + 1]):
            record = columns[edge]
            if component[rows + record] != component[row]:
                continue
            rows_of_record[record] += row_size[row]
            records_of_row[row] += record_size[record]
            oldest = min(oldest, window[record])
            for position in range(member_start[record], member_start[record + 1]):
                individual = member[position]
                if seen[individual] != row:
                    seen[individual] = row
                    individuals_of_row[row] += 1
        oldest_window[row] = oldest
