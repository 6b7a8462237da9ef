"""Is what is told of who entered a roster? Segments against each other, against the releases, and against the policy.

    a partition's segments follow each other: numbers, counts, chain of digests, ends of their releases, one epoch
    cohorts are numbered without gaps, and each has ``cohort_size`` people who entered in one release
    nobody enters twice, in one partition or in two
    a cohort's corners span its members' frozen values exactly, where nobody of it is forgotten

What takes the input is judged elsewhere (entries.py). O(people + corners) but for sorting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.boxes import BoxBook, encode_records
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.shards.shard_tree import ShardTree
from kanonflow.schemas.policy import Policy

_TWO_FOLDERS = "the cohorts of one partition lie in two folders, or two partitions share one"


@dataclass(frozen=True)
class Rosters:
    """Everybody who entered, and all cohorts, of all partitions one after the other.

    person: uint64 (p,), digests. partition: int32 (p,), number of the partition as records are numbered. cohort: int64
    (p,), numbered over all partitions. entered: int32 (p,), the release. forgotten: bool (p,).
    values: int32 (p, d), codes of the frozen values.
    members, cohort_entered: int64 (c,), people of each cohort, and the release that it came with.
    corners: int32 (x, d), codes; those of cohort c are ``corners[starts[c]:starts[c + 1]]``.
    """

    person: np.ndarray
    partition: np.ndarray
    cohort: np.ndarray
    entered: np.ndarray
    forgotten: np.ndarray
    values: np.ndarray
    members: np.ndarray
    cohort_entered: np.ndarray
    corners: np.ndarray
    starts: np.ndarray

    def fewest(self, person: np.ndarray) -> int | None:
        """The fewest people of a cohort of anybody of these, int64 (n,); -1 is in none. None: so are all of them."""
        sizes = self.members[self.cohort[person[person >= 0]]]
        return int(sizes.min()) if len(sizes) else None


def read_rosters(
    segments: Sequence[EnteredSegment],
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    policy: Policy,
    metrics: Mapping[str, Mapping[str, Any]],
    tree: ShardTree,
    findings: Findings,
) -> Rosters | None:
    """The rosters of all partitions; None: what is told is none, and nothing can be held against it.

    partition_of: the number of each release's partition, as records are numbered. metrics: of each release, by its id.
    tree: of shards: who entered in one that was split lies in the folder of a part.
    """
    release_of = {head.release_id: number for number, head in enumerate(heads)}
    lost = [segment for segment in segments if segment.release_id not in release_of]
    if lost:
        findings.add(f"{len(lost)} segments of cohorts entered with releases that are not there")
        return None
    entered = [release_of[segment.release_id] for segment in segments]
    numbers = [
        tree.keys.get(segment.partition, partition_of[release])
        for segment, release in zip(segments, entered, strict=True)
    ]
    twice = len(entered) - len(set(zip(entered, numbers, strict=True)))
    if twice:
        findings.add(f"{twice} releases have two segments of cohorts")
    _judge_epochs(segments, heads, metrics, findings)
    made = np.array(partition_of, np.int64)[entered]
    if not tree.covers(made, np.array(numbers, np.int64)).all():
        findings.add(_TWO_FOLDERS)
        return None
    if not _judge_chains(segments, heads, entered, numbers, findings):
        return None
    if any(len(part) == 0 for segment in segments for part in (segment.people, segment.corner_cohort)):
        findings.add("a segment of cohorts with nobody in it, or without boxes")
        return None
    rosters = _put_together(segments, entered, numbers, len(policy.quasis))
    if rosters is None:
        findings.add("cohorts are not numbered one after the other, or some have no box")
        return None
    # Of a run before: under its policy they were as large as that asked, and k still is promised of them.
    came = [release for segment, release in zip(segments, entered, strict=True) if segment.inherited]
    least = np.where(np.isin(rosters.cohort_entered, came), policy.k, policy.cohort_size or policy.k)
    small = rosters.members < least
    if small.any():
        findings.add(
            f"{int(small.sum())} cohorts have fewer people than cohort_size = {policy.cohort_size} "
            f"(fewest: {int(rosters.members.min())})",
            *(heads[number].release_id for number in np.unique(rosters.cohort_entered[small])),
        )
    _judge_once(rosters, policy, findings)
    _judge_partitions(rosters, heads, partition_of, tree, findings)
    _judge_counts(rosters, heads, partition_of, metrics, tree, findings)
    return rosters


def _judge_epochs(
    segments: Sequence[EnteredSegment],
    heads: Sequence[ReleaseHead],
    metrics: Mapping[str, Mapping[str, Any]],
    findings: Findings,
) -> None:
    """One epoch in cohorts, releases and metrics, as far as they name one."""
    told = {f"{segment.head.epoch:016x}" for segment in segments}
    told |= {head.epoch for head in heads if head.epoch is not None}
    told |= {each["epoch"] for each in metrics.values() if each.get("epoch") is not None}
    if len(told) > 1:
        findings.add(
            f"cohorts, releases and metrics name {len(told)} epochs: nothing is promised over all of them"
        )
    if any(head.epoch for head in heads) and not all(head.epoch for head in heads):
        findings.add("some releases name no epoch")


def _judge_chains(
    segments: Sequence[EnteredSegment],
    heads: Sequence[ReleaseHead],
    entered: Sequence[int],
    numbers: Sequence[int],
    findings: Findings,
) -> bool:
    """Whether segments can be put one after the other. segments: by partition and number. numbers: of each one's."""
    whole = True
    before: EnteredSegment | None = None
    last: tuple[int, int, bool] | None = None
    places: dict[int, str] = {}
    for segment, release, own in zip(segments, entered, numbers, strict=True):
        name = segment.release_id
        if before is None or before.partition != segment.partition:
            before, last = None, None
        if places.setdefault(own, segment.partition) != segment.partition:
            findings.add(_TWO_FOLDERS, name)
            whole = False
        chain, people, cohorts = ("", 0, 0) if before is None else before.after
        if (segment.head.chain, segment.head.people, segment.head.cohorts) != (chain, people, cohorts):
            findings.add("a segment of cohorts does not follow the one before it", name)
            whole = False
        if segment.chain != segment.after[0]:
            findings.add("a segment of cohorts whose chain does not follow from what is in it", name)
        turn = heads[release].turn
        if last is not None and turn <= last:
            findings.add(
                "a segment of cohorts entered with a release that is not after that of the one before it",
                name,
            )
        before, last = segment, turn
    folders = {segment.partition for segment in segments}
    if whole and len(folders) != len(places):
        findings.add(_TWO_FOLDERS)
        whole = False
    return whole


