"""``cohort: lasting``: are people in cohorts once and for good, and do releases consist of whole cohorts?

judge_lasting(evidence, key, findings) -> LastingFigures

    restricted/cohorts by itself, against releases, metrics and policy      rosters.py
    classes against the input, whoever stands in them                       class_floor.py
    boxes against the cohorts that lie in them                              points_in_boxes.py
    with the key of people's digests, against the input:
        who entered, when, with which frozen values                         entries.py, expected_entries.py
        which rows can be in no group of theirs                             lasting_groups.py
        whose rows are in each group, and under which box and window        followed_groups.py
        whom it leaves to who knows more (``against``)                  known_items.py
        with matching records exactly                                       lasting_records.py

In the place of the graph of candidates: a row's people are those of its group, a trail's those of its cohort, whatever
values stand in the rows. O(rows + people) but for sorting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.judge.people_counted import judge_people
from kanonflow.pipelines.audit.lasting.carried_people import (
    judge_carried,
    judge_expected,
    judge_seen,
    with_pool,
)
from kanonflow.pipelines.audit.lasting.class_floor import InputPeople, judge_floor
from kanonflow.pipelines.audit.lasting.entries import (
    INHERITED_MS,
    InputRows,
    in_their_parts,
    judge_entries,
    people_of_rows,
    rows_of,
)
from kanonflow.pipelines.audit.lasting.expected_entries import (
    count_for_nothing,
    entered_as_expected,
    judge_expected_entries,
)
from kanonflow.pipelines.audit.lasting.followed_groups import Followed
from kanonflow.pipelines.audit.lasting.frozen_hulls import judge_hulls, note_groups
from kanonflow.pipelines.audit.lasting.group_ids import judge_ids, judge_ids_of_sets
from kanonflow.pipelines.audit.lasting.known_items import CountedLeft, count_left, judge_against
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.lasting.lasting_groups import judge_groups
from kanonflow.pipelines.audit.lasting.member_numbers import (
    NumbersKey,
    judge_by_secret,
    judge_members,
    judge_numbers_drawn,
    numbers_of_people,
)
from kanonflow.pipelines.audit.lasting.points_in_boxes import Boxes, cohorts_in_boxes
from kanonflow.pipelines.audit.lasting.rosters import judge_frozen_boxes, read_rosters
from kanonflow.pipelines.audit.lasting.shards import Numbers, spread
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.carried_state import Carried
from kanonflow.pipelines.audit.read.chain_record import ChainRecord
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, ReleaseHead, release_ends
from kanonflow.pipelines.audit.read.released_groups import ReleasedGroups
from kanonflow.pipelines.audit.read.values import read_object
from kanonflow.pipelines.audit.shards.shard_tree import NO_SPLITS, ShardTree
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.policy import Policy

_BEFORE_ALL = -(2**31)
"""A place in the chain before that of every run that is judged."""


@dataclass(frozen=True)
class LastingEvidence:
    """What was read of a run with cohorts that last.

    segments: None: they cannot be judged. metrics: by release. rows: all n of the input, without digests.
    digest_of_code: uint64, by code of the individual, None: no key was given. individual: int32 (n,), codes.
    payload: int32 (n, p), codes. known_fields: int32 (n, f), what ``against`` says may be known. stays: bool (n,), not
    rejected. partition_of: the number of each release's partition, as rows are numbered.
    bounded: the run read files to their end, so that all rows of a window were there when it was released.
    carried: by other runs of the chain to this one, and by this one to others. seen: bool (n,), by which rows a run
    that has ended must have seen somebody. record: what the run says of its place in the chain.
    named: one row for each person whom the file of people names, named_individual: int32 (p,), their codes; None:
    there is no file, or it is not judged. shards: None: the run went by no plan. numbers_key: None: it was not given,
    or numbers of people are not published.
    """

    policy: Policy
    released: ReleasedRows
    box_books: Sequence[BoxBook]
    segments: tuple[EnteredSegment, ...] | None
    metrics: Mapping[str, Mapping[str, Any]]
    rows: InputRows
    digest_of_code: np.ndarray | None
    individual: np.ndarray
    payload: np.ndarray
    known_fields: np.ndarray
    stays: np.ndarray
    partition_of: Sequence[int]
    bounded: bool
    carried: Carried
    seen: np.ndarray
    record: ChainRecord | None
    named: InputRows | None = None
    named_individual: np.ndarray | None = None
    shards: Numbers | None = None
    numbers_key: NumbersKey | None = None

    @property
    def epoch(self) -> str | None:
        """That of all releases; None: they name none, or several."""
        epochs = {head.epoch for head in self.released.heads} - {None}
        return str(*epochs) if len(epochs) == 1 else None

    @property
    def tree(self) -> ShardTree:
        """Which shard was split from which."""
        return NO_SPLITS if self.shards is None else self.shards.tree


@dataclass(frozen=True)
class LastingFigures:
    """cohorts, people: that entered. candidates: the fewest people of a cohort of anybody with rows (without a key: of
    any cohort). followed: what only one set of cohorts can have. ground: for matching records. None: no key was
    given. loose: releases whose people were counted between two bounds. left_enough: ``against`` was judged.
    counted: by its measured reader. members: people whose number was worked out again, ids: groups; None: none was."""

    cohorts: int | None = None
    people: int | None = None
    candidates: int | None = None
    followed: Followed | None = None
    ground: LastingGround | None = None
    loose: int = 0
    left_enough: bool = False
    counted: CountedLeft | None = None
    members: int | None = None
    ids: int | None = None


def judge_lasting(evidence: LastingEvidence, findings: Findings, *, waiting: bool) -> LastingFigures:
    """Judge cohorts and groups. waiting: the run goes on."""
    every = evidence.segments or ()
    _judge_names(every, evidence.released.heads, findings)
    evidence = _with_inherited(evidence)
    policy, heads, groups = evidence.policy, evidence.released.heads, evidence.released.of_groups
    _judge_times(groups, evidence, findings)
    if evidence.segments is None:
        return LastingFigures()
    rosters = read_rosters(
        evidence.segments, heads, evidence.partition_of, policy, evidence.metrics, evidence.tree, findings
    )
    if rosters is None:
        findings.add("who stands behind the rows was not audited further: the cohorts are not whole")
        return LastingFigures()
    judge_frozen_boxes(rosters, evidence.box_books, heads, findings)
    judge_carried(
        evidence.carried,
        every,
        evidence.record,
        policy.cohorts.cohort_size,
        evidence.tree.split_keys,
        findings,
    )
    keys = [evidence.metrics.get(head.release_id, {}).get("partition") for head in heads]
    fewest = rosters.fewest(np.arange(len(rosters.person)))
    figures = LastingFigures(len(rosters.members), len(rosters.person), fewest)
    if waiting:
        _judge_overdue(evidence, findings)
    nobody = np.full(len(evidence.rows.end), -1, np.int64)
    partition = np.array(evidence.partition_of, np.int32)
    ground = LastingGround(
        policy,
        heads,
        groups,
        rosters,
        evidence.box_books,
        evidence.rows.end,
        nobody,
        partition,
        evidence.tree,
    )
    inherited = any(segment.inherited for segment in evidence.segments)
    # Of who waited before this run only the pool tells.
    inherited |= any(len(came.pool) for came in evidence.carried.came.values())
    # Nor is there a row of everybody whom a file of people names.
    inherited |= bool(evidence.carried.expected)
    cut = evidence.rows, evidence.individual
    people = InputPeople(
        *(cut if evidence.shards is None else spread(*cut, evidence.shards)), explains=not inherited
    )
    judge_floor(ground, people, _payloads(evidence), findings)
    held = _judge_boxes(ground, findings)
    judge_ids(ground, held, findings)
    if groups.member is not None:
        judge_numbers_drawn(groups.member, findings)
        judge_members(ground, groups.member, held, findings)
    if evidence.digest_of_code is None:
        return figures
    rows = replace(evidence.rows, digest=evidence.digest_of_code[evidence.individual])
    person = people_of_rows(rows, rosters)
    numbers = {
        key: number for key, number in zip(keys, evidence.partition_of, strict=True) if key is not None
    } | dict(evidence.tree.keys)
    if evidence.named is not None:
        named = replace(evidence.named, digest=evidence.digest_of_code[evidence.named_individual])
        people_of_file = (named.digest, named.values, named.partition)
        judge_expected(evidence.carried, *people_of_file, numbers, findings)
    seen = with_pool(rows, evidence.carried, numbers)
    seen = in_their_parts(seen, rosters, evidence.tree)
    its = people_of_rows(seen, rosters)
    lies = evidence.tree.top(seen.partition, partition)
    counts = ~count_for_nothing(seen, its, lies, rosters, heads, policy)
    seen, its = rows_of(seen, counts), its[counts]
    expected = np.zeros(len(rosters.person), bool)
    expected[its[entered_as_expected(seen, its, rosters, heads)]] = True
    fields = [book.book.column.name for book in evidence.box_books]
    judge_entries(
        seen,
        its,
        rosters,
        heads,
        evidence.partition_of,
        policy,
        fields,
        findings,
        expected=expected,
        tree=evidence.tree,
        # Repeats of an event are in the input, and nobody is seen by one.
        bounded=evidence.bounded and policy.event_id is None and not waiting,
    )
    judge_expected_entries(seen, its, rosters, heads, evidence.partition_of, fields, findings, evidence.tree)
    if not waiting:
        entered = np.concatenate([np.zeros(0, np.uint64), *(segment.people for segment in every)])
        judge_seen(evidence.carried, rows, evidence.seen, entered, findings)
    ground = replace(ground, person=person)
    payloads, people_told = _with_members(ground, _payloads(evidence), evidence, rows.digest, findings)
    followed = judge_groups(ground, payloads, held, findings, waiting=waiting)
    ids_told = judge_ids_of_sets(ground, followed.sets, evidence.numbers_key, evidence.epoch, findings)
    bought = evidence.known_fields
    left_enough = judge_against(ground, payloads, bought, findings, waiting=waiting)
    counted = count_left(ground, payloads, bought, evidence.metrics, findings, waiting=waiting)
    loose = judge_people(heads, evidence.metrics, followed.counts, findings)
    own = rosters.fewest(person[evidence.stays])
    return replace(
        figures,
        candidates=fewest if own is None else own,
        followed=followed,
        ground=ground,
        loose=loose,
        left_enough=left_enough,
        counted=counted,
        members=people_told,
        ids=ids_told,
    )


def _with_members(
    ground: LastingGround,
    payloads: Payloads,
    evidence: LastingEvidence,
    digest: np.ndarray,
    findings: Findings,
) -> tuple[Payloads, int | None]:
    """Payloads with the number of the person beside them, and of how many people numbers were judged by the secret;
    None: they were not. digest: uint64 (n,), of each record's person."""
    numbers, key = evidence.released.of_groups.member, evidence.numbers_key
    if numbers is None or key is None or evidence.epoch is None:
        return payloads, None
    key = key._replace(label=key.label[payloads.record])
    own = numbers_of_people(key, digest[payloads.record], evidence.epoch)
    judge_by_secret(ground, payloads, own, numbers, findings)
    _, number = np.unique(np.concatenate([own, numbers]), return_inverse=True)
    both = np.column_stack([np.concatenate([payloads.number, payloads.of_row]), number.astype(np.int64)])
    _, place, _ = group_rows(both)
    own_place, row_place = np.split(place.astype(np.int64), [len(payloads.record)])
    return payloads._replace(number=own_place, of_row=row_place), len(np.unique(numbers))


