"""A feed as it is played: canonical rows, whose each is, and in which window of which partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import window_numbers

MOST_FEED_ROWS = 2_000_000

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class FeedRows(NamedTuple):
    """rows: canonical rows in the order of the files. left_out: rows of the files beyond the limit."""

    rows: pa.Table
    left_out: int = 0


def read_feed(
    files: Sequence[InputFile],
    bound: BoundPolicy,
    form: CsvForm = PLAIN,
    most: int = MOST_FEED_ROWS,
    reading: Reading = read_batches,
) -> FeedRows:
    """All rows of the files that the policy does not reject, or as many whole windows as the first ``most`` hold.

    Where rows are left out, so are those of the latest window that was read: it may not be whole.
    Raises InputError: a file is damaged.
    """
    names = [column.name for column in bound.columns]
    tables = [bound.canonical_schema.empty_table().select(names)]
    wanted, beyond = most, 0
    for file in files:
        for batch in reading(file, bound.input_columns, form, bound.attributes):
            rows = from_ipc(batch.ipc)
            if wanted <= 0:
                beyond += rows.num_rows
                continue
            beyond += max(0, rows.num_rows - wanted)
            tables.append(classify(rows.slice(0, wanted), bound, source=file.name).rows.select(names))
            wanted -= rows.num_rows
    rows = pa.concat_tables(tables).combine_chunks()
    time = bound.policy.time
    if beyond and time is not None and rows.num_rows:
        windows = window_numbers(rows.column(time.name), bound.policy)
        whole = windows < windows.max()
        beyond += int((~whole).sum())
        rows = rows.filter(pa.array(whole)).combine_chunks()
    return FeedRows(rows, beyond)


class FeedWindows(NamedTuple):
    """w windows with rows, by partition and time. partition, window, rows: int64 (w,). of_row: int64 (n,), the place
    of each row's among them."""

    partition: Numbers
    window: Numbers
    rows: Numbers
    of_row: Numbers


class Presence(NamedTuple):
    """Each member with each window that it has rows in, by member and window; int64 (q,) each.

    row: the first of these rows. turn: the place among all members of the partition who are there, from 0.
    """

    member: Numbers
    window: Numbers
    row: Numbers
    turn: Numbers


@dataclass(frozen=True)
class Feed:
    """n rows. who: int64 (n,), the person of each, 0 .. people-1; without an individual its own number.

    partition: int64 (n,), 0 .. partitions-1. window: int64 (n,), the number of each row's window.

    expected: people who are known from the start, as of ``PeopleRows``; None: nobody.

    A *member* is a person in a partition; without partitions it is the person.
    """

    rows: pa.Table
    who: Numbers
    partition: Numbers
    window: Numbers
    expected: pa.Table | None = None

    @property
    def people(self) -> int:
        """How many different people there are, or were in the feed that this is a part of."""
        return int(self.who.max(initial=-1)) + 1

    @property
    def partitions(self) -> int:
        """How many partitions have rows, or had in the feed that this is a part of."""
        return int(self.partition.max(initial=-1)) + 1

    @cached_property
    def _members(self) -> tuple[Numbers, Numbers]:
        pairs, member = np.unique(self.partition * max(self.people, 1) + self.who, return_inverse=True)
        return pairs, member.astype(np.int64)

    @property
    def member(self) -> Numbers:
        """The member that each row is of, int64 (n,), 0 .. m-1."""
        return self._members[1]

    @property
    def person(self) -> Numbers:
        """The person of each member, int64 (m,)."""
        return self._members[0] % max(self.people, 1)

    @property
    def home(self) -> Numbers:
        """The partition of each member, int64 (m,)."""
        return self._members[0] // max(self.people, 1)

    @cached_property
    def first(self) -> Numbers:
        """The first window of each member, int64 (m,)."""
        first = np.full(self._members[0].size, np.iinfo(np.int64).max)
        np.minimum.at(first, self.member, self.window)
        return first

    @cached_property
    def windows(self) -> FeedWindows:
        """The windows that have rows. O(n log n)."""
        low, span = self._span
        keys, at, size = np.unique(
            self.partition * span + self.window - low, return_inverse=True, return_counts=True
        )
        return FeedWindows(keys // span, keys % span + low, size.astype(np.int64), at.astype(np.int64))

    @cached_property
    def presence(self) -> Presence:
        """Who is there when. O(n log n)."""
        low, span = self._span
        keys, row = np.unique(self.member * span + self.window - low, return_index=True)
        member, window = keys // span, keys % span
        place = self.home[member] * span + window
        order = np.argsort(place, kind="stable")
        turn = np.empty(place.size, dtype=np.int64)
        turn[order] = np.arange(place.size) - np.searchsorted(place[order], place[order])
        return Presence(member, window + low, row, turn)

    @property
    def _span(self) -> tuple[int, int]:
        """The first window, and how many there are up to the last, with rows or without."""
        low = int(self.window.min()) if self.window.size else 0
        return low, int(self.window.max(initial=low)) - low + 1

    def under(self, policy: Policy) -> Feed:
        """The same rows in the windows of another policy, whose time, individual and partitions are the same."""
        return Feed(self.rows, self.who, self.partition, _windows(self.rows, policy), self.expected)

    def of(self, rows: Mask) -> Feed:
        """Some of the rows, bool (n,); people and partitions keep their numbers."""
        table = self.rows.filter(pa.array(rows)).combine_chunks()
        return Feed(table, self.who[rows], self.partition[rows], self.window[rows], self.expected)

    def first_people(self, bound: BoundPolicy, most: int) -> Feed:
        """The feed until so many people have come: founding takes time by people."""
        policy = bound.policy
        if not policy.owner or policy.time is None or self.people <= most:
            return self
        times = to_units(self.rows.column(policy.time.name))[0]
        first = np.full(self.people, np.iinfo(np.int64).max)
        np.minimum.at(first, self.who, times)
        return self.of(times < np.partition(first, most)[most])


def feed_of(rows: pa.Table, bound: BoundPolicy, expected: pa.Table | None = None) -> Feed:
    """The feed of canonical rows. expected: as of ``Feed``. O(n log n)."""
    policy = bound.policy
    rows = rows.combine_chunks()
    windows = _windows(rows, policy)
    return Feed(rows, people_of(rows, policy), partitions_of(rows, policy), windows, expected)


def people_of(rows: pa.Table, policy: Policy) -> Numbers:
    """Whose each row is, int64 (n,): the person's number, or its own where the policy names none."""
    for name in policy.owner:
        return codes_of(rows.column(name).combine_chunks())
    return np.arange(rows.num_rows)


def partitions_of(rows: pa.Table, policy: Policy) -> Numbers:
    """The number of each row's partition, int64 (n,)."""
    partition = np.zeros(rows.num_rows, dtype=np.int64)
    for name in policy.partition_by:
        codes = codes_of(rows.column(name).combine_chunks())
        partition = _dense(partition * (int(codes.max(initial=0)) + 1) + codes)
    return partition


def _windows(rows: pa.Table, policy: Policy) -> Numbers:
    if policy.time is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    return window_numbers(rows.column(policy.time.name), policy)


def _dense(codes: Numbers) -> Numbers:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
