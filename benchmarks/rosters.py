"""What does founding take, and what does a roster of many people cost in every window?

Data: people like sparkov's (``odd_feeds.cards_like``: a card drawn at random, moved by up to half a degree, born up to
a year earlier or later, seed 1), under sparkov's example policy, k = 5. Founding: ``found`` over so many people, one
thread and all cores; the loss is that of the points under their cohorts' hulls. Targets: 60,000 people in 10 s; at most
50 ms more for a window at a million people than at ten thousand.

Rosters: cohorts of 5 by sorting (degree of latitude, longitude), no solver, 20 segments. Bytes: of the segments as the
bag holds them, by people. Reading: ``roster_of`` from these bytes. Following: ``followed_by`` with one more segment of
1,000 people. A window: 2,000 rows of 1,000 known people drawn at random through ``PartitionStep.act``, with the roster
at hand (cached) and put together from its bytes first (cold), and with newcomers, two rows each: 500 wait, 1,000 enter
(``intake: 1000``). Warm state, segment: bytes that a checkpoint has to write after it; the roster's earlier segments
are in a bag and are not written again. Ratio: milliseconds, the largest roster to the smallest, in one run.

Milliseconds are CPU, medians of ``--repeats``; seconds of founding are wall and CPU.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import DAY_MS, SPARKOV, MissingDataError, data_path, example_policy
from benchmarks.lasting import text_table
from benchmarks.odd_feeds import SPARKOV_CARDS, cards_like
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.window_chain import PARTITION, SECRET
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Cohort
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.kinds.domains import Domains, RangeDomain, SetDomain
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.corners import COHORT, corners
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.pool import Pool, empty_pool, quasi_schema
from kanonflow.transforms.roster.roster import Roster, RosterHead, Segment, roster_of
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.step import PartitionStep, StateAfter

SEED = 1
EPOCH = 1
K = 5
FOUNDED = (2_000, 60_000)
PEOPLE = (10_000, 1_000_000)
SEGMENTS = 20
HERE, INTAKE = 1_000, 1_000
DAY = "2020-03-01"
FOUNDING = ("people", "threads", "cohorts", "loss", "seconds", "CPU seconds", "target s")
ROSTERS = (
    "people", "segments", "cohorts", "bytes a person", "reading ms", "following ms",
)  # fmt: skip
WINDOWS = (
    "people", "newcomers", "roster", "ms", "cohorts here", "released", "people entered", "warm state bytes",
    "segment bytes",
)  # fmt: skip


class Crowd:
    """People like those of a table, drawn in portions. Each has a number, and its attributes for good."""

    def __init__(self, table: pa.Table, seed: int = SEED) -> None:
        policy = replace(
            example_policy("sparkov"),
            cohort=Cohort.LASTING,
            cohort_size=K,
            intake=INTAKE,
            intake_share=None,
            max_outdated=None,
        )
        self.bound: BoundPolicy = bind(policy, table.schema, text=True, source="the table")
        self._table = table
        self._rng = np.random.default_rng(seed)
        self._key = SECRET.lasting.derive("partition", "people")
        self._drawn = 0

    def draw(self, count: int) -> tuple[pa.Table, Pool]:
        """New people: a row of each as it would come in, in the order of the pool; and the pool of them."""
        numbers = np.char.mod("%d", self._drawn + np.arange(count))
        self._drawn += count
        digests = person_digests(numbers.tolist(), self._key)
        order = np.argsort(digests)
        own = cards_like(self._table, SPARKOV_CARDS, count, self._rng)
        rows = self._table.take(pa.array(np.zeros(count, dtype=np.int64)))
        columns = {name: own.column(name) for name in own.column_names} | {
            SPARKOV_CARDS.individual: pa.array(numbers[order]),
            SPARKOV_CARDS.time: pa.array([f"{DAY} 12:00:00"] * count),
        }
        for name, column in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        schema = quasi_schema(self.bound)
        values = self.canonical(rows).select(schema.names).cast(schema)
        ends = np.full((count, len(schema.names)), DAY_MS, dtype=np.int64)
        unchanged, untried = np.zeros(count, dtype=np.bool_), np.full(count, -1, dtype=np.int64)
        return rows, Pool(digests[order], values, ends, unchanged, untried)

    def canonical(self, rows: pa.Table) -> pa.Table:
        """The rows as a partition gets them."""
        classified = classify(rows.select(list(self.bound.input_columns)), self.bound)
        if classified.rejected:
            raise ValueError("people like those of the table have values that its policy rejects")
        return pa.concat_tables(
            [pa.Table.from_batches([part]) for _, _, part in split(classified.rows, self.bound)]
        )


def sorted_cohorts(values: pa.Table, size: int) -> NDArray[np.int64]:
    """Cohorts of ``size`` people, the last larger, along degrees of latitude: int64 (p,), 0 .. ."""
    lat, long = (np.asarray(values.column(name)).astype(float) for name in ("lat", "long"))
    order = np.lexsort((long, np.floor(lat)))
    labels = np.empty(order.size, dtype=np.int64)
    labels[order] = np.minimum(np.arange(order.size) // size, max(order.size // size - 1, 0))
    return labels


def sorted_segment(pool: Pool, head: RosterHead, bound: BoundPolicy) -> Segment:
    """A segment without the solver."""
    labels = sorted_cohorts(pool.values, K)
    boxes = corners(pool.values, labels, bound)
    numbered = pa.array(np.asarray(boxes.column(COHORT)) + head.cohorts, pa.int64())
    return Segment(head, pool.people, labels + head.cohorts, boxes.set_column(0, COHORT, numbered))


@dataclass
class Known:
    """A roster and what stands around it.

    segments: its bytes. next: a segment that follows it. rows: as they come in, of some of its people, one each.
    domains: of everybody's values.
    """

    head: RosterHead
    segments: list[bytes]
    next: Segment
    rows: pa.Table
    domains: dict[str, RangeDomain | SetDomain]


def known(crowd: Crowd, people: int, segments: int) -> Known:
    """So many people, known by so many segments."""
    head, data, rows = RosterHead(EPOCH), [], []
    domains: Domains = {}
    for _ in range(segments):
        own, pool = crowd.draw(people // segments)
        segment = sorted_segment(pool, head, crowd.bound)
        domains = encode(pool.values, crowd.bound, None, domains).domains
        rows.append(own.slice(0, -(-HERE // segments)))
        data.append(segment.to_bytes())
        head = segment.after
    following = sorted_segment(crowd.draw(INTAKE)[1], head, crowd.bound)
    return Known(head, data, following, pa.concat_tables(rows), dict(domains))


class HeldRoster:
    """What a partition holds (``step.Held``). cached: the roster, None to put it together when it is asked for."""

    def __init__(self, known: Known, bound: BoundPolicy, rows: pa.Table, cached: Roster | None) -> None:
        self._known = known
        self._rows = rows
        self._cached = cached
        self._state = WarmState(domains=known.domains, roster=RosterState(known.head, empty_pool(bound)))

    def warm(self) -> WarmState:
        return self._state

    def roster(self, head: RosterHead) -> Roster:
        return roster_of(head, self._known.segments) if self._cached is None else self._cached

    def take(self, windows: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        return self._rows


def one_window(step: PartitionStep, held: HeldRoster, window: int) -> tuple[WindowResult, StateAfter]:
    """A window of a partition that has released none."""
    clock = step.arrive(PartitionClock(), window).clock
    action = step.due(clock)
    assert action is not None
    result, after = step.act(PARTITION, action, clock, held)
    assert isinstance(result, WindowResult)
    assert isinstance(after, StateAfter)
    return result, after


def milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """Median CPU time, after a first call that does not count."""
    work()
    return 1e3 * median(timed(work)[1].cpu for _ in range(repeats))


def add_founding(table: ResultTable, crowd: Crowd, pool: Pool, threads: int) -> None:
    """One row."""
    people = pool.people.size
    made, spent = timed(found, pool, RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=threads)
    cohorts = made.segment.after.cohorts
    target = 10 if people == max(FOUNDED) else None
    table.rows.append((people, threads, cohorts, made.loss, spent.wall, spent.cpu, target))


def add_roster(table: ResultTable, known: Known, roster: Roster, repeats: int) -> None:
    """One row."""
    size = sum(map(len, known.segments)) / known.head.people
    reading = milliseconds(lambda: roster_of(known.head, known.segments), repeats)
    following = milliseconds(lambda: roster.followed_by(known.next), repeats)
    table.rows.append((known.head.people, known.head.segments, known.head.cohorts, size, reading, following))


def add_windows(table: ResultTable, crowd: Crowd, known: Known, roster: Roster, repeats: int) -> None:
    """A row for each of: known people only, newcomers who wait, newcomers who enter; cached and cold."""
    step = PartitionStep(crowd.bound, SECRET, 1, epoch=EPOCH)
    policy = crowd.bound.policy
    assert policy.window_ms is not None
    window = int(np.datetime64(DAY, "ms").astype(np.int64)) // policy.window_ms
    for newcomers in (0, INTAKE // 2, INTAKE):
        who = [known.rows, crowd.draw(newcomers)[0]] if newcomers else [known.rows]
        rows = crowd.canonical(pa.concat_tables([*who, *who]))
        for name, cached in (("cached", roster), ("cold", None)):
            held = HeldRoster(known, crowd.bound, rows, cached)
            spent = milliseconds(lambda held=held: one_window(step, held, window), repeats)  # type: ignore[misc]
            result, after = one_window(step, held, window)
            assert after.warm is not None
            assert after.warm.roster is not None
            metrics = result.metrics
            table.rows.append(
                (
                    known.head.people,
                    newcomers,
                    name,
                    spent,
                    int(after.warm.roster.last.cohorts.size),
                    metrics["rows_released"],
                    metrics["people_entered"],
                    len(after.warm.to_bytes()),
                    sum(map(len, after.segments)),
                )
            )


def add_ratios(table: ResultTable) -> None:
    """What the largest roster costs more than the smallest, under the table of windows."""
    least, most = min(row[0] for row in table.rows), max(row[0] for row in table.rows)
    spent = {row[:3]: row[3] for row in table.rows}
    for people, newcomers, roster in spent:
        if people == most and least < most:
            small = spent[least, newcomers, roster]
            table.note += (
                f"- {newcomers:,} newcomers, {roster}: {spent[people, newcomers, roster] - small:.1f} ms more,"
                f" ratio {spent[people, newcomers, roster] / small:.2f}.\n"
            )


def measure(
    findings: Findings, table: pa.Table, founded: Iterable[int], people: Iterable[int], repeats: int
) -> None:
    """All three tables. table: sparkov's, as text."""
    founding = findings.table("Founding", FOUNDING)
    rosters = findings.table("Rosters", ROSTERS)
    windows = findings.table("A window of 2,000 rows of 1,000 known people", WINDOWS)
    crowd = Crowd(table)
    # Loads the kernels.
    found(crowd.draw(200)[1], RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=1)
    warm_up_merging()
    for count in founded:
        pool = crowd.draw(count)[1]
        for threads in sorted({1, os.cpu_count() or 1}):
            add_founding(founding, crowd, pool, threads)
    for count in people:
        around = known(crowd, count, SEGMENTS)
        roster = roster_of(around.head, around.segments)
        add_roster(rosters, around, roster, repeats)
        add_windows(windows, crowd, around, roster, repeats)
    if windows.rows:
        add_ratios(windows)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Founding, and rosters of many people.")
    parser.add_argument("--founded", type=int, nargs="*", default=list(FOUNDED))
    parser.add_argument("--people", type=int, nargs="*", default=list(PEOPLE))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("rosters", __doc__ or "")
    try:
        data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
    else:
        measure(findings, text_table(SPARKOV), arguments.founded, arguments.people, arguments.repeats)
        findings.tables[0].note = arguments.note
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