def _judge_boxes(ground: LastingGround, findings: Findings) -> tuple[np.ndarray, np.ndarray]:
    """What takes no secret: a box holds whole cohorts, and is the hull of some. Pairs of a group and a cohort in it.

    The end of a box is the line of its grid next to the outermost of its cohorts. No cohort of others lies further out
    and in the box, so all that lie in it explain the box as its own do.
    """
    groups, rosters = ground.groups, ground.rosters
    made, release = ground.turns, groups.release
    lies = np.empty(len(rosters.members), np.int32)
    lies[rosters.cohort] = rosters.partition
    boxes = Boxes(groups.boxes, ground.family(ground.partition)[release], made[release])
    since = made[rosters.cohort_entered]
    group, cohort = cohorts_in_boxes(rosters, since, ground.family(lies), boxes, ground.books)
    own = ground.tree.covers(ground.partition[release[group]], lies[cohort])
    group, cohort = group[own], cohort[own]
    held = np.bincount(group, weights=rosters.members[cohort], minlength=len(release))
    note_groups(
        ground,
        np.flatnonzero(held < ground.policy.k),
        f"have a box that does not hold the frozen boxes of cohorts of k = {ground.policy.k} people",
        findings,
    )
    own, owner = np.unique(group, return_inverse=True)
    judge_hulls(ground, own, owner, cohort, findings)
    return group, cohort


