"""The shards of a partition as a chain has split them: those that there are, and those that there were.

    LayeredCut.of(plan)            one a partition of the plan
    .shard_of(rows, digests, ...)  where people go now
    .live, .splits                 numbers of shards that are; which became what, and when

Shards are numbered as they came: those of the first plan, then the parts of each split. No number comes again, so the
parts of two splits have no shard in common, nor a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.shards.shard_plan import Orders, PartitionCut, PartitionValues, ShardPlan


class Layer(NamedTuple):
    """A split. shard: the number of what was split. first: that of its first part. place: of the first run by it."""

    shard: int
    first: int
    place: int
    cut: PartitionCut

    @property
    def parts(self) -> range:
        """Numbers of its parts."""
        return range(self.first, self.first + self.cut.shards)

    def part_of(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.int64]:
        """The number of the part that each person of the shard goes to, int64 (n,)."""
        return self.first + self.cut.shard_of(rows, digests, orders)


@dataclass(frozen=True)
class LayeredCut:
    """cut: of the first plan. splits: in their order."""

    cut: PartitionCut
    splits: tuple[Layer, ...] = ()

    @classmethod
    def of(cls, plan: ShardPlan) -> tuple[LayeredCut, ...]:
        """Of each partition of a plan."""
        layers: list[list[Layer]] = [[] for _ in plan.partitions]
        count = [cut.shards for cut in plan.partitions]
        for split in plan.splits:
            layers[split.partition].append(Layer(split.shard, count[split.partition], split.place, split.cut))
            count[split.partition] += split.cut.shards
        return tuple(cls(cut, tuple(own)) for cut, own in zip(plan.partitions, layers, strict=True))

    @property
    def values(self) -> PartitionValues:
        """Of ``partition_by``."""
        return self.cut.values

    @property
    def people(self) -> tuple[int, ...]:
        """Of each shard that is or was, as the plan counted them when it came."""
        return (*self.cut.people, *(people for layer in self.splits for people in layer.cut.people))

    @property
    def live(self) -> tuple[int, ...]:
        """Numbers of the shards that there are."""
        gone = {layer.shard for layer in self.splits}
        return tuple(number for number in range(len(self.people)) if number not in gone)

    def shard_of(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.int64]:
        """The number of each person's shard, int64 (n,), one of ``live``. Arguments as of ``PartitionCut``."""
        shard = self.cut.shard_of(rows, digests, orders)
        for layer in self.splits:
            own = np.flatnonzero(shard == layer.shard)
            shard[own] = layer.part_of(rows.take(pa.array(own)), digests[own], orders)
        return shard


def live_people(layers: Sequence[LayeredCut]) -> list[int]:
    """Of each shard that there is, of all partitions."""
    return [layer.people[number] for layer in layers for number in layer.live]
