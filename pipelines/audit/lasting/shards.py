"""Partitions that a plan cuts into shards: which one each release and row is of, and whether people are where they go.

    releases   by the key that their metrics tell, which is that of a shard of their partition
    rows       by their person: the cohorts he entered; else what a run before or the file of people says; else the
               plan, by the values of his first window
    people     entered once, in the shard that the plan gives, with the values of their first window

Where a run read its files to their end and began its epoch, a first window is the first one of the input. In a feed,
and in a run that goes on from others, what had come by then is not in the input: only people whose rows all say the
same are judged, the others are counted. Without digests nobody is found among those who entered: rows whose shard the
plan alone does not tell may be of any shard of their partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.lasting.carried_people import named_before
from kanonflow.pipelines.audit.lasting.entries import InputRows
from kanonflow.pipelines.audit.read.carried_state import Carried, CarriedPartition
from kanonflow.pipelines.audit.read.equal_rows import extreme, group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.read.values import CodeBook, Unreadable
from kanonflow.pipelines.audit.shards.shard_plan import UNDECIDED, Placing, ShardPlan, Split
from kanonflow.pipelines.audit.shards.shard_tree import NEVER, ShardTree
from kanonflow.schemas.text_values import render_text

_NEVER = np.iinfo(np.int64).max
_NOWHERE = -(2**61)


@dataclass(frozen=True)
class Numbers:
    """How shards are numbered: behind all partitions as records have them, those of one partition after the other's.

    first: the number of each planned partition's first shard. cut: int64 (partitions,), of each partition as
    records have it the place in the plan, -1: it is whole. keys: the number of each shard's key, also of those that
    were split. tree: which came of which.
    """

    plan: ShardPlan
    first: tuple[int, ...]
    cut: np.ndarray
    keys: Mapping[str, int]
    tree: ShardTree


def numbers_of(plan: ShardPlan, texts: Sequence[tuple[str | None, ...] | None]) -> Numbers:
    """texts: the values of each partition that records have; None: they are none."""
    places = {each.values: place for place, each in enumerate(plan.partitions)}
    sizes = [len(each.keys) for each in plan.partitions]
    first = tuple(len(texts) + sum(sizes[:place]) for place in range(len(sizes)))
    keys = {key: first[place] + shard for key, (place, shard) in plan.shard_of_key.items()}
    cut = [-1 if values is None else places.get(values, -1) for values in texts]
    total = len(texts) + sum(sizes)
    parent, born, gone = (np.full(total, value, np.int64) for value in (-1, 0, NEVER))
    for place, partition in enumerate(plan.partitions):
        for split in partition.splits:
            parts = first[place] + split.first + np.arange(len(split.cut.keys))
            parent[parts], born[parts] = first[place] + split.shard, split.place
            gone[first[place] + split.shard] = split.place
    return Numbers(plan, first, np.array(cut, np.int64), keys, ShardTree(parent, born, gone, keys))


def texts_of(
    books: Sequence[CodeBook], codes: Sequence[Sequence[int]]
) -> list[tuple[str | None, ...] | None]:
    """The canonical texts of partitions by the codes of their values; None of one with what is no value."""
    texts = [[*render_text(book.canonical()).to_pylist(), None] for book in books]
    unread = [[*(isinstance(value, Unreadable) for value in book.values), False] for book in books]
    return [
        None
        if any(wrong[code] for wrong, code in zip(unread, row, strict=True))
        else tuple(own[code] for own, code in zip(texts, row, strict=True))
        for row in codes
    ]


def number_releases(
    numbers: Numbers,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    values: Sequence[tuple[str | None, ...] | None],
    metrics: Mapping[str, Mapping[str, Any]],
    findings: Findings,
) -> list[int]:
    """The number of each release, -1: no shard is its own. partition_of, values: of its partition, and its texts."""
    plans = {each.values: each for each in numbers.plan.partitions}
    numbered, strange, silent, untimely = list(partition_of), [], [], []
    for place, (head, own) in enumerate(zip(heads, values, strict=True)):
        key = metrics.get(head.release_id, {}).get("partition")
        cut = None if own is None else plans.get(own)
        if cut is None:
            if key in numbers.keys:
                strange.append(head.release_id)
            continue
        if key is None:
            silent.append(head.release_id)
        elif key not in cut.keys:
            strange.append(head.release_id)
        numbered[place] = numbers.keys[key] if key in cut.keys else -1
        if key in cut.keys and not numbers.tree.lives(np.array([numbered[place]]), np.array([head.place]))[0]:
            untimely.append(head.release_id)
    if strange:
        findings.add(
            f"{len(strange)} releases under a key that is none of their partition's in the plan", *strange
        )
    if untimely:
        findings.add(
            f"{len(untimely)} releases under the key of a shard that their run had split, or did not know yet",
            *untimely,
        )
    if silent:
        findings.add(f"{len(silent)} releases of partitions in shards whose metrics tell no shard", *silent)
    return numbered


class Placed(NamedTuple):
    """number: int32 (n,), of each row's shard or partition, that of the whole partition where it is not known. Of the
    people that are judged, p: row, int64 (p,), the place of one of theirs; shard: int64 (p,), the number of that which
    the plan gives; values: int32 (p, d), codes of the values it went by, null is -1; seen: bool (p,), these are of a
    first window."""

    number: np.ndarray
    row: np.ndarray
    shard: np.ndarray
    values: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True)
class Input:
    """Rows of the input, and one for each person whom the file of people names, named: bool (n,).

    individual: int32 (n,), codes. there: bool (n,), which rows came into a window. whole: whether first windows are
    those of the input. digests: whether rows have some."""

    rows: InputRows
    individual: np.ndarray
    named: np.ndarray
    there: np.ndarray
    whole: bool
    digests: bool


def place_rows(
    numbers: Numbers,
    placing: Placing,
    people: Input,
    segments: Sequence[EnteredSegment],
    carried: Carried,
    cohort_size: int,
) -> Placed:
    """The shard of each row. O(rows + people) but for sorting.

    Whom the file names, and who are too few for a cohort in their shard, go by their rows as others do.
    """
    rows, planned = people.rows, numbers.cut[people.rows.partition]
    cut = np.flatnonzero(planned >= 0)
    first, person, _ = group_rows(np.column_stack([rows.partition[cut], people.individual[cut]]))
    row, own = cut[first], planned[cut[first]]
    digest = rows.digest[row]

    def placed(few: np.ndarray) -> tuple[np.ndarray, ...]:
        values, named, certain = _placing_values(people, cut, person, few, placing)
        shard = np.full(len(first), -1, np.int64)
        for place, partition in enumerate(numbers.plan.partitions):
            here = np.flatnonzero(own == place)
            shards = placing.shards(partition, values[here], digest[here] if people.digests else None)
            shard[here] = np.where(shards == UNDECIDED, -1, shards + numbers.first[place])
        return values, named, certain & (shard >= 0) & (people.individual[row] >= 0), shard

    few = np.zeros(len(first), bool)
    values, named, certain, shard = placed(few)
    pools = [*carried.came.values(), *(carried.expected if carried.named is None else ())]
    earlier = [each for each in segments if each.inherited]
    by_file = shard
    if people.digests and named.any():
        stands = _standing(numbers, earlier, pools, own, digest)
        by_file = np.where(stands >= 0, stands, shard)
        kept = [replace(each, pool=each.pool[named_before(each, cohort_size)]) for each in pools]
        new = named & (_standing(numbers, earlier, kept, own, digest) < 0)
        count = np.bincount(by_file[new & (by_file >= 0)], minlength=len(numbers.tree.gone))
        few = new & (by_file >= 0) & (count[by_file] < cohort_size)
        if few.any():
            values, named, certain, shard = placed(few)
    if people.digests:
        # Whom a run before knows stays where he is, whatever his rows say here.
        certain &= _standing(numbers, earlier, pools, own, digest) < 0
        stands = _standing(numbers, segments, pools, own, digest)
        where = np.where(stands >= 0, stands, np.where(certain, shard, -1))
        # Who waited in a shard when that was split is in the part that the plan gives.
        split = (where >= 0) & (shard >= 0) & numbers.tree.covers(where, shard)
        where = np.where(split, shard, where)
    else:
        # Without his digest it is not known whether he is one of these.
        where = np.where(certain & (not (earlier or pools)), shard, -1)
    number = rows.partition.copy()
    number[cut] = np.where(where >= 0, where, rows.partition[row])[person]
    told = few[person] & people.named[cut]
    number[cut[told]] = by_file[person[told]]
    return Placed(number, row[certain], shard[certain], values[certain], ~named[certain])


def _placing_values(
    people: Input, cut: np.ndarray, person: np.ndarray, few: np.ndarray, placing: Placing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values int32 (p, d) by which each person is placed, whether the file of people says them, and whether it is
    certain that these are they, bool (p,) each. cut: int64 (n,), the rows; person: int32 (n,), of each one. few: bool
    (p,), for whom the file counts for nothing."""
    rows, of_file, count = people.rows, people.named[cut], len(few)
    end, own = rows.end[cut], rows.values[cut]
    usable = people.there[cut] & rows.readable[cut] & (end > _NOWHERE) & ~of_file
    since = extreme(np.minimum, person[usable], end[usable], count)
    values = np.full((count, own.shape[1]), -1, np.int32)
    first = usable & (end == since[person])
    for column, field in enumerate(placing.fields.values()):
        rank = field.ranks[own[:, column]]
        has = first & (rank >= 0)
        least = has & (rank == extreme(np.minimum, person[has], rank[has], count)[person])
        values[person[least], column] = own[least, column]
    # A row that cannot be read may have been seen before it was rejected.
    doubtful = ~usable & ~of_file & ((end <= since[person]) | (not people.whole))
    if not people.whole:
        doubtful |= usable & (own != values[person]).any(axis=1)
    named, counts = np.zeros(count, bool), of_file & ~few[person]
    named[person[counts]] = True
    values[person[counts]] = own[counts]
    certain = named | ((since < _NEVER) & (np.bincount(person[doubtful], minlength=count) == 0))
    return values, named, certain


