"""What a run of a chain carries: rows that may still wait, and everybody who was seen and is in no cohort.

    pool     who waited for an intake when the run began entered since, or waits on; nobody in a cohort waits
             with the secret: who waits was seen, and who was seen and is in no cohort waits
    rows     none whose time was over by the clock that goes along
    roster   what goes along is of the cohorts as the last segment leaves them
    closing  a closing release came at the first window end after the clock that the run began with

O(rows + people) but for sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, SEEN_BEFORE_MS, WAITED_MS, InputRows
from kanonflow.pipelines.audit.read.carried_state import CAME, Carried, CarriedPartition, clock_in
from kanonflow.pipelines.audit.read.chain_record import ChainRecord
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment
from kanonflow.pipelines.audit.read.values import read_object
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.policy import Policy


def judge_carried(
    carried: Carried,
    segments: Sequence[EnteredSegment],
    record: ChainRecord | None,
    cohort_size: int,
    split: frozenset[str],
    findings: Findings,
) -> None:
    """What can be told without the secret. segments: of all partitions, those of earlier runs too. record: of the run,
    None: it says nothing of its place. split: keys of shards whose parts carry what they did."""
    if record is not None and record.place is not None:
        place, epoch = record.place, record.epoch
        other = sum((each.place, each.epoch) != (place, epoch) for each in (carried.left or {}).values())
        other += sum((each.place + 1, each.epoch) != (place, epoch) for each in carried.came.values())
        if other:
            findings.add(f"{other} carried states of another run of the chain, or of another epoch")
    for each in (*carried.came.values(), *(carried.left or {}).values()):
        if each.told != len(each.codes):
            findings.add("a carried state tells another number of rows than it holds")
    if carried.left is None:
        if any(each.clock is not None for each in carried.came.values()):
            findings.add("restricted/carried is missing: what waited when the run began is lost")
        return
    lost = carried.came.keys() - carried.left.keys() - split
    if lost:
        findings.add(f"the carried states of {len(lost)} partitions that the run began with are lost")
    entered = _people_by_partition(segments)
    nobody = np.zeros(0, np.uint64)
    gone = inside = 0
    for partition, left in carried.left.items():
        known = entered.get(partition, nobody)
        inside += int(np.isin(left.pool, known).sum())
        came = carried.came.get(partition)
        if came is not None:
            waited = came.pool[~_too_few(came, cohort_size)]
            gone += int((~np.isin(waited, np.concatenate([left.pool, known]))).sum())
    if gone:
        findings.add(f"{gone} people of the pool that the run began with neither entered nor wait any more")
    if inside:
        findings.add(f"{inside} people wait in the pool who are in a cohort")
    if carried.named is not None:
        _judge_named(carried, carried.left, segments, cohort_size, findings)
    _judge_rosters(carried.left, segments, findings)


def _judge_named(
    carried: Carried,
    left: Mapping[str, CarriedPartition],
    segments: Sequence[EnteredSegment],
    cohort_size: int,
    findings: Findings,
) -> None:
    """Of one run: whom it expected entered or waits on, where they were a cohort's worth of people in no cohort whom no
    file of a run before had named."""
    nobody, lost = np.zeros(0, np.uint64), 0
    before = _people_by_partition([each for each in segments if each.inherited])
    entered = _people_by_partition(segments)
    for each in carried.expected:
        came = carried.came.get(each.partition)
        named = nobody if came is None else came.pool[named_before(came, cohort_size)]
        known = np.concatenate([before.get(each.partition, nobody), named])
        new = each.pool[~np.isin(each.pool, known)]
        if each.partition in left and len(new) >= cohort_size:
            stands = (left[each.partition].pool, entered.get(each.partition, nobody))
            lost += int((~np.isin(new, np.concatenate(stands))).sum())
    if lost:
        findings.add(f"{lost} people of the file of people neither entered nor wait")


def named_before(came: CarriedPartition, cohort_size: int) -> np.ndarray:
    """Whom a file of a run before named first, and who waits as such, bool (p,)."""
    return (came.kind >= 0) & ~_too_few(came, cohort_size)


def _too_few(came: CarriedPartition, cohort_size: int) -> np.ndarray:
    """Of people whom files named, bool (p,), those of a kind of fewer than a cohort, as in a part of a shard: they are
    known by their rows from then on."""
    own, count = np.unique(came.kind, return_inverse=True, return_counts=True)[1:]
    return (came.kind >= 0) & (count[own.ravel()] < cohort_size)


def judge_clocks(
    folder: Path, metrics: Mapping[str, Mapping[str, Any]], policy: Policy, findings: Findings
) -> None:
    """Closing releases of the run in ``folder`` against the clocks that it began with. metrics: of its releases."""
    wrong = []
    for name, told in metrics.items():
        if told.get("kind") != "closing":
            continue
        path = folder / "restricted" / "cohorts" / str(told.get("partition")) / CAME
        end = read_object(told.get("window_end"), MILLISECONDS)
        began = clock_in(path) if path.is_file() else None
        if began is None or end != began + (policy.window_ms or 0):
            wrong.append(name)
    if wrong:
        findings.add(
            f"{len(wrong)} closing releases not at the first window end after the clock that the run began with",
            *wrong,
        )


def judge_overdue(
    carried: Carried, ends_of: Callable[[np.ndarray], np.ndarray], policy: Policy, findings: Findings
) -> None:
    """Rows that are left for the next run. ends_of: the own windows' ends, int64 (n,) in ms, of rows as codes."""
    over = 0
    for left in (carried.left or {}).values():
        if left.clock is not None:
            over += int((ends_of(left.codes) + policy.waiting_ms <= left.clock).sum())
    if over:
        findings.add(f"{over} rows are carried on whose time was over")


