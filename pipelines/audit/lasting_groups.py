"""Whose rows are in each group of a release? Told by payload, time, entry, box, and that cohorts stay whole.

A row's candidates are the records of equal payload whose own window lies in the group's, and that may have waited so
long. They are narrowed, and a row that is left without as many candidates as its group has rows like it is a failure:

    1. there are some                               the payload is one of this time
    2. their people have entered by then            nobody is released who is in no cohort
    3. their cohorts' corners lie in the box        a box holds the frozen boxes of its cohorts
    4. a cohort has rows in one group of a release  rows whose candidates are of one cohort settle where it is

Then of each group the candidates must be k different people, their oldest and newest windows its window, and the
corners of their cohorts must explain its box. All of that is necessary, and exact where payloads do not repeat among
those who were there. Rows with more than ``MOST_CANDIDATES`` candidates are not followed, nor are their groups judged:
so the work is linear in the rows. Matching records tell everything (lasting_records.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.audit.boxes import (
    BoxBook,
    EncodedBoxes,
    encode_boxes,
    encode_records,
    outside_boxes,
)
from kanonflow.pipelines.audit.candidate_graph import CandidateGraph, RecordGroups, group_rows
from kanonflow.pipelines.audit.held import HeldBoxes, judge_boxes
from kanonflow.pipelines.audit.read_releases import ReleaseHead
from kanonflow.pipelines.audit.released_groups import ReleasedGroups
from kanonflow.pipelines.audit.report import Findings
from kanonflow.pipelines.audit.rosters import Rosters
from kanonflow.schemas.policy import Policy

MOST_CANDIDATES = 16
"""Records that a row is looked for among."""
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class LastingGround:
    """What groups are held against. Of all n records of the input: end: int64 (n,), end of each one's own window in ms;
    person: int64 (n,), place in ``rosters``, -1: it never entered."""

    policy: Policy
    heads: Sequence[ReleaseHead]
    groups: ReleasedGroups
    rosters: Rosters
    books: Sequence[BoxBook]
    end: np.ndarray
    person: np.ndarray

    @property
    def release_ends(self) -> np.ndarray:
        """When each release was made, int64 (releases,), ms."""
        return np.array([head.end or 0 for head in self.heads], np.int64)

    @property
    def turns(self) -> np.ndarray:
        """In which order releases were made, int64 (releases,)."""
        turn_of = {turn: number for number, turn in enumerate(sorted({head.turn for head in self.heads}))}
        return np.array([turn_of[head.turn] for head in self.heads], np.int64)

    @property
    def entry(self) -> np.ndarray:
        """The turn with which each person entered, int64 (p,)."""
        return self.turns[self.rosters.entered]


class Payloads(NamedTuple):
    """What can be matched. record: int64 (s,), the records that were not rejected; number: int64 (s,), the number of
    each one's payload; of_row: int64 (m,), of each released row."""

    record: np.ndarray
    number: np.ndarray
    of_row: np.ndarray


@dataclass
class _Candidates:
    """Pairs of u units (rows of one group and payload) and records. unit, record: int64 (e,). group, wanted: int64
    (u,), the group and the rows of each unit. failed: bool (u,)."""

    unit: np.ndarray
    record: np.ndarray
    group: np.ndarray
    wanted: np.ndarray
    failed: np.ndarray

    def keep(self, stays: np.ndarray) -> np.ndarray:
        """Drop pairs; bool (u,), units that have now fewer candidates than rows, and had enough before."""
        self.unit, self.record = self.unit[stays], self.record[stays]
        lacking = np.bincount(self.unit, minlength=len(self.group)) < self.wanted
        new = lacking & ~self.failed
        self.failed |= lacking
        return new