def _standing(
    numbers: Numbers,
    segments: Sequence[EnteredSegment],
    pools: Sequence[CarriedPartition],
    planned: np.ndarray,
    digest: np.ndarray,
) -> np.ndarray:
    """The shard int64 (p,) in whose cohorts, or else in whose pools, each person is; -1: none. planned: int64 (p,), the
    place of his partition in the plan."""
    shard_of = numbers.plan.shard_of_key
    stands = [(each.partition, each.people) for each in segments]
    stands += [(each.partition, each.pool) for each in pools]
    stands = [(key, people) for key, people in stands if key in shard_of]
    sizes = [len(people) for _, people in stands]
    people = np.concatenate([np.zeros(0, np.uint64), *(each for _, each in stands)])
    place = np.repeat(np.array([shard_of[key][0] for key, _ in stands], np.int64), sizes)
    number = np.repeat(np.array([numbers.keys[key] for key, _ in stands], np.int64), sizes)
    both = np.concatenate([people, digest]).view(np.int64)
    distinct, group, _ = group_rows(np.column_stack([np.concatenate([place, planned]), both]))
    shard = np.full(len(distinct), -1, np.int64)
    # Of somebody who entered twice the first time counts.
    shard[group[: len(people)][::-1]] = number[::-1]
    return shard[group[len(people) :]]


