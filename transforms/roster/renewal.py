"""A renewal: the people whom one epoch knows, in the cohorts of the next.

    renewed(roster, values, forgotten, together, bound, epoch, seed=..., threads=...) -> Renewal

It sees frozen values, cohorts and who was together, and no rows: so exchanging all that two people of a new cohort have
from then on decides nothing of it, and the swap condition holds in the new epoch as in any. Over both epochs it does
not: who links them is left with those who share the old cohort of a person *and* the new one (``left``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import arrow_to_avro, epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.roster.corners import corners
from kanonflow.transforms.roster.founding import budget_of, put_together, rows_of
from kanonflow.transforms.roster.roster import Roster, RosterHead, Segment

TOGETHER = "together"
PERSON = "person"
_BLOCK_EVALUATIONS = 10
"""By so much fewer evaluations a person: a block has few people, and there are many."""


class RenewalError(Exception):
    """A renewal cannot be done; the message says why and what to do."""

    exit_code = 2


@dataclass(frozen=True)
class Renewal:
    """The roster of the new epoch, of one partition.

    segment: all of its people; ``values``: theirs, in that order; ``forgotten``: bool (p,).
    together: int64 (p,), people of one number shared every cohort so far.
    left: int64 (p,), how many people, himself among them, share all cohorts of a person: of before and the new one.
    staying: float64 (p,), of the others of his old cohort the share that is in his new one.
    before, after: GCP of the old cohorts' boxes and of the new ones', both of the values now, one row a person.
    dropped: people who had been forgotten and are in no cohort now.
    """

    segment: Segment
    values: pa.Table
    forgotten: NDArray[np.bool_]
    together: NDArray[np.int64]
    left: NDArray[np.int64]
    staying: NDArray[np.float64]
    before: float
    after: float
    dropped: int = 0


@dataclass(frozen=True)
class _People:
    """Those whose values are known. table: of these. old: their cohorts, dense; together: as of ``Renewal``, dense."""

    table: Table
    old: NDArray[np.int64]
    together: NDArray[np.int64]
    bound: BoundPolicy
    size: int
    seed: int
    threads: int


def _searched(people: _People, peers: int) -> NDArray[np.int64]:
    """By local search that begins with the old cohorts."""
    policy = people.bound.policy
    budget = budget_of(policy.solver.evaluations_per_row, people.table.records, people.size)
    warm = WarmClasses(people.old)
    labels, _ = put_together(people.table, policy, people.size, budget, people.seed, people.threads, warm)
    return _by_first(labels)


def _of_blocks(people: _People, peers: int) -> NDArray[np.int64]:
    """Cohorts of whole blocks: those are made first, each of people who were together all along, then merged."""
    block = _blocks(people, peers)
    members = np.bincount(block)
    budget = budget_of(people.bound.policy.solver.evaluations_per_row, people.table.records, people.size)
    merged = merge_cohorts(
        MergeTask(
            replace(people.table, individuals=block),
            rows=members,
            active=members,
            k=people.size,
            seed=people.seed,
            evaluations=int(budget.evaluations(people.table.records, people.size)),
        )
    )
    return _by_first(merged.labels[block].astype(np.int64))


def _as_they_are(people: _People, peers: int) -> NDArray[np.int64]:
    """Under their numbers."""
    return people.old


_FORMS: Mapping[RenewedCohorts, Callable[[_People, int], NDArray[np.int64]]] = {
    RenewedCohorts.KEPT: _as_they_are,
    RenewedCohorts.BLOCKS: _of_blocks,
    RenewedCohorts.SEARCHED: _searched,
}


def _blocks(people: _People, peers: int) -> NDArray[np.int64]:
    """The block of each person, dense: as many as fit of near people who were together, at least ``peers`` in each."""
    order = np.argsort(people.together, kind="stable")
    counts = np.bincount(people.together)
    block, made = np.empty(order.size, dtype=np.int64), 0
    few = budget_of(people.bound.policy.solver.evaluations_per_row, order.size, peers, _BLOCK_EVALUATIONS)
    for group in np.split(order, np.cumsum(counts)[:-1]):
        labels = np.zeros(group.size, dtype=np.int64)
        if group.size >= 2 * peers:
            part = rows_of(people.table, group)
            labels, _ = put_together(part, people.bound.policy, peers, few, people.seed, 1)
        block[group] = labels + made
        made += int(labels.max()) + 1
    return block


def renewed(
    roster: Roster,
    values: pa.Table,
    forgotten: NDArray[np.bool_],
    together: NDArray[np.int64],
    bound: BoundPolicy,
    epoch: int,
    *,
    cohorts: RenewedCohorts,
    peers: int,
    seed: int,
    threads: int,
) -> Renewal:
    """The people of a roster in their new cohorts.

    roster: of the epoch that ends; ``values``: p rows, what is known now of its people, in their order. forgotten: of
    whom nothing is (``kanonflow forget``): in ``kept`` cohorts they keep their place, and the box of theirs holds what
    it held; else they are in no cohort any more. together: int64 (p,), as of ``Renewal``, before this one.
    cohorts, peers: of ``renew`` in the policy. epoch: that begins. seed: of the search.

    Raises RenewalError: fewer people than a cohort needs. A function of the arguments but for ``threads``. Time: that
    of the solver.
    """
    stays = np.ones(roster.people.size, dtype=np.bool_) if cohorts is RenewedCohorts.KEPT else ~forgotten
    size = bound.policy.cohorts.cohort_size
    if cohorts is not RenewedCohorts.KEPT and int(stays.sum()) < size:
        raise RenewalError(
            f"--renew: a partition has {int(stays.sum())} people whose values are known, fewer than cohort_size ="
            f" {size}; say renew: {{cohorts: kept}}, or lower cohort_size"
        )
    own, old = values.filter(pa.array(stays)).combine_chunks(), _dense(roster.cohort[stays])
    encoded = encode(own, bound, None, {})
    people = _People(encoded.table, old, _dense(together[stays]), bound, size, seed, threads)
    number = _FORMS[cohorts](people, peers)
    made, owner = own, number
    if (gone := forgotten & stays).any():
        # What their boxes held, they hold: of these people nothing else is known.
        touched = np.unique(roster.cohort[gone])
        was, of = roster.boxes(touched)
        place = {int(one): int(number[roster.cohort[stays] == one][0]) for one in touched}
        alive = ~forgotten[stays]
        made = pa.concat_tables([own.filter(pa.array(alive)), was.select(own.schema.names)])
        owner = np.concatenate([number[alive], np.array([place[int(one)] for one in touched])[of]])
    segment = Segment(
        RosterHead(epoch), roster.people[stays], number, corners(made.combine_chunks(), owner, bound)
    )
    lasts = _pairs(people.together, number)
    shared, was_with = np.bincount(_pairs(old, number)), np.bincount(old)
    others = np.maximum(was_with[old] - 1, 1)
    return Renewal(
        segment,
        own,
        forgotten[stays],
        lasts,
        np.bincount(lasts)[lasts],
        (shared[_pairs(old, number)] - 1) / others,
        gcp(encoded.table, Partition(old.astype(np.int32))),
        gcp(encoded.table, Partition(number.astype(np.int32))),
        int((~stays).sum()),
    )


def _dense(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _pairs(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each pair, dense: who is in one of both, and with whom."""
    return _dense(one * (int(other.max(initial=0)) + 1) + other)


