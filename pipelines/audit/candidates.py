"""Steps 4 to 7 of an audit: the graph of candidates over all releases, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.evidence import (
    Evidence,
    window_number,
    window_range,
    windows_of,
)
from kanonflow.pipelines.audit.judge.candidate_graph import (
    CandidateGraph,
    RecordGroups,
    RowGroups,
    candidate_graph,
    group_records,
)
from kanonflow.pipelines.audit.judge.concealment import Concealment, GroupMembers, conceal, group_members
from kanonflow.pipelines.audit.judge.held import HeldBoxes, judge_boxes
from kanonflow.pipelines.audit.judge.judgement import judge_concealment, judge_placement, judge_starts
from kanonflow.pipelines.audit.judge.known import left_after
from kanonflow.pipelines.audit.judge.matching import place
from kanonflow.pipelines.audit.judge.payload import judge_payloads, match_payloads
from kanonflow.pipelines.audit.judge.people_counted import judge_people, people_of_graph
from kanonflow.pipelines.audit.judge.waiting import (
    may_wait,
    released_concealment,
    released_part,
    with_waiting,
)
from kanonflow.pipelines.audit.read.boxes import encode_boxes, encode_records
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_input import told_metrics
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.report import AuditFigures
from kanonflow.pipelines.audit.sharded_rows import ShardedRows

if TYPE_CHECKING:
    from kanonflow.pipelines.audit.protections import Graphs


class Judged(NamedTuple):
    """What classes are judged by. individual: of each record, numbers from 0; None: each is its own. resting: bool,
    groups of records that may still wait."""

    graph: CandidateGraph
    concealment: Concealment
    records: RecordGroups
    rows: RowGroups
    individual: np.ndarray | None
    heads: Sequence[ReleaseHead]
    resting: np.ndarray


def examine(
    protection: Graphs,
    evidence: Evidence,
    figures: AuditFigures,
    folder: Path,
    findings: Findings,
    known: int,
    sharded: ShardedRows,
) -> AuditFigures:
    """Judge all releases. known: as of ``audit``. sharded: which partition or shard records and releases are of."""
    policy, heads = evidence.bound.policy, evidence.released.heads
    if not len(evidence.records) and not len(evidence.released.release):
        return figures
    records, rows = _groups(evidence, sharded)
    graph = candidate_graph(records, rows)
    waits = np.zeros(len(records.size), bool)
    whole = graph
    if figures.waiting:
        waits = may_wait(records, heads, sharded.partition_of, policy)
        whole = with_waiting(graph, waits, figures.waiting)
    placement = place(whole)
    # A missing individual was reported already; it must not be anybody's number.
    individual = next((_numbers(evidence.columns(evidence.records, [name])) for name in policy.owner), None)
    members = _members(individual, records)
    shown = released_part(placement) if figures.waiting else placement
    figures = replace(
        figures,
        individuals=None if individual is None else len(np.unique(individual)),
        record_groups=len(records.size),
        row_groups=len(rows.size),
        pairs=graph.pairs,
        unplaced=int(shown.row_left.sum()),
    )
    judge_placement(graph, shown, rows, heads, findings)
    if not placement.perfect or not len(rows.size):
        return figures
    concealment = conceal(whole, placement, members, records.window)
    of = Judged(graph, concealment, records, rows, individual, heads, waits)
    _examine_payloads(protection, evidence, of, figures.waiting or 0, findings)
    if known and not figures.waiting:
        left = left_after(whole, placement, members, records.window, known, policy.k)
        figures = replace(
            figures,
            known=known,
            known_rows=left.rows_of_record,
            known_individuals=left.behind_row,
            known_below_k=left.below_k,
        )
    if figures.waiting:
        concealment, waits = released_concealment(concealment, waits)
        of = of._replace(concealment=concealment, resting=waits)
    if individual is not None:
        counts = people_of_graph(graph, of.concealment, members, rows.release, of.resting, len(heads))
        loose = judge_people(heads, told_metrics(folder / "restricted" / "metrics"), counts, findings)
        figures = replace(figures, counted_loosely=loose)
    return _judge(protection, evidence, of, figures, findings)


def _examine_payloads(
    protection: Graphs, evidence: Evidence, of: Judged, waiting: int, findings: Findings
) -> None:
    """The second matching, and the boxes; with closed classes both together tell more (``narrowed``)."""
    bound, released, rows = evidence.bound, evidence.released, of.rows
    payload = np.ascontiguousarray(
        evidence.columns(evidence.records, [column.name for column in bound.payload])
    )
    matching = match_payloads(of.records, rows, payload, released.payload, of.resting, waiting)
    boxes = np.zeros((len(rows.size), released.boxes.shape[1]), np.int32)
    boxes[rows.group_of] = released.boxes
    held = HeldBoxes(boxes, rows.release, of.graph, of.records)
    if judge_payloads(matching, of.heads, findings):
        held = protection.narrowed(matching, held, of, findings)
    judge_boxes(held, evidence.box_books, of.heads, findings, as_low=not bound.policy.by_levels)


def _judge(
    protection: Graphs, evidence: Evidence, of: Judged, figures: AuditFigures, findings: Findings
) -> AuditFigures:
    """Steps 6 and 7."""
    policy, (graph, concealment, _, rows, individual, heads, resting) = evidence.bound.policy, of
    behind = concealment.records_of_row if individual is None else concealment.individuals_of_row
    judge_concealment(concealment, behind, graph, rows, policy.k, heads, findings, resting)
    if policy.window_ms is not None:
        starts = [window_number(head.start, policy) for head in heads]
        judge_starts(concealment, rows, np.array(starts, np.int64), heads, findings)
    may_be = concealment.rows_of_record[~resting]
    size = graph.record_size[~resting]
    return replace(
        figures,
        classes=protection.judged(of, findings),
        components=concealment.components,
        fewest_rows_of_record=int(may_be.min()) if len(may_be) else None,
        records_at_k=float(np.average(may_be == policy.k, weights=size)) if len(may_be) else None,
        fewest_individuals_of_row=int(behind.min()),
        rows_at_k=float(np.average(behind == policy.k, weights=graph.row_size)),
        mean_individuals_of_row=float(np.average(behind, weights=graph.row_size)),
    )


def _groups(evidence: Evidence, sharded: ShardedRows) -> tuple[RecordGroups, RowGroups]:
    released, books = evidence.released, evidence.box_books
    quasis = evidence.columns(evidence.records, [book.book.column.name for book in books])
    records = group_records(
        encode_records(quasis, books), sharded.partition, windows_of(evidence, evidence.records)
    )

    keys = np.column_stack([released.release, released.boxes])
    first, group_of, size = group_rows(keys)
    release, boxes = released.release[first], released.boxes[first]
    encoded = encode_boxes(books)
    bounds = [window_range(head, evidence.bound.policy) for head in released.heads]
    windows = np.array(bounds, np.int64).reshape(-1, 2)[release]
    low, high, nulls, set_of = (
        np.column_stack([of[field][boxes[:, field]] for field in range(len(books))])
        for of in (encoded.low, encoded.high, encoded.nulls, encoded.set_of)
    )
    rows = RowGroups(
        low=low,
        high=high,
        nulls=nulls,
        set_of=set_of,
        sets=encoded.sets,
        partition=np.array(sharded.partition_of, np.int32)[release],
        first_window=windows[:, 0],
        last_window=windows[:, 1],
        release=release,
        size=size,
        group_of=group_of,
    )
    return records, rows


def _numbers(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _members(individual: np.ndarray | None, records: RecordGroups) -> GroupMembers:
    """Individuals of the record groups; nobody without such a field."""
    if individual is not None:
        return group_members(records.group_of, individual, len(records.size))
    nobody = np.zeros(0, np.int32)
    return GroupMembers(np.zeros(len(records.size) + 1, np.int64), nobody, nobody.astype(np.int64))
