"""Reading a feed whole, or up to a limit and then in whole windows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet

from kanonflow.pipelines.dry_run.feed import read_feed
from kanonflow.pipelines.feeds.input_files import find_inputs
from tests.pipelines.risks.toy_feeds import toy_bound, visits

ROWS = [("a", 0, 1), ("b", 0, 1), ("a", 1, 1), ("b", 1, 1), ("a", 2, 1)]


def test_a_feed_is_read_whole_over_all_files(tmp_path: Path) -> None:
    """Nothing is left out below the limit."""
    for number, rows in enumerate((ROWS[:3], ROWS[3:])):
        pyarrow.parquet.write_table(visits(rows), tmp_path / f"{number}.parquet")
    feed = read_feed(find_inputs([str(tmp_path / "*.parquet")]), toy_bound(visits(ROWS)))
    assert feed.rows.column("who").to_pylist() == ["a", "b", "a", "b", "a"]
    assert feed.left_out == 0


def test_beyond_the_limit_whole_windows_are_kept(tmp_path: Path) -> None:
    """Of three rows read, that of the window which was only begun is left out as well."""
    pyarrow.parquet.write_table(visits(ROWS), tmp_path / "in.parquet")
    feed = read_feed(find_inputs([str(tmp_path / "in.parquet")]), toy_bound(visits(ROWS)), most=3)
    assert feed.rows.column("who").to_pylist() == ["a", "b"]
    assert feed.left_out == 3
