"""A policy played over a stretch of a feed by the product itself: steps, solvers, boxes and gate; nothing is written.

    dry_run(feed, bound, stretch) -> DryRun     releases with their metrics, and who is in which cohort

No rule of release stands here: rows arrive at partitions in memory, these do what is due, and it is written down. The
secret is a fixed one, so that a dry run repeats and says nothing of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.pipelines.dry_run.stretch import Stretch
from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.encode import extents
from kanonflow.transforms.kinds.domains import Domains
from kanonflow.transforms.protections.release_window import WindowResult
from kanonflow.transforms.publishing.boxes import field_ncp, gcp, hull_boxes
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split, window_end
from kanonflow.transforms.secret.seeds import Secret, partition_key, people_key
from kanonflow.transforms.windows.expected_people import ExpectedCohorts
from kanonflow.transforms.windows.partition_clock import window_number
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep

NOT_SECRET = Secret(b"kanonflow compare publishes nothing at all")
NEVER = np.iinfo(np.int64).max
Numbers = NDArray[np.int64]


class PlayedWindow(NamedTuple):
    """What a window, or a part of one, came to.

    weight: of its rows, as of ``Stretch``. metrics: a record of metrics.avsc. rejected: rows. put_off: rows of the
    window itself that wait for another. release: its rows, as Arrow IPC bytes; None: nothing went out.
    matching_record: of the release, Avro; None: it was not asked for.
    """

    weight: float
    metrics: dict[str, Any]
    rejected: int
    put_off: int
    release: bytes | None
    matching_record: bytes | None = None


class PlayedPartition(NamedTuple):
    """number: of the feed's. roster: at the end; None: it has none. entered: the window of each of its segments.
    domains: at the end."""

    number: int
    roster: Roster | None
    entered: tuple[int, ...]
    domains: Domains


class Cohorts(NamedTuple):
    """Who is together at the end of what was played. A member is one of the feed's.

    cohort: int64 (m,), of each member, 0 .. c-1; -1: in none. entered: int64 (m,), with which window; ``NEVER``.
    sizes: int64 (c,), people of each. intakes: people of each intake. loss: GCP of the frozen boxes, one row a person;
    None: there is nobody in them.
    """

    cohort: Numbers
    entered: Numbers
    sizes: Numbers
    intakes: tuple[int, ...]
    loss: float | None


@dataclass(frozen=True)
class DryRun:
    """windows: those that count. partitions: what was played of each."""

    bound: BoundPolicy
    windows: tuple[PlayedWindow, ...]
    partitions: tuple[PlayedPartition, ...]

    @property
    def releases(self) -> tuple[PlayedWindow, ...]:
        """Windows that released something."""
        return tuple(each for each in self.windows if each.release is not None)

    @cached_property
    def released(self) -> pa.Table:
        """The rows of all of them, in the release's Arrow schema."""
        tables = [from_ipc(each.release) for each in self.windows if each.release is not None]
        return pa.concat_tables([release_arrow_schema(self.bound).empty_table(), *tables])

    def mean(self, name: str) -> float | None:
        """A figure of the metrics, by rows of the feed; None: no release has it."""
        return self.mean_of([each.metrics[name] for each in self.releases])

    def mean_of(self, values: Sequence[float | None]) -> float | None:
        """The mean of a value of each release, by rows of the feed; those without one are left out."""
        pairs = [
            (value, each.weight * each.metrics["rows_released"])
            for value, each in zip(values, self.releases, strict=True)
            if value is not None
        ]
        return (
            float(sum(value * rows for value, rows in pairs) / sum(rows for _, rows in pairs))
            if pairs
            else None
        )

    @property
    def rejected(self) -> float:
        """The share of the rows that leaves the feed, of all that leave; 0 where nothing leaves."""
        lost = sum(each.weight * each.rejected for each in self.windows)
        out = sum(each.weight * each.metrics["rows_released"] for each in self.releases)
        return lost / (lost + out) if lost else 0.0

    @property
    def at_once(self) -> float:
        """The share of the rows that is not put off to a later window than its own."""
        new = sum(each.weight * each.metrics["rows_new"] for each in self.windows)
        return 1.0 - sum(each.weight * each.put_off for each in self.windows) / new if new else 1.0


