"""Is an event out twice? Of runs that hand on no event ids, each of which knows those of its own input alone."""

from __future__ import annotations

import numpy as np

from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.schemas.bound_policy import BoundPolicy


def judge_repeated_events(bound: BoundPolicy, records: np.ndarray, findings: Findings) -> None:
    """A failure where event ids stand in several records of a partition that were not rejected, none of which waits.

    records: int32 (n, f), codes of those records, all of which are out. O(n log n).
    """
    policy = bound.policy
    if policy.event_id is None:
        return
    names = [*policy.partition_by, policy.event_id.name]
    sizes = group_rows(records[:, [bound.place(name) for name in names]])[2]
    if repeated := int((sizes > 1).sum()):
        findings.add(
            f"{repeated} events are out more than once, {int(sizes[sizes > 1].sum())} rows in all: their ids stand in"
            " several rows of the runs' input that were not rejected; such a chain hands on no event ids"
        )
