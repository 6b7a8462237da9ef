"""What other policies would lose on this feed, as whole windows of it that are solved tell, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.explain.people_in_windows import LENGTHS_MS
from kanonflow.pipelines.explain.variants import Group, Refused, Variant, variants
from kanonflow.pipelines.terminal.aligned_columns import aligned
from kanonflow.pipelines.trials.measured_release import measured
from kanonflow.pipelines.trials.measures import Measures, in_words
from kanonflow.pipelines.trials.sampled_windows import WindowSample
from kanonflow.pipelines.trials.trials import FeedWindows, TrialFeed, feed_windows, trial_feed, try_policy
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.durations import format_duration
from kanonflow.schemas.value_units import to_units

MOST_ROWS_OF_COHORTS = 36_000
MOST_ROWS = 15_000
"""Of the sampled windows of one length together: merging cohorts that last takes a fifth of the time of other
searches."""
MOST_WINDOWS = 60
MOST_OF_A_WINDOW = 100_000
MOST_PEOPLE = 10_000
_LEAST_LENGTHS = 2
_MOST_ASKED = 40_000
_QUERIES = 50
_SHOWN_FIELDS = 8
_SEED = 1


class Tried(NamedTuple):
    """A variant, and what it came to."""

    variant: Variant
    measures: Measures

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        told: dict[str, Any] = {
            "group": str(self.variant.group),
            "name": self.variant.name,
            "change": dict(self.variant.change),
        }
        if self.variant.promise:
            told["promise"] = self.variant.promise
        return told | self.measures.to_json()


@dataclass(frozen=True)
class Solved:
    """tried: every variant; the policy itself, with change {}, among them, of each group. refused: variants that are no
    policies. samples: by length of a window in ms, which were tried. rows, left_out: rows of the feed that was looked
    at, and those after the time at which ``MOST_PEOPLE`` had come. seed: of the sampling."""

    own: Measures
    tried: tuple[Tried, ...]
    refused: tuple[Refused, ...]
    samples: tuple[tuple[int | None, WindowSample], ...]
    rows: int
    left_out: int
    seed: int

    def of(self, group: Group) -> tuple[Tried, ...]:
        """The variants of a group, in their order."""
        return tuple(each for each in self.tried if each.variant.group is group)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "seed": self.seed,
            "rows": self.rows,
            "left_out": self.left_out,
            "samples": [
                {
                    "window_ms": length,
                    "windows": sample.windows,
                    "tried": int(sample.window.size),
                    "rows": sample.row_count,
                    "thinned": sample.thinned,
                }
                for length, sample in self.samples
            ],
            "tried": [each.to_json() for each in self.tried],
            "refused": [asdict(each) | {"group": str(each.group)} for each in self.refused],
        }

    def render(self) -> Iterator[str]:
        """The tables as lines."""
        yield "solved: " + "; ".join(sample_told(*each) for each in self.samples) + f" (seed {self.seed})"
        if self.left_out:
            yield f"- of the feed up to the first {MOST_PEOPLE:,} people; {self.left_out:,} rows came later"
        yield (
            "loss: GCP of the published boxes. Widths are medians. rejected: of the feed. held: put off by the solver"
            " for another window. counts, means: median error of random queries. *: the policy"
        )
        yield from self._grid()
        titles = {
            Group.WITHOUT: "without a field (loss is that of the others, and * with all of them)",
            Group.DELAY: "max_delay",
            Group.PROTECTION: "protections",
        }
        for group, title in titles.items():
            tried = self.of(group)
            if group is Group.WITHOUT and tried:
                tried = (next(each for each in self.of(Group.GRID) if not each.variant.change), *tried)
            if tried:
                yield f"{title}:"
                yield from _table(tried)
        for each in self.of(Group.PROTECTION):
            yield f"- {each.variant.name}: {each.variant.promise}"
        for refused in self.refused:
            yield f"- not tried, {refused.group} {refused.name}: {refused.why}"

    def _grid(self) -> Iterator[str]:
        grid = self.of(Group.GRID)
        own = next(each.variant.policy for each in grid if not each.variant.change)
        ks = sorted({each.variant.policy.k for each in grid})
        lengths = sorted({each.variant.policy.window_ms or 0 for each in grid})
        found = {(each.variant.policy.k, each.variant.policy.window_ms or 0): each for each in grid}
        if len(lengths) > 1:
            yield "loss by k and window, rejected rows counted as lost:"
            head = ("k", *(format_duration(length) for length in lengths))
            table = [head]
            for k in ks:
                cells = [
                    "-" if (k, length) not in found else _starred(found[k, length]) for length in lengths
                ]
                table.append((str(k), *cells))
            yield from aligned(table)
            yield f"windows, k = {own.k}:"
            yield from _table([found[own.k, length] for length in lengths if (own.k, length) in found])
        yield "k:"
        yield from _table([found[k, own.window_ms or 0] for k in ks if (k, own.window_ms or 0) in found])


def _starred(each: Tried) -> str:
    return f"{each.measures.cost:.4f}" + ("" if each.variant.change else "*")


def _table(tried: Sequence[Tried]) -> Iterator[str]:
    """A line a variant: its figures, and the median width of the fields that lose most."""
    widest = sorted(tried[0].measures.fields, key=lambda each: -each.ncp)[:_SHOWN_FIELDS]
    names = [each.field for each in tried[0].measures.fields if each in widest]
    table = [("", "loss", "rejected", "held", "counts", "means", *names)]
    for each in tried:
        found, there = each.measures, {width.field: width for width in each.measures.fields}
        table.append(
            (
                each.variant.name + ("" if each.variant.change else "*"),
                "-" if found.loss is None else f"{found.loss:.4f}",
                f"{found.rejected:.1%}",
                f"{found.held:.1%}",
                "-" if found.count_error is None else f"{found.count_error:.1%}",
                "-" if found.mean_error is None else f"{found.mean_error:.1%}",
                *(in_words(there[name]) if name in there else "-" for name in names),
            )
        )
    yield from aligned(table, left=(0,))


def sample_told(length: int | None, sample: WindowSample) -> str:
    """What was sampled, in words. length: of a window in ms; None: there is one."""
    of = (
        "the whole input"
        if length is None
        else f"{sample.window.size} of {sample.windows} windows of {format_duration(length)}"
    )
    part = ", a part of its rows" if sample.thinned else ""
    return f"{of} ({sample.row_count:,} rows{part})"


def solve_variants(
    rows: pa.Table, bound: BoundPolicy, follows: Sequence[str], *, workers: int | None = None
) -> Solved:
    """Try every variant of a policy on windows sampled over the feed. Deterministic.

    rows: canonical rows of the whole feed. follows: of ``variants``. workers: threads; None: one a core.
    """
    rows, left_out = first_people(rows, bound)
    feed = trial_feed(rows, bound)
    lengths = [] if bound.policy.window_ms is None else lengths_within(rows, bound)
    asked, refused = variants(bound, lengths, follows)
    most = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(max_workers=most) as pool:
        whole = sorted({each.policy.window_ms or 0 for each in asked})
        one = {each.policy.window_ms or 0: each.bound for each in asked}
        lasting = bound.policy.lasting
        made = dict(
            zip(
                whole,
                pool.map(lambda length: _windows(feed, one[length], lasting=lasting), whole),
                strict=True,
            )
        )
        # Equal changes are equal policies: the policy itself stands in several groups.
        different = {repr(sorted(each.change.items())): each for each in asked}
        # Windows of many rows first, so that no worker is left with one of them at the end.
        order = sorted(
            different, key=lambda key: -made[different[key].policy.window_ms or 0].sample.row_count
        )
        found = dict(
            zip(
                order,
                pool.map(
                    lambda key: _measured(made[different[key].policy.window_ms or 0], different[key]), order
                ),
                strict=True,
            )
        )
    tried = tuple(Tried(each, found[repr(sorted(each.change.items()))]) for each in asked)
    samples = tuple((length or None, made[length].sample) for length in whole)
    return Solved(found[repr([])], tried, refused, samples, rows.num_rows, left_out, _SEED)


def _windows(feed: TrialFeed, bound: BoundPolicy, *, lasting: bool) -> FeedWindows:
    most = MOST_ROWS_OF_COHORTS if lasting else MOST_ROWS
    return feed_windows(
        feed, bound, most=most, most_windows=MOST_WINDOWS, most_of_one=MOST_OF_A_WINDOW, seed=_SEED
    )


def _measured(windows: FeedWindows, variant: Variant) -> Measures:
    sample = try_policy(windows, variant.bound)
    return measured(sample, variant.bound, queries=_QUERIES if sample.due.num_rows <= _MOST_ASKED else 0)


def lengths_within(rows: pa.Table, bound: BoundPolicy) -> list[int]:
    """The lengths of windows that fit into the feed twice, in ms."""
    assert bound.policy.time is not None
    times = to_units(rows.column(bound.policy.time.name))[0]
    span = int(times.max() - times.min()) if times.size else 0
    return [length for length in LENGTHS_MS if _LEAST_LENGTHS * length <= span]


def first_people(rows: pa.Table, bound: BoundPolicy, most: int = MOST_PEOPLE) -> tuple[pa.Table, int]:
    """The rows until so many people have come, and how many came later: founding takes time by people."""
    policy = bound.policy
    if policy.individual is None or policy.time is None or not rows.num_rows:
        return rows, 0
    column = rows.column(policy.individual.name).combine_chunks()
    who = np.asarray(column.dictionary_encode("encode").indices).astype(np.int64)
    times = to_units(rows.column(policy.time.name))[0]
    first = np.full(int(who.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, who, times)
    if first.size <= most:
        return rows, 0
    kept = times < np.partition(first, most)[most]
    return rows.filter(pa.array(kept)).combine_chunks(), int((~kept).sum())
