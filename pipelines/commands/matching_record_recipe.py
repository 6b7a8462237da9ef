"""``kanonflow verify --matching-records`` with the secret: is the published matching the one that the recipe draws?

Here the audit uses the pipeline's own code, for there is no other way to have its randomness: keys, keystream,
factorization and the draw are repeated. What that code makes is checked without it elsewhere (matching_records.py).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.records.matching_records import Recipe
from kanonflow.pipelines.audit.records.record_file import ReadMatchingRecord
from kanonflow.pipelines.audit.shards.shard_plan import ShardPlan, read_plan
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.slot_kinds import CLOSING, REGULAR
from kanonflow.solvers.matching.matching import random_factorization, uniform_below
from kanonflow.solvers.matching.random_words import shuffled_within
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import (
    Keystream,
    ReleaseSlot,
    Secret,
    array_digest,
    class_ids_key,
    matching_record_key,
    partition_key,
    publish_key,
    release_id,
    seed_commitment,
)


def recipe_check(secret: Secret, output: str | None = None) -> Recipe:
    """The check of matching records made under a secret, or one that it replaced, for ``audit``. output: the directory
    whose plan says which shards there are; None: there are none."""

    def check(
        matching_record: ReadMatchingRecord,
        bound: BoundPolicy,
        rows: pa.Table,
        alone: np.ndarray,
        class_ids: np.ndarray | None,
    ) -> Iterator[str]:
        own = secret.committed(matching_record.secret_commitment)
        if own is None:
            yield "it was made under another secret than the one given"
            return
        plan = None if output is None else read_plan(Path(output), bound)
        yield from _name_faults(matching_record, own, bound, rows, plan)
        yield from _draw_faults(matching_record, own, bound, rows, alone)
        if class_ids is not None:
            key = class_ids_key(
                own,
                matching_record.release_id,
                array_digest(matching_record.groups.astype(np.int32)),
                content_digest(rows),
            )
            if not np.array_equal(Keystream(key).words(len(class_ids)).astype(np.int64), class_ids):
                yield "its class_ids are not those that the secret draws"

    return check


def _name_faults(
    matching_record: ReadMatchingRecord,
    secret: Secret,
    bound: BoundPolicy,
    rows: pa.Table,
    plan: ShardPlan | None,
) -> Iterator[str]:
    if matching_record.digest_key != matching_record_key(secret):
        yield "its digests are not keyed by the secret"
    partitions = {values for values, _, _ in split(rows, bound)}
    cuts = {each.values: each.keys for each in (() if plan is None else plan.partitions)}
    keys = [cuts.get(values, (partition_key(secret, values).hex(),)) for values in partitions]
    if len(keys) != 1 or matching_record.partition not in keys[0]:
        yield "its partition is not that of its records"
        return
    end = matching_record.window[1]
    kind = CLOSING if matching_record.closing else REGULAR
    # Ids of builds that knew no places are those of the first run.
    place = max(matching_record.place, 0)
    slot = ReleaseSlot(bytes.fromhex(matching_record.partition), end, matching_record.release_no, kind, place)
    if matching_record.release_id != release_id(secret, bound.policy.name, slot):
        yield "its release id is not that of its slot"


def _draw_faults(
    matching_record: ReadMatchingRecord, secret: Secret, bound: BoundPolicy, rows: pa.Table, alone: np.ndarray
) -> Iterator[str]:
    """alone: bool (n,). Where a record has equals, some may be elsewhere, which moves it among those it ties with."""
    single = rows.filter(pa.array(alone))
    order = canonical_order(single, bound, secret)
    if not np.array_equal(order, np.arange(order.size)):
        yield "its records are not in canonical order"
    members = matching_record.members.astype(np.int32)
    labels = matching_record.groups.astype(np.int32)
    described = labels if matching_record.structure == "classes" else members
    key = publish_key(secret, matching_record.release_id, array_digest(described), content_digest(rows))
    if not hmac.compare_digest(
        seed_commitment(key, matching_record.release_id), matching_record.seed_commitment
    ):
        yield "its seed commitment does not open to the key of its members and records"
    keystream = Keystream(key)
    if matching_record.structure == "classes":
        released = matching_record.kept
        drawn = released[shuffled_within(labels[released], keystream.words(released.size))]
        right = np.array_equal(drawn, matching_record.matched)
    else:
        factors = random_factorization(members, keystream)
        chosen = uniform_below(factors.shape[0], keystream)
        right = np.array_equal(factors, matching_record.factors) and chosen == matching_record.chosen
    if not right:
        yield "the published matching is not the one that the secret draws"
