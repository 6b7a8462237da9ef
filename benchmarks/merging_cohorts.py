"""draft"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import Feed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.transforms.release.encode import encode

FOUNDING = 20_000.0


class Day(NamedTuple):
    """One window: the cohorts that are here, ascending, with their rows and active people, int64 (c,) each."""

    cohorts: NDArray[np.int64]
    rows: NDArray[np.int64]
    active: NDArray[np.int64]


class Roster(NamedTuple):
    """table: a row a person, its individuals the people's cohorts. days: windows in the order of time."""

    table: Table
    days: list[Day]


def roster_of(feed: Feed, cohort_size: int) -> Roster:
    """Everybody of a feed, known from the start by their first row, in cohorts of at least ``cohort_size``."""
    name = feed.bound.policy.individual.name
    everything = pa.concat_tables([window.rows for window in feed.windows])
    who = np.asarray(everything.column(name).to_numpy(zero_copy_only=False))
    people, first = np.unique(who, return_index=True)
    points = encode(everything.take(pa.array(first)), feed.bound, None, {}).table
    alone = Table(
        points.numeric,
        points.categorical,
        points.cardinality,
        points.weights,
        np.arange(people.size),
        points.heights,
    )
    found = solve(Task(alone, cohort_size, shape="classes", budget=Budget(FOUNDING), seed=1))
    cohort = found.partition.labels.astype(np.int64)
    days = []
    for window in feed.windows:
        here = np.asarray(window.rows.column(name).to_numpy(zero_copy_only=False))
        person = np.searchsorted(people, here)
        rows = np.bincount(cohort[person], minlength=cohort.max() + 1)
        active = np.bincount(cohort[np.unique(person)], minlength=cohort.max() + 1)
        cohorts = np.flatnonzero(rows)
        days.append(Day(cohorts, rows[cohorts], active[cohorts]))
    return Roster(alone._replace(individuals=cohort) if False else _with(alone, cohort), days)


def _with(table: Table, cohort: NDArray[np.int64]) -> Table:
    from dataclasses import replace

    return replace(table, individuals=cohort)