def _put_together(
    segments: Sequence[EnteredSegment], entered: Sequence[int], numbers: Sequence[int], fields: int
) -> Rosters | None:
    """All segments as one; None: the numbers of cohorts have gaps, or people and boxes have others.

    fields: how many quasi-identifiers there are, also where nobody has entered yet.
    """
    first = 0
    cohorts, owners, releases, partitions, came = [], [], [], [], []
    for segment, release, number in zip(segments, entered, numbers, strict=True):
        own, counted = np.unique(segment.cohort), np.unique(segment.corner_cohort)
        expected = np.arange(segment.head.cohorts, segment.head.cohorts + len(own))
        if not (np.array_equal(own, expected) and np.array_equal(counted, expected)):
            return None
        shift = first - segment.head.cohorts
        cohorts.append(segment.cohort + shift)
        owners.append(segment.corner_cohort + shift)
        releases.append(np.full(len(segment.people), release, np.int32))
        partitions.append(np.full(len(segment.people), number, np.int32))
        came.append(np.full(len(own), release, np.int64))
        first += len(own)
    cohort = _joined(cohorts, np.int64)
    owner = _joined(owners, np.int64)
    order = np.argsort(owner, kind="stable")
    corners = np.concatenate([np.zeros((0, fields), np.int32), *(each.corners for each in segments)])
    return Rosters(
        person=_joined([segment.people for segment in segments], np.uint64),
        partition=_joined(partitions, np.int32),
        cohort=cohort,
        entered=_joined(releases, np.int32),
        forgotten=_joined([segment.forgotten for segment in segments], np.bool_),
        values=np.concatenate([np.zeros((0, fields), np.int32), *(each.values for each in segments)]),
        members=np.bincount(cohort, minlength=first),
        cohort_entered=_joined(came, np.int64),
        corners=corners[order],
        starts=np.searchsorted(owner[order], np.arange(first + 1)).astype(np.int64),
    )


def _joined(parts: Sequence[np.ndarray], kind: Any) -> np.ndarray:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind)


def _judge_once(rosters: Rosters, policy: Policy, findings: Findings) -> None:
    """Nobody enters twice; in two partitions only if the policy accepts the risk of a field that parts the feed."""
    order = np.lexsort((rosters.partition, rosters.person))
    person, partition = rosters.person[order], rosters.partition[order]
    again = person[1:] == person[:-1]
    same = int((again & (partition[1:] == partition[:-1])).sum())
    if same:
        findings.add(f"{same} people entered more than once: they stand in two cohorts")
    other = len(np.unique(person[1:][again & (partition[1:] != partition[:-1])]))
    if other and not policy.accepts_divided:
        findings.add(
            f"{other} people entered in two partitions: whoever links their rows finds them in both cohorts"
        )