def judge_places(
    numbers: Numbers,
    placed: Placed,
    rows: InputRows,
    segments: Sequence[EnteredSegment],
    fields: Sequence[str],
    place_of: Mapping[str, int],
    findings: Findings,
) -> int:
    """With the secret: everybody who entered is in the shard that the plan gives, with the values of his first window:
    the plan by which the run went with which he entered.

    rows: as of ``place_rows``. fields: names of the quasi-identifiers. place_of: of each release's run. How many
    entered in this run and are held
    against no plan, since what they were placed by is not in the input.
    """
    shard_of, loose = numbers.plan.shard_of_key, 0
    digest, planned = rows.digest[placed.row], numbers.cut[rows.partition[placed.row]]
    elsewhere, frozen = 0, np.zeros(len(fields), np.int64)
    strange: list[str] = []
    differing: list[list[str]] = [[] for _ in fields]
    for segment in segments:
        if segment.inherited or segment.partition not in shard_of:
            continue
        mine = np.flatnonzero(planned == shard_of[segment.partition][0])
        _, entered, at = np.intersect1d(segment.people, digest[mine], return_indices=True)
        person = mine[at]
        loose += len(segment.people) - len(entered)
        run = np.array([place_of.get(segment.release_id, segment.place)])
        own = numbers.tree.at(np.array([numbers.keys[segment.partition]]), run)
        other = int((numbers.tree.at(placed.shard[person], run) != own).sum())
        elsewhere += other
        strange += [segment.release_id] if other else []
        differs = segment.values[entered] != placed.values[person]
        differs &= (placed.seen[person] & ~segment.forgotten[entered])[:, None]
        frozen += differs.sum(axis=0)
        for place in np.flatnonzero(differs.any(axis=0)).tolist():
            differing[place].append(segment.release_id)
    if elsewhere:
        findings.add(f"{elsewhere} people entered in another shard than the plan gives", *strange)
    for name, count, releases in zip(fields, frozen.tolist(), differing, strict=True):
        if count:
            findings.add(
                f"field {name}: {count} people have another frozen value than their first window gives",
                *releases,
            )
    return loose


