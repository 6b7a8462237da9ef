"""The public data sets of the benchmarks, read as the product reads them: found, bound to a policy, cast, split.

KANONFLOW_DATA names the folder that holds ``sparkov/transactions_2020q1.csv.gz`` (223,253 simulated card
transactions of 91 days, in the order of time), ``complete_journey/transactions_with_demographics.csv`` (42,199 retail
lines, in the order of time) and ``adult/adult.csv`` (30,162 complete cases of the UCI census extract). None of them is
part of the project.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

import pyarrow as pa

from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_choices import Cohort
from kanonflow.schemas.policy_file import load_policy
from kanonflow.schemas.value_units import to_units
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split, window_bounds

VARIABLE = "KANONFLOW_DATA"
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


@dataclass(frozen=True)
class DataSet:
    """A file below the data folder. time: the column that its rows are ordered by, None without one."""

    name: str
    file: str
    time: str | None


SPARKOV = DataSet("sparkov", "sparkov/transactions_2020q1.csv.gz", "trans_date_trans_time")
COMPLETE_JOURNEY = DataSet(
    "complete_journey", "complete_journey/transactions_with_demographics.csv", "transaction_timestamp"
)
ADULT = DataSet("adult", "adult/adult.csv", None)


class MissingDataError(Exception):
    """A data set is not there; the message says what is skipped and why."""


class Window(NamedTuple):
    """number: of the window. end_ms: its end, None without windows. rows: canonical rows, as they arrived."""

    number: int
    end_ms: int | None
    rows: pa.Table


class Feed(NamedTuple):
    """A classified feed: the policy as bound to it, and its windows in the order of time."""

    bound: BoundPolicy
    windows: list[Window]

    @property
    def rows(self) -> int:
        """Rows of all windows."""
        return sum(window.rows.num_rows for window in self.windows)


def data_path(data: DataSet, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file of a data set is. Raises MissingDataError."""
    folder = environment.get(VARIABLE)
    if not folder:
        raise MissingDataError(f"{data.name}: skipped, {VARIABLE} is not set")
    path = Path(folder) / data.file
    if not path.is_file():
        raise MissingDataError(f"{data.name}: skipped, {data.file} is not below the folder in {VARIABLE}")
    return path


def example_policy(name: str) -> Policy:
    """One of the example policies that ship with the package."""
    with resources.as_file(resources.files("kanonflow.policies") / f"{name}.yaml") as path:
        return load_policy(path)


def with_window(policy: Policy, window_ms: int) -> Policy:
    """The policy with windows of another length, and rows that may wait for two of them."""
    return replace(policy, window_ms=window_ms, max_delay_ms=2 * window_ms, state_ttl_ms=0)


def with_method(policy: Policy, method: str) -> Policy:
    """The policy with another method. One class of everybody makes no cohorts: ``pass-through`` has classes afresh."""
    solver = replace(policy.solver, method=method)
    return replace(afresh(policy) if method == "pass-through" else policy, solver=solver)


def afresh(policy: Policy) -> Policy:
    """The policy with ``cohort: window`` in the place of cohorts that last."""
    if not policy.lasting:
        return policy
    return replace(
        policy, cohort=Cohort.WINDOW, cohort_size=None, intake=None, intake_share=None, max_outdated=None
    )


def write_slice(
    data: DataSet, target: Path, *, rows: int | None = None, days: int | None = None, path: Path | None = None
) -> Path:
    """A CSV with the first rows, or the rows of the first days (days count from the first row's midnight).

    path: the file to cut, None for the data set's own. The slice has the ending of its source without ``.gz``.
    """
    path = data_path(data) if path is None else path
    target = target / path.name.removesuffix(".gz")
    with _text(path) as source, target.open("w", encoding="utf-8", newline="") as sink:
        header = source.readline()
        sink.write(header)
        lines: Iterable[str] = source if rows is None else islice(source, rows)
        if days is not None and data.time is not None:
            lines = _first_days(lines, next(csv.reader([header])).index(data.time), days)
        sink.writelines(lines)
    return target


def _text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")  # type: ignore[return-value]
    return path.open(encoding="utf-8", newline="")


def _first_days(lines: Iterable[str], column: int, days: int) -> Iterator[str]:
    """Lines until the day changes for the days-th time; rows are in the order of time."""
    seen: set[str] = set()
    for line in lines:
        seen.add(next(csv.reader([line]))[column][:10])
        if len(seen) > days:
            return
        yield line


def read_feed(
    path: Path, policy: Policy, *, days: int | None = None, rows: int | None = None, lasting: bool = False
) -> Feed:
    """The feed of a file under a policy, classified and split as in the pipeline; rejected rows are left out.

    days: only windows that begin before so many days from the first row's day have passed. rows: only the first rows.
    lasting: leave cohorts that last as they are; else individuals are put together afresh in each window, which is what
    most benchmarks measure.
    """
    policy = policy if lasting else afresh(policy)
    files = find_inputs([str(path)])
    schema = input_schema(files)
    bound = bind(policy, schema.columns, text=schema.text, source=path.name)
    batches = [
        from_ipc(batch.ipc) for file in files for batch in read_batches(file, list(bound.input_columns))
    ]
    table = pa.concat_tables(batches)
    classified = classify(table if rows is None else table.slice(0, rows), bound).rows
    parts = split(classified, bound)
    windows = [
        Window(number, window_bounds(number, policy)[1], pa.Table.from_batches([part]))
        for _, number, part in parts
    ]
    if days is not None and policy.window_ms is not None and policy.time is not None and windows:
        first = min(to_units(windows[0].rows.column(policy.time.name))[0].tolist())
        until = first // DAY_MS * DAY_MS + days * DAY_MS
        windows = [window for window in windows if (window_bounds(window.number, policy)[0] or 0) < until]
    return Feed(bound, windows)


def adult_table(path: Path, rows: int | None = None) -> Table:
    """Adult as a solver's table: 8 quasi-identifiers, age numeric over the range of these rows, 7 categorical.

    rows: only the first ones; domains are those of the rows that are taken.
    """
    feed = read_feed(path, example_policy("adult"), rows=rows)
    return encode(feed.windows[0].rows, feed.bound, None, {}).table
