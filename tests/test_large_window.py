"""The benchmark of large windows: what it runs is exact, and its people are those of the feed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.large_window import measured, rows_in, write_feed
from benchmarks.large_window_cluster import heap_mb, peak
from benchmarks.stream_feed import REFERENCE
from benchmarks.stream_watch import Process, Sample
from kanonflow.schemas.policy import Role
from kanonflow.schemas.policy_file import load_policy


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


@pytest.mark.parametrize("publish", [False, True])
def test_ids_are_released_where_the_accounts_go_by_them(publish: bool, tmp_path: Path) -> None:
    """On the cluster a row that is doubled and one that is lost would not make up for each other."""
    write_feed(400, tmp_path / "job", publish_ids=publish)
    roles = {field.name: field.role for field in load_policy(tmp_path / "job" / "policy.yaml").fields}
    assert roles[REFERENCE] is (Role.INSENSITIVE if publish else Role.IDENTIFIER)


def test_the_peak_is_of_one_process() -> None:
    """Not the sum over its kind, and not another kind's."""
    seen = [{"python-worker-0": 5, "python-worker-1": 7, "command": 9}, {"python-worker-0": 6}]
    samples = [
        Sample(0, None, None, 0, {name: Process(rss, 0) for name, rss in each.items()}) for each in seen
    ]
    assert peak(samples, "python-worker") == 7
    assert peak(samples, "task-manager") == 0


def test_a_task_manager_has_room_for_three_times_the_window() -> None:
    """As docs/operations.md says of state on the heap, 123 bytes a row."""
    assert heap_mb(10_000_000) >= 3 * 123 * 10
