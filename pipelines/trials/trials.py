"""A policy tried on whole windows of a feed: what it would release there, by the product's own steps.

    trial_feed(rows, bound) -> TrialFeed                        whose rows, of which partition
    feed_windows(feed, bound, most=...) -> FeedWindows          windows of one length, and which of them are tried
    try_policy(windows, bound) -> SampleRelease                 releases of these, and when every row would leave

A sampled window is released as a run would release it: with the rows that are due with it by the rules of waiting, in
the cohorts of everybody who had entered by then, by the same solver, boxes and gate. Three things are otherwise:

- the search of a window does not begin with what the window before it left (no warm start);
- rows that the solver holds back are not tried again in the next window; they are counted (``held``);
- a running domain is that of the whole feed from its beginning, so that all windows and policies have one measure.

The secret is a fixed one: a trial repeats, says nothing of a run, and what it releases is measured and thrown away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.risks.cohort_simulation import FoundedPartition, Simulation, simulate
from kanonflow.pipelines.risks.intakes import NEVER
from kanonflow.pipelines.risks.trails import Trails, trails_of
from kanonflow.pipelines.trials.release_moments import release_moments
from kanonflow.pipelines.trials.sampled_windows import WindowSample, sample_windows, thinned_out
from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.encode import Domains, encode
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.protections.release_parts import release_parts
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.pool import empty_pool
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import window_bounds, window_numbers
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, partition_key, people_key

Int64s = NDArray[np.int64]
NOT_SECRET = Secret(b"kanonflow compare publishes nothing at all")
_ALWAYS = np.iinfo(np.int64).min
_OPENS = 0.5
_MOST_KINDS = 4
_OF_A_KIND = 3


@dataclass(frozen=True)
class TrialFeed:
    """A feed that policies are tried on.

    rows: canonical rows of a policy, n of them. who: int64 (n,), whose each row is; without an individual its own.
    partition: int64 (n,). keys: of each partition. domains: of each partition, all of its values seen.
    """

    rows: pa.Table
    who: Int64s
    partition: Int64s
    keys: tuple[bytes, ...]
    domains: tuple[Domains, ...]


@dataclass(frozen=True)
class FeedWindows:
    """A feed in windows of one length. window: int64 (n,), of each row. sample: which of them are tried.

    trails: who comes when; None without windows or without an individual.
    """

    feed: TrialFeed
    window: Int64s
    sample: WindowSample
    trails: Trails | None


class TriedWindow(NamedTuple):
    """A sampled window, or a part of one.

    result: as a run has it. due: rows, those of all parts with the first. opens: whether most of these are of people
    who enter with it, as in the first window of a feed. like: its kind (``_kinds``).
    """

    result: WindowResult
    due: int
    opens: bool
    like: int


class SampleRelease(NamedTuple):
    """What a policy would make of a feed, as its sampled windows tell.

    tried: sampled windows with rows due. due: the canonical rows due in them. released: those of them that went out, in
    the release's Arrow schema. rows: of the feed. at_once, never: of them, due with their own window, and with none.
    of_kind: of them, due in windows of each kind.
    """

    tried: tuple[TriedWindow, ...]
    due: pa.Table
    released: pa.Table
    rows: int
    at_once: int
    never: int
    of_kind: tuple[int, ...]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Records of metrics.avsc, of the releases of sampled windows."""
        return [each.result.metrics for each in self.tried if each.result.release is not None]

    @property
    def held(self) -> int:
        """Rows due in sampled windows that were not released there: a later window may take them."""
        return int(self.due.num_rows - self.released.num_rows)

    @property
    def weights(self) -> list[float]:
        """Of the releases, how many rows of the feed each of their rows stands for: those of windows of its kind.

        Without them a sample says as much of its luck as of the feed: windows that open are few and have small boxes,
        and so have large ones, as the Mondays of a feed.
        """
        due = np.zeros(len(self.of_kind), dtype=np.int64)
        for each in self.tried:
            due[each.like] += each.due
        released = [each for each in self.tried if each.result.release is not None]
        return [float(self.of_kind[each.like] / due[each.like]) for each in released]


