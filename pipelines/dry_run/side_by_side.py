"""Policies beside each other over one feed: each is played over the same windows, and measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa

from kanonflow.pipelines.dry_run.dry_run import DryRun, dry_run
from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.pipelines.dry_run.measures import Measures, measured
from kanonflow.pipelines.dry_run.stretch import Budget, Stretch, stretch_of
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.durations import format_duration
from kanonflow.schemas.policy import Policy

_MOST_ASKED = 100_000
"""Rows that queries are asked of; of more it would take longer than to release them."""


class Played(NamedTuple):
    """A policy played. length: of its windows in ms; None: there is one."""

    length: int | None
    stretch: Stretch
    run: DryRun
    measures: Measures

    @property
    def told(self) -> str:
        """What was played, in words."""
        of = "the whole input" if self.length is None else f"windows of {format_duration(self.length)}"
        windows = self.stretch.window.size
        part = f"{self.stretch.windows} of {windows} " if self.stretch.windows < windows else ""
        rows = f"{int(self.stretch.counted.sum()):,} rows"
        if self.stretch.every > 1:
            rows += f", one of {self.stretch.every} of each person"
        elif part == "" and not self.stretch.played.all():
            rows += ", a part of all"
        return f"{part}{of} ({rows})"


def side_by_side(
    feed: Feed,
    policies: Sequence[BoundPolicy],
    budget: Callable[[Policy], Budget],
    *,
    queries: int,
    workers: int | None = None,
    threads: int = 1,
    matching_records: bool = False,
    begins: Callable[[int, float], None] | None = None,
) -> list[Played]:
    """Play every policy. Deterministic.

    policies: their time, individual and partitions are the feed's. queries: random ones, asked of input and release.
    workers: policies at a time; None: one a core. threads, matching_records: as of ``dry_run``. Time: that, of each.
    begins: is called when the first policy has been played, with how many are left and about how many seconds that will
    take.
    """
    feeds = {
        _windows(each.policy): feed.under(each.policy)
        for each in {_windows(each.policy): each for each in policies}.values()
    }

    def play(bound: BoundPolicy) -> Played:
        own = feeds[_windows(bound.policy)]
        stretch = stretch_of(own, bound.policy, budget(bound.policy))
        run = dry_run(own, bound, stretch, threads=threads, matching_records=matching_records)
        rows = own.rows.filter(pa.array(stretch.counted))
        asked = queries if rows.num_rows <= _MOST_ASKED else 0
        return Played(bound.policy.window_ms, stretch, run, measured(run, rows, queries=asked))

    workers = workers or os.cpu_count() or 1
    first: list[Played] = []
    if begins is not None and len(policies) > 1:
        begin = time.perf_counter()
        first = [play(policies[0])]
        left = len(policies) - 1
        begins(left, (time.perf_counter() - begin) * left / min(workers, left))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return [*first, *pool.map(play, policies[len(first) :])]


def _windows(policy: Policy) -> tuple[int | None, int]:
    return policy.window_ms, policy.window_offset_ms
