"""A key's group is the one that Flink's own classes say; what is dealt is even for any number of workers."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence

import numpy as np
import pytest

from kanonflow.transforms.shards.key_groups import dealt, key_group, worker_of

FLINKS = [
    104,
    118,
    24,
    123,
    15,
    110,
    70,
    118,
    38,
    51,
    111,
    35,
    53,
    10,
    20,
    96,
    123,
    13,
    24,
    112,
    61,
    5,
    85,
    49,
]
"""Of the first 16 bytes of SHA-256("key 0"), ("key 1"), ... what Java classes of the job server that we build
(Beam 2.62, Flink 1.19.1) gave: KeyGroupRangeAssignment.assignToKeyGroup(FlinkKeyUtils.encodeKey(key,
ByteArrayCoder.of()), 128)."""
FLINKS_WORKERS = [13, 14, 3, 15, 1, 13, 8, 14, 4, 6, 13, 4, 6, 1, 2, 12, 15, 1, 3, 14, 7, 0, 10, 6]
"""And of these groups KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(128, 16, group)."""
WORKERS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128)


def test_a_key_falls_into_the_group_that_flink_gives_it() -> None:
    """24 keys, and of each the worker of 16; the hash's negative values are among them."""
    keys = [hashlib.sha256(f"key {number}".encode()).digest()[:16] for number in range(len(FLINKS))]
    assert [key_group(key) for key in keys] == FLINKS
    assert [worker_of(group, 16) for group in FLINKS] == FLINKS_WORKERS


@pytest.mark.parametrize(
    ("length", "group"),
    [(0, 123), (1, 116), (127, 107), (128, 25), (129, 21), (300, 75), (16_384, 35), (20_000, 35)],
)
def test_a_long_key_has_its_length_before_it(length: int, group: int) -> None:
    """In one byte, two or three: what the same classes gave for bytes 7 i + length."""
    assert key_group(bytes((7 * index + length) % 256 for index in range(length))) == group


def sizes(kind: str, shards: int) -> list[int]:
    """People of shards, heaviest first."""
    random = np.random.default_rng(shards)
    people = {
        "equal": np.full(shards, 10_000),
        "even": random.integers(9_000, 11_000, shards),
        "skewed": 10_000 * np.exp(0.5 * random.standard_normal(shards)),
        "very skewed": 10_000 * np.exp(random.standard_normal(shards)),
        "one over the other": 1_000_000 / np.arange(1, shards + 1),
    }[kind]
    return sorted((int(each) + 1 for each in people), reverse=True)


def most(weights: Sequence[int], groups: Sequence[int], workers: int) -> int:
    """What the worker with the most has."""
    sums = [0] * workers
    for weight, group in zip(weights, groups, strict=True):
        sums[worker_of(group, workers)] += weight
    return max(sums)


def most_by_itself(weights: Sequence[int], workers: int) -> int:
    """What it has where shards are dealt for this many workers alone: heaviest first, to the one with the least."""
    sums = [0] * workers
    for weight in weights:
        heapq.heapreplace(sums, sums[0] + weight)
    return max(sums)


@pytest.mark.parametrize("kind", ["equal", "even", "skewed", "very skewed", "one over the other"])
def test_workers_have_even_shares_however_many_they_are(kind: str) -> None:
    """At powers of two the slowest is within 4% of a deal for that number alone; at others within the groups' grain."""
    for shards in (4, 16, 64, 256, 1000):
        weights = sizes(kind, shards)
        groups = dealt(weights)
        for workers in WORKERS:
            ratio = most(weights, groups, workers) / most_by_itself(weights, workers)
            assert ratio <= (1.04 if workers & (workers - 1) == 0 else 1.30), (shards, workers, ratio)