def judge_groups(ground: LastingGround, payloads: Payloads, findings: Findings) -> int:
    """Judge every group of every release; how many could not be followed. O(rows d) but for sorting."""
    groups, heads = ground.groups, ground.heads
    pairs, followed = _candidates(ground, payloads)
    entered = np.concatenate([ground.entry, [np.iinfo(np.int64).max]])
    turn = ground.turns[groups.release]

    def note(units: np.ndarray, message: str) -> None:
        if units.any():
            rows = int(pairs.wanted[units].sum())
            releases = np.unique(groups.release[pairs.group[units]])
            findings.add(f"{rows} rows {message}", *(heads[number].release_id for number in releases))

    note(
        pairs.keep(np.ones(len(pairs.unit), bool)),
        "carry a payload that no record of their group's window brings",
    )
    entry = entered[ground.person[pairs.record]]
    note(
        pairs.keep(entry <= turn[pairs.group[pairs.unit]]),
        "carry the payload of people who had not entered by then",
    )
    cohort = _cohorts(ground, pairs)
    encoded = encode_boxes(ground.books)
    inside = _inside(ground, encoded, pairs.group[pairs.unit], cohort)
    note(pairs.keep(inside), "stand in a box that does not hold the frozen boxes of all of their cohorts")
    _settle(ground, pairs, findings, note)
    followed[np.unique(pairs.group[pairs.failed])] = False
    _judge_followed(ground, pairs, followed, findings)
    return int((~followed).sum())


def _candidates(ground: LastingGround, payloads: Payloads) -> tuple[_Candidates, np.ndarray]:
    """Units and their candidates by payload and time; and bool (g,), groups all of whose rows have few enough."""
    policy, groups = ground.policy, ground.groups
    size = policy.window_ms
    assert size is not None
    first, _, wanted = group_rows(np.column_stack([groups.of_row, payloads.of_row]))
    group, number = groups.of_row[first].astype(np.int64), payloads.of_row[first]
    ends, rank = np.unique(ground.end[payloads.record], return_inverse=True)
    stride = len(ends) + 1
    order = np.lexsort((rank, payloads.number))
    keys = payloads.number[order] * stride + rank[order]
    # In a release of that end, who waited longest; and nobody of the group is older than its start.
    oldest = ground.release_ends[groups.release] - policy.waiting_ms
    oldest[np.array([head.closing for head in ground.heads], bool)[groups.release]] = np.iinfo(np.int64).min
    low = np.maximum(groups.start + size, oldest)[group]
    start = np.searchsorted(keys, number * stride + np.searchsorted(ends, low, side="left"), side="left")
    last = np.searchsorted(ends, groups.end[group], side="right")
    stop = np.maximum(np.searchsorted(keys, number * stride + last, side="left"), start)
    many = stop - start > MOST_CANDIDATES
    followed = np.ones(len(groups.release), bool)
    followed[group[many]] = False
    length = np.where(many, 0, stop - start)
    unit = np.repeat(np.arange(len(group)), length)
    place = np.arange(len(unit)) - np.repeat(np.cumsum(length) - length, length) + start[unit]
    # Of rows with too many none is looked for, and none is missed.
    wanted = np.where(many, 0, wanted)
    return _Candidates(
        unit, payloads.record[order[place]], group, wanted, np.zeros(len(group), bool)
    ), followed


def _cohorts(ground: LastingGround, pairs: _Candidates) -> np.ndarray:
    """The cohort of each pair's record; every record is of somebody who entered."""
    return ground.rosters.cohort[ground.person[pairs.record]]


