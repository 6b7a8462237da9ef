"""What a run writes down of its shards, as workers find it.

    OUT/restricted/shards.state      the directory: the shard of everybody who is known before the first row, of a file,
                                     of the cohorts that the run goes on with, and of who waited there
    OUT/restricted/plan.json         the plan

Both are written once, with the cohorts, and never change: a run that resumes reads what the first try read. A worker on
the same machine maps the directory, so that processes share it; others read it whole. A job's graph holds their paths:
a plan has values of people, and whoever runs a cluster keeps graphs.
"""

from __future__ import annotations

import functools
import mmap
import os
from dataclasses import dataclass

from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.roster.first_partitions import FirstPartitions, first_partitions_from_bytes
from kanonflow.transforms.shards.shard_plan import ShardPlan, plan_from_json

SHARDS = "shards.state"


@dataclass(frozen=True)
class KnownShards:
    """Where the directory is, as workers see it. Can be pickled.     path: None: nobody is known."""

    path: str | None = None

    def open(self) -> FirstPartitions:
        """Whom it knows: once a process. Raises StateError: it is damaged."""
        return FirstPartitions() if self.path is None else _opened(self.path)


NOBODY = KnownShards()


@dataclass(frozen=True)
class StoredPlan:
    """Where the plan of a run is, as workers see it. Can be pickled."""

    path: str

    def resolve(self) -> ShardPlan:
        """The plan: read once a process. Raises PlanError: it is damaged."""
        return _read(self.path)


PlanSource = ShardPlan | StoredPlan


def plan_at(plan: PlanSource | str | os.PathLike[str] | None) -> PlanSource | None:
    """A plan as it was handed in; of a path, what lies there now. Raises PlanError, OSError: it cannot be read."""
    if plan is None or isinstance(plan, PlanSource):
        return plan
    path = os.fspath(plan)
    return plan_from_json(read_whole(path), path)


@functools.lru_cache(maxsize=2)
def _read(path: str) -> ShardPlan:
    return plan_from_json(read_whole(path), path)


@functools.lru_cache(maxsize=2)
def _opened(path: str) -> FirstPartitions:
    if not is_local(path):
        return first_partitions_from_bytes(read_whole(path))
    with open(path, "rb") as file:
        return first_partitions_from_bytes(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
