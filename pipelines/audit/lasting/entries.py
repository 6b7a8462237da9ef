"""Does the input explain who entered? With the secret, people of the cohorts are people of the input.

    seen      everybody who entered had a readable row by then, whose own window had ended
    frozen    a person's frozen value is that of one of these rows
    intake    so many newcomers entered at once as the policy asks for, or a row of one had to leave with this release
    late      in a run over files: nobody was left out of an intake, and none that was due was put off

The last is not judged where a feed went on: which rows had come by then is not in the input.
O(rows + people) but for sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanonflow.pipelines.audit.lasting.rosters import Rosters, entered_by
from kanonflow.pipelines.audit.read.carried_state import MOST_PLACES
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import (
    ReleaseHead,
    release_ends,
    release_ids,
    seen_until,
)
from kanonflow.pipelines.audit.shards.shard_tree import NO_SPLITS, ShardTree
from kanonflow.schemas.policy import Policy

INHERITED_MS = -(2**60)
"""Ends of releases from here to the first real one are those of a run that this one continues; its input is not
here."""
SEEN_BEFORE_MS = -(2**58)
"""Of whom only the pool tells: the end of a window before every release of this run, and long over."""
EXPECTED_MS = SEEN_BEFORE_MS + 1
"""Of whom a file of people names the same, plus the place of that run in its chain."""
WAITED_MS = EXPECTED_MS + MOST_PLACES
"""Of who waits because a run before those that are judged was the first to name him: the same, plus its place."""
_EARLIEST = INHERITED_MS // 2
_NEVER = np.iinfo(np.int64).max
# A row whose time is unknown has an end before this.
_NOWHERE = -(2**61)


@dataclass(frozen=True)
class InputRows:
    """n rows of the input. digest: uint64 (n,), whose each is. partition: int32 (n,). end: int64 (n,), end of each
    one's own window in ms. values: int32 (n, d), codes of the quasi-identifiers. readable: bool (n,): all of its values
    can be read, and none is outside of its domain."""

    digest: np.ndarray
    partition: np.ndarray
    end: np.ndarray
    values: np.ndarray
    readable: np.ndarray


def rows_of(rows: InputRows, some: np.ndarray) -> InputRows:
    """Some of the rows, bool (n,)."""
    return InputRows(
        rows.digest[some], rows.partition[some], rows.end[some], rows.values[some], rows.readable[some]
    )


def people_of_rows(rows: InputRows, rosters: Rosters) -> np.ndarray:
    """The place of each row's person among those who entered in its partition, int64 (n,); -1: it never entered."""
    count = len(rosters.person)
    digests = np.concatenate([rosters.person, rows.digest]).view(np.int64)
    own, group, _ = group_rows(
        np.column_stack([np.concatenate([rosters.partition, rows.partition]), digests])
    )
    place = np.full(len(own), -1, np.int64)
    # Of somebody who entered twice the first time counts.
    place[group[:count][::-1]] = np.arange(count)[::-1]
    return place[group[count:]]


def in_their_parts(rows: InputRows, rosters: Rosters, tree: ShardTree) -> InputRows:
    """The rows; those of a shard that was split as of the part in whose cohorts their people are, if in one."""
    partition = rows.partition.copy()
    for part in np.unique(rosters.partition).tolist() if tree.has_splits else ():
        above = np.isin(partition, tree.above(part)[1:])
        above[above] = np.isin(rows.digest[above], rosters.person[rosters.partition == part])
        partition[above] = part
    return replace(rows, partition=partition)


