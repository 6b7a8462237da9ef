"""A release of some people, made by the product for an assessment, of which it is known whose each row is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.boxes import Mask, Numbers
from kanonflow.pipelines.dry_run.dry_run import cohorts_of, dry_run
from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.pipelines.dry_run.stretch import Budget, stretch_of
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.policy_fields import Field, Role

_NAMES = ("kanonflow_row", "kanonflow_row_number", "row_of_kanonflow")


@dataclass(frozen=True)
class Twin:
    """released: its rows. row: int64 (n,), the feed's row behind each. cohort: int64 (people,), -1: in none; None: none
    last."""

    released: ReleasedTable
    row: Numbers
    cohort: Numbers | None


def twin_of(feed: Feed, rows: Mask, bound: BoundPolicy) -> Twin:
    """What the policy releases of some rows of a feed. rows: bool (n,). Takes as long as a run over them.

    The number of each row is published beside it, which changes nothing: payload has no say in who is with whom.
    """
    name = _free([column.name for column in bound.columns])
    numbers = pa.array(np.arange(feed.rows.num_rows).astype(str))
    tag = BoundColumn(Field(name, Role.INSENSITIVE), pa.string(), from_text=False)
    policy = replace(bound.policy, fields=(*bound.policy.fields, tag.field))
    tagged = replace(bound, policy=policy, columns=(*bound.columns, tag))
    some = Feed(feed.rows.append_column(name, numbers), feed.who, feed.partition, feed.window).of(rows)
    n = some.rows.num_rows
    stretch = stretch_of(some, policy, Budget(n, n, max(n, 1), (n, n)))
    run = dry_run(some, tagged, stretch, threads=policy.solver.threads or os.cpu_count() or 1)
    row = np.asarray(run.released.column(tag.published_name).cast(pa.int64()).combine_chunks())
    cohort = None
    if any(each.roster is not None for each in run.partitions):
        cohort = np.full(feed.people, -1)
        cohort[some.person] = cohorts_of(run, some).cohort
    return Twin(ReleasedTable.of(run.released, tagged), row, cohort)


def _free(names: Sequence[str]) -> str:
    return next(name for name in _NAMES if name not in names)
