"""A shard that the plan of a run splits: its cohorts and what it carried over, laid down as those of its parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    CARRIED,
    CONTINUED,
    PEOPLE,
    TOGETHER,
    segment_file,
)
from kanonflow.transforms.roster.cohort_files import (
    FrozenValues,
    files_of_part,
    frozen_values,
    groups_file,
)
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.secret.seeds import Secret, people_key
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan
from kanonflow.transforms.shards.shards import Shards, SplitShard
from kanonflow.transforms.shards.split_roster import parted
from kanonflow.transforms.windows.chain import CarriedState, carried_from_bytes
from kanonflow.transforms.windows.split_state import split_state


class LaidPart(NamedTuple):
    """The files of one part's folder, by name; ``continued.json`` last. key: of the part."""

    key: bytes
    files: dict[str, bytes]


def refuse_few(states: Iterable[CarriedState], least: int) -> None:
    """Raise PlanError if fewer than so many of whom one file named wait in a part.

    They would be known by their rows, and share a cohort with people whose rows counted as strangers' already:
    exchanging the rows of the two would show in those counts.
    """
    pools = [state.warm.roster.pool for state in states if state.warm.roster is not None]
    few = sum(int(((pool.kind >= 0) & ~pool.known_by_file(least)).sum()) for pool in pools)
    if few:
        raise PlanError(
            f"--plan: {few} people whom a file of people names still wait to enter a shard that it splits, in parts"
            f" with fewer than cohort_size = {least} of them; continue without it, and split the shard when they have"
            " entered"
        )


class Splitting:
    """What a run splits of the one that it continues: nothing without a plan.

    bound: the policy of the run. place: of the run in its chain.
    """

    def __init__(self, plan: ShardPlan | None, bound: BoundPolicy, secret: Secret, place: int) -> None:
        self._shards = Shards(plan, bound, secret)
        self._splits = self._shards.split_at(place)
        self._bound = bound
        self._key = people_key(secret)

    def of(self, key: bytes) -> SplitShard | None:
        """How a shard is split; None: it stays."""
        return self._splits.get(key)

    def parts(
        self, split: SplitShard, folder: str, cohorts: Continued, groups: str | None
    ) -> Iterator[LaidPart]:
        """The parts of a shard. folder: of its cohorts; cohorts: as they were read from there. groups: the name of the
        file of the last ones; None: there is none, or they are part of what was carried over.

        Raises StateError: a file is damaged. PlanError: the plan counted other people than are there, or
        as of ``refuse_few``.
        """
        orders, bound = self._shards.orders, self._bound
        parts = parted(cohorts.segments, split, orders, cohorts.epoch)
        if tuple(part.head.people for part in parts) != split.layer.cut.people:
            raise PlanError(
                "--plan: it was made from other cohorts than those of the run that --continue names; make one of this"
                " run (kanonflow plan --continue)"
            )
        state = None if cohorts.carried is None else carried_from_bytes(cohorts.carried)
        states = (
            {}
            if state is None
            else split_state(state, cohorts.roster, parts, split, bound, orders, self._key)
        )
        refuse_few(states.values(), bound.policy.cohorts.cohort_size)
        read = [self._of_segment(folder, number) for number in range(len(cohorts.segments))]
        for key, part in zip(split.keys, parts, strict=True):
            files: dict[str, bytes] = {}
            for number, (segment, of, own) in enumerate(part.segments):
                frozen, boxes = read[of]
                mine = FrozenValues(frozen.values.filter(own), frozen.forgotten[own])
                made = files_of_part(segment, mine, boxes, key, bound)
                files[segment_file(number, PEOPLE)] = made.people
                files[segment_file(number, BOXES)] = made.boxes
            if groups is not None:
                files[groups] = groups_file(part.last(cohorts.last))
            if storage.exists(together := storage.join(folder, TOGETHER)):
                files[TOGETHER] = read_whole(together)  # those of other parts are nobody here
            if key in states:
                files[CARRIED] = states[key].to_bytes()
            began = {"segments": len(part.segments), "groups": groups, "carried": key in states}
            # Last: a partition is begun once it is there.
            yield LaidPart(key, {**files, CONTINUED: json.dumps(began).encode()})

    def _of_segment(self, folder: str, number: int) -> tuple[FrozenValues, bytes]:
        people, boxes = (
            read_whole(storage.join(folder, segment_file(number, kind))) for kind in (PEOPLE, BOXES)
        )
        return frozen_values(people, self._bound), boxes