def judge_entries(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    policy: Policy,
    fields: Sequence[str],
    findings: Findings,
    *,
    bounded: bool,
    expected: np.ndarray | None = None,
    tree: ShardTree = NO_SPLITS,
) -> None:
    """Note what the input does not explain. person: of ``people_of_rows``. fields: names of the quasi-identifiers.
    tree: of shards. expected: bool (p,), who entered because he was known from the start, which is no
    intake; None: nobody."""
    expected = np.zeros(len(rosters.person), bool) if expected is None else expected
    ends = release_ends(heads)
    entry = ends[rosters.entered]
    latest = seen_until(heads)[rosters.entered]
    seen = (person >= 0) & rows.readable
    seen[seen] &= rows.end[seen] <= latest[person[seen]]
    count = np.bincount(person[seen], minlength=len(entry))
    here = entry > _EARLIEST
    unseen = (count == 0) & here
    if unseen.any():
        findings.add(
            f"{int(unseen.sum())} people entered before any row of theirs was there",
            *release_ids(heads, rosters.entered[unseen]),
        )
    for place, name in enumerate(fields):
        own = np.flatnonzero(~rosters.forgotten & ~unseen & here)
        width = int(max(rosters.values[:, place].max(initial=0), rows.values[:, place].max(initial=0))) + 2
        told = own * width + rosters.values[own, place] + 1
        brought = person[seen] * width + rows.values[seen, place] + 1
        strange = ~np.isin(told, brought)
        if strange.any():
            findings.add(
                f"field {name}: {int(strange.sum())} people have a frozen value that no row of theirs had when they "
                "entered",
                *release_ids(heads, rosters.entered[own[strange]]),
            )
    # Also by a row whose values cannot be read: its person had been seen, and waited.
    due = (person >= 0) & (rows.end > _NOWHERE)
    due[due] &= ~expected[person[due]]
    over = rows.end[due] + policy.waiting_ms
    closing = np.array([head.closing for head in heads], bool)[rosters.entered[person[due]]]
    # A closing release takes what was due before it, and comes for nothing else.
    due[due] &= (over == entry[person[due]]) | (closing & (over < entry[person[due]]))
    forced = np.bincount(rosters.entered[person[due]], minlength=len(heads)) > 0
    came = np.bincount(rosters.entered[~expected], minlength=len(heads))
    enough = _enough(rosters, heads, partition_of, policy, tree)
    early = (came > 0) & (came < enough) & ~forced & (ends > _EARLIEST)
    if early.any():
        findings.add(
            f"{int(early.sum())} intakes before as many newcomers waited as the policy asks for, or one had to leave",
            *release_ids(heads, np.flatnonzero(early)),
        )
    if bounded:
        others = np.ones(len(person), bool)
        others[person >= 0] = ~expected[person[person >= 0]]
        its = rows_of(rows, others), person[others]
        _judge_put_off(*its, rosters, came > 0, enough, heads, partition_of, policy, findings)


def _enough(
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    policy: Policy,
    tree: ShardTree,
) -> np.ndarray:
    """How many newcomers are an intake at each release, float64 (releases,): by who had entered before it."""
    came = entered_by(rosters.entered, rosters.partition, heads, tree)
    entered, before = np.zeros(len(heads)), dict.fromkeys(partition_of, 0)
    for number in sorted(range(len(heads)), key=lambda number: heads[number].turn):
        entered[number] = before[partition_of[number]]
        for own, count in came[number].items():
            before[own] = before.get(own, 0) + count
    return np.maximum(np.ceil(policy.cohorts.intake_share * entered), policy.cohorts.intake)


def _judge_put_off(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    intakes: np.ndarray,
    enough: np.ndarray,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    policy: Policy,
    findings: Findings,
) -> None:
    """At each release: who had been seen and was in no cohort; all of them entered, or the conditions did not hold.

    intakes: bool, with which releases some of them did. enough: how many are an intake."""
    readable = rows.readable & (rows.end > _NOWHERE)
    people, who, _ = group_rows(
        np.column_stack([rows.partition[readable], rows.digest[readable].view(np.int64)])
    )
    count = len(people)
    end = rows.end[readable]
    first = np.full(count, _NEVER)
    np.minimum.at(first, who, end)
    partition = np.zeros(count, np.int64)
    partition[who] = rows.partition[readable]
    ends = release_ends(heads)
    entry = np.full(count, _NEVER)
    known = person[readable] >= 0
    entry[who[known]] = ends[rosters.entered[person[readable][known]]]
    # Rows of newcomers whose time was over before these had entered: with them all of the pool had to enter.
    over = end + policy.waiting_ms < entry[who]
    had_to = np.unique(np.column_stack([partition[who], end + policy.waiting_ms])[over], axis=0)
    held = set(map(tuple, had_to.tolist()))
    order = np.argsort(partition, kind="stable")
    borders = np.searchsorted(partition[order], np.arange(int(partition.max(initial=0)) + 2))
    left_out, put_off = [], []
    # Where an intake came to nothing by dropped rows, who came after it enters in cohorts of their own, or waits.
    stays = (policy.cohort_size or policy.k) if policy.against is not None and policy.against.drops else 1
    sorted_of: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for number, (at, own) in enumerate(zip(ends.tolist(), partition_of, strict=True)):
        if own < 0 or own + 1 >= len(borders) or heads[number].closing:
            continue
        if own not in sorted_of:
            members = order[borders[own] : borders[own + 1]]
            sorted_of[own] = np.sort(first[members]), np.sort(np.maximum(entry[members], first[members]))
        seen, entered = sorted_of[own]
        pool = int(np.searchsorted(seen, at, side="right") - np.searchsorted(entered, at, side="right"))
        if intakes[number]:
            if pool >= stays:
                left_out.append(number)
        elif pool >= max(policy.cohort_size or 0, policy.k) and (pool >= enough[number] or (own, at) in held):
            put_off.append(number)
    if left_out:
        findings.add(
            "an intake that left out people who had been seen", *release_ids(heads, np.array(left_out))
        )
    if put_off:
        findings.add("an intake that was due was put off", *release_ids(heads, np.array(put_off)))
