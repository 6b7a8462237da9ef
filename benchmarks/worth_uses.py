"""Dashboards, trends and top lists out of counts by bands and periods, whoever tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.publishers import Source
from benchmarks.worth import BANDS
from kanonflow.pipelines.analysis.query_error import own_column
from kanonflow.pipelines.analysis.released_fields import WINDOW, Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import Interval, RangeColumn, window_column
from kanonflow.pipelines.estimates.query_parts import interval_parts
from kanonflow.schemas.policy import Policy

TOP = 5
LISTED = 10
"""Categories that a field has, or more, of which a top list is made."""
IN_TRENDS = 0.05
"""Share of the rows of a band that has a trend."""
Float64s = NDArray[np.float64]
Counts = dict[str, Float64s]
"""Of each field float64 (bands, periods)."""


class Uses(NamedTuple):
    """misplaced: % of the rows. trends: error / signal; None: there is one period. missed: % of the top lists; None: no
    field has categories enough."""

    misplaced: float
    trends: float | None
    missed: float | None


class Asked(NamedTuple):
    """What is asked of a feed. queries: of each field. periods: how many, of so many windows each from the first on.
    lists: fields of the top lists. names: published name -> column of the feed."""

    queries: Mapping[str, list[Any]]
    first: int
    windows: int
    periods: int
    lists: frozenset[str]
    names: Mapping[str, str]

    def of_windows(self, window: NDArray[np.int64]) -> Float64s:
        """The period of rows by the number of their window, one of each row, float64 (n, periods)."""
        return np.eye(self.periods)[np.minimum((window - self.first) // self.windows, self.periods - 1)]

    def of_release(self, policy: Policy, read: ReleasedTable) -> Float64s:
        """Its rows' shares of the periods, float64 (n, periods): a row that waited may be of any window since. What is
        beyond the last period is in it."""
        size = policy.window_ms
        if size is None:
            return np.ones((len(read), 1))
        ends = (read.arrow().column(name).combine_chunks() for name in WINDOW)
        column = window_column(*ends, read.form.k)
        shares = np.zeros((len(read), self.periods))
        for period in range(self.periods):
            begin = policy.window_offset_ms + (self.first + period * self.windows) * size
            cover = column.cover(Interval(begin, begin + self.windows * size - 1, whole=True))
            shares[cover.rows, period] = cover.share
        shares[:, -1] += 1.0 - shares.sum(axis=1)
        return shares


def asked_of(source: Source, read: ReleasedTable, windows: int) -> Asked:
    """Bands and categories of all of a feed. read: a release of it, for its form. windows: of a period."""
    names = {column.published_name: column.name for column in source.rows.columns}
    queries: dict[str, list[Any]] = {}
    for field in read.fields:
        if field.kind not in (Kind.RANGE, Kind.SET):
            continue
        own = own_column(source.feed.rows, field, names)
        queries[field.name] = (
            [part.query for part in interval_parts(field.name, field.value, BANDS[field.name], own)]
            if isinstance(own, RangeColumn)
            else [frozenset([value]) for value in own.each()]
        )
    lists = {name for name, each in queries.items() if len(each) >= LISTED and isinstance(each[0], frozenset)}
    window = source.feed.window
    periods = max(int(window.max() - window.min() + 1) // windows, 1)
    return Asked(queries, int(window.min()), windows, periods, frozenset(lists), names)


def true_counts(
    asked: Asked, source: Source, read: ReleasedTable, rows: NDArray[np.int64], weight: Float64s
) -> Counts:
    """Of rows of the feed, each with a weight."""
    truth = source.feed.rows.take(pa.array(rows))
    period = asked.of_windows(source.feed.window[rows]) * weight[:, None]
    columns = {name: own_column(truth, read.form.field(name), asked.names) for name in asked.queries}
    return {name: _counted(column, asked.queries[name], period) for name, column in columns.items()}


def counts_of(asked: Asked, source: Source, read: ReleasedTable) -> Counts:
    """As ``estimate`` counts a release's rows."""
    period = asked.of_release(source.policy, read)
    return {name: _counted(read.column(name), each, period) for name, each in asked.queries.items()}


def _counted(column: Any, queries: list[Any], period: Float64s) -> Float64s:
    covers = [column.cover(query) for query in queries]
    return np.array([cover.share @ period[cover.rows] for cover in covers])


def with_noise(
    asked: Asked, bounded: Counts, most: float, rows: int, epsilon: float, random: np.random.Generator
) -> tuple[Counts, Counts]:
    """Laplace histograms: of dashboards, and of trends; ``epsilon`` is shared out evenly among all of them.

    bounded: true counts to which nobody adds more than ``most``. rows: what histograms are scaled to, given away.
    """
    tables = len(bounded) * (2 if asked.periods > 1 else 1)
    noise = most * tables / epsilon

    def noisy(counts: Float64s) -> Float64s:
        told = np.maximum(counts + random.laplace(0.0, noise, counts.shape), 0.0)
        return told * (rows / max(float(told.sum()), 1e-9))

    dashboards = {name: noisy(counts.sum(axis=1, keepdims=True)) for name, counts in bounded.items()}
    return dashboards, {name: noisy(counts) for name, counts in bounded.items()}


def uses_of(
    asked: Asked, dashboards: Counts, trends: Counts, truth: Counts, random: np.random.Generator
) -> Uses:
    """The means over the fields. dashboards, trends: as told; their periods are summed for dashboards."""
    misplaced, errors, missed = [], [], []
    for name, true in truth.items():
        told, whole = dashboards[name].sum(axis=1), true.sum(axis=1)
        misplaced.append(50.0 * float(np.abs(told - whole).sum()) / float(whole.sum()))
        if asked.periods > 1:
            errors += _trend_error(trends[name], true)
        if name in asked.lists:
            # Equal counts are in an order by chance, lest the alphabet's be right.
            order = np.lexsort((random.permutation(told.size), -told))[:TOP]
            missed.append(100.0 * float(np.mean(whole[order] < np.sort(whole)[-TOP])))
    means = [float(np.mean(each)) if each else None for each in (errors, missed)]
    return Uses(float(np.mean(misplaced)), *means)


def _trend_error(told: Float64s, true: Float64s) -> Iterator[float]:
    """RMS of the error of courses to RMS of the true ones, of the bands of a field that hold enough rows; each period
    weighs as many rows as it truly has.

    The course of a band is its share of the rows of each period, over its share of all, less 1: what grows against the
    other bands. 1 is what a flat line has.
    """
    enough = true.sum(axis=1) >= IN_TRENDS * true.sum()
    if enough.sum() < 2:
        return
    weight = true.sum(axis=0)
    signal = _course(true)[enough]
    error = _course(told)[enough] - signal
    size = float(((signal**2) @ weight).sum())
    if size > 0:
        yield float(np.sqrt(((error**2) @ weight).sum() / size))


def _course(counts: Float64s) -> Float64s:
    share = counts / np.maximum(counts.sum(axis=0), 1e-9)
    whole = counts.sum(axis=1, keepdims=True) / max(float(counts.sum()), 1e-9)
    return np.where(whole > 1e-9, share / np.maximum(whole, 1e-9) - 1.0, 0.0)
