"""Is the box of a group the snapped hull of the frozen boxes of a set of cohorts?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph, RecordGroups
from kanonflow.pipelines.audit.judge.held import HeldBoxes, box_faults
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.lasting.points_in_boxes import corners_of
from kanonflow.pipelines.audit.read.boxes import encode_records
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import release_ids


def hull_faults(
    ground: LastingGround, group: np.ndarray, owner: np.ndarray, cohort: np.ndarray
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name of a field, what is wrong there, and with which sets, bool (s,).

    group: int64 (s,), whose box each set is held against. owner: int64 (e,), place of the set that each cohort, int64
    (e,), is of. O(corners d).
    """
    order = np.argsort(owner, kind="stable")
    owner, cohort = owner[order], cohort[order]
    place, corner = corners_of(ground.rosters, cohort)
    codes = encode_records(ground.rosters.corners, ground.books)
    rows = np.bincount(owner[place], minlength=len(group))
    size = np.ones(len(codes), np.int64)
    graph = CandidateGraph(
        indptr=np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
        columns=corner.astype(np.int32),
        row_size=rows.astype(np.int64),
        record_size=size,
        row_turn=np.zeros(len(group), np.int64),
        record_turn=np.zeros(len(codes), np.int64),
    )
    nowhere = np.zeros(len(codes), np.int64)
    points = RecordGroups(
        codes, nowhere.astype(np.int32), nowhere, size, np.arange(len(codes), dtype=np.int32)
    )
    held = HeldBoxes(ground.groups.boxes[group], ground.groups.release[group], graph, points)
    yield from box_faults(held, ground.books)


def judge_hulls(
    ground: LastingGround, group: np.ndarray, owner: np.ndarray, cohort: np.ndarray, findings: Findings
) -> None:
    """Each box is the least of its grid around the corners of the cohorts of its group, and around nothing more.
    Arguments as ``hull_faults``."""
    if not len(group):
        return
    for field, message, bad in hull_faults(ground, group, owner, cohort):
        if bad.any():
            findings.add(
                f"field {field}: {message}", *release_ids(ground.heads, ground.groups.release[group[bad]])
            )


def note_groups(ground: LastingGround, group: np.ndarray, message: str, findings: Findings) -> None:
    """Note a fault of some groups, int64, with the releases that they are of; nothing of none."""
    if len(group):
        findings.add(
            f"{len(group)} groups {message}", *release_ids(ground.heads, ground.groups.release[group])
        )
