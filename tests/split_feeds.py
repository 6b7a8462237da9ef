"""Generated feeds (``swapped_feeds``) played as chains of runs whose shards are split between them.

Each run reads all its rows before anything is done, as a run over files does. Between two runs the shards that have
people enough are split, from the cohorts that are there; some of these people have been forgotten by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.chains.people_of_output import people_of_state
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.transforms.roster.cohort_files import FrozenValues, files_of_part, frozen_values
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.rows.elements import EnteredPeople
from kanonflow.transforms.rows.split import END_OF_TIME_MS
from kanonflow.transforms.secret.seeds import people_key
from kanonflow.transforms.shards.layers import LayeredCut
from kanonflow.transforms.shards.route import RouteInMemory
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.shards.split_roster import parted
from kanonflow.transforms.shards.split_shard import ShardPeople, plan_of_one_piece, split_shard
from kanonflow.transforms.windows.chain import CarriedState, Chain, carried_from_bytes
from kanonflow.transforms.windows.expected_people import expected_states
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.split_state import split_state
from kanonflow.transforms.windows.step import PartitionStep
from tests.small_feeds import HOUR, SECRET, START
from tests.swapped_feeds import EPOCH, Course, Handed, TrailFeed, arrive, facts, lay_down, left_of

KEY = people_key(SECRET)


@dataclass(frozen=True)
class Expecting:
    """As of ``step.EarlierCohorts``: people whom a file names, by the key of their shard."""

    states: dict[bytes, CarriedState]

    def of(self, key: bytes) -> Continued | None:
        """Of a shard."""
        state = self.states.get(key)
        return None if state is None else Continued(EPOCH, (), no_groups(), None, state.to_bytes())

    def keys(self) -> list[bytes]:
        """Of which something was carried over, or in which people are expected."""
        return sorted(self.states)


@dataclass
class SplitCourse(Course):
    """A course over splits. plans: of each run, as its file. parts: of each part the people of its cohorts, and how
    many are in its pool, as it began. pooled, strangers: people of pools, and of open windows alone, of all splits."""

    plans: list[bytes] = field(default_factory=list)
    parts: list[tuple[bytes, list[list[int]], int]] = field(default_factory=list)
    pooled: int = 0
    strangers: int = 0

    def shown(self, without: frozenset[str] = frozenset()) -> list[Any]:
        """All that must be the same of two courses: ``facts``, who went where, and the plans."""
        return [*facts(self, without), self.plans, self.parts]


def run_split_chain(
    feed: TrailFeed,
    ends: Sequence[int],
    carries: Sequence[bool],
    parts: int,
    plan: ShardPlan | None = None,
    named: Sequence[pa.Table | None] = (),
    opened: int = 0,
) -> SplitCourse:
    """The feed as runs over files, as of ``swapped_feeds.run_chain``. parts: of each shard that is split before each
    run but the first; 0: none is. plan: of the first run. named: of each run, rows of whom a file names.
    opened: hours before the end of a run that carries over whose windows are left open."""
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    course, seam, begin = SplitCourse(feed), _Seam(bound), 0
    bounds = (*ends, max(row.arrives for row in feed.rows) + 1)
    for place, (end, carry) in enumerate(zip(bounds, (*carries, False), strict=True)):
        if place and parts:
            plan = seam.split(plan, parts, place, course)
        shards = Shards(plan, bound, SECRET)
        directory = seam.directory(shards)
        expecting: dict[bytes, CarriedState] = {}
        if named and (rows := named[place]) is not None:
            expecting = expected_states(rows, bound, SECRET, EPOCH, place, plan, directory)
            directory = seam.having_named(directory, expecting, shards)
        handed = Handed(seam.left, Expecting(expecting))
        chain = Chain(place, carry, START + max(end - opened, 0) * HOUR if carry else None)
        step = PartitionStep(
            bound,
            SECRET,
            1,
            time=lambda: 0.0,
            epoch=EPOCH,
            continued=handed,
            chain=chain,
            earliest=plan is not None,
        )
        route = None if plan is None else RouteInMemory(shards, KEY, directory)
        partitions = {key: PartitionInMemory(step, key) for key in handed.keys()}  # noqa: SIM118
        for partition in partitions.values():
            partition.wake()
        for now in range(begin, end):
            arrive(course, now, step, partitions, route)
        if route is not None:
            lay_down(course, route.due(END_OF_TIME_MS), step, partitions)
        for key in sorted(partitions):
            for result in partitions[key].finish():
                course.results.append((key, end - 1, result))
                if result.segment is not None:
                    assert result.release is not None
                    assert result.release.entered is not None
                    seam.files.setdefault(key, []).append(result.release.entered)
        seam.left |= {key: left_of(partition) for key, partition in partitions.items()}
        course.plans.append(b"" if plan is None else plan.to_json())
        begin = end
    course.carried = Handed(seam.left)
    return course


@dataclass
class _Seam:
    """What lies between two runs. left: of each shard. files: of the segments of each, in order."""

    bound: BoundPolicy
    left: dict[bytes, Continued] = field(default_factory=dict)
    files: dict[bytes, list[EnteredPeople]] = field(default_factory=dict)

    @property
    def individual(self) -> str:
        return self.bound.policy.cohorts.individual.name

    def frozen(self, key: bytes) -> list[FrozenValues]:
        """The values of each segment. Every fifth person has been forgotten."""
        found = []
        for each, segment in zip(self.files[key], self.left[key].segments, strict=True):
            forgotten = segment.people % np.uint64(5) == 0
            values = frozen_values(each.people, self.bound).values
            gone = pa.array(np.where(forgotten, -1, np.arange(forgotten.size)), mask=forgotten)
            found.append(FrozenValues(values.take(gone), forgotten))
        return found

    def split(self, plan: ShardPlan | None, parts: int, place: int, course: SplitCourse) -> ShardPlan | None:
        """The plan of the next run: up to two shards that have people enough are split, the largest ones."""
        size = self.bound.policy.cohorts.cohort_size
        begun = plan
        if begun is None:
            begun = plan_of_one_piece(self.bound, 0)
        keys = Shards(begun, self.bound, SECRET).keys_by_partition(begun)
        shards = [
            (partition, number)
            for partition, layer in enumerate(LayeredCut.of(begun))
            for number in layer.live
            if self.files.get(keys[partition][number])
        ]
        shards.sort(key=lambda each: -sum(s.people.size for s in self.left[keys[each[0]][each[1]]].segments))
        made = begun
        for partition, number in shards[:2]:
            key = keys[partition][number]
            segments, frozen = self.left[key].segments, self.frozen(key)
            people = ShardPeople(
                segments,
                pa.concat_tables([each.values.filter(~each.forgotten) for each in frozen]).combine_chunks(),
                np.concatenate([each.people[~f.forgotten] for each, f in zip(segments, frozen, strict=True)]),
            )
            try:
                tried = split_shard(made, partition, number, people, self.bound, parts, place)
            except PlanError:
                continue
            if min(tried.people) >= size:
                made = tried.plan
        if made is begun:
            return plan
        for key, split in Shards(made, self.bound, SECRET).split_at(place).items():
            self._divide(key, split, Shards(made, self.bound, SECRET), course)
        return made

    def _divide(self, key: bytes, split: Any, shards: Shards, course: SplitCourse) -> None:
        frozen, cohorts = self.frozen(key), self.left.pop(key)
        assert cohorts.carried is not None
        files = self.files.pop(key)
        state = carried_from_bytes(cohorts.carried)
        divided = parted(cohorts.segments, split, shards.orders, EPOCH)
        states = split_state(state, cohorts.roster, divided, split, self.bound, shards.orders, KEY)
        known = set(cohorts.roster.people.tolist())
        pool = set() if state.warm.roster is None else set(state.warm.roster.pool.people.tolist())
        course.pooled += len(pool)
        course.strangers += len(set(people_of_state(state, self.individual, KEY).tolist()) - known - pool)
        for name, part in zip(split.keys, divided, strict=True):
            began = states[name]
            self.left[name] = Continued(
                EPOCH, tuple(each.segment for each in part.segments), no_groups(), began.to_bytes()
            )
            self.files[name] = [
                files_of_part(
                    segment,
                    FrozenValues(frozen[of].values.filter(own), frozen[of].forgotten[own]),
                    files[of].boxes,
                    name,
                    self.bound,
                )
                for segment, of, own in part.segments
            ]
            roster = self.left[name].roster
            members = [
                sorted(roster.people[roster.cohort == each].tolist()) for each in range(roster.head.cohorts)
            ]
            waits = 0 if began.warm.roster is None else began.warm.roster.pool.people.size
            course.parts.append((name, members, waits))

    def directory(self, shards: Shards) -> FirstPartitions:
        """Who has a shard already."""
        own, placed = shards.partition_of, FirstPartitions()
        for known in (self._entered(), self._carried()):
            for key, people in known:
                if key in own:
                    placed = placed.having(key, in_partition(own[key], np.unique(people)))
        return placed

    def having_named(
        self, directory: FirstPartitions, named: dict[bytes, CarriedState], shards: Shards
    ) -> FirstPartitions:
        """With whom a file names: fewer than a cohort are known by their rows."""
        entered = {key: set(people.tolist()) for key, people in self._entered()}
        for key, state in named.items():
            partition = shards.partition_of.get(key)
            assert state.warm.roster is not None
            people = state.warm.roster.pool.people
            known = entered.get(key, set()) | self._waits_by_file(key)
            new = sum(person not in known for person in people.tolist())
            if partition is not None and new >= self.bound.policy.cohorts.cohort_size:
                own = in_partition(partition, people)
                directory = directory.having(key, own[directory.of(own) < 0])
        return directory

    def _waits_by_file(self, key: bytes) -> set[int]:
        """Whom a file of a run before named."""
        left = self.left.get(key)
        roster = (
            None if left is None or left.carried is None else carried_from_bytes(left.carried).warm.roster
        )
        return (
            set()
            if roster is None
            else set(
                roster.pool.people[roster.pool.known_by_file(self.bound.policy.cohorts.cohort_size)].tolist()
            )
        )

    def _entered(self) -> Iterable[tuple[bytes, NDArray[np.uint64]]]:
        for key, cohorts in self.left.items():
            yield key, cohorts.roster.people

    def _carried(self) -> Iterable[tuple[bytes, NDArray[np.uint64]]]:
        for key, cohorts in self.left.items():
            if cohorts.carried is not None:
                yield key, people_of_state(carried_from_bytes(cohorts.carried), self.individual, KEY)
