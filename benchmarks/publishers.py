"""Who publishes half of the people of a feed, and what: ourselves, and what others would do in our place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from benchmarks.assess import of_rows
from benchmarks.data_sets import DataSet, afresh, data_path, example_policy, read_feed
from benchmarks.membership import hulls
from benchmarks.peer_programs import WINDOW
from benchmarks.peers import peer_classes
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.twin import twin_of
from kanonflow.pipelines.dry_run.feed import Feed, feed_of
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.rows.split import window_bounds

KEPT = 0.95
"""Share of the rows that stay where fields are dropped; the others are suppressed."""
Mask = NDArray[np.bool_]


class Published(NamedTuple):
    """name: of who publishes. read: what. k: as promised; None: nothing is. dropped: fields that are left out."""

    name: str
    k: int | None
    read: ReleasedTable
    dropped: frozenset[str] = frozenset()


class Source(NamedTuple):
    """A feed, as the base policy's people have it, and the policy of rows as bound to it."""

    policy: Policy
    feed: Feed
    rows: BoundPolicy
    schema: pa.Schema

    def under(self, policy: Policy) -> tuple[Feed, BoundPolicy]:
        """The feed under a variant of the policy."""
        bound = bind(policy, self.schema, text=True, source="feed")
        return feed_of(self.feed.rows.select([column.name for column in bound.columns]), bound), bound


def source_of(data: DataSet, every: int, window_ms: int | None, most: int | None = None) -> Source:
    """One of so many rows of a data set, ``most`` at most, under its policy, in windows of another length."""
    policy = example_policy(data.name)
    policy = replace(policy, solver=replace(policy.solver, threads=1))
    if window_ms is not None:
        policy = replace(policy, window_ms=window_ms, max_delay_ms=2 * window_ms)
    read = read_feed(data_path(data), policy, lasting=True)
    rows = pa.concat_tables([window.rows for window in read.windows])
    rows = rows.select([column.name for column in read.bound.columns])
    rows = rows.take(pa.array(np.arange(0, rows.num_rows, every)[:most])).combine_chunks()
    schema = input_schema(find_inputs([str(data_path(data))])).columns
    of_each = bind(of_rows(policy), schema, text=True, source="feed")
    return Source(policy, feed_of(rows, read.bound), of_each, schema)


def published(source: Source, inside: Mask, ks: tuple[int, ...], python: str | None) -> Iterator[Published]:
    """Everybody's release of some rows, bool (n,): first the rows as they are."""
    own = np.flatnonzero(inside)
    yield Published("raw", None, released_hulls(source, own, np.arange(own.size), source.policy.k))
    for k in ks:
        policy = replace(source.policy, k=k, cohort_size=k if source.policy.lasting else None)
        for name, variant in _ours(policy):
            feed, bound = source.under(variant)
            yield Published(name, k, twin_of(feed, inside, bound).released)
        if python is not None:
            yield Published("anonypy", k, released_hulls(source, *_anonypy(source, own, k, python), k))
        labels, dropped = left_out(source, own, k)
        kept = labels >= 0
        yield Published("dropped fields", k, released_hulls(source, own[kept], labels[kept], k), dropped)


def _ours(policy: Policy) -> Iterator[tuple[str, Policy]]:
    if policy.individual is not None:
        yield "lasting", policy
        yield "window", afresh(policy)
    rows = of_rows(policy)
    yield "row", rows
    yield "Mondrian", replace(rows, solver=replace(rows.solver, method="mondrian"))


def released_hulls(
    source: Source, rows: NDArray[np.int64], labels: NDArray[np.int64], k: int
) -> ReleasedTable:
    """Rows of the feed in the hulls of their classes, each in the release of its own window."""
    bound = replace(source.rows, policy=replace(source.rows.policy, k=k))
    truth = source.feed.rows.take(pa.array(rows)).combine_chunks()
    columns = dict(zip((boxes := hulls(labels, truth, bound)).column_names, boxes.columns, strict=True))
    columns |= {column.published_name: truth.column(column.name) for column in bound.payload}
    form = ReleasedTable.of(pa.table({}), bound).form
    window = source.feed.window[rows]
    ends = {number: window_bounds(int(number), bound.policy) for number in np.unique(window).tolist()}
    for place, name in enumerate(("window_start", "window_end")):
        columns[name] = pa.array([ends[number][place] for number in window.tolist()], pa.int64())
    columns["release_id"] = pa.array(["hulls"] * rows.size)
    table = pa.table([_cast(columns[field.name], field.type) for field in form.arrow], schema=form.arrow)
    return ReleasedTable.of(table, bound)


def _cast(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(kind):
        parts = [
            _cast(pc.struct_field(array, [name]), kind.field(name).type) for name in ("min", "max", "nulls")
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    return array.cast(kind)


def _anonypy(
    source: Source, own: NDArray[np.int64], k: int, python: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that it keeps, and their classes; each window by itself."""
    rows = source.feed.rows.take(pa.array(own))
    columns = {}
    for column in source.rows.quasis:
        values = rows.column(column.name)
        columns[column.name] = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    columns[WINDOW] = pa.array(source.feed.window[own])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        pyarrow.csv.write_csv(pa.table(columns), path, pyarrow.csv.WriteOptions(delimiter=";"))
        partition, _ = peer_classes(python, "anonypy", path, k)
    kept = partition.labels >= 0
    return own[kept], partition.labels[kept].astype(np.int64)


def left_out(source: Source, own: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], frozenset[str]]:
    """Combinations of the fields that are left, int64 (n,), -1: of fewer than k people, and the fields that are not.

    Of the largest choices of fields that leave ``KEPT`` of the rows in combinations of k people or more the one that
    leaves most. O(rows 2^fields).
    """
    rows, who = source.feed.rows.take(pa.array(own)), source.feed.who[own]
    codes = {
        column.name: codes_of(rows.column(column.name).combine_chunks()) for column in source.rows.quasis
    }

    def combined(names: Sequence[str]) -> tuple[Mask, NDArray[np.int64]]:
        label = np.zeros(own.size, np.int64)
        for name in names:
            label = np.unique(label * (int(codes[name].max()) + 1) + codes[name], return_inverse=True)[1]
        people = np.bincount(np.unique(np.stack([label, who], axis=1), axis=0)[:, 0])
        return people[label] >= k, label

    for size in range(len(codes), -1, -1):
        share, names = max((float(combined(each)[0].mean()), each) for each in combinations(codes, size))
        if share >= KEPT:
            break
    enough, label = combined(names)
    gone = {column.published_name for column in source.rows.quasis if column.name not in names}
    return np.where(enough, label, -1), frozenset(gone)
