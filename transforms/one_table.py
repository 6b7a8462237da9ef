"""One call for a table in memory: the same windows, clock and releases as the pipeline, without a runner."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.release_window import earliest_deadline, expire
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, partition_key
from kanonflow.transforms.solver_check import check_solver
from kanonflow.transforms.windows.partition_clock import PartitionClock, window_number
from kanonflow.transforms.windows.release_parts import release_parts


class AnonymizedTable(NamedTuple):
    """released: rows of all releases, in the release's Arrow schema. metrics, rejected: records of their schemas."""

    released: pa.Table
    metrics: list[dict[str, Any]]
    rejected: list[dict[str, Any]]


def anonymize_table(
    table: pa.Table, policy: Policy, secret: Secret, *, text: bool = False, threads: int | None = None
) -> AnonymizedTable:
    """Anonymize a whole table: every window of every partition, in the order of time, as at the end of a feed.

    text: all columns are text, as from CSV. Raises PolicyError when the policy does not fit the table, or its solver
    does not fit what is protected.
    """
    check_solver(policy)
    bound = bind(policy, table.schema, text=text, source="the table")
    cores = threads or policy.solver.threads or os.cpu_count() or 1
    classified = classify(table.select(list(bound.input_columns)), bound)
    partitions: dict[bytes, dict[int, list[pa.RecordBatch]]] = {}
    for values, number, rows in split(classified.rows, bound):
        partitions.setdefault(partition_key(secret, values), {}).setdefault(number, []).append(rows)
    released: list[pa.Table] = []
    metrics: list[dict[str, Any]] = []
    rejected = list(classified.rejected)
    # In the order of keyed names: the order of the input must not show in the released table.
    for key in sorted(partitions):
        _run_partition(bound, secret, key, partitions[key], cores, released, metrics, rejected)
    empty = release_arrow_schema(bound).empty_table()
    return AnonymizedTable(pa.concat_tables([empty, *released]), metrics, rejected)


def _run_partition(
    bound: BoundPolicy,
    secret: Secret,
    key: bytes,
    windows: dict[int, list[pa.RecordBatch]],
    threads: int,
    released: list[pa.Table],
    metrics: list[dict[str, Any]],
    rejected: list[dict[str, Any]],
) -> None:
    policy = bound.policy
    clock = PartitionClock(pending=tuple(sorted(windows)))
    warm = WarmState()
    while (action := clock.next_action(policy)) is not None and action.kind != "forget":
        end = None if policy.window_ms is None else action.at
        if action.kind == "release":
            slot = ReleaseSlot(key, end, 0)
            rows = pa.Table.from_batches(windows[window_number(action.at, policy)])
            results = list(release_parts(rows, bound, warm, secret, slot, threads=threads))
            warm = results[-1].warm
            clock = clock.released(earliest_deadline(warm, bound), True, policy, len(results))
        else:
            slot = ReleaseSlot(key, end, clock.release_no, "expiry")
            results = [expire(bound, warm, None, secret, slot)]
            warm = results[-1].warm
            clock = clock.expired(earliest_deadline(warm, bound))
        for result in results:
            metrics.append(result.metrics)
            rejected += result.rejected
            if result.release is not None:
                released.append(from_ipc(result.release.ipc))
