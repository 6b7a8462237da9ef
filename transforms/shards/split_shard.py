"""A plan of which a shard is split, made from the cohorts that are in it.

    split_shard(plan, partition, shard, people, bound, parts, ...) -> SplitPlan(plan, tried)

How its people are cut is found as for a first plan, from the values that they are frozen with. Then each cohort goes
whole to one part (``split_roster``), and the parts are counted by these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.roster.roster import Segment
from kanonflow.transforms.shards.layers import LayeredCut
from kanonflow.transforms.shards.make_plan import cut_of_people
from kanonflow.transforms.shards.shard_plan import (
    PlanError,
    ShardPlan,
    Split,
    head_of,
    in_one_piece,
    orders_of,
)
from kanonflow.transforms.shards.split_roster import marks_of
from kanonflow.transforms.shards.trial import TriedCut


@dataclass(frozen=True)
class ShardPeople:
    """Who is in the cohorts of a shard.

    segments: of its roster, in order. values: frozen ones of those who were not forgotten. digests: uint64, of these.
    """

    segments: tuple[Segment, ...]
    values: pa.Table
    digests: NDArray[np.uint64]

    @property
    def people(self) -> int:
        """How many, also of those who were forgotten."""
        return sum(segment.people.size for segment in self.segments)


class SplitPlan(NamedTuple):
    """plan: with the split as its last. tried: how it was found. people: in the cohorts of each part."""

    plan: ShardPlan
    tried: TriedCut
    people: tuple[int, ...]


def plan_of_one_piece(bound: BoundPolicy, people: int) -> ShardPlan:
    """The plan of a run that went by none, to be split. Raises PlanError: people do not enter for good, or there are
    several partitions, whose values nothing tells."""
    head = head_of(bound)
    if bound.policy.partition_by:
        raise PlanError(
            "--continue: that run went by no plan, and its policy has partition_by: such partitions are split where a"
            " plan cut them from the beginning of their epoch"
        )
    return ShardPlan(
        individual=head["individual"],
        quasi=tuple((name, kind, of) for name, kind, of in head["quasi"]),
        partition_by=(),
        people="",
        orders={name: tuple(leaves) for name, leaves in head["orders"].items()},
        partitions=(in_one_piece((), people),),
    )


def split_shard(
    plan: ShardPlan,
    partition: int,
    shard: int,
    people: ShardPeople,
    bound: BoundPolicy,
    parts: int,
    place: int,
    *,
    seed: int = 0,
    threads: int = 1,
) -> SplitPlan:
    """A plan that splits a shard. partition, shard: their places in the plan. place: of the first run that goes by it.

    Raises PlanError: there are no cohorts for so many parts. O(p log p), and the search of a sample.
    """
    size = bound.policy.cohorts.cohort_size
    if people.digests.size < parts * size:
        raise PlanError(
            f"--split: a shard of {people.digests.size:,} people has no cohort of {size} for each of {parts} parts"
        )
    values = plan.partitions[partition].values
    cut, tried = cut_of_people(
        people.values, people.digests, bound, values, parts, seed=seed, threads=threads
    )
    count = np.zeros(cut.shards, dtype=np.int64)
    orders = orders_of(bound)
    for segment in people.segments:
        own = cut.shard_of(*marks_of(segment), orders)
        count += np.bincount(own[segment.cohort - segment.head.cohorts], minlength=cut.shards)
    counted = tuple(count.tolist())
    split = Split(partition, shard, place, replace(cut, people=counted))
    return SplitPlan(replace(plan, splits=(*plan.splits, split)), tried, counted)


def named_shard(
    keys: Sequence[Sequence[str]], plan: ShardPlan, name: str, people: Mapping[str, int]
) -> tuple[int, int]:
    """The places in a plan of the partition and the shard that a word names: a key or its beginning, or ``largest``.

    keys: of each partition's shards that are or were, in hexadecimal. people: in cohorts now, by
    key. Raises PlanError: it names none, or several.
    """
    layers = LayeredCut.of(plan)
    shards = [(each, number) for each, layer in enumerate(layers) for number in layer.live]
    if not shards:
        raise PlanError("--split: the plan of that run cuts no partition, for each had too few people")
    if name == LARGEST:
        return max(shards, key=lambda shard: people.get(keys[shard[0]][shard[1]], 0))
    named = [shard for shard in shards if name and keys[shard[0]][shard[1]].startswith(name.lower())]
    if len(named) != 1:
        raise PlanError(
            f"--split {name}: names {len(named) or 'none'} of the {len(shards)} shards that there are; say the key of"
            f" one (folders of restricted/cohorts), its beginning, or {LARGEST}"
        )
    return named[0]


LARGEST = "largest"
"""The shard that most people are in."""
