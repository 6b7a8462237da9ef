"""Small feeds under ``cohort: lasting``, through the step of one partition, whose state can be put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.rows.elements import Release
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep
from tests.small_feeds import SECRET, Row, bound_feed, canonical, feed_policy, row

KEY = bytes(range(16))
EPOCH = 0x0123456789ABCDEF


def lasting_policy(**head: Any) -> Policy:
    """k = 3, windows of an hour, no row waits."""
    return feed_policy(**{"cohort": "lasting"} | head)


def growing_feed(hours: int, first: int = 9, each: int = 4, per_person: int = 1) -> list[Row]:
    """``first`` people in the first hour, and in every later one all of them and ``each`` more."""
    feed: list[Row] = []
    for hour in range(hours):
        for who in range(first + hour * each):
            feed += [row(len(feed) + again, who, hour + 0.5) for again in range(per_person)]
    return feed


def partition_of(
    rows: Sequence[Row], policy: Policy, *, epoch: int = EPOCH, secret: Secret = SECRET, **step: Any
) -> PartitionInMemory:
    """A partition that holds the rows of a feed. step: further members of its step."""
    bound = bound_feed(policy)
    partition = PartitionInMemory(PartitionStep(bound, secret, 1, epoch=epoch, **step), KEY)
    for _, number, found in split(canonical(rows, bound), bound):
        partition.arrive(number, pa.Table.from_batches([found]))
    return partition


def results_of(rows: Sequence[Row], policy: Policy, **of: Any) -> list[WindowResult]:
    """Everything that a feed comes to. of: as of ``partition_of``."""
    return list(partition_of(rows, policy, **of).finish())


def releases_of(rows: Sequence[Row], policy: Policy, **of: Any) -> list[Release]:
    """The releases of a feed. of: as of ``partition_of``."""
    return [made.release for made in results_of(rows, policy, **of) if made.release is not None]
