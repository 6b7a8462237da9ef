"""Keys of shards: one each, the same in every run of a chain, and dealt so that no worker has twice its share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from kanonflow.transforms.secret.seeds import Secret, keys_to_draw, partition_key
from kanonflow.transforms.shards import shard_keys as module
from kanonflow.transforms.shards.key_groups import key_group, worker_of
from kanonflow.transforms.shards.layers import Layer, LayeredCut
from kanonflow.transforms.shards.shard_keys import shard_keys
from kanonflow.transforms.shards.shard_plan import Fork, PartitionCut

SECRET = Secret(bytes(range(7, 39)))
Values = Sequence[str | None]
PEOPLE = [int(each) for each in np.random.default_rng(5).integers(9_000, 11_000, 64)]


def whole_cut(values: Values, people: Sequence[int]) -> LayeredCut:
    """A partition in so many shards, however it is cut."""
    return LayeredCut(PartitionCut(tuple(values), tuple(people), (), (), ((),), (0,), (Fork(shard=0),)))


def of_one(people: Sequence[int], secret: Secret = SECRET) -> list[bytes]:
    """The keys of a plan that cuts one partition."""
    (keys,) = shard_keys(secret, [whole_cut(["DE"], people)])
    return list(keys)


def slowest(keys: Sequence[bytes], people: Sequence[int], workers: int) -> float:
    """People at the worker with the most of them, in shares of a worker."""
    sums = [0] * workers
    for key, each in zip(keys, people, strict=True):
        sums[worker_of(key_group(key), workers)] += each
    return max(sums) * workers / sum(people)


def test_the_slowest_of_16_workers_has_its_share_and_by_plain_hash_twice() -> None:
    """64 shards of a plan, each at most 1.1 shares: within 2% of even at 2 to 16 workers; keys as they come: 2."""
    keys = of_one(PEOPLE)
    for workers in (2, 4, 8, 16):
        assert slowest(keys, PEOPLE, workers) <= 1.02
    skewed = [int(each**3 / 1e8) for each in PEOPLE]  # the largest 1.8 times the smallest
    assert slowest(of_one(skewed), skewed, 16) <= 1.10
    assert slowest(list(itertools.islice(keys_to_draw(SECRET, ["DE"]), 64)), PEOPLE, 16) >= 1.5


def test_the_shards_of_many_partitions_are_dealt_together() -> None:
    """100 partitions in two shards each: dealt one by one, all would be at the first worker and at the ninth."""
    people = [1_100, 1_000]
    keys = shard_keys(SECRET, [whole_cut([str(number)], people) for number in range(100)])
    assert slowest([key for own in keys for key in own], people * 100, 16) <= 1.06
    by_hash = [
        key for number in range(100) for key in itertools.islice(keys_to_draw(SECRET, [str(number)]), 2)
    ]
    assert slowest(by_hash, people * 100, 16) >= 1.3


def test_a_key_is_one_shards_alone() -> None:
    """Of partitions whose names are alike, of all their shards and of the partitions themselves no two keys are one."""
    names: list[Values] = [[], [None], [""], ["ab", "c"], ["a", "bc"], ["1"]]
    keys = [
        key for own in shard_keys(SECRET, [whole_cut(values, PEOPLE[:8]) for values in names]) for key in own
    ]
    keys += [partition_key(SECRET, values) for values in names]
    assert len(set(keys)) == len(keys) == 9 * len(names)
    assert {len(key) for key in keys} == {16}
    assert not set(of_one(PEOPLE)) & set(of_one(PEOPLE, Secret(bytes(range(32)))))


def test_keys_stay_after_a_rotation_and_follow_their_shard() -> None:
    """A new secret of the feed gives the same keys; shards in another order have theirs, if no two are of one size."""
    rotated = Secret(bytes(range(100, 132)), version=2, replaced=(SECRET,))
    people = list(dict.fromkeys(PEOPLE))
    assert of_one(people, rotated) == of_one(people)
    assert of_one(people[::-1]) == of_one(people)[::-1]


@pytest.mark.parametrize("people", [[], [0], [0, 0, 0, 0], [0, 7, 0, 7]])
def test_empty_shards_have_keys_too(people: list[int]) -> None:
    """A shard without people yet is dealt as well: its newcomers come to a worker of its own."""
    assert len({worker_of(key_group(key), 4) for key in of_one(people)}) == len(people)


def test_few_keys_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker makes the keys when it starts: of 1,000 shards fewer than 3,000 are drawn."""
    drawn = itertools.count()

    def counted(secret: Secret, values: Values) -> Iterator[bytes]:
        return (key for key, _ in zip(keys_to_draw(secret, values), drawn, strict=False))

    monkeypatch.setattr(module, "keys_to_draw", counted)
    assert len(of_one([1_000 + number for number in range(1_000)])) == 1_000
    assert next(drawn) < 3_000


def test_a_split_moves_no_key_but_that_of_its_shard() -> None:
    """The other shards keep theirs; the parts have new ones, and no worker has twice its share then."""
    before = of_one(PEOPLE)
    cut = whole_cut(["DE"], PEOPLE).cut
    parts = whole_cut(["DE"], [PEOPLE[3] // 2, PEOPLE[3] - PEOPLE[3] // 2]).cut
    (after,) = shard_keys(SECRET, [LayeredCut(cut, (Layer(3, len(PEOPLE), 1, parts),))])
    assert list(after[: len(PEOPLE)]) == before
    assert len(set(after)) == len(PEOPLE) + 2
    live = [number for number in range(len(after)) if number != 3]
    people = [*PEOPLE, *parts.people]
    assert slowest([after[number] for number in live], [people[number] for number in live], 16) <= 1.1
