"""The benchmark of one partition's workers: its feed is the stream's, people are known, shares are those of keys."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from benchmarks.data_sets import DAY_MS
from benchmarks.shard_workers import Finished, as_parquet, asked, expected_share, write_people, write_policy
from benchmarks.stream_feed import write_stream_feed
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_keys import shard_keys
from tests.transforms.shards.test_shard_keys import whole_cut

SHAPE = FeedShape(rows=500, days=2, seed=3)


def test_files_in_parquet_hold_the_same_rows(tmp_path: Path) -> None:
    """All rows of the feed, in the order in which they arrive, and no other file."""
    feed = as_parquet(write_stream_feed(SHAPE, tmp_path / "feed", DAY_MS), demo_feed(SHAPE))
    assert [each.name for each in feed.files] == sorted(path.name for path in feed.folder.iterdir())
    there = [pyarrow.parquet.read_table(feed.folder / each.name) for each in feed.files]
    assert pa.concat_tables(there).equals(demo_feed(SHAPE))


def test_everybody_whose_home_is_somewhere_is_known_once(tmp_path: Path) -> None:
    """People of the policy's file: each customer of the feed, but whom no window could release."""
    policy = load_policy(write_policy(tmp_path))
    assert policy.partition_by == ()
    write_people(demo_feed(SHAPE), policy, tmp_path / "people.parquet")
    names = pyarrow.parquet.read_table(tmp_path / "people.parquet").column("customer").to_pylist()
    rows = demo_feed(SHAPE).select(["customer", "home_latitude"]).to_pylist()
    assert sorted(names) == sorted({row["customer"] for row in rows if row["home_latitude"] > 0})


def test_the_share_expected_is_that_of_the_taskmanager_with_most_people() -> None:
    """Instances 0 and 2 run on one, 1 and 3 on the other; without a plan one worker has everybody."""
    case = asked("2x4xavro")
    assert (case.task_managers, case.shards, case.form, case.parallelism) == (2, 4, "avro", 4)
    people = [400, 300, 200, 100]
    (keys,) = shard_keys(Secret(bytes(range(32))), [whole_cut([], people)])
    run: Any = SimpleNamespace()
    # Halves of the key groups: 400 and 100 against 300 and 200; in the first half 400 is before 100.
    assert expected_share(Finished(run, [0, 0, 1, 1], keys, people)) == pytest.approx(0.5)
    assert expected_share(Finished(run, [0, 1, 0, 1], keys, people)) == pytest.approx(0.7)
    assert expected_share(Finished(run, [0, 0, 1, 1], [], [])) == 1.0
