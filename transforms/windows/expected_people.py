"""People who are known from the start: named by a file or a collection of people, before any row of theirs.

    PeopleRows(bound, schema, ...).add(table) ... .rows     checked and cast to the feed's types, one row a person
    expected_states(rows, bound, secret, epoch)             {key of a partition or shard: CarriedState}

A state is what an earlier run would have left that had seen these people and released nothing: they wait in the pool of
their partition, and enter with its first release, in cohorts of their own: of those whom one run was the first to name
(``Pool.kind``). Nothing that rows say decides who is in these, so the swap condition holds; in one cohort with somebody
who was seen, or may have been by a run before, it would not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy, bind_columns
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.roster.founding import MOST
from kanonflow.transforms.roster.pool import Pool, empty_pool, named_twice
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.rows.classify import cells_of, one_array
from kanonflow.transforms.rows.split import partition_codes
from kanonflow.transforms.secret.seeds import Secret, partition_key, people_key
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.windows.chain import CarriedState, windows_of


@dataclass(frozen=True)
class PeopleFile:
    """path: where it is. record: its name, size and content, as an input's. rows: one a person, canonical values of
    ``expected_columns``."""

    path: str
    record: Mapping[str, Any]
    rows: pa.Table

    @property
    def note(self) -> str:
        """For the terminal."""
        return f"People known from the start, of {self.path}: {self.rows.num_rows:,}."


def expected_columns(bound: BoundPolicy) -> tuple[BoundColumn, ...]:
    """What is read of each person: the individual, the quasi-identifiers, and what the feed is partitioned by.

    Raises PolicyError: people do not enter for good.
    """
    policy = bound.policy
    try:
        individual = policy.cohorts.individual
    except LookupError:
        raise PolicyError(
            ["people: are known from the start with cohort: lasting only"], policy.name
        ) from None
    wanted = {individual.name, *policy.partition_by} | {field.name for field in policy.quasis}
    return tuple(column for column in bound.columns if column.name in wanted)


class PeopleRows:
    """Checks tables of people and puts them together.

    bound: the policy, bound to its feed, whose types theirs must become. schema: of the tables; other columns than
    ``expected_columns`` are not read. source: what errors call them. text: all columns are text; form: of CSV cells.

    Raises InputError with all mistakes of the columns.
    """

    def __init__(
        self, bound: BoundPolicy, schema: pa.Schema, source: str, *, text: bool, form: CsvForm | None = None
    ) -> None:
        self._source = source
        self._columns = _bound(bound, schema, source, form, text=text)
        self._tables: list[pa.Table] = []
        self._count = 0
        self._faults: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(column.name for column in self._columns)

    def add(self, rows: pa.Table, broken: int = 0) -> None:
        """The next rows. broken: how many among them are none."""
        if broken:
            self._faults["the file", "unparseable"] += broken
        values: dict[str, Any] = {}
        for column in self._columns:
            raw = one_array(rows.column(column.name))
            _, values[column.name], problems = cells_of(column, raw, self._source)
            for mask, reason in problems:
                self._faults[column.name, reason] += int(mask.sum())
                self._first.setdefault((column.name, reason), self._count + int(np.argmax(mask)) + 1)
        self._tables.append(pa.table(values))
        self._count += rows.num_rows

    @property
    def rows(self) -> pa.Table:
        """All rows, canonical.

        Raises InputError with all mistakes by field, never a value: everybody named is promised to be one of k, so
        nobody is left out.
        """
        if self._faults:
            mistakes = []
            for (field, reason), count in sorted(self._faults.items()):
                first = self._first.get((field, reason))
                at = "" if first is None else f", the first in row {first}"
                mistakes.append(f"{field}: {reason} in {count:,} rows{at}")
            raise InputError(
                f"people: {self._source}: {'; '.join(mistakes)}. Nobody named may be left out: mend them (rows are"
                " counted from 1, without a header)"
            )
        if not self._count:
            raise InputError(
                f"people: {self._source}: names nobody; write one row a person, or leave people out"
            )
        return pa.concat_tables(self._tables).combine_chunks()


def _bound(
    bound: BoundPolicy, schema: pa.Schema, source: str, form: CsvForm | None, *, text: bool
) -> tuple[BoundColumn, ...]:
    wanted = expected_columns(bound)
    missing = [column.name for column in wanted if column.name not in schema.names]
    mistakes = [f"has no column {', '.join(missing)}"] if missing else []
    columns: tuple[BoundColumn, ...] = ()
    try:
        columns = bind_columns([column.field for column in wanted], schema, form, text=text)
    except PolicyError as error:
        mistakes += error.mistakes
    for own in columns:
        there = bound.column(own.name).arrow_type
        if own.arrow_type != there:
            mistakes.append(
                f"{own.name}: is {own.arrow_type} here and {there} in the feed; write it as there"
            )
    if mistakes:
        raise InputError(f"people: {source}: {'; '.join(mistakes)}")
    return columns


def expected_states(
    rows: pa.Table,
    bound: BoundPolicy,
    secret: Secret,
    epoch: int,
    place: int = 0,
    plan: ShardPlan | None = None,
    placed: FirstPartitions | None = None,
) -> dict[bytes, CarriedState]:
    """The pool of each partition, or of each of its shards. rows: one a person, canonical values of
    ``expected_columns``. place: of the run in its chain. plan: None: no partition is cut. placed: who has a shard
    already, in a run before, and stays there whatever a file says of him now.

    Raises InputError: a person stands there twice, or more are in a partition than may enter together. O(p log p).
    """
    policy = bound.policy
    person, digests = people_in(rows.column(policy.cohorts.individual.name), people_key(secret))
    twice = rows.num_rows - np.unique(digests).size
    if twice:
        raise named_twice(twice)
    partition, values = partition_codes(rows, policy.partition_by)
    shards, states = Shards(plan, bound, secret), {}
    for number, names in enumerate(values):
        here = np.flatnonzero(partition == number)
        keys, at = shards.keys_of(names, rows.take(pa.array(here)), digests[person[here]])
        if placed is not None:
            people = in_partition(partition_key(secret, names), digests[person[here]])
            at = placed.among(keys, people, at)
        for shard in np.unique(at).tolist():
            own = here[at == shard]
            refuse_too_many(own.size)
            pool = empty_pool(bound).expecting(digests[person[own]], rows.take(pa.array(own)), bound, place)
            states[keys[shard]] = expecting_state(keys[shard], epoch, place, pool, policy)
    return states


def expecting_state(key: bytes, epoch: int, place: int, pool: Pool, policy: Policy) -> CarriedState:
    """What a run would have left of a partition where these people wait and nobody has entered."""
    warm = WarmState(roster=RosterState(RosterHead(epoch), pool))
    return CarriedState(key, epoch, place, windows_of(policy), None, warm)


def refuse_too_many(count: int) -> None:
    """Raise InputError if more people are expected in a partition than may enter together."""
    if count > MOST:
        raise InputError(
            f"people: {count:,} of one partition, of which at most {MOST:,} may enter together; name fewer (the others"
            " are known by their rows), or part the feed (partition_by)"
        )


class ExpectedCohorts:
    """``step.EarlierCohorts`` of an epoch that begins with people who are expected, in memory."""

    def __init__(
        self,
        rows: pa.Table,
        bound: BoundPolicy,
        secret: Secret,
        epoch: int,
        plan: ShardPlan | None = None,
    ) -> None:
        """As of ``expected_states``."""
        self._epoch = epoch
        self._states = expected_states(rows, bound, secret, epoch, plan=plan)

    @property
    def people(self) -> Iterator[tuple[bytes, NDArray[np.uint64]]]:
        """The digests of whom each partition, or shard, expects."""
        for key, state in self._states.items():
            if state.warm.roster is not None:
                yield key, state.warm.roster.pool.people

    def keys(self) -> list[bytes]:
        """Of which something was carried over, or in which people are expected."""
        return sorted(self._states)

    def of(self, key: bytes) -> Continued | None:
        """What a partition begins with; None: nobody is expected in it."""
        state = self._states.get(key)
        return None if state is None else Continued(self._epoch, (), no_groups(), None, state.to_bytes())