def judge_keys(
    numbers: Numbers,
    segments: Sequence[EnteredSegment],
    metrics: Mapping[str, Mapping[str, Any]],
    place_of: Mapping[str, int],
    findings: Findings,
) -> None:
    """What takes no secret: nobody entered in two shards of a partition, and cohorts lie under their release's key, or
    that of a part that its shard was split to. place_of: of each release's run."""
    twice = 0
    for partition in numbers.plan.partitions:
        people = [
            np.unique(np.concatenate([np.zeros(0, np.uint64), *own]))
            for own in ([each.people for each in segments if each.partition == key] for key in partition.keys)
        ]
        twice += int((np.unique(np.concatenate(people), return_counts=True)[1] > 1).sum())
    if twice:
        findings.add(f"{twice} people entered in two shards of one partition")
    gone = sorted(
        {
            each.partition
            for each in segments
            if numbers.tree.gone[numbers.keys.get(each.partition, -1)] < NEVER
        }
        & numbers.keys.keys()
    )
    if gone:
        findings.add(f"the cohorts of {len(gone)} shards that were split lie under their keys still")

    def elsewhere(each: EnteredSegment) -> bool:
        key = metrics.get(each.release_id, {}).get("partition", each.partition)
        if key == each.partition or key not in numbers.keys or each.partition not in numbers.keys:
            return bool(key != each.partition)
        place = np.array([place_of.get(each.release_id, each.place)])
        return bool(numbers.tree.at(np.array([numbers.keys[each.partition]]), place)[0] != numbers.keys[key])

    # Releases of runs before are not here, nor are their metrics.
    other = [each.release_id for each in segments if not each.inherited and elsewhere(each)]
    if other:
        findings.add(
            f"{len(other)} segments of cohorts lie under another key than that of their release", *other
        )


def judge_sides(
    numbers: Numbers,
    placing: Placing,
    segments: Sequence[EnteredSegment],
    place_of: Mapping[str, int],
    findings: Findings,
) -> None:
    """Each cohort that was there when its shard was split lies in the part that the plan gives for the first corner of
    its box, and of equal ones for the least digest of its people. place_of: of each release's run."""
    wrong = 0
    for segment in segments:
        if segment.partition not in numbers.keys:
            continue
        partition, shard = numbers.plan.shard_of_key[segment.partition]
        place = place_of.get(segment.release_id, segment.place)
        lies = dict(_part_of(numbers.plan.partitions[partition].splits))
        cohorts, first = np.unique(segment.corner_cohort, return_index=True)
        least = np.full(len(cohorts), np.iinfo(np.uint64).max, np.uint64)
        at = np.searchsorted(cohorts, segment.cohort)
        if len(cohorts) == 0 or (at >= len(cohorts)).any():
            continue  # people without a box are a failure of their own
        np.minimum.at(least, at, segment.people)
        other = np.zeros(len(cohorts), bool)
        while shard in lies and lies[shard].place > place:
            split = lies[shard]
            other |= placing.parts(split.cut, segment.corners[first], least) + split.first != shard
            shard = split.shard
        wrong += int(other.sum())
    if wrong:
        findings.add(f"{wrong} cohorts lie in another part of the shard that was split than the plan gives")


def _part_of(splits: Sequence[Split]) -> Iterator[tuple[int, Split]]:
    """Each part's number, with the split that it came of."""
    for split in splits:
        for number in range(split.first, split.first + len(split.cut.keys)):
            yield number, split


def judge_expected_places(
    numbers: Numbers,
    placing: Placing,
    carried: Carried,
    segments: Sequence[EnteredSegment],
    findings: Findings,
    *,
    runs: bool,
) -> None:
    """Who was known from the start was expected in the shard that the plan gives, where no run before knew him.

    runs: whether several are judged as one; who was known before the later ones of them is not told then."""
    earlier = [each.people for each in segments if each.inherited]
    earlier += [each.pool for each in carried.came.values()]
    before = np.concatenate([np.zeros(0, np.uint64), *earlier])
    other = 0
    for each in carried.expected:
        if each.partition not in numbers.keys or (runs and each.place):
            continue
        place, shard = numbers.plan.shard_of_key[each.partition]
        own = placing.shards(numbers.plan.partitions[place], each.values, each.pool)
        first, run = numbers.first[place], np.array([each.place])
        own = numbers.tree.at(own.astype(np.int64) + first, run) - first
        # Of who is forgotten no value is kept.
        judged = ~np.isin(each.pool, before) & (each.values >= 0).any(axis=1)
        other += int((judged & (own != shard)).sum())
    if other:
        findings.add(f"{other} people were expected in another shard than the plan gives")


def spread(rows: InputRows, individual: np.ndarray, numbers: Numbers) -> tuple[InputRows, np.ndarray]:
    """The rows, and their individuals; one of an unknown shard stands once more for each that may be its own."""
    parts, where = [np.arange(len(individual))], [rows.partition]
    plain = np.flatnonzero(rows.partition < len(numbers.cut))
    place = numbers.cut[rows.partition[plain]]
    for number, partition in enumerate(numbers.plan.partitions):
        unknown = plain[place == number]
        for shard in range(len(partition.keys)):
            parts.append(unknown)
            where.append(np.full(len(unknown), numbers.first[number] + shard, rows.partition.dtype))
    which = np.concatenate(parts)
    many = InputRows(
        rows.digest[which], np.concatenate(where), rows.end[which], rows.values[which], rows.readable[which]
    )
    return many, individual[which]
