"""Elements that name people who are known from the start, on their way to the stateful step of their partition.

They are put together first, one element a partition: however a runner cuts the collection, the same people are
expected, and the state is written once. The collection is bounded, so no watermark passes a window's end before all of
it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, TimestampCombiner
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Others
from kanonflow.transforms.roster.pool import empty_pool, named_twice
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.secret.seeds import SecretSource
from kanonflow.transforms.shards.known_shards import PlanSource
from kanonflow.transforms.windows.chain import carried_from_bytes
from kanonflow.transforms.windows.expected_people import (
    PeopleRows,
    expected_columns,
    expected_states,
    expecting_state,
    refuse_too_many,
)

EXPECTED = b"expected people"
"""In the place of rows' places: the bytes before it are no rows, but the people whom a partition expects."""
_SOURCE = "the collection of people"


class ExpectPeople(beam.PTransform):
    """Records of people, or Arrow tables of them -> (key, (0, carried state, EXPECTED)), one a partition or shard.

    Workers end with InputError, with all mistakes of a bundle by field: no value of its type, a person twice, more in
    one partition than may enter together.
    """

    def __init__(
        self, bound: BoundPolicy, secret: SecretSource, epoch: int, plan: PlanSource | None = None
    ) -> None:
        super().__init__()
        self._bound = bound
        self._read = PeopleOfBundles(bound, secret, epoch, plan)

    @no_annotations
    def expand(self, people: beam.PCollection) -> beam.PCollection:
        windows = beam.WindowInto(GlobalWindows(), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
        return (
            people
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Read" >> beam.ParDo(self._read).with_output_types(tuple[bytes, bytes])
            | "At once" >> windows
            | "Partitions" >> beam.GroupByKey()
            | "Together"
            >> beam.Map(together, self._bound).with_output_types(tuple[bytes, tuple[int, bytes, bytes]])
        )


class PeopleOfBundles(beam.DoFn):
    """Records of people -> (key, carried state) of each partition or shard, a bundle at a time."""

    def __init__(
        self, bound: BoundPolicy, secret: SecretSource, epoch: int, plan: PlanSource | None = None
    ) -> None:
        self._plan = plan
        policy = replace(bound.policy, others=Others.DROP)
        self._bound = replace(bound, policy=policy, columns=expected_columns(bound), text=False, csv=False)
        self._source = secret
        self._epoch = epoch
        self._tables: list[pa.Table] = []
        self._records: list[Any] = []

    def start_bundle(self) -> None:
        """Begin with nobody."""
        self._tables, self._records = [], []

    def process(self, element: Any) -> None:
        """Keep the element until the bundle ends."""
        if isinstance(element, pa.RecordBatch):
            element = pa.Table.from_batches([element])
        (self._tables if isinstance(element, pa.Table) else self._records).append(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """The people of the bundle, by partition."""
        if self._records:
            rows, broken, faults = rows_to_table(self._records, self._bound)
            if broken or faults:
                fields = sorted({fault.field for fault in faults} | {str(each["field"]) for each in broken})
                raise InputError(f"people: {_SOURCE}: no values of their types in {', '.join(fields)}")
            self._tables.append(rows)
        for table in self._tables:
            people = PeopleRows(self._bound, table.schema, _SOURCE, text=False)
            people.add(table)
            secret = self._source.resolve()
            plan = None if self._plan is None else self._plan.resolve()
            states = expected_states(people.rows, self._bound, secret, self._epoch, plan=plan)
            for key, state in states.items():
                yield WindowedValue((key, state.to_bytes()), MIN_TIMESTAMP, [GlobalWindow()])


def together(
    element: tuple[bytes, Iterable[bytes]], bound: BoundPolicy
) -> tuple[bytes, tuple[int, bytes, bytes]]:
    """The states of a partition as one. Raises InputError: a person is in two of them, or they are too many."""
    states = [carried_from_bytes(data) for data in element[1]]
    pools = [each.warm.roster.pool for each in states if each.warm.roster is not None]
    people = np.concatenate([each.people for each in pools])
    if twice := people.size - np.unique(people).size:
        raise named_twice(twice)
    refuse_too_many(people.size)
    place, values = states[0].place, pa.concat_tables([each.values for each in pools])
    pool = empty_pool(bound).expecting(people, values, bound, place)
    state = expecting_state(states[0].partition, states[0].epoch, place, pool, bound.policy)
    return element[0], (0, state.to_bytes(), EXPECTED)


def people_of_partition(element: tuple[bytes, tuple[int, bytes, bytes]]) -> tuple[bytes, bytes]:
    """The digests of an element of ``ExpectPeople``, uint64 little-endian, by partition."""
    key, (_, state, _) = element
    roster = carried_from_bytes(state).warm.roster
    people = np.empty(0, np.uint64) if roster is None else roster.pool.people
    return key, people.astype("<u8").tobytes()
