"""The keys of shards, made so that Flink's workers get even shares of the people.

A key is drawn until it falls into the key group that its shard is dealt: by hash alone the slowest of 16 workers has
twice its share of 64 shards. On other runners such keys are as good as any.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from kanonflow.transforms.secret.seeds import Secret, keys_to_draw, partition_key
from kanonflow.transforms.shards.key_groups import dealt, key_group
from kanonflow.transforms.shards.layers import LayeredCut

_Shard = tuple[int, int]
"""The place of its partition, and its number there."""


def shard_keys(secret: Secret, partitions: Sequence[LayeredCut]) -> list[tuple[bytes, ...]]:
    """The key of each shard of each partition, 16 bytes; the same for every run of a chain, whatever its secret is now.

    partitions: of a plan. Keys follow from the people of all of its shards.

    The shards of all partitions are dealt together, heaviest first, of equal ones the first: were each partition dealt
    for itself, the heaviest of many would meet at one worker. Those that came with a split are dealt after all that
    were there before, to where these leave room. So what is not split keeps its key, and no key comes again.
    """
    # A shard without people weighs something all the same: newcomers may enter it.
    weights = {
        (each, number): people + 1
        for each, own in enumerate(partitions)
        for number, people in enumerate(own.people)
    }
    draws = [_Draw(keys_to_draw(secret, own.values)) for own in partitions]
    keys: dict[_Shard, bytes] = {}

    def deal(shards: Sequence[_Shard], loads: Mapping[int, int]) -> None:
        shards = sorted(shards, key=lambda shard: -weights[shard])
        groups = dealt((weights[shard] for shard in shards), loads)
        for shard, group in zip(shards, groups, strict=True):
            keys[shard] = draws[shard[0]].of_group(group)

    first = [(each, own.cut) for each, own in enumerate(partitions)]
    deal([(each, number) for each, cut in first if not cut.whole for number in range(cut.shards)], {})
    keys |= {(each, 0): partition_key(secret, cut.values) for each, cut in first if cut.whole}
    splits = [(each, layer) for each, own in enumerate(partitions) for layer in own.splits]
    splits.sort(key=lambda split: split[1].place)
    live = set(keys)
    for _, together in groupby(splits, key=lambda split: split[1].place):
        several = list(together)
        live -= {(each, layer.shard) for each, layer in several}
        parts = [(each, number) for each, layer in several for number in layer.parts]
        loads: Counter[int] = Counter()
        for shard in live:
            loads[key_group(keys[shard])] += weights[shard]
        deal(parts, loads)
        live |= set(parts)
    return [
        tuple(keys[each, number] for number in range(len(own.people))) for each, own in enumerate(partitions)
    ]


class _Draw:
    """Keys of one partition. Those that fell into a group that was not asked for wait until it is."""

    def __init__(self, keys: Iterator[bytes]) -> None:
        self._keys = keys
        self._waiting: defaultdict[int, deque[bytes]] = defaultdict(deque)

    def of_group(self, group: int) -> bytes:
        """The next of a key group."""
        while not self._waiting[group]:
            key = next(self._keys)
            self._waiting[key_group(key)].append(key)
        return self._waiting[group].popleft()
