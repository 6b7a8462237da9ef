"""Numbers that are the same in all releases of an epoch: of people (``publish_member``), of groups (``publish_group``).

    of a person    BLAKE2b-64(K_member, epoch (8 bytes) || the person's digest (8 bytes) || policy and partition)
    of a group     BLAKE2b-64(K_group, epoch || of each of its cohorts, in order, the least digest || the same)

Keyed functions that decide nothing. To whoever has not the secret they are as good as drawn, others in each epoch,
policy and partition: two partitions are two rosters, and nobody is handed that somebody is in both. Nothing is kept of
them: a retry, a shard, a later night and a rotated secret come to the same ones. A cohort goes by its least digest and
not by its number, for a shard that is split numbers its cohorts anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.secret.seeds import Secret, group_key, member_key


def member_numbers(
    secret: Secret, epoch: int, policy: str, partition: Sequence[str | None], digests: NDArray[np.uint64]
) -> pa.Array:
    """The numbers of people of one partition, text (p,) of 16 hex digits. O(p).

    policy: its name. partition: values of ``partition_by``, as text. digests: uint64 (p,), as the roster knows people.
    Two people have one number with a chance of p^2 / 2^65.
    """
    people = digests.astype("<u8").tobytes()
    own = (people[start : start + 8] for start in range(0, len(people), 8))
    return _numbers(member_key(secret), epoch, policy, partition, own)


def group_numbers(
    secret: Secret,
    epoch: int,
    policy: str,
    partition: Sequence[str | None],
    least: NDArray[np.uint64],
    group: NDArray[np.int64],
) -> pa.Array:
    """The numbers of groups of one partition, text (g,) of 16 hex digits. O(c log c).

    least: uint64 (c,), of each cohort the least digest of its people. group: int64 (c,), of each, ``0 .. g-1``, all.
    """
    order = np.lexsort((least, group))
    named, begins = least[order].astype("<u8"), np.flatnonzero(np.diff(group[order])) + 1
    own = (each.tobytes() for each in np.split(named, begins))
    return _numbers(group_key(secret), epoch, policy, partition, own)


def _numbers(
    key: bytes, epoch: int, policy: str, partition: Sequence[str | None], of: Iterable[bytes]
) -> pa.Array:
    keyed = hashlib.blake2b(epoch.to_bytes(8, "big"), digest_size=8, key=key).copy
    place = json.dumps([policy, *partition]).encode()
    numbers = []
    for each in of:
        state = keyed()
        state.update(each + place)
        numbers.append(state.hexdigest())
    return pa.array(numbers, pa.string())
