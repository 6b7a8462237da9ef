"""The benchmark of shares of workers: who is slowest, by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.shard_skew import slowest
from kanonflow.transforms.shards.key_groups import KEY_GROUPS


def test_the_busiest_worker_is_told_by_a_mean_one() -> None:
    """Two workers of 64 groups each: 5 against 3, of a mean of 4; with four, one has nothing and counts."""
    loads, groups = np.array([2.0, 3.0, 1.0, 2.0]), [0, 1, 64, KEY_GROUPS - 1]
    assert slowest(loads, groups, 2) == 5 / 4
    assert slowest(loads, groups, 4) == 5 / 2
    assert slowest(loads, [0, 0, 0, 0], 2) == 2.0