def _judge_partitions(
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    tree: ShardTree,
    findings: Findings,
) -> None:
    """Every release is of a partition whose cohorts are told."""
    with_cohorts = {number for own in np.unique(rosters.partition).tolist() for number in tree.above(own)}
    lost = [
        head.release_id
        for head, number in zip(heads, partition_of, strict=True)
        if number not in with_cohorts
    ]
    if lost:
        findings.add(f"{len(lost)} releases of partitions of which no cohorts are told", *lost)


def _judge_counts(
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    metrics: Mapping[str, Mapping[str, Any]],
    tree: ShardTree,
    findings: Findings,
) -> None:
    """The metrics of a release tell as many people and cohorts as had entered by then, of a shard those of the parts
    that it was split to."""
    came = np.bincount(rosters.entered, minlength=len(heads))
    by_cohort = np.zeros(len(rosters.members), np.int32)
    by_cohort[rosters.cohort] = rosters.partition
    entered = entered_by(rosters.entered, rosters.partition, heads, tree)
    founded = entered_by(rosters.cohort_entered, by_cohort, heads, tree)
    people: dict[int, int] = {}
    cohorts: dict[int, int] = {}
    # Of the releases of one window (``split_by``) the first brings who enters, and all of them know it.
    for number in sorted(range(len(heads)), key=lambda number: (heads[number].turn, not came[number])):
        for of, counted in ((people, entered[number]), (cohorts, founded[number])):
            for own, count in counted.items():
                of[own] = of.get(own, 0) + count
        own = partition_of[number]
        people.setdefault(own, 0)
        cohorts.setdefault(own, 0)
        record = metrics.get(heads[number].release_id, {})
        right = {"people_known": people[own], "cohorts": cohorts[own], "people_entered": int(came[number])}
        for name, count in right.items():
            if record.get(name, count) != count:
                findings.add(f"its metrics tell another {name} than its cohorts", heads[number].release_id)


def entered_by(
    entered: np.ndarray, partition: np.ndarray, heads: Sequence[ReleaseHead], tree: ShardTree
) -> list[dict[int, int]]:
    """How many came with each release, by partition or shard, in all that each of them was split from, too.

    entered: int (n,), the release of each. partition: int32 (n,), where it lies."""
    counted: list[dict[int, int]] = [{} for _ in heads]
    pairs, count = np.unique(
        np.column_stack([entered, partition]).astype(np.int64), axis=0, return_counts=True
    )
    for (release, own), people in zip(pairs.tolist(), count.tolist(), strict=True):
        for number in tree.above(own):
            counted[release][number] = counted[release].get(number, 0) + people
    return counted


def judge_frozen_boxes(
    rosters: Rosters, books: Sequence[BoxBook], heads: Sequence[ReleaseHead], findings: Findings
) -> None:
    """The corners of a cohort span its members' frozen values, and nothing else, where nobody of it is forgotten.

    Of a range the least and the greatest value and whether one is missing; of a set all values.
    """
    if not len(rosters.members):
        return  # a run that ended before anybody entered
    whole = np.ones(len(rosters.members), bool)
    whole[rosters.cohort[rosters.forgotten]] = False
    owner = np.repeat(np.arange(len(rosters.members)), np.diff(rosters.starts))
    own, corner = ~rosters.forgotten, whole[owner]
    own &= whole[rosters.cohort]
    values, corners = (encode_records(each, books) for each in (rosters.values, rosters.corners))
    for field, book in enumerate(books):
        width = int(max(values[:, field].max(initial=0), corners[:, field].max(initial=0))) + 2
        one = _spans(rosters.cohort[own], values[own, field], width, book)
        other = _spans(owner[corner], corners[corner, field], width, book)
        differing = np.unique(np.setxor1d(one, other) // width)
        if len(differing):
            findings.add(
                f"field {book.book.column.name}: the boxes of {len(differing)} cohorts are not the hulls of their "
                "members' frozen values",
                *(heads[number].release_id for number in np.unique(rosters.cohort_entered[differing])),
            )
    if rosters.forgotten.any() and (rosters.values[rosters.forgotten] >= 0).any():
        findings.add("people who are forgotten still have frozen values in restricted/cohorts")


def _spans(owner: np.ndarray, codes: np.ndarray, width: int, book: BoxBook) -> np.ndarray:
    """What spans the box of each owner in a field, sorted, each value as owner times ``width`` and its code."""
    keys = np.unique(owner.astype(np.int64) * width + codes + 1)
    if book.is_set:
        return keys
    null = keys % width == 0
    values = keys[~null]
    ends = np.ones(len(values), bool)
    inner = values[1:] // width == values[:-1] // width
    ends[1:-1] = ~(inner[:-1] & inner[1:])
    return np.concatenate([keys[null], values[ends]])
