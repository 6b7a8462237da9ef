"""People who are known from the start: named by a file, before any row of theirs.

    expected_states(rows, bound, secret, epoch) -> {partition key: CarriedState}

Each is what an earlier run would have left that had seen these people and released nothing: they wait in the pool of
their partition, and enter with its first release, together with whoever is new in it. That is an intake by count alone:
nothing that rows say decides who is in it, so the swap condition holds as for any intake.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.pool import FROM_START, empty_pool
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.split import partition_codes
from kanonflow.transforms.secret.seeds import Secret, partition_key, people_key
from kanonflow.transforms.windows.chain import CarriedState, windows_of


def expected_columns(bound: BoundPolicy) -> tuple[BoundColumn, ...]:
    """What is read of each person: the individual, the quasi-identifiers, and what the feed is partitioned by."""
    policy = bound.policy
    wanted = {policy.cohorts.individual.name, *policy.partition_by} | {field.name for field in policy.quasis}
    return tuple(column for column in bound.columns if column.name in wanted)


def expected_states(
    rows: pa.Table, bound: BoundPolicy, secret: Secret, epoch: int
) -> dict[bytes, CarriedState]:
    """The pool of each partition. rows: one a person, canonical values of ``expected_columns``.

    Raises InputError: a person stands there twice. O(p log p).
    """
    policy = bound.policy
    person, digests = people_in(rows.column(policy.cohorts.individual.name), people_key(secret))
    twice = rows.num_rows - np.unique(digests).size
    if twice:
        raise InputError(
            f"people: {twice} of {rows.num_rows} rows name a person who stands there already; write one row a person"
        )
    partition, values = partition_codes(rows, policy.partition_by)
    states = {}
    for number, names in enumerate(values if rows.num_rows else []):
        own = np.flatnonzero(partition == number)
        ends = np.full(own.size, FROM_START, dtype=np.int64)
        pool = empty_pool(bound).having_seen(digests[person[own]], ends, rows.take(pa.array(own)), bound)
        key, warm = partition_key(secret, names), WarmState(roster=RosterState(RosterHead(epoch), pool))
        states[key] = CarriedState(key, epoch, 0, windows_of(policy), None, warm)
    return states
