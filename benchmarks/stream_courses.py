"""Streams of rows, and what becomes of them: by a rival, and by a chain of our releases, with the same measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import ADULT, DAY_MS, SPARKOV, data_path, example_policy, read_feed
from benchmarks.one_window import release_window
from benchmarks.rivals.stream_rows import REUSED, SUPPRESSED, StreamRelease
from benchmarks.stopwatch import timed
from benchmarks.window_chain import PARTITION, SECRET
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.policy_fields import Field, QuasiType, Role
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.split import window_numbers
from kanonflow.transforms.secret.seeds import ReleaseSlot

HOUR_MS = DAY_MS // 24
SECOND_MS = 1000


@dataclass(frozen=True)
class Stream:
    """rows: canonical, in the order of time. times: int64 (n,), ms. bound: with windows of any length yet to be set."""

    name: str
    bound: BoundPolicy
    rows: pa.Table
    times: NDArray[np.int64]
    table: Table

    def shown(self, delay: float) -> str:
        """A delay in the stream's unit: rows, which are seconds, or hours."""
        return f"{delay / SECOND_MS:,.0f} rows" if self.name == "adult" else f"{delay / HOUR_MS:.3g} h"


@dataclass
class Course:
    """What became of a stream. losses, delays: sums over rows; longest: ms, at most; cpu, solving: seconds."""

    rows: int
    loss: float = 0.0
    waited: float = 0.0
    longest: float = 0.0
    lost: int = 0
    reused: int = 0
    cpu: float = 0.0
    solving: float = 0.0


def with_domains(policy: Policy, rows: pa.Table) -> tuple[Field, ...]:
    """The fields of a policy that rows have; quasi-identifiers without a domain get that of the rows."""

    def declared(field: Field) -> Field:
        if field.quasi is None or field.quasi.domain is not None:
            return field
        values = rows.column(field.name).unique().drop_null().to_pylist()
        if field.quasi.type is QuasiType.CATEGORICAL:
            return replace(field, quasi=replace(field.quasi, domain=tuple(sorted(map(str, values)))))
        ends = Decimal(str(min(values))), Decimal(str(max(values)))
        return replace(field, quasi=replace(field.quasi, domain=ends))

    return tuple(declared(field) for field in policy.fields if field.name in rows.column_names)


def read_adult(k: int, rows: int | None) -> Stream:
    """Adult with a time, the position in the file in seconds, and a person for each row."""
    feed = read_feed(data_path(ADULT), example_policy("adult"), rows=rows)
    table = feed.windows[0].rows
    n = table.num_rows
    times = np.arange(n, dtype=np.int64) * SECOND_MS
    table = table.append_column("arrived", pa.array(times, pa.timestamp("ms", "UTC")))
    table = table.append_column("person", pa.array(np.arange(n)).cast(pa.string()))
    fields = with_domains(feed.bound.policy, table)
    fields = (*fields, Field("arrived", Role.TIME), Field("person", Role.INDIVIDUAL))
    policy = replace(
        feed.bound.policy, fields=fields, window_ms=DAY_MS, state_ttl_ms=0, protect=Protection.INDIVIDUAL,
        k=k,
    )  # fmt: skip
    return _stream("adult", policy, table, times)


def read_sparkov(k: int, days: int) -> Stream:
    """The first days of sparkov."""
    feed = read_feed(data_path(SPARKOV), example_policy("sparkov"), days=days)
    table = pa.concat_tables([window.rows for window in feed.windows])
    times = np.asarray(table.column("trans_date_trans_time").cast(pa.int64()))
    order = np.argsort(times, kind="stable")
    table = table.take(pa.array(order))
    policy = replace(feed.bound.policy, fields=with_domains(feed.bound.policy, table), k=k)
    return _stream("sparkov", policy, table, times[order])


def _stream(name: str, policy: Policy, rows: pa.Table, times: NDArray[np.int64]) -> Stream:
    bound = bind(policy, rows.schema, text=False, source=name)
    rows = rows.select(bound.canonical_schema.names).cast(bound.canonical_schema).combine_chunks()
    assert policy.individual is not None
    people = rows.column(policy.individual.name).combine_chunks().dictionary_encode()
    table = encode(rows, bound, np.asarray(people.indices).astype(np.int64), {}).table
    return Stream(name, bound, rows, times, table)


def rival_course(stream: Stream, run: Callable[[], StreamRelease]) -> Course:
    """What a rival made of a stream."""
    release, spent = timed(run)
    delays = stream.times[release.at] - stream.times
    return Course(
        stream.table.records,
        float(release.losses.sum()),
        float(delays.sum()),
        float(delays.max()),
        int((release.how == SUPPRESSED).sum()),
        int((release.how == REUSED).sum()),
        spent.cpu,
        spent.cpu,
    )


def our_course(stream: Stream, policy: Policy) -> Course:
    """What a chain of releases made of a stream. policy: with its window and max_delay."""
    bound = replace(stream.bound, policy=policy)
    numbers = window_numbers(pa.array(stream.times, pa.timestamp("ms", "UTC")), policy)
    told, warm, state_times = Course(stream.table.records), WarmState(), np.empty(0)
    assert policy.window_ms is not None
    size, last = policy.window_ms, int(numbers.max()) + policy.max_delay_ms // policy.window_ms
    for number in range(int(numbers.min()), last + 1):
        here = np.flatnonzero(numbers == number)
        rows = stream.rows.slice(here[0], here.size) if here.size else None
        end = (number + 1) * size
        if rows is None and warm.waiting is None:
            continue
        result, spent = timed(
            release_window, rows, bound, warm, SECRET, ReleaseSlot(PARTITION, end, 0), threads=1,
            clock=time.thread_time,
        )  # fmt: skip
        warm, metrics = result.warm, result.metrics
        before = float(state_times.sum() + stream.times[here].sum())
        state_times = _times_of(warm, policy)
        gone = here.size + metrics["rows_waited"] - state_times.size
        told.waited += gone * end - (before - float(state_times.sum()))
        told.cpu += spent.cpu
        rejected = sum(metrics["rows_rejected"].values())
        told.lost += rejected
        told.loss += metrics["rows_released"] * (metrics["gcp_hull"] or 0.0) + rejected
        told.solving += metrics["solve_ms"] / 1000.0
        if result.release is not None and result.release.window_start is not None:
            told.longest = max(told.longest, float(end - result.release.window_start))
    assert warm.waiting is None
    return told


def _times_of(warm: WarmState, policy: Policy) -> NDArray[np.float64]:
    if warm.waiting is None or policy.time is None:
        return np.empty(0)
    return np.asarray(warm.waiting.column(policy.time.name).cast(pa.int64())).astype(np.float64)