def _with_inherited(evidence: LastingEvidence) -> LastingEvidence:
    """With a head for each segment of a run that this one continues, before all releases of this one.

    Segments of partitions that have no release here are left out: there is nothing to hold against them.
    """
    if not any(segment.inherited for segment in evidence.segments or ()):
        return evidence
    heads = list(evidence.released.heads)
    partition_of = list(evidence.partition_of)
    places = {
        evidence.metrics.get(head.release_id, {}).get("partition"): place
        for head, place in zip(heads, partition_of, strict=True)
    }
    numbers, segments = {place for place in partition_of if place >= 0}, []
    for segment in evidence.segments or ():
        if segment.inherited:
            own = evidence.tree.keys.get(segment.partition, places.get(segment.partition, -1))
            if not numbers & set(evidence.tree.above(own)):
                continue
            end = INHERITED_MS + segment.head.segments
            # Under a name of its own: what it says is not of a release here, whatever that is called.
            name = f"{segment.release_id} of an earlier run"
            # Who entered in a shard with one release may lie in several parts of it.
            name += f" ({segment.partition})" if evidence.tree.has_splits else ""
            segment = replace(segment, release_id=name)
            epoch = f"{segment.head.epoch:016x}"
            heads.append(ReleaseHead(segment.release_id, None, end, (), epoch, _BEFORE_ALL))
            partition_of.append(own)
        segments.append(segment)
    released = replace(evidence.released, heads=tuple(heads))
    return replace(evidence, released=released, partition_of=partition_of, segments=tuple(segments))


