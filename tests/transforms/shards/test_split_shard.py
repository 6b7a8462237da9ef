"""A shard that is split: its cohorts, its pool, and carried rows, each in one part; the plan that says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.chains.split_cohorts import refuse_few
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster, Segment, empty_roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import LastGroups
from kanonflow.transforms.rows.elements import to_ipc
from kanonflow.transforms.secret.seeds import people_key
from kanonflow.transforms.shards.layers import LayeredCut, live_people
from kanonflow.transforms.shards.make_plan import make_plan
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan, plan_from_json
from kanonflow.transforms.shards.shards import Shards, SplitShard
from kanonflow.transforms.shards.split_roster import Part, marks_of, parted
from kanonflow.transforms.shards.split_shard import (
    LARGEST,
    ShardPeople,
    SplitPlan,
    named_shard,
    plan_of_one_piece,
    split_shard,
)
from kanonflow.transforms.windows.chain import Batch, CarriedState, windows_of
from kanonflow.transforms.windows.expected_people import expecting_state
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.split_state import split_state
from tests.small_feeds import SECRET, START, canonical
from tests.transforms.shards.mixed_shards import mixed_bound, mixed_people

NAMES = ("age", "job", "born")
EPOCH = 11


class Shard:
    """Some hundred people of a shard of a plan, who entered in two segments."""

    def __init__(self, seed: int, parts: int = 2, count: int = 240, **head: object) -> None:
        self.bound: BoundPolicy = mixed_bound(*NAMES, **head)
        self.rows, self.digests = mixed_people(self.bound, count, seed)
        self.plan: ShardPlan = make_plan(self.rows, self.digests, self.bound, 2).plan
        shards = Shards(self.plan, self.bound, SECRET)
        ((self.keys),) = shards.keys_by_partition(self.plan)
        own = np.flatnonzero(self.plan.partitions[0].shard_of(self.rows, self.digests, shards.orders) == 0)
        self.in_cohorts, self.waits = own[: own.size * 3 // 4], own[own.size * 3 // 4 :]
        self.roster = empty_roster(EPOCH)
        segments: list[Segment] = []
        for half in np.array_split(self.in_cohorts, 2):
            pool = self.pool(half)
            made = found(pool, self.roster.head, self.bound, {}, seed=seed, threads=1)
            segments.append(made.segment)
            self.roster: Roster = self.roster.followed_by(made.segment)
        self.segments = tuple(segments)
        values = self.rows.take(pa.array(self.in_cohorts)).select(list(NAMES))
        self.people = ShardPeople(self.segments, values, self.digests[self.in_cohorts])
        self.made: SplitPlan = split_shard(self.plan, 0, 0, self.people, self.bound, parts, 1)
        self.shards = Shards(self.made.plan, self.bound, SECRET)

    def pool(self, people: Sequence[int] | np.ndarray) -> Pool:
        """These people as they wait."""
        some = pa.array(np.asarray(people))
        return empty_pool(self.bound).expecting(self.digests[people], self.rows.take(some), self.bound)

    @property
    def split(self) -> SplitShard:
        """How it is split."""
        ((key, split),) = self.shards.split_at(1).items()
        assert key == self.keys[0]
        return split

    def parts(self) -> tuple[Part, ...]:
        """Of its roster."""
        return parted(self.segments, self.split, self.shards.orders, EPOCH)

    def state(self, seed: int) -> CarriedState:
        """What a run left: a pool, rows that wait of some of its people, and rows of a window that is not over, of
        everybody, of strangers, and some that nobody can read."""
        rng = np.random.default_rng(seed)
        strangers = np.setdiff1d(
            np.flatnonzero(
                self.plan.partitions[0].shard_of(self.rows, self.digests, self.shards.orders) == 0
            ),
            self.in_cohorts,
        )[: self.waits.size // 2]
        pool = self.pool(np.setdiff1d(self.waits, strangers))
        waiting = self.told(rng.choice(self.in_cohorts, 30), hour=1)
        batches = [
            Batch(number, late, to_ipc(self.told(people, hour=number)))
            for number, late, people in (
                (2, True, rng.choice(self.in_cohorts, 20)),
                (3, False, np.concatenate([strangers, strangers[:3], self.waits[-5:]])),
            )
        ]
        unread = self.told(strangers[:1], hour=3, who="nobody else", age="old")
        batches.append(Batch(3, False, to_ipc(unread)))
        last = LastGroups(np.arange(self.roster.head.cohorts), np.arange(self.roster.head.cohorts) // 3)
        warm = WarmState(
            waiting,
            ("too_few",) * 30,
            events=((START, np.array([3, 5], dtype=np.uint64)),),
            roster=RosterState(self.roster.head, pool, last),
        )
        clock = PartitionClock(last_end=START, release_no=4, pending=(3,), late=(2,))
        return CarriedState(
            self.keys[0], EPOCH, 0, windows_of(self.bound.policy), clock, warm, tuple(batches)
        )

    def told(self, people: Sequence[int] | np.ndarray, hour: int, **other: str) -> pa.Table:
        """Rows of these people. other: cells that say something else."""
        rows = self.rows.take(pa.array(np.asarray(people))).to_pylist()
        return canonical(
            [
                {name: None if value is None else str(value) for name, value in row.items()}
                | {"when": f"2024-03-01T0{hour}:10:00Z", "amount": f"{number}.5"}
                | other
                for number, row in enumerate(rows)
            ],
            self.bound,
        )


@pytest.mark.parametrize(("seed", "parts"), [(1, 2), (2, 3), (3, 2), (4, 4)])
def test_parts_are_a_partition_of_cohorts_and_people(seed: int, parts: int) -> None:
    """With their boxes, in their order, with heads that follow each other; as many people as the plan counted."""
    shard = Shard(seed, parts)
    made = shard.parts()
    assert len(made) == len(shard.split.keys) >= 2
    number = np.stack([part.number for part in made])
    assert ((number >= 0).sum(axis=0) == 1).all()
    assert [part.head.people for part in made] == list(shard.made.people)
    members, boxes = [], []
    for part in made:
        own = part.number[part.number >= 0]
        assert own.tolist() == list(range(part.head.cohorts))  # they keep their order
        roster, shards_own = empty_roster(EPOCH), np.flatnonzero(part.number >= 0)
        for each in part.segments:
            roster = roster.followed_by(each.segment)
            assert (np.diff(each.segment.people.astype(object)) > 0).all()
            assert (shard.segments[each.number].people[each.own] == each.segment.people).all()
        assert roster.head == part.head
        assert roster.corners is not None
        for here, there in enumerate(shards_own.tolist()):
            members.append((there, frozenset(roster.people[roster.cohort == here].tolist())))
            box = roster.corners.filter(pa.array(np.asarray(roster.corners.column(COHORT)) == here))
            boxes.append((there, box.drop_columns([COHORT]).to_pylist()))
    assert shard.roster.corners is not None
    for there, people in members:
        assert people == frozenset(shard.roster.people[shard.roster.cohort == there].tolist())
    for there, box in boxes:
        whole = shard.roster.corners.filter(
            pa.array(np.asarray(shard.roster.corners.column(COHORT)) == there)
        )
        assert box == whole.drop_columns([COHORT]).to_pylist()


def test_a_cohort_is_placed_by_its_box_and_the_digests_of_its_people() -> None:
    """One mark a cohort; the order in which its people are named changes nothing."""
    shard = Shard(5)
    segment = shard.segments[1]
    marks = marks_of(segment)
    assert marks.rows.num_rows == marks.digests.size == segment.after.cohorts - segment.head.cohorts
    least = [
        segment.people[segment.cohort == number].min()
        for number in range(segment.head.cohorts, segment.after.cohorts)
    ]
    assert marks.digests.tolist() == least


@pytest.mark.parametrize(("seed", "parts"), [(1, 2), (2, 3), (6, 3)])
def test_what_was_carried_over_is_divided_and_conserved(seed: int, parts: int) -> None:
    """Pool, rows and reasons, each once, with their people; the clock and event ids of each part are the shard's."""
    shard = Shard(seed, parts)
    state, made = shard.state(seed), shard.parts()
    states = split_state(
        state, shard.roster, made, shard.split, shard.bound, shard.shards.orders, people_key(SECRET)
    )
    assert tuple(states) == shard.split.keys
    pools = [each.warm.roster.pool for each in states.values() if each.warm.roster is not None]
    assert state.warm.roster is not None
    people = np.concatenate([pool.people for pool in pools])
    assert sorted(people.tolist()) == state.warm.roster.pool.people.tolist()
    for pool, key in zip(pools, shard.split.keys, strict=True):
        at = shard.split.part_of(pool.values, pool.people, shard.shards.orders)
        assert {shard.split.keys[number] for number in at.tolist()} <= {key}
    assert sum(each.rows for each in states.values()) == state.rows
    assert sum((rows_of(each) for each in states.values()), Counter()) == rows_of(state)
    owners: dict[str, set[bytes]] = {}
    for key, each in states.items():
        assert each.clock is not None
        assert state.clock is not None
        assert (each.partition, each.clock.claims, each.epoch, each.place) == (key, (), EPOCH, 0)
        assert (each.clock.last_end, each.clock.pending) == (state.clock.last_end, state.clock.pending)
        assert each.warm.events == state.warm.events
        assert len(each.warm.waiting_reason) == each.warm.waiting_rows
        for _, who, _ in rows_of(each):
            owners.setdefault(who, set()).add(key)
    assert all(len(keys) == 1 for keys in owners.values())  # nobody's rows are in two
    assert owners["nobody else"] == {shard.split.keys[0]}
    for part, each in zip(made, states.values(), strict=True):
        assert each.warm.roster is not None
        assert each.warm.roster.head == part.head
        last = each.warm.roster.last
        assert last.cohorts.tolist() == list(range(part.head.cohorts))
        assert last.groups.tolist() == (np.flatnonzero(part.number >= 0) // 3).tolist()


def test_few_who_are_named_and_wait_are_not_parted_from_their_kind() -> None:
    """Two of one file are too few for a cohort of three; of three files one each are, too; three of one are enough."""
    shard = Shard(9)
    order = np.argsort(shard.digests[:3])
    people, rows = shard.digests[:3][order], shard.rows.take(pa.array(order))

    def states(count: int, *places: int) -> list[CarriedState]:
        pool = empty_pool(shard.bound)
        for number, place in enumerate(places):
            own = slice(number, number + count)
            pool = pool.expecting(people[own], rows.slice(number, count), shard.bound, place)
        return [expecting_state(bytes(16), EPOCH, 1, pool, shard.bound.policy)]

    refuse_few(states(3, 1), 3)
    for few in (states(2, 1), states(1, 0, 1, 2)):
        with pytest.raises(
            PlanError, match=r"people whom a file of people names still wait .* cohort_size = 3"
        ):
            refuse_few(few, 3)


def rows_of(state: CarriedState) -> Counter[tuple[str, str, str]]:
    """Where each row of a state lies, whose it is, and what else it says."""
    tables = [(f"{each.number} {each.late}", each.rows) for each in state.batches]
    if state.warm.waiting is not None:
        tables.append(("waits", state.warm.waiting))
    return Counter((place, row["who"], repr(row)) for place, table in tables for row in table.to_pylist())


def test_who_goes_where_after_a_split_is_what_the_split_says() -> None:
    """Newcomers of other shards stay in theirs, and those of the shard go to its parts, by one rule for all."""
    shard = Shard(7, 3)
    rows, digests = mixed_people(shard.bound, 500, 99)
    orders = shard.shards.orders
    (before,), (after,) = LayeredCut.of(shard.plan), LayeredCut.of(shard.made.plan)
    old, new = before.shard_of(rows, digests, orders), after.shard_of(rows, digests, orders)
    assert (new[old != 0] == old[old != 0]).all()
    (layer,) = after.splits
    assert set(new[old == 0].tolist()) <= set(layer.parts)
    own = np.flatnonzero(old == 0)
    assert (new[own] == layer.part_of(rows.take(pa.array(own)), digests[own], orders)).all()
    assert after.live == (1, *layer.parts)
    assert live_people([after]) == [after.people[number] for number in after.live]
    assert after.values == before.values
    # The keys of those that stay are what they were, and no part has one that was there.
    ((keys),) = shard.shards.keys_by_partition(shard.made.plan)
    assert keys[:2] == shard.keys
    assert len(set(keys)) == len(keys)
    partition = shard.shards.partition_of
    assert shard.keys[0] not in partition
    assert set(partition) == {keys[number] for number in after.live}
    assert not shard.shards.split_at(2)


def test_a_part_is_split_again_and_the_plan_reads_back() -> None:
    """Numbers go on; the plan before is the parent; what is no sound split is refused."""
    shard = Shard(8)
    (layer,) = LayeredCut.of(shard.made.plan)[0].splits
    part = shard.parts()[0]
    segments = tuple(each.segment for each in part.segments)
    people = np.concatenate([each.people for each in segments])
    place = np.argsort(shard.digests, kind="stable")
    at = place[np.searchsorted(shard.digests[place], people)]
    values = shard.rows.take(pa.array(at)).select(list(NAMES))
    again = split_shard(
        shard.made.plan, 0, layer.first, ShardPeople(segments, values, people), shard.bound, 2, 3
    )
    plan = plan_from_json(again.plan.to_json(), "plan")
    assert plan == again.plan
    assert (plan.place, plan.parent) == (3, shard.made.plan)
    assert shard.made.plan.parent == shard.plan
    (layered,) = LayeredCut.of(plan)
    assert layer.first not in layered.live
    assert 0 not in layered.live
    assert layered.splits[1].first == layer.parts.stop
    with pytest.raises(PlanError, match="damaged"):
        plan_from_json(again.plan.to_json().replace(b'"shard": %d,' % layer.first, b'"shard": 0,'), "plan")
    with pytest.raises(PlanError, match="splits shards of a run"):
        plan.refuse_first()
    shard.plan.refuse_first()


def test_a_shard_is_named_by_its_key_or_as_the_largest() -> None:
    """The beginning of a key is enough where it is that of one; what is split already is no shard."""
    shard = Shard(9)
    ((own),) = shard.shards.keys_by_partition(shard.made.plan)
    keys = [tuple(key.hex() for key in own)]
    plan = shard.made.plan
    assert named_shard(keys, plan, keys[0][1], {}) == (0, 1)
    assert named_shard(keys, plan, keys[0][2][:9].upper(), {}) == (0, 2)
    assert named_shard(keys, plan, LARGEST, {keys[0][0]: 900, keys[0][3]: 50, keys[0][1]: 40}) == (0, 3)
    for name in (keys[0][0], "", "no key"):
        with pytest.raises(PlanError, match="names none of the"):
            named_shard(keys, plan, name, {})
    with pytest.raises(PlanError, match="cuts no partition, for each had too few people"):
        named_shard([], replace(plan, partitions=(), splits=()), LARGEST, {})


def test_too_few_people_and_partitions_without_a_plan_are_refused() -> None:
    """A cohort for each part; what was in one piece is split as a whole."""
    shard = Shard(10)
    few = ShardPeople(shard.segments, shard.people.values.slice(0, 8), shard.people.digests[:8])
    with pytest.raises(PlanError, match="has no cohort of"):
        split_shard(shard.plan, 0, 0, few, shard.bound, 3, 1)
    with pytest.raises(PlanError, match="has partition_by"):
        plan_of_one_piece(shard.bound, 10)
    whole = plan_of_one_piece(mixed_bound(*NAMES, partition_by=[]), 10)
    assert whole.partitions[0].whole
    assert whole.partitions[0].shard_of(shard.rows, shard.digests, shard.shards.orders).tolist() == [0] * 240
