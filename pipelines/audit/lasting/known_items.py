"""``against``: does what is out leave enough people to who knows some of a person's windows and rows, and to how many?

Of clauses with ``drop`` everybody must be left with enough. Of others it is counted who is not, and what metrics tell
of it may be no less. Told by whose the rows are that are out, and by nothing that decided it: of all sets of as many
windows and rows as are known, somebody's, at least ``k + known_people`` people of the cohort have all of them. In a run
that goes on, rows that may be out count for those who are left, and those that are out for sure for what is known. Runs
before this one are judged with it where all are judged together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

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
    out = _out(ground, payloads, waiting=waiting)
    left, judged = against.left(ground.policy.k), True
    few = 0
    for windows, purchases in _items(ground, *out, fields, against.windows, against.purchases).values():
        counts = _left(windows, against.windows, purchases, against.purchases)
        judged &= counts is not None
        few += counts is not None and counts < left
    if few:
        findings.add(
            f"{few} cohorts have rows out with which who knows {against.guaranteed.name} is left with fewer than"
            f" {left} people"
        )
    return judged


class CountedLeft(NamedTuple):
    """Of the measured reader of ``against``: below: people left with fewer than k, of ``people`` with rows out."""

    below: int
    people: int


def count_left(
    ground: LastingGround,
    payloads: Payloads,
    fields: np.ndarray,
    metrics: Mapping[str, Mapping[str, Any]],
    findings: Findings,
    *,
    waiting: bool,
) -> CountedLeft | None:
    """Whom the reader leaves who is measured; None: there is none, or it is too much to try.

    Arguments as of ``judge_against``. metrics: of releases, by id. What they tell of a partition in the end must not be
    less; where each window went out at once, and all of the epoch is judged, it is the same. Of a run that goes on it
    is counted of whom that is sure, and metrics are not judged.
    """
    against = ground.policy.against
    if against is None or (reader := against.counted) is None:
        return None
    purchases = reader.known_purchases
    many, few = reader.known_windows.present, 0 if purchases is None else purchases.count
    record, sure = _out(ground, payloads, waiting=waiting)
    least, counts = against.left(ground.policy.k), dict[int, CountedLeft]()
    lies = dict(
        zip(ground.rosters.cohort.tolist(), ground.family(ground.rosters.partition).tolist(), strict=True)
    )
    for cohort, items in _items(ground, record, sure, fields, many, few).items():
        below = _below(items[0], many, items[1], few, least)
        if below is None:
            return None
        seen = reduce(or_, [each for each, _ in (*items[0], *items[1])], 0)
        before = counts.get(lies[cohort], CountedLeft(0, 0))
        counts[lies[cohort]] = CountedLeft(before.below + below, before.people + seen.bit_count())
    if not waiting:
        _judge_told(ground, counts, metrics, findings)
    return CountedLeft(*(sum(each) for each in zip(*counts.values(), strict=True))) if counts else None


def _judge_told(
    ground: LastingGround,
    counts: Mapping[int, CountedLeft],
    metrics: Mapping[str, Mapping[str, Any]],
    findings: Findings,
) -> None:
    """What the last release of each partition tells."""
    by_family: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    last: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for turn, number, head in zip(
        ground.turns.tolist(), ground.partition.tolist(), ground.heads, strict=True
    ):
        record = metrics.get(head.release_id, {})
        if record.get("epoch_against") is not None and (number not in last or last[number][0] <= turn):
            last[number] = turn, record
    whole = _went_out_at_once(ground)
    for number, family in zip(last, ground.family(np.array([*last], np.int64)).tolist(), strict=True):
        by_family[family].append(last[number][1]["epoch_against"])
    for family, each in by_family.items():
        if any(one["at_least"] for one in each) or family not in counts:
            continue
        right = counts[family]
        below, people = (sum(one[name] for one in each) for name in ("below_k", "people"))
        if below < right.below or people < right.people or (whole and (below, people) != right):
            findings.add(
                f"the metrics tell that {below} of {people} people are left with too few by who is measured (against),"
                f" and by whose the rows are it is {right.below} of {right.people}"
            )


def _went_out_at_once(ground: LastingGround) -> bool:
    """Whether each window of the epoch is in one release, so that what is known of it is one item. Heads of earlier
    runs have no start."""
    if ground.policy.split_by or ground.tree.has_splits or any(head.start is None for head in ground.heads):
        return False
    windows = ground.windows
    group, end = windows.covered(np.arange(len(windows.release)))
    release = windows.release[group]
    of_window = np.column_stack([ground.partition[release], end])
    return len(np.unique(of_window, axis=0)) == len(np.unique(np.column_stack([of_window, release]), axis=0))


def _items(
    ground: LastingGround, record: np.ndarray, sure: np.ndarray, fields: np.ndarray, many: int, few: int
) -> dict[int, tuple[set[Pair], set[Pair]]]:
    """Of each cohort, who has each window and each purchase. many, few: how many of them are known; 0: none is here."""
    person = ground.person[record]
    cohort = ground.rosters.cohort[person]
    person = _places(ground)[person]
    windows = np.column_stack([cohort, ground.end[record]])
    sets = [_sets(windows, person, sure, cohort, many > 0)]
    bought = np.column_stack([windows, fields[record]])
    # One by one, how many of such rows everybody has.
    turn = _turns(np.column_stack([bought, person]), sure)
    sets += [
        _sets(bought[turn >= least], person[turn >= least], sure[turn >= least], cohort[turn >= least], True)
        for least in range(few)
    ]
    return {
        each: (sets[0].get(each, set()), set().union(*(own.get(each, set()) for own in sets[1:])))
        for each in sorted({*cohort.tolist()})
    }


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
    met = _met(windows, many, purchases, few)
    return None if met is None else min((may.bit_count() for _, may in met), default=_MOST)


def _below(windows: Iterable[Pair], many: int, purchases: Iterable[Pair], few: int, least: int) -> int | None:
    """How many people surely have such a set that leaves fewer than ``least``; None as of ``_left``."""
    met = _met(windows, many, purchases, few)
    if met is None:
        return None
    return reduce(or_, [sure for sure, may in met if may.bit_count() < least], 0).bit_count()


def _met(windows: Iterable[Pair], many: int, purchases: Iterable[Pair], few: int) -> set[Pair] | None:
    met: set[Pair] = {(-1, -1)}
    for items, turns in ((windows, many), (purchases, few)):
        for _ in range(turns):
            met |= {(sure & own, may & other) for sure, may in met for own, other in items if sure & own}
            if len(met) > _MOST:
                return None
    return met - {(-1, -1)}
