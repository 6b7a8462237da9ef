"""The benchmark of many shards: everybody is in its directory, and its rows are of what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.many_shards import OF_ROUTE, add_route, known
from benchmarks.result_files import ResultTable


def test_everybody_is_somewhere() -> None:
    """Each person once, in one of the shards."""
    made = known(5_000, 7, np.random.default_rng(1))
    assert made.people.size == 5_000
    assert set(made.of(made.people).tolist()) == set(range(7))


def test_a_directory_and_a_bucket_are_measured(tmp_path: Path) -> None:
    """12 bytes a person and the keys; a bucket has a 1,024th of the people."""
    table = ResultTable("Who is where", OF_ROUTE)
    add_route(table, 1 << 20, 7, 1, tmp_path)
    (_, everybody, size, *_), (_, few, *_) = table.rows
    assert (everybody, few) == (1 << 20, 1 << 10)
    assert 12 * everybody <= 1e6 * size <= 12 * everybody + 1_000
    assert (tmp_path / "shards.state").stat().st_size == round(1e6 * size)
