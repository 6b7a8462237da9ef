"""The benchmark of large windows: what it runs is exact, and its people are those of the feed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.large_window import measured, rows_in, write_feed


@pytest.mark.thorough
def test_a_small_window_is_measured(tmp_path: Path) -> None:
    """Each row is released or rejected; CPU and memory are those of the command."""
    people = write_feed(4_000, tmp_path / "job")
    assert 150 < people <= 200
    planned, wall, cpu, releasing, peak, released, rejected = measured(4_000, 1, tmp_path / "job")
    assert released + rejected == 4_000
    assert (planned, releasing) == (0, 0)
    assert 0 < cpu < 100 * wall
    assert peak > 50_000_000


def test_no_files_have_no_rows() -> None:
    """Of a run that rejects nothing there are none."""
    assert rows_in([]) == 0