def _judge_names(
    segments: Sequence[EnteredSegment], heads: Sequence[ReleaseHead], findings: Findings
) -> None:
    """No release has the id of one of an earlier run, as far as people entered with that."""
    earlier = {segment.release_id for segment in segments if segment.inherited}
    shared = [head.release_id for head in heads if head.release_id in earlier]
    if shared:
        findings.add(
            f"{len(shared)} releases have the id of a release of an earlier run: two releases, one id, of which one is "
            "lost where both runs lie together",
            *shared,
        )


def _payloads(evidence: LastingEvidence) -> Payloads:
    """Equal payloads of two shards are two; without the secret it is not known for sure whose shard which is."""
    record = np.flatnonzero(evidence.stays)
    own, out = evidence.payload[record], evidence.released.payload
    if evidence.digest_of_code is not None:
        of_release = np.array(evidence.partition_of, np.int64)
        own = np.column_stack([own, evidence.tree.top(evidence.rows.partition[record], of_release)])
        out = np.column_stack([out, evidence.tree.top(of_release, of_release)[evidence.released.release]])
    _, number, _ = group_rows(np.concatenate([own, out]))
    return Payloads(record, number[: len(record)].astype(np.int64), number[len(record) :].astype(np.int64))


def _judge_times(groups: ReleasedGroups, evidence: LastingEvidence, findings: Findings) -> None:
    """A release was made when the windows of all of its rows had ended, and none of them was due before."""
    policy, heads = evidence.policy, evidence.released.heads
    size = policy.cohorts.window_ms
    end = release_ends(heads)[groups.release]
    closing = np.array([head.closing for head in heads], bool)[groups.release]
    late = groups.start + size + policy.waiting_ms < end
    # All rows of a closing one were due by the clock that its run began with, a window before it.
    young = groups.end + policy.waiting_ms > end - size
    wrong = (groups.end > end) | np.where(closing, young, late)
    wrong |= (end - policy.window_offset_ms) % size != 0
    if wrong.any():
        releases = np.unique(groups.release[wrong])
        findings.add(
            f"{int(wrong.sum())} groups have a window that their release cannot hold rows of",
            *(heads[number].release_id for number in releases),
        )