def _by_first(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbered by their first member, in the order of digests."""
    _, first, dense = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[dense]


def together_file(renewal: Renewal) -> bytes:
    """Who was together all along, as Avro: digest and number of each person. Inverse of ``together_of``."""
    table = pa.table(
        {
            PERSON: pa.array(renewal.segment.people.view(np.int64)),
            TOGETHER: pa.array(renewal.together),
        }
    )
    schema: dict[str, Any] = arrow_to_avro(table.schema, "Together")
    schema["kanonflow"] = {"epoch": epoch_text(renewal.segment.head.epoch)}
    return avro_file(table, schema, bytes.fromhex(renewal.segment.after.chain)[:16])


def together_of(data: bytes | None, roster: Roster) -> NDArray[np.int64]:
    """Of the people of a roster, int64 (p,). data: of the last renewal; None: there was none, so a cohort it is.

    Raises StateError: the file cannot be read.
    """
    if data is None:
        return roster.cohort
    try:
        rows: list[Any] = list(fastavro.reader(BytesIO(data)))
        people = np.array([row[PERSON] for row in rows], dtype=np.int64).view(np.uint64)
        number = np.array([row[TOGETHER] for row in rows], dtype=np.int64)
    except Exception:  # a decoder's errors may hold what it read
        raise damaged("file of who was together", "it cannot be read") from None
    order = np.argsort(people, kind="stable")
    at = np.minimum(np.searchsorted(people[order], roster.people), max(people.size - 1, 0))
    if not people.size:
        return roster.cohort
    there = people[order][at] == roster.people
    # Who came since has his cohort's number, above all of the others'.
    return np.where(there, number[order][at], roster.cohort + int(number.max()) + 1)
