"""A plan under a secret: the keys that shards have, and where people go.

Shards(plan, bound, secret).keys_of(values, rows, digests) -> (keys, int64 (n,))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.secret.seeds import Secret, partition_key
from kanonflow.transforms.shards.layers import Layer, LayeredCut
from kanonflow.transforms.shards.shard_keys import shard_keys
from kanonflow.transforms.shards.shard_plan import Orders, PartitionValues, ShardPlan, orders_of


def in_partition(partition: bytes, people: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Digests of people as those of one partition, uint64 (n,): who has rows in two is two, and has a shard in each."""
    return people ^ np.uint64(int.from_bytes(partition[:8], "big"))


class _Keyed(NamedTuple):
    """keys: of all shards that are or were."""

    cut: LayeredCut
    keys: tuple[bytes, ...]

    @property
    def live(self) -> tuple[bytes, ...]:
        return tuple(self.keys[number] for number in self.cut.live)


class SplitShard(NamedTuple):
    """A shard that is split. keys: of its parts. layer: how."""

    keys: tuple[bytes, ...]
    layer: Layer

    def part_of(self, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> NDArray[np.int64]:
        """The place in ``keys`` of the part that each person goes to, int64 (n,)."""
        return self.layer.cut.shard_of(rows, digests, orders)


class Shards:
    """The shards of all partitions of a run.

    plan: None: no partition is cut. bound: the policy, bound to the feed. secret: of the run; to rotate it changes no
    key.
    """

    def __init__(self, plan: ShardPlan | None, bound: BoundPolicy, secret: Secret) -> None:
        self.bound = bound
        self._secret = secret
        self.orders = orders_of(bound)
        self._cuts: dict[bytes, _Keyed] = {}
        cuts = () if plan is None else LayeredCut.of(plan)
        for cut, keys in zip(cuts, shard_keys(secret, cuts), strict=True):
            self._cuts[partition_key(secret, cut.values)] = _Keyed(cut, keys)

    @property
    def partition_of(self) -> Mapping[bytes, bytes]:
        """By key of a shard that of its partition."""
        return {key: partition for partition, own in self._cuts.items() for key in own.live}

    def split_at(self, place: int) -> Mapping[bytes, SplitShard]:
        """By key, the shards that the run of a place in the chain splits."""
        return {
            own.keys[layer.shard]: SplitShard(tuple(own.keys[number] for number in layer.parts), layer)
            for own in self._cuts.values()
            for layer in own.cut.splits
            if layer.place == place
        }

    def is_cut(self, partition: bytes) -> bool:
        """Whether a partition has shards."""
        return partition in self._cuts

    def keys_of(
        self, values: PartitionValues, rows: pa.Table, digests: NDArray[np.uint64]
    ) -> tuple[tuple[bytes, ...], NDArray[np.int64]]:
        """Keys, and the number int64 (n,) among them of each person of a partition: its own where it is not cut."""
        return self.of_people(partition_key(self._secret, values), rows, digests)

    def of_people(
        self, partition: bytes, rows: pa.Table, digests: NDArray[np.uint64]
    ) -> tuple[tuple[bytes, ...], NDArray[np.int64]]:
        """The same of a partition's key. rows: n people, canonical quasi-identifiers."""
        own = self._cuts.get(partition)
        if own is None:
            return (partition,), np.zeros(rows.num_rows, dtype=np.int64)
        numbers = np.array(own.cut.live, dtype=np.int64)
        return own.live, np.searchsorted(numbers, own.cut.shard_of(rows, digests, self.orders))

    def of_rows(self, partition: bytes, rows: pa.Table) -> tuple[tuple[bytes, ...], NDArray[np.int64]]:
        """The same of rows that go each by itself: where all values are equal, they go together."""
        return self.of_people(partition, rows, np.zeros(rows.num_rows, dtype=np.uint64))

    def keys_by_partition(self, plan: ShardPlan) -> list[tuple[bytes, ...]]:
        """The keys of each partition that the plan cuts, in its order: of all shards that are or were."""
        return [self._cuts[partition_key(self._secret, cut.values)].keys for cut in plan.partitions]
