"""Whole windows, spread over the feed, no more rows than asked for."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.trials.sampled_windows import sample_windows, thinned_out


def feed(seed: int, windows: int = 60, partitions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Partition and window of each row; windows differ in size, and some have no rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, windows * partitions)
    place = np.repeat(np.arange(sizes.size), sizes)
    order = rng.permutation(place.size)
    return (place % partitions)[order], (place // partitions)[order] - 10


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("partitions", [1, 3])
def test_windows_are_whole_and_within_the_budget(seed: int, partitions: int) -> None:
    """Every sampled window is counted as the feed has it, none twice, and together they are not above the budget."""
    partition, window = feed(seed, partitions=partitions)
    found = sample_windows(partition, window, 200, seed)
    rows = [
        int(((partition == one) & (window == other)).sum())
        for one, other in zip(found.partition.tolist(), found.window.tolist(), strict=True)
    ]
    assert found.rows.tolist() == rows
    assert 100 < found.row_count <= 200
    assert len(set(zip(found.partition.tolist(), found.window.tolist(), strict=True))) == len(rows)
    assert found.windows == len(set(zip(partition.tolist(), window.tolist(), strict=True)))
    again = sample_windows(partition[::-1], window[::-1], 200, seed)
    assert again.window.tolist() == found.window.tolist()


def test_windows_are_spread_over_the_feed() -> None:
    """One of each of as many equal stretches; over many seeds every window is as likely as another."""
    partition, window = np.zeros(300, dtype=np.int64), np.arange(300) // 10
    seen = np.zeros(30)
    for seed in range(600):
        found = sample_windows(partition, window, 60, seed)
        assert found.window.size == 6
        assert (found.window // 5).tolist() == list(range(6))
        seen[found.window] += 1
    assert np.abs(seen / 600 - 1 / 5).max() < 0.06


def test_limits_are_kept() -> None:
    """So many windows at most; all where the budget has room; one where it has none; none of nothing."""
    partition, window = feed(1)
    assert sample_windows(partition, window, 10**9, 1, most_windows=4).window.size == 4
    everything = sample_windows(partition, window, 10**9, 1)
    assert everything.window.tolist() == np.unique(window).tolist()
    assert sample_windows(partition, window, 0, 1).window.size == 1
    assert sample_windows(partition[:0], window[:0], 10, 1).row_count == 0


def test_a_window_alone_is_thinned_out() -> None:
    """Of a window that has more rows than may be, so many stay; the rest of the feed is as it was."""
    partition, window = np.zeros(300, dtype=np.int64), np.arange(300) // 100
    found = sample_windows(partition, window, 40, 2)
    stays = thinned_out(found, partition, window, 40, 2)
    counts = np.bincount(window[stays], minlength=3)
    assert sorted(counts.tolist()) == [40, 100, 100]
    assert counts[found.window[0]] == 40
    assert thinned_out(found, partition, window, 100, 2).all()
