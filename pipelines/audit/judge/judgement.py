"""From figures to failures: what the audit says about the graph it has built."""

from collections.abc import Sequence

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph, RowGroups
from kanonflow.pipelines.audit.judge.classes import ClassFaults
from kanonflow.pipelines.audit.judge.concealment import Concealment
from kanonflow.pipelines.audit.judge.matching import Placement
from kanonflow.pipelines.audit.read.equal_rows import extreme
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead, release_ids


def judge_placement(
    graph: CandidateGraph,
    placement: Placement,
    rows: RowGroups,
    heads: Sequence[ReleaseHead],
    findings: Findings,
) -> None:
    """Every row must be placed on a record of its own, and every record taken."""
    if placement.perfect:
        return
    lost_rows, all_rows = int(placement.row_left.sum()), int(graph.row_size.sum())
    lost_records, all_records = int(placement.record_left.sum()), int(graph.record_size.sum())
    findings.add(
        f"not a generalization of the original: {lost_rows} of {all_rows} released rows and "
        f"{lost_records} of {all_records} records cannot be placed"
    )
    nobody = np.diff(graph.indptr) == 0
    if nobody.any():
        findings.add(
            f"{int(rows.size[nobody].sum())} rows have a box that holds no record of their windows",
            *release_ids(heads, rows.release[nobody]),
        )
    reached = np.zeros(len(graph.record_size), bool)
    reached[graph.columns] = True
    if not reached.all():
        findings.add(f"{int(graph.record_size[~reached].sum())} records lie in no box of their windows")


def judge_concealment(
    concealment: Concealment,
    behind: np.ndarray,
    graph: CandidateGraph,
    rows: RowGroups,
    k: int,
    heads: Sequence[ReleaseHead],
    findings: Findings,
    resting: np.ndarray,
) -> None:
    """Every record may be at least k rows, every row may be at least k individuals; ``behind`` int64 (b,).

    resting: bool (g,), records that may still wait; they are judged when they are out.
    """
    exposed = (concealment.rows_of_record < k) & ~resting
    if exposed.any():
        findings.add(
            f"{int(graph.record_size[exposed].sum())} records may be fewer than k = {k} rows "
            f"(fewest: {int(concealment.rows_of_record[exposed].min())})"
        )
    thin = behind < k
    if thin.any():
        findings.add(
            f"{int(rows.size[thin].sum())} rows may belong to fewer than k = {k} individuals "
            f"(fewest: {int(behind.min())})",
            *release_ids(heads, rows.release[thin]),
        )


def judge_starts(
    concealment: Concealment,
    rows: RowGroups,
    starts: np.ndarray,
    heads: Sequence[ReleaseHead],
    findings: Findings,
) -> None:
    """``starts`` int64 (releases,): number of the window that each release names as its oldest record's."""
    oldest = extreme(np.minimum, rows.release, concealment.oldest_window, len(heads))
    late = np.flatnonzero(oldest > starts)
    if len(late):
        findings.add(
            "window_start is older than any record that may be in the release", *release_ids(heads, late)
        )


def judge_classes(
    faults: ClassFaults, rows: RowGroups, k: int, heads: Sequence[ReleaseHead], findings: Findings
) -> None:
    """Classes of individuals that cannot be what ``protect: individual`` promises."""
    if len(faults.unshared):
        findings.add(
            f"{len(faults.unshared)} classes with somebody whose number of rows fewer than k = {k} share",
            *release_ids(heads, rows.release[faults.unshared]),
        )
    if len(faults.unfilled):
        findings.add(
            f"{len(faults.unfilled)} classes whose rows cannot be dealt out in numbers that k = {k} share",
            *release_ids(heads, rows.release[faults.unfilled]),
        )
    if len(faults.scattered):
        findings.add("an individual has rows in more than one class", *release_ids(heads, faults.scattered))
