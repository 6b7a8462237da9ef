"""A feed as trails: who has rows in which windows of which partition. Read whole, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import window_numbers

MOST_FEED_ROWS = 2_000_000

Numbers = NDArray[np.int64]


class Feed(NamedTuple):
    """rows: canonical rows in the order of the files. left_out: rows of the files beyond the limit."""

    rows: pa.Table
    left_out: int = 0


def read_feed(
    files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm = PLAIN, most: int = MOST_FEED_ROWS
) -> Feed:
    """All rows of the files that the policy does not reject, or as many whole windows as the first ``most`` hold.

    Where rows are left out, so are those of the latest window that was read: it may not be whole.
    Raises InputError: a file is damaged.
    """
    names = [column.name for column in bound.columns]
    tables = [bound.canonical_schema.empty_table().select(names)]
    wanted, beyond = most, 0
    for file in files:
        for batch in read_batches(file, bound.input_columns, form, bound.attributes):
            rows = from_ipc(batch.ipc)
            if wanted <= 0:
                beyond += rows.num_rows
                continue
            beyond += max(0, rows.num_rows - wanted)
            tables.append(classify(rows.slice(0, wanted), bound, source=file.name).rows.select(names))
            wanted -= rows.num_rows
    kept = pa.concat_tables(tables).combine_chunks()
    time = bound.policy.time
    if beyond and time is not None and kept.num_rows:
        windows = window_numbers(kept.column(time.name), bound.policy)
        whole = windows < windows.max()
        beyond += int((~whole).sum())
        kept = kept.filter(pa.array(whole)).combine_chunks()
    return Feed(kept, beyond)


@dataclass(frozen=True)
class Trails:
    """Of n rows, whose and when. A *member* is a person in a partition; without partitions it is the person.

    rows: the canonical rows.
    who: int64 (n,), the person of each row, 0 .. people-1. member: int64 (n,), 0 .. m-1.
    window: int64 (n,), the number of each row's window.
    partition: int64 (m,), of each member. person: int64 (m,). first: int64 (m,), the first window of each member.
    pair_member, pair_window: int64 (q,), each member with each window that it has rows in, by member and window.
    """

    rows: pa.Table
    who: Numbers
    member: Numbers
    window: Numbers
    partition: Numbers
    person: Numbers
    first: Numbers
    pair_member: Numbers
    pair_window: Numbers

    @property
    def people(self) -> int:
        """How many different people there are."""
        return int(self.who.max(initial=-1)) + 1

    @property
    def partitions(self) -> int:
        """How many partitions have rows."""
        return int(self.partition.max(initial=-1)) + 1


def trails_of(rows: pa.Table, bound: BoundPolicy) -> Trails:
    """The trails of canonical rows of a policy with an individual and a window. O(n log n)."""
    policy = bound.policy
    assert policy.individual is not None
    assert policy.time is not None
    partition = np.zeros(rows.num_rows, dtype=np.int64)
    for name in policy.partition_by:
        codes = _codes(rows.column(name))
        partition = _dense(partition * (int(codes.max(initial=0)) + 1) + codes)
    who = _codes(rows.column(policy.individual.name))
    window = window_numbers(rows.column(policy.time.name), policy)
    people = int(who.max(initial=-1)) + 1
    pairs, member = np.unique(partition * max(people, 1) + who, return_inverse=True)
    whole = np.unique(np.stack([member.astype(np.int64), window], axis=1), axis=0)
    first = whole[np.append(True, np.diff(whole[:, 0]) > 0)[: len(whole)], 1]
    return Trails(
        rows,
        who,
        member.astype(np.int64),
        window,
        pairs // max(people, 1),
        pairs % max(people, 1),
        first,
        whole[:, 0],
        whole[:, 1],
    )


def _codes(column: pa.ChunkedArray) -> Numbers:
    """A number for each value, by first appearance; a null has one of its own."""
    indices = column.combine_chunks().dictionary_encode("encode").indices
    return np.asarray(indices).astype(np.int64)


def _dense(codes: Numbers) -> Numbers:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
