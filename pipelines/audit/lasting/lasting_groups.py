"""Whose rows are in each group of a release? Faults of single rows, told by payload, time, entry and box.

A row's candidates are the records of equal payload whose own window lies in the group's, and that may have waited so
long. They are narrowed, and a row that is left without as many candidates as its group has rows like it is a failure:

    1. there are some                               the payload is one of this time
    2. their people have entered by then            nobody is released who is in no cohort
    3. their cohorts' corners lie in the box        a box holds the frozen boxes of its cohorts
    4. a cohort has rows in one group of a release  rows whose candidates are of one cohort settle where it is

All of that is necessary, and names what is wrong. Rows with more than ``MOST_CANDIDATES`` candidates are left out: so
the work is linear in the rows. Where no row is at fault, whole groups are followed (followed_groups.py). Matching
records tell everything (lasting_records.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.lasting.followed_groups import Followed, follow_groups
from kanonflow.pipelines.audit.lasting.frozen_hulls import judge_hulls, note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.lasting.points_in_boxes import corners_of
from kanonflow.pipelines.audit.read.boxes import EncodedBoxes, encode_boxes, encode_records, outside_boxes
from kanonflow.pipelines.audit.read.equal_rows import extreme, group_rows, runs
from kanonflow.pipelines.audit.read.findings import Findings

MOST_CANDIDATES = 16
"""Records that a row is looked for among."""
_MOST_ROUNDS = 8


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


def judge_groups(
    ground: LastingGround,
    payloads: Payloads,
    held: tuple[np.ndarray, np.ndarray],
    findings: Findings,
    *,
    waiting: bool,
) -> Followed:
    """Judge every group of every release. held: pairs of a group and a cohort that lies in its box. waiting: the run
    goes on. O(rows d) but for sorting, and what ``follow_groups`` takes."""
    groups, heads = ground.groups, ground.heads
    pairs, listed = _candidates(ground, payloads)
    spoiled = np.zeros(len(heads), bool)
    entered = np.concatenate([ground.entry, [np.iinfo(np.int64).max]])
    turn = ground.turns[groups.release]

    def note(units: np.ndarray, message: str) -> None:
        if units.any():
            rows = int(pairs.wanted[units].sum())
            releases = np.unique(groups.release[pairs.group[units]])
            spoiled[releases] = True
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
    if ground.tree.has_splits:
        lies = ground.rosters.partition[ground.person[pairs.record]]
        shard = ground.partition[groups.release[pairs.group[pairs.unit]]]
        note(
            pairs.keep(ground.tree.covers(shard, lies)),
            "carry the payload of people of another part of a shard that was split",
        )
    cohort = _cohorts(ground, pairs)
    encoded = encode_boxes(ground.books)
    inside = _inside(ground, encoded, pairs.group[pairs.unit], cohort)
    note(pairs.keep(inside), "stand in a box that does not hold the frozen boxes of all of their cohorts")
    spoiled[_settle(ground, pairs, findings, note)] = True
    listed[np.unique(pairs.group[pairs.failed])] = False
    _judge_listed(ground, pairs, listed & spoiled[groups.release], findings)
    return follow_groups(ground, payloads, held, spoiled, findings, waiting=waiting)


def _candidates(ground: LastingGround, payloads: Payloads) -> tuple[_Candidates, np.ndarray]:
    """Units and their candidates by payload and time; and bool (g,), groups all of whose rows have few enough."""
    policy, groups = ground.policy, ground.groups
    size = policy.cohorts.window_ms
    group, number, wanted = payloads.units(groups)
    ends, rank = np.unique(ground.end[payloads.record], return_inverse=True)
    stride = len(ends) + 1
    order = np.lexsort((rank, payloads.number))
    keys = payloads.number[order] * stride + rank[order]
    # In a release of that end, who waited longest; and nobody of the group is older than its start.
    oldest = ground.release_ends[groups.release] - policy.waiting_ms
    oldest[ground.closing[groups.release]] = np.iinfo(np.int64).min
    low = np.maximum(groups.start + size, oldest)[group]
    start = np.searchsorted(keys, number * stride + np.searchsorted(ends, low, side="left"), side="left")
    last = np.searchsorted(ends, groups.end[group], side="right")
    stop = np.maximum(np.searchsorted(keys, number * stride + last, side="left"), start)
    many = stop - start > MOST_CANDIDATES
    followed = np.ones(len(groups.release), bool)
    followed[group[many]] = False
    unit, place = runs(start, np.where(many, start, stop))
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
    owner, corner = corners_of(ground.rosters, keys % total)
    points = encode_records(ground.rosters.corners[corner], ground.books)
    outside = outside_boxes(encoded, ground.groups.boxes[keys[owner] // total], points, ground.books)
    held = np.ones(len(keys), bool)
    held[owner[outside]] = False
    return held[back]


def _settle(
    ground: LastingGround, pairs: _Candidates, findings: Findings, note: Callable[[np.ndarray, str], None]
) -> list[int]:
    """Rows whose candidates are all of one cohort settle in which group it is; that narrows others, and so on. Releases
    in which a cohort is torn apart."""
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
        places = np.column_stack([where, pairs.group[settled]])
        places = places[group_rows(places)[0]]
        key, first, count = np.unique(places[:, 0], return_index=True, return_counts=True)
        torn.update((key[count > 1] // total).tolist())
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
    return sorted(torn)


def _judge_listed(ground: LastingGround, pairs: _Candidates, listed: np.ndarray, findings: Findings) -> None:
    """People, windows and boxes of groups all of whose rows have candidates, where others of the release have none."""
    groups, rosters, policy = ground.groups, ground.rosters, ground.policy
    group = pairs.group[pairs.unit]
    people = group[group_rows(np.column_stack([group, ground.person[pairs.record]]))[0]]
    few = listed & (np.bincount(people, minlength=len(listed)) < policy.k)
    note_groups(ground, np.flatnonzero(few), f"have rows of fewer than k = {policy.k} people", findings)
    first, last = (
        extreme(of, group, ground.end[pairs.record], len(listed)) for of in (np.minimum, np.maximum)
    )
    wrong = listed & ((first - policy.cohorts.window_ms != groups.start) | (last != groups.end))
    note_groups(ground, np.flatnonzero(wrong), "have a window that is not that of their rows", findings)
    total = len(rosters.members)
    keys = np.unique(group * total + _cohorts(ground, pairs))
    keys = keys[listed[keys // total]]
    own, owner = np.unique(keys // total, return_inverse=True)
    judge_hulls(ground, own, owner, keys % total, findings)
