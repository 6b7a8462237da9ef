"""``against`` with ``drop``: does what is out leave enough people to who knows some of a person's windows and rows?

Told by whose the rows are that are out, and by nothing that decided it: of all sets of as many windows and rows as are
known, somebody's, at least ``k + known_people`` people of the cohort have all of them. In a run that goes on, rows that
may be out count for those who are left, and those that are out for sure for what is known. Runs before this one are
judged with it where all are judged together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from kanonflow.pipelines.audit.lasting.followed_groups import due_of
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings

Pair = tuple[int, int]
"""People of a cohort as bits: of whom something is out for sure, and of whom it may be."""
_MOST = 300_000


def judge_against(
    ground: LastingGround, payloads: Payloads, fields: np.ndarray, findings: Findings, *, waiting: bool
) -> bool:
    """Whether it was judged, all of it. fields: int (n, f), codes of the fields of ``known_purchases`` of each record.

    waiting: the run goes on. Time: rows, and of each cohort the different intersections of its items.
    """
    against = ground.policy.against
    if against is None or not against.drops:
        return False
    record, sure = _out(ground, payloads, waiting=waiting)
    person = ground.person[record]
    cohort = ground.rosters.cohort[person]
    person = _places(ground)[person]
    windows = np.column_stack([cohort, ground.end[record]])
    sets = [_sets(windows, person, sure, cohort, against.windows > 0)]
    bought = np.column_stack([windows, fields[record]])
    # One by one, how many of such rows everybody has.
    turn = _turns(np.column_stack([bought, person]), sure)
    sets += [
        _sets(bought[turn >= least], person[turn >= least], sure[turn >= least], cohort[turn >= least], True)
        for least in range(against.purchases)
    ]
    left, judged = against.left(ground.policy.k), True
    few = 0
    for each in sorted({*cohort.tolist()}):
        items = [own.get(each, set()) for own in sets]
        counts = _left(items[0], against.windows, set().union(*items[1:]), against.purchases)
        judged &= counts is not None
        few += counts is not None and counts < left
    if few:
        findings.add(
            f"{few} cohorts have rows out with which who knows {against.guaranteed.name} is left with fewer than"
            f" {left} people"
        )
    return judged


def _places(ground: LastingGround) -> np.ndarray:
    """The place of everybody who entered among the people of the own cohort, int64 (p,)."""
    own = ground.rosters.cohort
    order = np.argsort(own, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(own[order], own[order])
    return place


def _out(ground: LastingGround, payloads: Payloads, *, waiting: bool) -> tuple[np.ndarray, np.ndarray]:
    """Records that may be out, and of which that is sure, bool."""
    record = payloads.record[ground.person[payloads.record] >= 0]
    if not waiting:
        return record, np.ones(len(record), bool)
    due = due_of(ground, payloads, waiting=waiting)
    may = np.unique(due.record)
    return record[may], np.isin(may, due.record[due.certain])


def _turns(rows: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Of each row how many equal ones stand before it, int64 (n,); sure ones stand first."""
    _, number, _ = group_rows(rows)
    order = np.lexsort((~sure, number))
    begins = np.searchsorted(number[order], number[order])
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - begins
    return turn


def _sets(
    items: np.ndarray, person: np.ndarray, sure: np.ndarray, cohort: np.ndarray, wanted: bool
) -> dict[int, set[Pair]]:
    """Of each cohort, who has each item."""
    sets: dict[int, set[Pair]] = defaultdict(set)
    if not wanted or not len(items):
        return sets
    _, number, _ = group_rows(items)
    owner = np.zeros(int(number.max()) + 1, np.int64)
    owner[number] = cohort
    has: list[list[int]] = [[0, 0] for _ in owner]
    for item, who, certain in set(zip(number.tolist(), person.tolist(), sure.tolist(), strict=True)):
        has[item][0] |= certain << who
        has[item][1] |= 1 << who
    for cohort_of, each in zip(owner.tolist(), has, strict=True):
        sets[cohort_of].add((each[0], each[1]))
    return sets


def _left(windows: Iterable[Pair], many: int, purchases: Iterable[Pair], few: int) -> int | None:
    """The fewest people that any set of so many windows and purchases of somebody leaves; None: there are too many."""
    met: set[Pair] = {(-1, -1)}
    for items, turns in ((windows, many), (purchases, few)):
        for _ in range(turns):
            met |= {(sure & own, may & other) for sure, may in met for own, other in items if sure & own}
            if len(met) > _MOST:
                return None
    return min((may.bit_count() for _, may in met - {(-1, -1)}), default=_MOST)
