"""Releases and rows of a run that went by a plan of shards, numbered by shard, and all of it held against the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.evidence import Evidence, partitions_of
from kanonflow.pipelines.audit.lasting.entries import InputRows
from kanonflow.pipelines.audit.lasting.lasting import read_to_the_end
from kanonflow.pipelines.audit.lasting.shards import (
    Input,
    Numbers,
    judge_expected_places,
    judge_keys,
    judge_places,
    judge_sides,
    number_releases,
    numbers_of,
    place_rows,
    texts_of,
)
from kanonflow.pipelines.audit.read.chain_record import chain_record
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.shards.shard_plan import Placing, ShardPlan, read_plan


class Sharded(NamedTuple):
    """rows, named, partition_of: as of ``LastingEvidence``, by shard. numbers: of shards, None: there is no plan.
    loose: people who entered in a shard and are held against no plan; None: nobody is."""

    rows: InputRows
    named: InputRows | None
    partition_of: Sequence[int]
    numbers: Numbers | None = None
    loose: int | None = None


class ShardedRows(NamedTuple):
    """partition, partition_of: as of ``partitions_of``, by shard. shards: how many; None: there is no plan."""

    partition: np.ndarray
    partition_of: Sequence[int]
    shards: int | None = None


def rows_by_shard(
    evidence: Evidence, metrics: Mapping[str, Mapping[str, Any]], folder: Path, findings: Findings
) -> ShardedRows:
    """Records that go each by itself, and releases, as they are numbered by partition, and by shard where a plan cuts
    these: a record's by its values alone.

    Raises InputError: of a plan that is none.
    """
    partition, partition_of = partitions_of(evidence)
    plan = read_plan(folder, evidence.bound)
    if plan is None:
        return ShardedRows(partition, partition_of)
    numbers, releases = _numbered(
        evidence, plan, partition, evidence.records, partition_of, metrics, findings
    )
    placing = Placing(plan, [book.book for book in evidence.box_books])
    values = evidence.columns(evidence.records, [book.book.column.name for book in evidence.box_books])
    first, like, _ = group_rows(np.column_stack([partition, values]))
    number = partition[first].astype(np.int64)
    planned = numbers.cut[number]
    for place, cut in enumerate(plan.partitions):
        own = np.flatnonzero(planned == place)
        # Where all values are equal nothing parts records: the digests of people are all one.
        shard = placing.shards(cut, values[first[own]], np.zeros(len(own), np.uint64))
        number[own] = numbers.first[place] + shard
    return ShardedRows(number[like].astype(partition.dtype), releases, plan.live)


def with_shards(
    evidence: Evidence,
    rows: InputRows,
    named: InputRows | None,
    digests: np.ndarray | None,
    partition_of: Sequence[int],
    metrics: Mapping[str, Mapping[str, Any]],
    folder: Path,
    findings: Findings,
) -> Sharded:
    """Rows, named people and releases as they are numbered by partition. digests: by code of the individual.

    Raises InputError: of a plan that is none.
    """
    plan = read_plan(folder, evidence.bound)
    if plan is None:
        return Sharded(rows, named, partition_of)
    everybody = evidence.every
    own = rows
    if named is not None:
        assert evidence.carried.named is not None
        everybody = np.concatenate([everybody, evidence.carried.named])
        own = InputRows(
            *(
                np.concatenate([one, other])
                for one, other in zip(_columns(rows), _columns(named), strict=True)
            )
        )
    individual = everybody[:, evidence.place_of(evidence.bound.policy.cohorts.individual.name)]
    if digests is not None:
        own = replace(own, digest=digests[individual])
    numbers, releases = _numbered(evidence, plan, own.partition, everybody, partition_of, metrics, findings)
    heads, segments = evidence.released.heads, evidence.segments or ()
    place_of = {head.release_id: head.place for head in heads}
    judge_keys(numbers, segments, metrics, place_of, findings)
    record = chain_record(folder)
    people = Input(
        own,
        individual,
        np.arange(len(individual)) >= len(rows.partition),
        np.append(evidence.seen, np.ones(len(individual) - len(rows.partition), bool)),
        read_to_the_end(folder) and not evidence.runs and (record is None or not record.place),
        digests is not None,
    )
    placing = Placing(plan, [book.book for book in evidence.box_books])
    judge_sides(numbers, placing, segments, place_of, findings)
    size = evidence.bound.policy.cohorts.cohort_size
    placed = place_rows(numbers, placing, people, segments, evidence.carried, size)
    judge_expected_places(numbers, placing, evidence.carried, segments, findings, runs=evidence.runs)
    loose = None
    if digests is not None:
        fields = [book.book.column.name for book in evidence.box_books]
        loose = judge_places(numbers, placed, own, segments, fields, place_of, findings)
    of_rows, of_named = np.split(placed.number, [len(rows.partition)])
    return Sharded(
        replace(rows, partition=of_rows),
        None if named is None else replace(named, partition=of_named),
        releases,
        numbers,
        loose,
    )


def _numbered(
    evidence: Evidence,
    plan: ShardPlan,
    partition: np.ndarray,
    records: np.ndarray,
    partition_of: Sequence[int],
    metrics: Mapping[str, Mapping[str, Any]],
    findings: Findings,
) -> tuple[Numbers, Sequence[int]]:
    """How shards are numbered, and the number of each release. partition: int (n,), of each of the records."""
    names = list(evidence.bound.policy.partition_by)
    books = [evidence.books[evidence.place_of(name)] for name in names]
    first = np.zeros(int(partition.max(initial=-1)) + 1, np.int64)
    first[partition] = np.arange(len(partition))
    numbers = numbers_of(plan, texts_of(books, evidence.columns(records, names)[first].tolist()))
    heads = evidence.released.heads
    values = texts_of(books, [head.partition for head in heads])
    return numbers, number_releases(numbers, heads, partition_of, values, metrics, findings)


def _columns(rows: InputRows) -> tuple[np.ndarray, ...]:
    return rows.digest, rows.partition, rows.end, rows.values, rows.readable
