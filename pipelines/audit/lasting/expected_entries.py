"""Did those who were known from the start enter as such? They stand among the rows as ones long before all others.

kinds      a person is of the kind of the first run whose file named him, where he was in no cohort, and so were a
           cohort's worth of others whom that run was the first to name in his partition
values     what that file had is the frozen value, a null as well, whatever rows say
apart      no cohort has people of two kinds, nor people who were seen and people who were known from the start
first      they entered with the first release of their partition, of that run or one behind it
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, WAITED_MS, InputRows
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.carried_state import MOST_PLACES
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead, release_ends, release_ids
from kanonflow.pipelines.audit.shards.shard_tree import NO_SPLITS, ShardTree
from kanonflow.schemas.policy import Policy

_NEVER = np.iinfo(np.int64).max


def are_expected(rows: InputRows) -> np.ndarray:
    """Which rows stand for somebody who was known from the start, bool (n,)."""
    return (rows.end >= EXPECTED_MS) & (rows.end < WAITED_MS + MOST_PLACES)


def places_of(rows: InputRows) -> np.ndarray:
    """The place of the run that each row stands for, int64 (n,): of those that ``are_expected``."""
    return rows.end - np.where(rows.end < WAITED_MS, EXPECTED_MS, WAITED_MS)


def entered_as_expected(
    rows: InputRows, person: np.ndarray, rosters: Rosters, heads: Sequence[ReleaseHead]
) -> np.ndarray:
    """Which of these rows are of somebody who entered with the run that expected him or a later one, bool (n,)."""
    entered = are_expected(rows) & (person >= 0)
    entered[entered] = _entered_at(person[entered], rosters, heads) >= places_of(rows)[entered]
    return entered


def count_for_nothing(
    rows: InputRows,
    person: np.ndarray,
    lies: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    policy: Policy,
) -> np.ndarray:
    """Which rows of people of files give nobody a kind, bool (n,): he has one, or was in a cohort, or fewer than a
    cohort of his partition were new with him; these are known by their rows as others are.

    lies: int64 (n,), the partition of each, or the shard that its own was split from.
    """
    its = np.flatnonzero(are_expected(rows))
    least, waited, place = policy.cohort_size or policy.k, rows.end[its] >= WAITED_MS, places_of(rows)[its]
    people, who, _ = group_rows(np.column_stack([lies[its], rows.digest[its].view(np.int64)]))
    since, has = _entered_at(person[its], rosters, heads), np.zeros(len(people), bool)
    counts = np.zeros(len(its), bool)
    # Who waits since a run that is not judged has his kind from there; then run by run.
    turn = np.where(waited, -1, place)
    order = np.argsort(turn, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(turn[order])) + 1):
        own = own[~has[who[own]] & (since[own] >= turn[own])]
        counts[own] = _are_many(np.column_stack([lies[its[own]], place[own]]), least)
        # Of a shard that was split since, too few may be in a part.
        moved = own[lies[its[own]] != rows.partition[its[own]]]
        counts[moved] &= _are_many(np.column_stack([rows.partition[its[moved]], place[moved]]), least)
        has[who[own[counts[own]]]] = True
    nothing = np.zeros(len(rows.end), bool)
    nothing[its] = ~counts
    return nothing


def _are_many(keys: np.ndarray, least: int) -> np.ndarray:
    """Whether each row of keys, int64 (n, c), stands there so often, bool (n,)."""
    _, group, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return count[group.ravel()] >= least


def _entered_at(person: np.ndarray, rosters: Rosters, heads: Sequence[ReleaseHead]) -> np.ndarray:
    """The place of the run with which each person entered, int64 (n,)."""
    place, at = np.array([head.place for head in heads], np.int64), np.full(len(person), _NEVER)
    inside = person >= 0
    at[inside] = place[rosters.entered[person[inside]]]
    return at


def judge_expected_entries(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    fields: Sequence[str],
    findings: Findings,
    tree: ShardTree = NO_SPLITS,
) -> None:
    """Without those who ``count_for_nothing``. fields: names of the quasi-identifiers. tree: of shards."""
    named = entered_as_expected(rows, person, rosters, heads)
    who, values = person[named], rows.values[named]
    for place, name in enumerate(fields):
        other = ~rosters.forgotten[who] & (rosters.values[who, place] != values[:, place])
        if other.any():
            findings.add(
                f"field {name}: {int(other.sum())} people have another frozen value than the file of people says",
                *release_ids(heads, np.unique(rosters.entered[who[other]])),
            )
    kind = np.full(len(rosters.person), -1, np.int64)
    kind[who] = places_of(rows)[named]
    first, last = np.full(len(rosters.members), _NEVER), np.full(len(rosters.members), -1, np.int64)
    np.minimum.at(first, rosters.cohort, kind)
    np.maximum.at(last, rosters.cohort, kind)
    for mixed, whom in (
        ((first < 0) & (last >= 0), "who were seen and people who were known from the start"),
        ((first >= 0) & (first < last), "whom files of different runs were the first to name"),
    ):
        if mixed.any():
            findings.add(
                f"{int(mixed.sum())} cohorts have people {whom}",
                *release_ids(heads, np.unique(rosters.cohort_entered[mixed])),
            )
    _judge_first(rows, person, rosters, heads, partition_of, tree, findings)


def _judge_first(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    tree: ShardTree,
    findings: Findings,
) -> None:
    # Of one window's end those of a partition stand together.
    turns = np.array([head.turn[:2] for head in heads], np.int64).reshape(-1, 2)
    rank = np.unique(turns, axis=0, return_inverse=True)[1].ravel()
    # Of releases of the runs themselves; those of earlier ones stand before all others.
    here = release_ends(heads) > WAITED_MS + MOST_PLACES
    made: dict[int, list[tuple[int, int]]] = {}
    for number in np.flatnonzero(here)[np.argsort(rank[here], kind="stable")].tolist():
        made.setdefault(partition_of[number], []).append((heads[number].place, int(rank[number])))
    expected = np.flatnonzero(are_expected(rows))
    at = np.full(len(expected), _NEVER)
    entered = person[expected] >= 0
    at[entered] = rank[rosters.entered[person[expected[entered]]]]
    own, group = np.unique(
        np.column_stack([rows.partition[expected], places_of(rows)[expected]]), axis=0, return_inverse=True
    )
    due = np.full(len(own), _NEVER)
    for number, (partition, place) in enumerate(own.tolist()):
        for above in tree.above(partition):
            later = made.get(above, [])
            since = bisect_left(later, (place,))
            if since < len(later):
                due[number] = min(due[number], later[since][1])
    late = int((at > due[group.ravel()]).sum()) if len(expected) else 0
    if late:
        findings.add(f"{late} people who were known from the start did not enter with the first release")
