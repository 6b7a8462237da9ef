"""Elements that name people who are known from the start, on their way to the stateful step of their partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Others
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.secret.seeds import SecretSource
from kanonflow.transforms.windows.chain import carried_from_bytes
from kanonflow.transforms.windows.expected_people import PeopleRows, expected_columns, expected_states

EXPECTED = b"expected people"
"""In the place of rows' places: the bytes before it are no rows, but the people whom a partition expects."""
_SOURCE = "the collection of people"


class ExpectPeople(beam.DoFn):
    """Records of people, or Arrow tables of them -> (partition key, (0, carried state, EXPECTED)), a bundle at a time.

    Raises InputError with all mistakes of a bundle, by field.
    """

    def __init__(self, bound: BoundPolicy, secret: SecretSource, epoch: int) -> None:
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
            states = expected_states(people.rows, self._bound, self._source.resolve(), self._epoch)
            for key, state in states.items():
                yield WindowedValue((key, (0, state.to_bytes(), EXPECTED)), MIN_TIMESTAMP, [GlobalWindow()])


def people_of_partition(element: tuple[bytes, tuple[int, bytes, bytes]]) -> tuple[bytes, bytes]:
    """The digests of an element of ``ExpectPeople``, uint64 little-endian, by partition."""
    key, (_, state, _) = element
    roster = carried_from_bytes(state).warm.roster
    people = np.empty(0, np.uint64) if roster is None else roster.pool.people
    return key, people.astype("<u8").tobytes()
