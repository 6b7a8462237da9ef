"""The audit of a stream that goes on (``verify --waiting``): rows that are not out yet wait, and may.

A row may wait as long as a later release of its partition may still take it: until the release at the end of its own
window plus max_delay. In the graph of candidates the waiting rows are one more group of rows, as many as records are
neither released nor rejected, with every record that may wait as a candidate. Then the matching, and which pairs some
matching uses, are found as ever: a record that must be out needs its k rows, one that may wait is judged when it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph, RecordGroups
from kanonflow.pipelines.audit.judge.concealment import Concealment
from kanonflow.pipelines.audit.judge.matching import Placement
from kanonflow.pipelines.audit.read.read_input import metrics_records
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.schemas.policy import Policy


def may_wait(
    records: RecordGroups, heads: Sequence[ReleaseHead], partition: Sequence[int], policy: Policy
) -> np.ndarray:
    """Bool (g,): whether a later release may still take the records of each group.

    partition: the number of each release's partition, as in ``records``. A record whose time is unknown is waited for
    until it is rejected.
    """
    size = policy.window_ms
    if size is None:
        return ~np.isin(records.partition, np.array(partition, np.int64))
    known = records.window >= -(2**61)
    most = max(
        int(records.partition.max(initial=0)), *partition, 0
    )  # a shard may have a release and no record
    last = np.full(most + 1, np.iinfo(np.int64).min)
    for head, number in zip(heads, partition, strict=True):
        if number >= 0 and head.end is not None:
            last[number] = max(int(last[number]), head.end)
    windows = np.where(known, records.window, 0)
    deadline = (windows + 1) * size + policy.window_offset_ms + policy.max_delay_ms
    return ~known | (deadline > last[records.partition])


def with_waiting(graph: CandidateGraph, waits: np.ndarray, count: int) -> CandidateGraph:
    """The graph with one more group of ``count`` rows, whose candidates are the groups that may wait, bool (g,)."""
    columns = np.flatnonzero(waits).astype(np.int32)
    return replace(
        graph,
        indptr=np.append(graph.indptr, graph.indptr[-1] + len(columns)),
        columns=np.concatenate([graph.columns, columns]),
        row_size=np.append(graph.row_size, count),
        row_turn=np.append(graph.row_turn, np.iinfo(np.int64).max),
    )


def released_part(placement: Placement) -> Placement:
    """The placement without the last group of rows, the waiting ones."""
    return replace(placement, row_left=placement.row_left[:-1])


def released_concealment(concealment: Concealment, waits: np.ndarray) -> tuple[Concealment, np.ndarray]:
    """The concealment without the waiting rows; and bool (g,), whether a record of the group may be one of them."""
    waiting = waits & (concealment.record_component == concealment.row_component[-1])
    shown = replace(
        concealment,
        row_component=concealment.row_component[:-1],
        records_of_row=concealment.records_of_row[:-1],
        individuals_of_row=concealment.individuals_of_row[:-1],
        oldest_window=concealment.oldest_window[:-1],
    )
    return shown, waiting


def told_waiting(folder: Path) -> int:
    """Rows of closed windows that the job keeps, by the last metrics of each partition in ``folder``."""
    last: dict[Any, tuple[Any, int]] = {}
    for record in metrics_records(folder):
        if "rows_waiting" not in record:
            continue
        end = record["window_end"]
        when = (0 if end is None else end.timestamp(), record["release_no"])
        partition = record["partition"]
        if partition not in last or when > last[partition][0]:
            last[partition] = (when, record["rows_waiting"])
    return sum(waiting for _, waiting in last.values())