def _judge_overdue(evidence: LastingEvidence, findings: Findings) -> None:
    """Where rows may wait: those whose time is over are out. Counted by payload, over the whole feed."""
    heads = evidence.released.heads
    last = np.full(int(evidence.rows.partition.max(initial=0)) + 1, np.iinfo(np.int64).min)
    parts = {own: evidence.tree.above(own) for own in range(len(last))}
    for head, place in zip(heads, evidence.partition_of, strict=True):
        if place >= 0 and head.end is not None:
            for own in (own for own, above in parts.items() if place in above):
                last[own] = max(int(last[own]), head.end)
    over = evidence.stays & (evidence.rows.end + evidence.policy.waiting_ms <= last[evidence.rows.partition])
    over &= evidence.rows.end > -(2**61)
    payload = evidence.payload[over]
    distinct, number, _ = group_rows(np.concatenate([payload, evidence.released.payload]))
    count = len(distinct)
    due = np.bincount(number[: len(payload)], minlength=count)
    missing = int(np.maximum(due - np.bincount(number[len(payload) :], minlength=count), 0).sum())
    if missing:
        findings.add(f"{missing} records whose time is over are neither released nor rejected")


def with_told_ends(
    released: ReleasedRows,
    metrics: Mapping[str, Mapping[str, Any]],
    places: Mapping[str, int] | None = None,
) -> ReleasedRows:
    """The releases with the ends that their metrics tell; the newest window of the rows where there are none.

    With cohorts that last, rows name their group's window: only the metrics say when a release was made, and whether
    it was a closing one. places: as of ``with_told_places``.
    """
    heads = []
    for head in released.heads:
        record = metrics.get(head.release_id, {})
        end = read_object(record.get("window_end"), MILLISECONDS)
        closing = record.get("kind") == "closing"
        heads.append(replace(head, end=head.end if end is None else end, closing=closing))
    return with_told_places(replace(released, heads=tuple(heads)), metrics, places)


def with_told_places(
    released: ReleasedRows, metrics: Mapping[str, Mapping[str, Any]], places: Mapping[str, int] | None
) -> ReleasedRows:
    """The releases with the place of their run in its chain, which only metrics tell.

    places: of each release's run, where several are audited as one.
    """
    if places is None:
        places = {name: told.get("chain_place") or 0 for name, told in metrics.items()}
    heads = (replace(head, place=places.get(head.release_id, 0)) for head in released.heads)
    return replace(released, heads=tuple(heads))


def read_to_the_end(folder: Path) -> bool:
    """Whether the run in ``folder`` was one over files, by its restricted/run.json."""
    path = folder / "restricted" / "run.json"
    try:
        record = json.loads(path.read_text()) if path.is_file() else None
    except ValueError:
        return False
    return isinstance(record, dict) and "rejected_files" in record and "job" not in record