def judge_seen(
    carried: Carried, rows: InputRows, seen: np.ndarray, entered: np.ndarray, findings: Findings
) -> None:
    """With the secret. seen: bool (n,), rows by which somebody must have been seen; entered: digests of the cohorts.

    Of runs that carry no clock: else who was seen follows from which windows were over.
    """
    if carried.left is None:
        return
    waits = _joined([each.pool for each in carried.left.values()])
    before = _joined([each.pool for each in (*carried.came.values(), *carried.expected)])
    strange = int((~np.isin(waits, np.concatenate([rows.digest, before]))).sum())
    if strange:
        findings.add(f"{strange} people wait in the pool who were never seen")
    if any(each.clock is not None for each in carried.left.values()):
        return
    missed = np.setdiff1d(rows.digest[seen], np.concatenate([waits, entered]))
    if len(missed):
        findings.add(f"{len(missed)} people were seen, are in no cohort, and do not wait in the pool")


def with_pool(rows: InputRows, carried: Carried, partition_of: Mapping[str, int]) -> InputRows:
    """The rows, and one more for everybody who waited in the pool when the run began, or was expected then.

    partition_of: the number of each partition, as rows are numbered; others are left out.
    """
    before = [
        (np.where(each.kind < 0, SEEN_BEFORE_MS, WAITED_MS + each.kind), each)
        for each in carried.came.values()
    ]
    expected = [(np.full(len(each.pool), EXPECTED_MS + each.place), each) for each in carried.expected]
    for end, came in (*before, *expected):
        number = partition_of.get(came.partition)
        if number is None or not len(came.pool):
            continue
        count = len(came.pool)
        rows = replace(
            rows,
            digest=np.concatenate([rows.digest, came.pool]),
            partition=np.concatenate([rows.partition, np.full(count, number, rows.partition.dtype)]),
            end=np.concatenate([rows.end, end]),
            values=np.concatenate([rows.values, came.values]),
            readable=np.concatenate([rows.readable, np.ones(count, bool)]),
        )
    return rows


def _judge_rosters(
    left: Mapping[str, CarriedPartition], segments: Sequence[EnteredSegment], findings: Findings
) -> None:
    last: dict[str, EnteredSegment] = {segment.partition: segment for segment in segments}
    other = 0
    for partition, each in left.items():
        segment = last.get(partition)
        there = ("", 0, 0, 0)
        if segment is not None:
            chain, people, cohorts = segment.after
            there = (chain, segment.head.segments + 1, people, cohorts)
        other += each.roster is not None and each.roster != there
        other += each.roster is None and segment is not None
    other += len(last.keys() - left.keys())
    if other:
        findings.add(f"the carried states of {other} partitions are of other cohorts than lie there")


def _people_by_partition(segments: Sequence[EnteredSegment]) -> dict[str, np.ndarray]:
    parts: dict[str, list[np.ndarray]] = {}
    for segment in segments:
        parts.setdefault(segment.partition, []).append(segment.people)
    return {partition: _joined(each) for partition, each in parts.items()}


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def judge_expected(
    carried: Carried,
    named: np.ndarray,
    values: np.ndarray,
    partition: np.ndarray,
    partition_of: Mapping[str, int],
    findings: Findings,
) -> None:
    """With the secret: the people whom the run expected are those of the file of people.

    named: uint64 (p,), digests of the file's people; values: int32 (p, d), codes of their quasi-identifiers;
    partition: int32 (p,), of each. partition_of: as of ``with_pool``; only of these can be told which partition it is.
    """
    if len(np.unique(named)) < len(named):
        findings.add("a person stands twice in the file of people")
        return
    numbered = [partition_of.get(each.partition, -1) for each in carried.expected]
    sizes = [len(each.pool) for each in carried.expected]
    digests = _joined([each.pool for each in carried.expected])
    pooled = np.concatenate(
        [np.zeros((0, values.shape[1]), np.int32), *(each.values for each in carried.expected)]
    )
    where = np.repeat(np.array(numbered, np.int64), sizes)
    strange, lost = int((~np.isin(digests, named)).sum()), int((~np.isin(named, digests)).sum())
    if len(np.unique(digests)) < len(digests):
        findings.add("a person stands twice among those known from the start")
    if strange or lost:
        findings.add(
            f"the run knew {strange} people from the start whom the file of people does not name, and {lost} not whom"
            " it names; was the file another one then?"
        )
        return
    at = np.argsort(named)[np.searchsorted(np.sort(named), digests)]
    # Of who is forgotten no value is kept.
    other = int(((pooled != values[at]) & (pooled >= 0).any(axis=1, keepdims=True)).any(axis=1).sum())
    if other:
        findings.add(
            f"{other} people were known from the start with other values than the file of people has"
        )
    elsewhere = int(((where >= 0) & (where != partition[at])).sum())
    if elsewhere:
        findings.add(f"{elsewhere} people were expected in another partition than the file of people says")
