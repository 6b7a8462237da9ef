"""What does it cost to protect people instead of rows, in each shape, and what do several windows leave?

Data: sparkov (windows of a day and of a week, aligned to the epoch; the first and the last week are cut) and the demo
feed (windows of a day; 200 customers of whom a fifth arrive or leave; seed 7), the example policies, k = 5, rows may
wait two windows. Each mode is a chain of ``release_window``, window by window, one thread, one fixed secret, default
budget:

- row: ``protect: row`` with the individual known, a graph over rows;
- classes, free / keep / strict: ``shape: classes`` with that ``cohort``; strict over 5 windows;
- classes, stable w: ``cohort: free`` with ``stability: w``;
- graph: ``shape: graph``, levels of equal row count.

Reference: closed classes over individuals in which row counts are NOT protected (somebody with 6 rows among four with
one each is found at once): one row for each individual is searched as classes of k, all rows carry the hull. Nothing
that could be released; ``to reference`` is the ratio of mean losses to it.

Loss of a window: (GCP of the hulls x released + rows left waiting or rejected) / rows at hand, as the search counts
it; mean over windows. Feed loss: the same over the whole feed, where a row counts once: rejected rows, and those that
still wait at the end, 1 each. waiting: mean share of a window's new rows that waits after it. CPU ms a row: CPU time of
the whole ``release_window`` by all rows.

Linked: individuals common to the true slots of all rows of one individual in one release (row mode; in the other modes
at least k by construction). Candidates: for an individual of the last window, how many individuals (itself included)
stood in its class in each of the last five windows in which it was released; fewest of any window, shares are means.
Peers again: of the pairs that were peers in one window and are both released in the next, those that are peers again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import (
    DAY_MS,
    SPARKOV,
    WEEK_MS,
    Feed,
    MissingDataError,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.warm_start import candidates
from benchmarks.window_chain import PARTITION, SECRET
from kanonflow.pipelines.demo_feed import FeedShape, write_feed
from kanonflow.schemas.policy import Cohort, Policy, Protection, Shape
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.person_rows import person_table
from kanonflow.solvers.solve import solve
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms import release_window as module
from kanonflow.transforms.encode import encode
from kanonflow.transforms.seeds import ReleaseSlot
from kanonflow.transforms.warm_state import WarmState

FEEDS = ("sparkov, day", "sparkov, week", "demo, day")
MODES: dict[str, dict[str, Any]] = {
    "row": {"protect": Protection.ROW, "shape": None},
    "classes, free": {"cohort": Cohort.FREE},
    **{f"classes, stable {weight}": {"stability": weight} for weight in (0.05, 0.2, 1.0)},
    "classes, keep": {"cohort": Cohort.KEEP},
    "classes, strict": {"cohort": Cohort.STRICT},
    "graph": {"shape": Shape.GRAPH},
}
LAST_WINDOWS = 5
DEMO = FeedShape(rows=15_000, days=30, seed=7)
COLUMNS = (
    "feed", "mode", "windows", "loss", "to reference", "feed loss", "GCP of the released", "waiting %", "rejected %",
    "linked mean", "linked = 1 %", "fewest candidates", "mean candidates", "with >= k %", "alone %", "peers again %",
    "CPU ms/row",
)  # fmt: skip


@dataclass
class Course:
    """One chain, window by window."""

    losses: list[float] = field(default_factory=list)
    boxes: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    linked: list[dict[str, float]] = field(default_factory=list)
    found: list[np.ndarray] = field(default_factory=list)
    retained: list[float] = field(default_factory=list)
    arrived: int = 0
    rejected: int = 0
    lost: float = 0.0
    left: int = 0
    cpu: float = 0.0

    def row(self, k: int, reference: float) -> tuple[Any, ...]:
        """The columns from ``windows`` on."""
        found = self.found
        return (
            len(self.losses),
            float(np.mean(self.losses)),
            float(np.mean(self.losses)) / reference,
            (self.lost + self.rejected + self.left) / self.arrived,
            float(np.mean(self.boxes)) if self.boxes else None,
            100 * float(np.mean(self.waiting)),
            100 * self.rejected / self.arrived,
            mean([each["mean"] for each in self.linked]),
            mean([100 * each["share_one"] for each in self.linked]),
            min((int(counts.min()) for counts in found), default=None),
            mean([float(counts.mean()) for counts in found]),
            mean([100 * float((counts >= k).mean()) for counts in found]),
            mean([100 * float((counts == 1).mean()) for counts in found]),
            mean([100 * share for share in self.retained]),
            1e3 * self.cpu / self.arrived,
        )


def mean(values: list[float]) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if values else None


def course(feed: Feed, policy: Policy) -> Course:
    """Release all windows under a policy that is the feed's own but for protection, shape and cohort."""
    bound = replace(feed.bound, policy=policy)
    told, warm, history = Course(), WarmState(), []
    for number, window in enumerate(feed.windows):
        slot = ReleaseSlot(PARTITION, window.end_ms, number)
        result, spent = timed(module.release_window, window.rows, bound, warm, SECRET, slot, threads=1)
        warm, metrics = result.warm, result.metrics
        released, box = metrics["rows_released"], metrics["gcp_hull"] or 0.0
        at_hand = metrics["rows_new"] + metrics["rows_waited"]
        told.losses.append((released * box + at_hand - released) / at_hand)
        told.waiting.append(metrics["rows_waiting"] / max(1, metrics["rows_new"]))
        told.arrived += metrics["rows_new"]
        told.rejected += sum(metrics["rows_rejected"].values())
        told.lost += released * box
        told.cpu += spent.cpu
        if metrics["released"]:
            told.boxes.append(box)
            if metrics["peer_retention"] is not None:
                told.retained.append(metrics["peer_retention"])
            if metrics["linked_candidates"] is not None:
                told.linked.append(metrics["linked_candidates"])
            if warm.cohorts.history:
                history = [*history, warm.cohorts.history[-1]][-LAST_WINDOWS:]
                if len(history) == LAST_WINDOWS:
                    told.found.append(candidates(history))
    told.left = warm.waiting_rows
    return told


