"""The number of a person in the releases of an epoch (``publish_member``): a keyed function that decides nothing.

    number = BLAKE2b-64(key = K_member, epoch (8 bytes) || the person's digest (8 bytes) || policy and partition)

To whoever has not the secret the numbers of all people are as good as drawn, another in each epoch, policy and
partition: two partitions are two rosters, and nobody is handed that somebody is in both. Nothing is kept of them: a
retry, a shard, a later night and a rotated secret come to the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.secret.seeds import Secret, member_key


def member_numbers(
    secret: Secret, epoch: int, policy: str, partition: Sequence[str | None], digests: NDArray[np.uint64]
) -> pa.Array:
    """The numbers of people of one partition, text (p,) of 16 hex digits. O(p).

    policy: its name. partition: values of ``partition_by``, as text. digests: uint64 (p,), as the roster knows people.
    Two people have one number with a chance of p^2 / 2^65.
    """
    keyed = hashlib.blake2b(epoch.to_bytes(8, "big"), digest_size=8, key=member_key(secret)).copy
    place, people = json.dumps([policy, *partition]).encode(), digests.astype("<u8").tobytes()
    numbers = []
    for start in range(0, len(people), 8):
        state = keyed()
        state.update(people[start : start + 8] + place)
        numbers.append(state.hexdigest())
    return pa.array(numbers, pa.string())
