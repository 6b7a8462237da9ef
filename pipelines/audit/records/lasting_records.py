"""With matching records: are the groups of each release whole cohorts, under the boxes of these and the rows' windows?

A matching record names the group of each record, so nothing is left to be found out: of each release

    everybody has entered by then; no cohort has rows in two groups
    a group of the record is a group of the release: one class_id each
    its window is that of its rows; its box the snapped hull of the frozen boxes of the cohorts that have rows in it
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kanonflow.pipelines.audit.lasting.frozen_hulls import judge_hulls
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.lasting.points_in_boxes import corners_of
from kanonflow.pipelines.audit.read.boxes import encode_records
from kanonflow.pipelines.audit.read.equal_rows import extreme
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.records.record_structure import Boxes, Recorded


class RecordedCohorts:
    """One matching record after the other against the same cohorts. ground: of all records of the input."""

    counts_shared = False

    def __init__(self, ground: LastingGround) -> None:
        self._ground = ground
        self._turns, self._entry = ground.turns, ground.entry
        self._pairs: list[np.ndarray] = []

    def faults(self, boxes: Boxes, of: Recorded) -> Iterator[str]:
        """As of ``Members``."""
        ground, groups = self._ground, self._ground.groups
        kept = of.record[of.told.kept]
        person = ground.person[kept]
        late = person < 0
        late[~late] = self._entry[person[~late]] > self._turns[of.number]
        if late.any():
            yield f"{int(late.sum())} rows of people who had not entered by then"
            return
        label = of.told.groups[of.told.kept]
        group = groups.of_row[of.rows][of.told.row].astype(np.int64)
        pairs = np.unique(np.column_stack([label, group]), axis=0)
        if len(pairs) != len(np.unique(label)) or len(pairs) != len(np.unique(group)):
            yield "its groups are not those of the release"
            return
        cohort = ground.rosters.cohort[person]
        whole = np.unique(np.column_stack([group, cohort]), axis=0)
        torn = len(whole) - len(np.unique(whole[:, 1]))
        if torn:
            yield f"{torn} cohorts have rows in two groups"
        yield from self._window_faults(group, ground.end[kept])
        self._pairs.append(whole)
        owner, corner = corners_of(ground.rosters, whole[:, 1])
        points = encode_records(ground.rosters.corners[corner], ground.books)
        box = whole[owner, 0]
        outside = boxes.outside(groups.boxes[box], points)
        if outside.any():
            yield f"{len(np.unique(box[outside]))} boxes do not hold the frozen boxes of all of their cohorts"

    def _window_faults(self, group: np.ndarray, end: np.ndarray) -> Iterator[str]:
        groups, size = self._ground.groups, self._ground.policy.cohorts.window_ms
        own, place = np.unique(group, return_inverse=True)
        first, last = (extreme(of, place, end, len(own)) for of in (np.minimum, np.maximum))
        wrong = (first - size != groups.start[own]) | (last != groups.end[own])
        if wrong.any():
            yield f"{int(wrong.sum())} groups have a window that is not that of their rows"

    def judge_boxes(self, findings: Findings) -> None:
        """Once all matching records were read: every box is the least around the cohorts of its group."""
        if self._pairs:
            pairs = np.unique(np.concatenate(self._pairs), axis=0)
            group, owner = np.unique(pairs[:, 0], return_inverse=True)
            judge_hulls(self._ground, group, owner, pairs[:, 1], findings)