def dry_run(
    feed: Feed,
    bound: BoundPolicy,
    stretch: Stretch,
    *,
    threads: int = 1,
    secret: Secret = NOT_SECRET,
    matching_records: bool = False,
) -> DryRun:
    """Play a stretch of a feed under a policy. Deterministic, but for deadlines.

    bound: its windows, partitions and individual are the feed's, its fields are among the feed's. secret: another one
    searches otherwise, and another one's cohorts are not for ``cohorts_of``. matching_records: one of each release.
    Time: that of releasing the rows that are played.
    """
    continued = None
    if feed.expected is not None and bound.policy.people is not None:
        continued = ExpectedCohorts(feed.expected, bound, secret, 0)
    step = PartitionStep(
        bound, secret, threads, matching_records=matching_records, continued=continued, compressed=False
    )
    places = np.flatnonzero(stretch.played)
    places = places[np.argsort(feed.partition[places], kind="stable")]
    rows = _as_bound(feed.rows.take(pa.array(places)), bound)
    windows: list[PlayedWindow] = []
    played: list[PlayedPartition] = []
    begins = np.flatnonzero(np.diff(feed.partition[places], prepend=-1))
    for begin, end in pairwise([*begins.tolist(), places.size]):
        number = int(feed.partition[places[begin]])
        own, weight = stretch.of(number)
        partition = _partition(step, rows.slice(begin, end - begin), bound, secret)
        before = (feed.partition == number) & (feed.window < int(feed.window[places[begin:end]].min()))
        partition.warm_state = step.protection.left_by(feed.rows.filter(pa.array(before)), bound)
        roster, entered = None, []
        for result in _fired(partition, stretch.end(number), bound.policy):
            at = _number(result.metrics["window_end"], bound.policy)
            roster = result.roster
            if result.segment is not None:
                entered.append(at)
            # What leaves between two windows leaves because of the one before.
            counts = float(weight[max(int(np.searchsorted(own, at, side="right")) - 1, 0)])
            if counts:
                windows.append(_played(result, counts, bound))
        played.append(PlayedPartition(number, roster, tuple(entered), partition.warm().domains))
    return DryRun(bound, tuple(windows), tuple(played))


def _partition(step: PartitionStep, rows: pa.Table, bound: BoundPolicy, secret: Secret) -> PartitionInMemory:
    """A partition at which its rows have arrived."""
    parts = split(rows, bound)
    partition = PartitionInMemory(step, partition_key(secret, parts[0][0]))
    for _, window, part in parts:
        partition.arrive(window, pa.Table.from_batches([part]))
    return partition


def _fired(partition: PartitionInMemory, end: int | None, policy: Policy) -> Iterator[WindowResult]:
    """All results up to those of a window, and what is due before the next one's; None: to the end of the feed.

    Why: rows that wait after the last window, and whose time ends before another can take them, are lost to it.
    """
    if end is None:
        yield from partition.finish()
        return
    until = window_end(end + 1, policy) + policy.out_of_orderness_ms
    while partition.fires_at is not None and partition.fires_at < until:
        yield from partition.fire()


def _number(end: int | None, policy: Policy) -> int:
    return 0 if end is None else window_number(end, policy)


def _played(result: WindowResult, weight: float, bound: BoundPolicy) -> PlayedWindow:
    metrics, put_off = result.metrics, 0
    if metrics["rows_waiting"] and result.warm.waiting is not None:
        put_off = int((own_ends(result.warm.waiting, bound) == metrics["window_end"]).sum())
    rejected = sum(metrics["rows_rejected"].values())
    release = None if result.release is None else result.release.ipc
    record = None if result.matching_record is None else result.matching_record.avro
    return PlayedWindow(weight, metrics, rejected, put_off, release, record)


def cohorts_of(run: DryRun, feed: Feed) -> Cohorts:
    """The cohorts of a feed's members, as a dry run over it, or over a part of it, has left them.

    A digest for each person.
    """
    individual = run.bound.policy.cohorts.individual
    people, first = np.unique(feed.who, return_index=True)
    names = render_text(feed.rows.column(individual.name).take(pa.array(first)).combine_chunks())
    digests = person_digests(names.to_pylist(), people_key(NOT_SECRET))
    cohort, entered = np.full(feed.home.size, -1), np.full(feed.home.size, NEVER)
    sizes: list[Numbers] = [np.empty(0, dtype=np.int64)]
    intakes: list[int] = []
    losses: list[float] = []
    for number, roster, windows, domains in run.partitions:
        if roster is None or not windows:
            continue
        own = np.flatnonzero(feed.home == number)
        place = roster.cohorts_of(digests[np.searchsorted(people, feed.person[own])])
        own, place = own[place >= 0], place[place >= 0]
        generation = roster.generation[place]
        cohort[own] = place + sum(each.size for each in sizes)
        entered[own] = np.array(windows)[generation]
        intakes += np.bincount(generation, minlength=len(windows)).tolist()
        losses.append(_frozen_loss(roster, run.bound, domains))
        sizes.append(roster.members)
    people_in = [int(each.sum()) for each in sizes[1:]]
    loss = float(np.average(losses, weights=people_in)) if losses else None
    return Cohorts(cohort, entered, np.concatenate(sizes), tuple(intakes), loss)


def _frozen_loss(roster: Roster, bound: BoundPolicy, domains: Domains) -> float:
    """GCP of the cohorts' boxes as they are frozen, before grids and merging, one row a person."""
    assert roster.corners is not None
    people = np.repeat(np.arange(roster.members.size), roster.members)
    boxes = hull_boxes(roster.corners, bound, Groups(np.arange(roster.starts[-1]), roster.starts, people))
    return gcp(field_ncp(boxes, extents(domains, bound)), bound)


def _as_bound(rows: pa.Table, bound: BoundPolicy) -> pa.Table:
    """The fields that the policy keeps. Rows whose quasi-identifiers were at fault are not told apart here."""
    kept = rows.select([column.name for column in bound.columns])
    for name in bound.canonical_schema.names[kept.num_columns :]:
        kept = kept.append_column(name, pa.nulls(rows.num_rows))
    return kept.cast(bound.canonical_schema).combine_chunks()