def reference_losses(feed: Feed) -> Iterator[float]:
    """GCP of closed classes that do not protect row counts, a window."""
    individual = feed.bound.policy.individual
    assert individual is not None
    for window in feed.windows:
        column = window.rows.column(individual.name).combine_chunks().dictionary_encode()
        of_row = np.asarray(column.indices).astype(np.int64)
        table = encode(window.rows, feed.bound, of_row, {}).table
        people = person_table(table, of_row, np.arange(int(of_row.max()) + 1))
        labels = solve(people, feed.bound.policy.k, shape="classes", seed=1).partition.labels
        yield gcp(table, Partition(labels[of_row]))


def measure(feed: Feed, name: str, modes: list[str], findings: Findings) -> None:
    """One row a mode."""
    losses = list(reference_losses(feed))
    table = findings.tables[0]
    blank = (None,) * (len(COLUMNS) - 5)
    table.rows.append((name, "reference", len(losses), float(np.mean(losses)), 1.0, *blank))
    for mode in modes:
        policy = replace(feed.bound.policy, **MODES[mode])
        told = course(feed, policy)
        table.rows.append((name, mode, *told.row(policy.k, float(np.mean(losses)))))
        print(f"{name}, {mode}: done", flush=True)


def read(name: str, days: int | None, weeks: int | None, folder: Path) -> Feed:
    """The feed of that name, its first days or weeks."""
    if name == "demo, day":
        path = write_feed(DEMO, folder, "parquet")
        return read_feed(path, with_window(example_policy("transactions"), DAY_MS), days=days)
    window = {"sparkov, day": DAY_MS, "sparkov, week": WEEK_MS}[name]
    days = 7 * weeks if window == WEEK_MS and weeks is not None else days if window == DAY_MS else None
    return read_feed(data_path(SPARKOV), with_window(example_policy("sparkov"), window), days=days)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Rows, classes and graphs of individuals, across windows.")
    parser.add_argument("--days", type=int, help="only the first days of the feeds by day")
    parser.add_argument("--weeks", type=int, help="only the first weeks of the feed by week")
    parser.add_argument("--feeds", nargs="+", choices=FEEDS, default=list(FEEDS))
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("cohorts_shapes", __doc__ or "")
    findings.table("Rows, classes and graphs of individuals", COLUMNS)
    try:
        data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.feeds:
            measure(
                read(name, arguments.days, arguments.weeks, Path(folder)), name, arguments.modes, findings
            )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
