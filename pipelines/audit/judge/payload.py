"""A second matching: can every row be given a record that fits its box, its windows AND its payload?

The first matching (audit_matching) leaves the payload out, for the promise is about somebody who knows none. But what
was published did put each record's own payload on one of the boxes that hold it. So there must be a perfect matching in
which, besides, every row has its record's payload; otherwise payloads were moved after the fact. Rows and records fall
into groups of equal payload, which are matched each by itself: where payloads do not repeat the groups are single
records, and the matching is forced. Memory and time follow from the pairs within groups, never more than the first
matching has of them for single records.

What it proves: some honest run could have published these payloads on these boxes. What it does not: that this run did.
Two payloads that change places between boxes that hold both records leave a perfect matching; telling them apart takes
the members (audit_matching_records).

With ``protect: individual`` and closed classes the forced part says more: a row's record is one of its class, so the
members of classes are known where payloads are unique, and counts, classes and boxes are judged by them
(``class_members``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import (
    CandidateGraph,
    RecordGroups,
    RowGroups,
    candidate_graph,
)
from kanonflow.pipelines.audit.judge.concealment import Concealment, conceal, group_members
from kanonflow.pipelines.audit.judge.matching import Placement, place
from kanonflow.pipelines.audit.judge.waiting import with_waiting
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead


@dataclass(frozen=True)
class PayloadMatching:
    """Records and rows grouped by payload as well, and the matching of these groups.

    parent: int32 (b,), the group of rows, without payload, that each finer group of rows is of. waits: bool (g,).
    """

    records: RecordGroups
    rows: RowGroups
    parent: np.ndarray
    graph: CandidateGraph
    placement: Placement
    waits: np.ndarray


def match_payloads(
    records: RecordGroups,
    rows: RowGroups,
    of_record: np.ndarray,
    of_row: np.ndarray,
    waits: np.ndarray,
    waiting: int,
) -> PayloadMatching:
    """Match rows (m,) with records (n,) of equal payload; ``of_record`` int32 (n, p), ``of_row`` int32 (m, p).

    waits: bool (g,), groups of ``records`` that may be in no release yet; waiting: how many records are not.
    """
    _, number, _ = group_rows(np.concatenate([of_record, of_row]))
    own, other = number[: len(of_record)], number[len(of_record) :]
    finer, parent_of_record = _split_records(records, own)
    split, parent = _split_rows(rows, other)
    graph = candidate_graph(finer, split)
    may = waits[parent_of_record]
    whole = with_waiting(graph, may, waiting) if waiting else graph
    return PayloadMatching(finer, split, parent, whole, place(whole), may)


def _split_records(records: RecordGroups, payload: np.ndarray) -> tuple[RecordGroups, np.ndarray]:
    first, group_of, size = group_rows(np.column_stack([records.group_of, payload]))
    parent = records.group_of[first]
    return RecordGroups(
        codes=np.ascontiguousarray(records.codes[parent]),
        # Rows and records of one payload are of one partition, whose fields are among it.
        partition=payload[first].astype(np.int32),
        window=records.window[parent],
        size=size,
        group_of=group_of,
    ), parent


def _split_rows(rows: RowGroups, payload: np.ndarray) -> tuple[RowGroups, np.ndarray]:
    first, group_of, size = group_rows(np.column_stack([rows.group_of, payload]))
    parent = rows.group_of[first]
    return replace(
        rows,
        low=np.ascontiguousarray(rows.low[parent]),
        high=np.ascontiguousarray(rows.high[parent]),
        nulls=np.ascontiguousarray(rows.nulls[parent]),
        set_of=np.ascontiguousarray(rows.set_of[parent]),
        partition=payload[first].astype(np.int32),
        first_window=rows.first_window[parent],
        last_window=rows.last_window[parent],
        release=rows.release[parent],
        size=size,
        group_of=group_of,
    ), parent


def judge_payloads(matching: PayloadMatching, heads: Sequence[ReleaseHead], findings: Findings) -> bool:
    """Whether every row has a record of its payload, and every record that must be out a row; else a failure."""
    left = matching.placement.row_left[: len(matching.parent)]
    if left.any():
        releases = np.unique(matching.rows.release[left > 0])
        findings.add(
            f"payloads stand in other boxes or windows than their records can: {int(left.sum())} rows have a payload "
            "that no record left to them brings",
            *(heads[release].release_id for release in releases),
        )
    return matching.placement.perfect


def class_members(matching: PayloadMatching, classes: int) -> tuple[CandidateGraph, Concealment]:
    """Which groups of records each of ``classes`` groups of rows can have when the payload has its say.

    The graph has the pairs that some perfect matching uses, so all of them are allowed in the concealment.
    Raises ValueError: there is no perfect matching.
    """
    graph, records = matching.graph, matching.records
    nobody = group_members(records.group_of, np.zeros(len(records.group_of), np.int64), len(records.size))
    allowed = conceal(graph, matching.placement, nobody, records.window)
    row = np.repeat(np.arange(len(graph.row_size)), np.diff(graph.indptr))
    kept = allowed.row_component[row] == allowed.record_component[graph.columns]
    kept &= row < len(matching.parent)
    pairs = np.unique(matching.parent[row[kept]].astype(np.int64) * len(records.size) + graph.columns[kept])
    owner, column = pairs // len(records.size), (pairs % len(records.size)).astype(np.int32)
    size = np.bincount(matching.parent, weights=matching.rows.size, minlength=classes).astype(np.int64)
    turn = np.zeros(classes, np.int64)
    pruned = CandidateGraph(
        indptr=np.searchsorted(owner, np.arange(classes + 1)).astype(np.int64),
        columns=column,
        row_size=size,
        record_size=records.size,
        row_turn=turn,
        record_turn=records.window,
    )
    whole = replace(
        allowed,
        row_component=np.zeros(classes, np.int32),
        record_component=np.zeros(len(records.size), np.int32),
    )
    return pruned, whole
