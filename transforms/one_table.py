"""One call for a table in memory: the same windows, clock and releases as the pipeline, without a runner."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import policy_of
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.roster.first_partitions import FirstPartitions, Sightings, refusal
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.data_frames import as_table
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.split import END_OF_TIME_MS, split
from kanonflow.transforms.secret.seeds import Secret, check_source, partition_key, people_key
from kanonflow.transforms.shards.known_shards import plan_at
from kanonflow.transforms.shards.route import RouteInMemory, rows_by_shard
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.solver_check import check_solver
from kanonflow.transforms.windows.expected_people import ExpectedCohorts, PeopleRows
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep


class AnonymizedTable(NamedTuple):
    """released: rows of all releases, in the release's Arrow schema. metrics, rejected: records of their schemas."""

    released: pa.Table
    metrics: list[dict[str, Any]]
    rejected: list[dict[str, Any]]


def anonymize_table(
    table: Any,
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str],
    secret: Secret,
    *,
    text: bool = False,
    threads: int | None = None,
    epoch: int = 0,
    people: Any = None,
    plan: ShardPlan | str | os.PathLike[str] | None = None,
) -> AnonymizedTable:
    """Anonymize a whole table: every window of every partition, in the order of time, as at the end of a feed.

    table: an Arrow table, a pandas or polars DataFrame, or another frame that gives itself as an Arrow stream
    (``rows/data_frames.py`` says what becomes of nulls, categories and times). The index of pandas is ignored.
    policy: or the path of its file, or a mapping as the file holds it. text: all columns are text, as from CSV.
    epoch: with ``cohort: lasting``, of the promise, a number of 63 bits; every
    call begins with nobody known, so that two calls over the same people are two epochs, whatever it says.
    people: with ``cohort: lasting``, a table of people who are known from the start, one row each, with the individual,
    all quasi-identifiers and ``partition_by``: they enter with the first release of their partition.
    plan: of shards, or the path of its file, made from these people, with ``protect: row`` from rows (``kanonflow
    plan``): releases are those of a run that goes by it.

    Raises PolicyError when the policy does not fit the table, or its solver does not fit what is protected; InputError
    when the table is none, or has columns without a name of their own; SecretError when the secret is none;
    DividedPeopleError, with ``cohort: lasting``, when people have rows in more than one partition and the policy does
    not accept that.
    """
    check_source(secret)
    source = plan_at(plan)
    cuts = None if source is None else source.resolve()
    policy = policy_of(policy)
    check_solver(policy)
    rows = as_table(table)
    bound = bind(policy, rows.schema, text=text, source="the table")
    classified = classify(rows.select(list(bound.input_columns)), bound)
    threads = threads or policy.solver.threads or os.cpu_count() or 1
    expected = _expected(people, bound, secret, epoch, cuts, text=text)
    step = PartitionStep(
        bound,
        secret,
        threads,
        epoch=epoch,
        continued=expected,
        compressed=False,
        earliest=cuts is not None,
    )
    partitions: dict[bytes, PartitionInMemory] = {}
    parts = [
        (partition_key(secret, values), number, pa.Table.from_batches([part]))
        for values, number, part in split(classified.rows, bound)
    ]
    if cuts is not None:
        parts = _routed(parts, cuts, bound, secret, expected)
    for key, number, rows in parts:
        partitions.setdefault(key, PartitionInMemory(step, key)).arrive(number, rows)
    if policy.can_divide and not policy.accepts_divided:
        _refuse_divided(classified.rows, bound, secret, expected, cuts)
    released: list[pa.Table] = []
    metrics: list[dict[str, Any]] = []
    rejected = list(classified.rejected)
    # In the order of keyed names: the order of the input must not show in the released table.
    for key in sorted(partitions):
        for result in partitions.pop(key).finish():
            metrics.append(result.metrics)
            rejected += result.rejected
            if result.release is not None:
                released.append(from_ipc(result.release.ipc))
    empty = release_arrow_schema(bound).empty_table()
    return AnonymizedTable(pa.concat_tables([empty, *released]), metrics, rejected)


def _routed(
    parts: Sequence[tuple[bytes, int, pa.Table]],
    plan: ShardPlan,
    bound: BoundPolicy,
    secret: Secret,
    expected: ExpectedCohorts | None,
) -> list[tuple[bytes, int, pa.Table]]:
    """Rows of partitions as rows of shards. Raises PlanError: the plan is of others."""
    plan.refuse_other_policy(bound, "(plan)")
    plan.refuse_first()
    shards = Shards(plan, bound, secret)
    if plan.individual is None:
        batches = ((key, (number, to_ipc(rows), b"")) for key, number, rows in parts)
        routed = (each for batch in batches for each in rows_by_shard(batch, shards))
        return [(key, number, from_ipc(ipc)) for key, (number, ipc, _) in routed]
    if expected is None:
        raise PlanError("plan: it is made from people who enter together; hand them in: people=...")
    size, placed = bound.policy.cohorts.cohort_size, FirstPartitions()
    own = shards.partition_of
    for key, people in expected.people:
        # Fewer are known by their rows (``Pool``), and go by these.
        if key in own and people.size >= size:
            placed = placed.having(key, in_partition(own[key], people))
    route = RouteInMemory(shards, people_key(secret), placed)
    arrived = [each for part in parts for each in route.arrive(*part)]
    return arrived + route.due(END_OF_TIME_MS)


def _expected(
    people: Any, bound: BoundPolicy, secret: Secret, epoch: int, plan: ShardPlan | None, *, text: bool
) -> ExpectedCohorts | None:
    """Whom a table names; None: there is none. Raises PolicyError, InputError."""
    if people is None:
        if bound.policy.people is not None:
            raise PolicyError(
                ["people: a table of them is handed in: anonymize_table(..., people=...)"], bound.policy.name
            )
        return None
    table = as_table(people)
    rows = PeopleRows(bound, table.schema, "the table of people", text=text)
    rows.add(table)
    return ExpectedCohorts(rows.rows, bound, secret, epoch, plan)


def _refuse_divided(
    rows: pa.Table,
    bound: BoundPolicy,
    secret: Secret,
    expected: ExpectedCohorts | None,
    plan: ShardPlan | None,
) -> None:
    """Raise DividedPeopleError if somebody has rows in more than one partition, or is expected in another."""
    sightings, key = Sightings(), people_key(secret)
    partition_of = Shards(plan, bound, secret).partition_of
    for partition, people in () if expected is None else expected.people:
        sightings.add(partition_of.get(partition, partition), people)
    for values, _, part in split(rows, bound):
        whole = pa.Table.from_batches([part]).column(bound.policy.cohorts.individual.name)
        sightings.add(partition_key(secret, values), people_in(whole, key)[1])
    divided = sum(FirstPartitions().after(seen).divided for _, seen in sightings.by_bucket())
    if divided:
        raise refusal(divided, bound.policy)
