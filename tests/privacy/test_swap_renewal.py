"""The condition that cohorts that last rest on (``test_swap``), in an epoch that a renewal begins, and over both.

A feed is cut in two runs; between them everybody is put together anew. What two people of a *new* cohort have from then
on is exchanged: nothing of the new epoch shows it. And who was together in both epochs is exchanged as a whole: nothing
of either shows that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.roster.cohort_files import frozen_values
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.pool import quasi_schema
from kanonflow.transforms.roster.renewal import Renewal, renewed
from kanonflow.transforms.roster.roster import segment_from_bytes
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import people_key
from kanonflow.transforms.windows.chain import Chain, carried_from_bytes
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.renewed_state import renewed_state
from kanonflow.transforms.windows.step import PartitionStep
from tests.small_feeds import HOUR, SECRET, START
from tests.swapped_feeds import (
    EPOCH,
    Course,
    Handed,
    TrailFeed,
    arrive,
    facts,
    generated_feed,
    left_of,
    rejected_shown,
)

pytestmark = pytest.mark.thorough

FEEDS, BATCH = 20, 10
_NEXT = EPOCH + 1
_FORMS = tuple(RenewedCohorts)


def played(
    feed: TrailFeed, end: int, form: RenewedCohorts, *, carry: bool, later: TrailFeed | None = None
) -> tuple[Course, Course, Mapping[bytes, Renewal]]:
    """Both epochs, and the renewal of each partition between them. later: the second's rows; None: the feed's."""
    steps = max(row.arrives for row in feed.rows) + 1
    first, handed = _run(
        feed, Handed(), 0, end, EPOCH, Chain(0, carry, START + end * HOUR if carry else None)
    )
    renewals, left = {}, {}
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    for key, cohorts in handed.left.items():
        renewal = None
        roster = cohorts.roster
        if cohorts.segments:
            values = _frozen(first, key, bound)
            renewal = renewals[key] = renewed(
                roster,
                values,
                np.zeros(roster.people.size, dtype=np.bool_),
                roster.cohort,
                bound,
                _NEXT,
                cohorts=form,
                peers=2,
                seed=5,
                threads=1,
            )
        assert cohorts.carried is not None
        state = renewed_state(
            carried_from_bytes(cohorts.carried), renewal, _NEXT, bound, keeps=form is RenewedCohorts.KEPT
        )
        segments = () if renewal is None else (renewal.segment,)
        left[key] = Continued(_NEXT, segments, no_groups(), state.to_bytes())
    second, _ = _run(later or feed, Handed(left), end, steps, _NEXT, Chain(1))
    return first, second, renewals


def _run(
    feed: TrailFeed, handed: Handed, begin: int, end: int, epoch: int, chain: Chain
) -> tuple[Course, Handed]:
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    step = PartitionStep(bound, SECRET, 1, time=lambda: 0.0, epoch=epoch, continued=handed, chain=chain)
    course = Course(feed)
    partitions = {key: PartitionInMemory(step, key) for key in sorted(handed.left)}
    for partition in partitions.values():
        partition.wake()
    for now in range(begin, end):
        arrive(course, now, step, partitions)
    for key in sorted(partitions):
        course.results += [(key, end - 1, result) for result in partitions[key].finish()]
    return course, Handed({key: left_of(partition) for key, partition in partitions.items()})


def _frozen(course: Course, key: bytes, bound: BoundPolicy) -> pa.Table:
    """The frozen values of everybody of a partition, by digest."""
    people: list[NDArray[np.uint64]] = []
    tables = []
    for own, _, result in course.results:
        if own == key and result.segment is not None and result.release is not None:
            people.append(segment_from_bytes(result.segment).people)
            assert result.release.entered is not None
            tables.append(frozen_values(result.release.entered.people, bound).values)
    order = np.argsort(np.concatenate(people), kind="stable")
    return pa.concat_tables(tables).take(pa.array(order)).cast(quasi_schema(bound)).combine_chunks()


def numbers_of(feed: TrailFeed) -> Mapping[int, int]:
    """The number of each person, by digest."""
    digests = person_digests([person.name for person in feed.people], people_key(SECRET))
    return {int(digest): number for number, digest in enumerate(digests)}


def groups(renewals: Mapping[bytes, Renewal], labels: str, feed: TrailFeed) -> list[list[int]]:
    """People of one new cohort, or of one who were together in both epochs (``together``), two or more."""
    number, found = numbers_of(feed), []
    for renewal in renewals.values():
        label = renewal.segment.cohort if labels == "cohort" else renewal.together
        for one in np.unique(label):
            members = [number[int(each)] for each in renewal.segment.people[label == one]]
            found += [members] if len(members) > 1 else []
    return found


def pair(groups_of: Sequence[Sequence[int]], rng: np.random.Generator) -> dict[int, int]:
    one, other = rng.choice(groups_of[int(rng.integers(len(groups_of)))], 2, replace=False).tolist()
    return {one: other, other: one}


def exchanged_from(feed: TrailFeed, changes: Mapping[int, int], end: int) -> TrailFeed:
    """The feed in which only rows from a step on are exchanged."""
    later = np.array([row.arrives >= end for row in feed.rows])
    return replace(feed, owners=np.where(later, feed.exchanged(changes).owners, feed.owners))


def cut(feed: TrailFeed, seed: int) -> int:
    """A step in the middle half."""
    steps = max(row.arrives for row in feed.rows) + 1
    return int(np.random.default_rng(seed).integers(max(1, steps // 2), max(2, steps)))


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_trails_shows_nothing_in_a_renewed_epoch(first: int, form: RenewedCohorts) -> None:
    """(S) of the new epoch, for two people of a new cohort, whichever cohorts they were in before."""
    tried = 0
    for seed in range(first, first + BATCH):
        feed = generated_feed(seed)
        end = cut(feed, seed)
        before, course, renewals = played(feed, end, form, carry=False)
        if not (members := groups(renewals, "cohort", feed)):
            continue
        changes = pair(members, np.random.default_rng(seed))
        later = exchanged_from(feed, changes, end)
        same, other, again = played(feed, end, form, carry=False, later=later)
        assert facts(same) == facts(before)
        assert {key: each.segment.after for key, each in again.items()} == {
            key: each.segment.after for key, each in renewals.items()
        }
        assert facts(other) == facts(course), f"feed {seed}"
        tried += bool(course.results)
    assert tried >= BATCH // 2


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_whole_trails_of_who_stays_together_shows_nothing_in_both_epochs(
    first: int, form: RenewedCohorts
) -> None:
    """Of two people who share the old cohort and the new one: all rows of both epochs, those that waited among them."""
    tried = 0
    for seed in range(first, first + BATCH):
        feed = generated_feed(seed)
        end, carry = cut(feed, seed), bool(seed % 2)
        before, course, renewals = played(feed, end, form, carry=carry)
        if not (members := groups(renewals, "together", feed)):
            continue
        swapped = feed.exchanged(pair(members, np.random.default_rng(seed)))
        same, other, _ = played(swapped, end, form, carry=carry)
        assert facts(same) == facts(before), f"feed {seed}"
        assert facts(other) == facts(course), f"feed {seed}"
        tried += 1
    assert tried >= BATCH // 2


def ending_thinly(feed: TrailFeed, end: int, seed: int) -> TrailFeed:
    """The feed in which few of the rows that come shortly before a step are left: some of them wait there."""
    rng = np.random.default_rng(seed)
    stays = np.array([not end - 2 <= row.arrives < end or rng.random() < 0.1 for row in feed.rows])
    rows = tuple(row for row, there in zip(feed.rows, stays, strict=True) if there)
    return replace(feed, rows=rows, owners=feed.owners[stays])


@pytest.mark.parametrize("form", [RenewedCohorts.BLOCKS, RenewedCohorts.SEARCHED])
def test_exchanging_what_waited_shows_nothing_either(form: RenewedCohorts) -> None:
    """Of two people of a new cohort all rows that the old epoch left, with those that come: neither epoch shows it."""
    tried = 0
    for seed in range(100, 140):
        end = 4 + seed % 4
        feed = ending_thinly(generated_feed(seed), end, seed)
        before, course, renewals = played(feed, end, form, carry=True)
        if not (members := groups(renewals, "cohort", feed)):
            continue
        out = Counter(record[-1] for record in before.refused)
        for _, _, result in before.results:
            out.update(rejected_shown(record)[-1] for record in result.rejected)
            if result.release is not None:
                out.update(from_ipc(result.release.ipc).column("tag").to_pylist())
        stays = np.array([row.arrives >= end or not out[row.tag] for row in feed.rows])
        waits = {int(feed.owners[place]) for place in np.flatnonzero(stays) if feed.rows[place].arrives < end}
        if not (those := [own for own in members if waits & set(own)]):
            continue
        changes = pair(those, np.random.default_rng(seed))
        later = replace(feed, owners=np.where(stays, feed.exchanged(changes).owners, feed.owners))
        same, other, _ = played(later, end, form, carry=True)
        assert facts(same) == facts(before), f"feed {seed}"
        assert facts(other) == facts(course), f"feed {seed}"
        tried += 1
    assert tried >= 3


def test_whole_trails_of_who_was_parted_show() -> None:
    """A control: of two people of a new cohort who were in two before, the old epoch shows it in at least 9 of 10."""
    shown = []
    for seed in range(3000, 3024):
        feed = generated_feed(seed)
        end = cut(feed, seed)
        before, _, renewals = played(feed, end, RenewedCohorts.SEARCHED, carry=False)
        number = numbers_of(feed)
        for renewal in renewals.values():
            one = renewal.segment.cohort == 0
            apart = renewal.segment.people[one][np.unique(renewal.together[one], return_index=True)[1]]
            if apart.size > 1:
                own, other = (number[int(each)] for each in apart[:2])
                swapped = feed.exchanged({own: other, other: own})
                again, _, _ = played(swapped, end, RenewedCohorts.SEARCHED, carry=False)
                shown.append(facts(again) != facts(before))
                break
    assert len(shown) >= 10
    assert np.mean(shown) >= 0.9


def test_blocks_have_as_many_as_they_promise() -> None:
    """Everybody of a cohort with two blocks' people or more stays with one; searched cohorts part more of them."""
    parted = 0
    for seed in range(20):
        feed = generated_feed(seed)
        for form in (RenewedCohorts.BLOCKS, RenewedCohorts.SEARCHED):
            for renewal in played(feed, cut(feed, seed), form, carry=False)[2].values():
                if form is RenewedCohorts.BLOCKS:
                    assert renewal.left.min() >= 2
                parted += int((renewal.left < 2).sum())
    assert parted > 0