def _inside(
    ground: LastingGround, encoded: EncodedBoxes, group: np.ndarray, cohort: np.ndarray
) -> np.ndarray:
    """Bool (e,): whether all corners of each pair's cohort lie in its group's box. Each distinct pair is asked once."""
    total = len(ground.rosters.members)
    keys, back = np.unique(group * total + cohort, return_inverse=True)
    owner, corner = corners_of(ground.rosters, keys % max(total, 1))
    points = encode_records(ground.rosters.corners[corner], ground.books)
    outside = outside_boxes(encoded, ground.groups.boxes[keys[owner] // max(total, 1)], points, ground.books)
    held = np.ones(len(keys), bool)
    held[owner[outside]] = False
    return held[back]


def corners_of(rosters: Rosters, cohorts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of some cohorts one after the other: the place of each one's cohort among them, and its own place."""
    length = rosters.starts[cohorts + 1] - rosters.starts[cohorts]
    owner = np.repeat(np.arange(len(cohorts)), length)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return owner, rosters.starts[cohorts][owner] + offset


def _settle(
    ground: LastingGround, pairs: _Candidates, findings: Findings, note: Callable[[np.ndarray, str], None]
) -> None:
    """Rows whose candidates are all of one cohort settle in which group it is; that narrows others, and so on."""
    groups, total = ground.groups, len(ground.rosters.members)
    torn: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        cohort = _cohorts(ground, pairs)
        group = pairs.group[pairs.unit]
        least = np.full(len(pairs.group), total)
        most = np.full(len(pairs.group), -1)
        np.minimum.at(least, pairs.unit, cohort)
        np.maximum.at(most, pairs.unit, cohort)
        settled = np.flatnonzero((least == most) & (pairs.wanted > 0))
        where = groups.release[pairs.group[settled]] * np.int64(total) + least[settled]
        places = np.unique(np.column_stack([where, pairs.group[settled]]), axis=0)
        key, first, count = np.unique(places[:, 0], return_index=True, return_counts=True)
        torn.update((key[count > 1] // max(total, 1)).tolist())
        own = groups.release[group] * np.int64(total) + cohort
        at = np.minimum(np.searchsorted(key, own), max(len(key) - 1, 0))
        known = key[at] == own if len(key) else np.zeros(len(own), bool)
        # A cohort that is torn apart is a failure of its own.
        elsewhere = known
        if len(key):
            elsewhere = known & (count[at] == 1) & (places[first[at], 1] != group)
        if not elsewhere.any():
            break
        note(pairs.keep(~elsewhere), "carry the payload of people whose cohort stands in another group")
    if torn:
        findings.add(
            "rows of one cohort stand in two groups of a release",
            *(ground.heads[number].release_id for number in sorted(torn)),
        )


def _judge_followed(
    ground: LastingGround, pairs: _Candidates, followed: np.ndarray, findings: Findings
) -> None:
    """People, windows and boxes of the groups all of whose rows have candidates."""
    groups, rosters, policy = ground.groups, ground.rosters, ground.policy
    assert policy.window_ms is not None
    group = pairs.group[pairs.unit]

    def note(bad: np.ndarray, message: str) -> None:
        bad &= followed
        if bad.any():
            releases = np.unique(groups.release[bad])
            findings.add(
                f"{int(bad.sum())} groups {message}",
                *(ground.heads[number].release_id for number in releases),
            )

    people = np.unique(np.column_stack([group, ground.person[pairs.record]]), axis=0)[:, 0]
    note(
        np.bincount(people, minlength=len(followed)) < policy.k,
        f"have rows of fewer than k = {policy.k} people",
    )
    first = np.full(len(followed), np.iinfo(np.int64).max)
    last = np.full(len(followed), np.iinfo(np.int64).min)
    np.minimum.at(first, group, ground.end[pairs.record])
    np.maximum.at(last, group, ground.end[pairs.record])
    note(
        (first - policy.window_ms != groups.start) | (last != groups.end),
        "have a window that is not that of their rows",
    )
    total = max(len(rosters.members), 1)
    keys = np.unique(group * total + _cohorts(ground, pairs))
    keys = keys[followed[keys // total]]
    judge_hulls(ground, keys // total, keys % total, findings)


def judge_hulls(ground: LastingGround, group: np.ndarray, cohort: np.ndarray, findings: Findings) -> None:
    """Each box is the least of its grid around the corners of cohorts of its group, and around nothing more.

    group, cohort: int64 (e,), which cohorts each group has, by group; others are not judged.
    """
    chosen, place = np.unique(group, return_inverse=True)
    if not len(chosen):
        return
    owner, corner = corners_of(ground.rosters, cohort)
    codes = encode_records(ground.rosters.corners, ground.books)
    size = np.ones(len(codes), np.int64)
    rows = np.bincount(place[owner], minlength=len(chosen))
    graph = CandidateGraph(
        indptr=np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
        columns=corner.astype(np.int32),
        row_size=rows.astype(np.int64),
        record_size=size,
        row_turn=np.zeros(len(chosen), np.int64),
        record_turn=np.zeros(len(codes), np.int64),
    )
    nowhere = np.zeros(len(codes), np.int64)
    points = RecordGroups(
        codes, nowhere.astype(np.int32), nowhere, size, np.arange(len(codes), dtype=np.int32)
    )
    held = HeldBoxes(ground.groups.boxes[chosen], ground.groups.release[chosen], graph, points)
    judge_boxes(held, ground.books, ground.heads, findings, by_levels=False)