def trial_feed(rows: pa.Table, bound: BoundPolicy) -> TrialFeed:
    """The feed of canonical rows. O(n d)."""
    policy = bound.policy
    rows = rows.combine_chunks()
    who = np.arange(rows.num_rows) if policy.individual is None else _codes(rows, policy.individual.name)
    partition = np.zeros(rows.num_rows, dtype=np.int64)
    for name in policy.partition_by:
        codes = _codes(rows, name)
        _, partition = np.unique(partition * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    partition = partition.astype(np.int64)
    first = pa.array(np.unique(partition, return_index=True)[1])
    texts = [_texts(rows, name, first) for name in policy.partition_by]
    values: list[tuple[str | None, ...]] = list(zip(*texts, strict=True)) if texts else [()]
    domains = tuple(
        encode(rows.filter(pa.array(partition == number)), bound, None, {}).domains
        for number in range(len(values))
    )
    keys = tuple(partition_key(NOT_SECRET, each) for each in values)
    return TrialFeed(rows, who, partition, keys, domains)


def feed_windows(
    feed: TrialFeed,
    bound: BoundPolicy,
    *,
    most: int,
    most_windows: int | None = None,
    most_of_one: int | None = None,
    seed: int = 1,
) -> FeedWindows:
    """The feed in the windows of a policy, and a sample of them (``sample_windows``).

    most: rows of the sample. most_windows: windows of it. most_of_one: where a window alone has more than that, so many
    of its rows are tried, drawn at random; None: ``most``.
    """
    window = _window(feed, bound)
    sample = sample_windows(feed.partition, window, most, seed, most_windows=most_windows)
    stays = thinned_out(sample, feed.partition, window, most if most_of_one is None else most_of_one, seed)
    if not stays.all():
        feed = dataclasses.replace(
            feed,
            rows=feed.rows.filter(pa.array(stays)).combine_chunks(),
            who=feed.who[stays],
            partition=feed.partition[stays],
        )
        window, sample = window[stays], sample._replace(thinned=True)
    lasts = bound.policy.individual is not None and bound.policy.window_ms is not None
    return FeedWindows(feed, window, sample, trails_of(feed.rows, bound) if lasts else None)


def _window(feed: TrialFeed, bound: BoundPolicy) -> Int64s:
    time = bound.policy.time
    if time is None:
        return np.zeros(feed.rows.num_rows, dtype=np.int64)
    return window_numbers(feed.rows.column(time.name), bound.policy)


def try_policy(windows: FeedWindows, bound: BoundPolicy, *, threads: int = 1) -> SampleRelease:
    """Release the sampled windows under a policy.

    bound: its windows are those of ``windows``, its partitions and its individual those of the feed, and its fields are
    among the feed's. Deterministic. Time: that of founding everybody (cohorts that last), and of the sampled windows.
    """
    feed, policy = windows.feed, bound.policy
    rows = _as_bound(feed.rows, bound)
    simulation, known = None, np.full(rows.num_rows, _ALWAYS)
    if policy.lasting:
        simulation = _simulated(windows, rows, bound)
        assert windows.trails is not None
        known = simulation.entered[windows.trails.member]
    waits = 0 if policy.window_ms is None else policy.waiting_ms // policy.window_ms
    at = np.full(rows.num_rows, NEVER, dtype=np.int64)
    for number in range(len(feed.keys)):
        own = np.flatnonzero(feed.partition == number)
        at[own] = release_moments(windows.window[own], feed.who[own], known[own], waits, policy.k)
    moments = _moments(feed.partition, at, known)
    taken = [
        (place, number, window)
        for number, window in zip(
            windows.sample.partition.tolist(), windows.sample.window.tolist(), strict=True
        )
        if (place := moments.places.get((number, window))) is not None
    ]
    kind, of_kind = _kinds(moments, [place for place, _, _ in taken])
    tried: list[TriedWindow] = []
    due: list[pa.Table] = []
    for place, number, window in taken:
        here = np.flatnonzero(moments.of_row == place)
        due.append(rows.take(pa.array(here)))
        slot = ReleaseSlot(feed.keys[number], window_bounds(window, policy)[1], 0)
        founded = None if simulation is None else _founded(simulation, windows, number)
        warm = _warm(feed.domains[number], founded, bound)
        tried += [
            TriedWindow(result, 0 if part else here.size, bool(moments.opens[place]), int(kind[place]))
            for part, result in enumerate(_results(due[-1], bound, warm, founded, slot, threads))
        ]
    releases = [each.result.release for each in tried]
    tables = [from_ipc(release.ipc) for release in releases if release is not None]
    return SampleRelease(
        tuple(tried),
        pa.concat_tables([rows.slice(0, 0), *due]),
        pa.concat_tables([release_arrow_schema(bound).empty_table(), *tables]),
        rows.num_rows,
        int((at == windows.window).sum()),
        int((at == NEVER).sum()),
        of_kind,
    )


class _Moments(NamedTuple):
    """Windows in which rows are due. of_row: int64 (n,), the one of each row, -1: none. places: of (partition, window).

    rows: int64 (m,), due in each. opens: bool (m,), as of ``TriedWindow``."""

    of_row: Int64s
    places: dict[tuple[int, int], int]
    rows: Int64s
    opens: NDArray[np.bool_]


def _moments(partition: Int64s, at: Int64s, known: Int64s) -> _Moments:
    """at, known: as of ``release_moments``. O(n log n)."""
    there = np.flatnonzero(at != NEVER)
    pairs, place, rows = np.unique(
        np.stack([at[there], partition[there]], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    place = place.reshape(-1)
    of_row = np.full(at.size, -1, dtype=np.int64)
    of_row[there] = place
    entering = np.bincount(place, weights=(at == known)[there], minlength=rows.size)
    places = {(number, window): index for index, (window, number) in enumerate(map(tuple, pairs.tolist()))}
    return _Moments(of_row, places, rows.astype(np.int64), entering > _OPENS * rows)


def _kinds(moments: _Moments, taken: Sequence[int]) -> tuple[Int64s, tuple[int, ...]]:
    """The kind of each window, int64 (m,), and the rows of the feed in each kind; -1: none was taken.

    Windows that open and others are of different kinds, and of each of the two those with more and with fewer rows, as
    many kinds as there are ``_OF_A_KIND`` taken windows for each. taken: which are solved.
    """
    kind = np.full(moments.rows.size, -1, dtype=np.int64)
    kinds = 0
    for opens in (True, False):
        own = moments.opens == opens
        sizes = np.sort(moments.rows[[place for place in taken if own[place]]])
        if not sizes.size:
            continue
        parts = max(1, min(_MOST_KINDS, sizes.size // _OF_A_KIND))
        borders = sizes[np.arange(1, parts) * sizes.size // parts]
        kind[own] = kinds + np.searchsorted(borders, moments.rows[own], side="right")
        kinds += parts
    of_kind = np.bincount(kind[kind >= 0], weights=moments.rows[kind >= 0], minlength=kinds)
    return kind, tuple(of_kind.astype(np.int64).tolist())


def _results(
    rows: pa.Table,
    bound: BoundPolicy,
    warm: WarmState,
    founded: FoundedPartition | None,
    slot: ReleaseSlot,
    threads: int,
) -> list[WindowResult]:
    due = Due(bound, NOT_SECRET, slot, threads=threads, compressed=False)
    before = Before(warm) if founded is None else Before(warm, founded.roster)
    return list(release_parts(protection_of(bound.policy), due, before, rows))


def _warm(domains: Domains, founded: FoundedPartition | None, bound: BoundPolicy) -> WarmState:
    """The state that a window begins with. Whoever enters later is in the roster, too, and has no rows here."""
    if founded is None:
        return WarmState(domains={column.name: domains[column.name] for column in bound.quasis})
    state = RosterState(founded.roster.head, empty_pool(bound))
    return WarmState(domains=dict(founded.domains), roster=state)


def _simulated(windows: FeedWindows, rows: pa.Table, bound: BoundPolicy) -> Simulation:
    policy, trails = bound.policy, windows.trails
    assert trails is not None
    assert policy.individual is not None
    assert policy.cohort_size is not None
    first = pa.array(np.unique(trails.who, return_index=True)[1])
    digests = person_digests(
        [str(each) for each in _texts(rows, policy.individual.name, first)], people_key(NOT_SECRET)
    )
    return simulate(
        dataclasses.replace(trails, rows=rows),
        np.arange(trails.partition.size),
        bound,
        policy.cohort_size,
        digests=digests[trails.person],
        domains=windows.feed.domains,
    )


def _founded(simulation: Simulation, windows: FeedWindows, partition: int) -> FoundedPartition | None:
    assert windows.trails is not None
    of_member = windows.trails.partition
    own = (each for each in simulation.partitions if of_member[each.members[0]] == partition)
    return next(own, None)


def _as_bound(rows: pa.Table, bound: BoundPolicy) -> pa.Table:
    """The fields that the policy keeps. Rows whose quasi-identifiers were at fault are not told apart here."""
    kept = rows.select([column.name for column in bound.columns])
    if bound.policy.lasting:
        kept = kept.append_column(FAULT_COLUMN, pa.nulls(rows.num_rows, pa.string()))
    return kept.cast(bound.canonical_schema).combine_chunks()


def _codes(rows: pa.Table, name: str) -> Int64s:
    return np.asarray(rows.column(name).combine_chunks().dictionary_encode("encode").indices).astype(np.int64)


def _texts(rows: pa.Table, name: str, places: pa.Array) -> list[str | None]:
    texts: list[str | None] = render_text(rows.column(name).take(places).combine_chunks()).to_pylist()
    return texts
