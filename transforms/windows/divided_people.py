"""Beside the stateful step: who has rows in more than one partition (``first_partitions``).

    rows of partitions ->  sightings, everybody once a bundle          keyed by digest mod BUCKETS
                       ->  the state of a bucket, and its growth       Divided

Protocol. The step is keyed by bucket, in the global window. Its one cell, ``first_partitions`` (ReadModifyWrite,
versioned bytes), holds whom it saw and where first; it has no timer. Somebody counts when first seen: what becomes of
the rows, whether they wait, are late or are rejected by a release, changes nothing. A retry sees the state as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.windowed_value import WindowedValue

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.roster.first_partitions import (
    Sightings,
    first_partitions_from_bytes,
    refusal,
)
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import SecretSource, people_key
from kanonflow.transforms.shards.known_shards import PlanSource
from kanonflow.transforms.shards.shards import Shards


class Divided(NamedTuple):
    """People of a bucket who came to be divided. people: how many in all. new: of them now."""

    bucket: int
    people: int
    new: int


class FindDividedPeople(beam.PTransform):
    """(partition key, (window number, Arrow IPC bytes, places)) -> Divided, of buckets where somebody came to be.

    known: PBegin -> (key of a partition or shard, digests of people, uint64 little-endian), of earlier runs; None: of
    none. plan: of shards; None: no partition is cut.
    Counter: ``people_in_several_partitions``.
    """

    def __init__(
        self,
        bound: BoundPolicy,
        secret: SecretSource,
        known: beam.PTransform | None = None,
        plan: PlanSource | None = None,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._bound = bound
        self._secret = secret
        self._known = known

    @no_annotations
    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        seen = parts | "Seen" >> _typed(beam.ParDo(_SeenInRows(self._bound, self._secret)))
        if self._known is not None:
            before = _SeenBefore(self._bound, self._secret, self._plan)
            known = parts.pipeline | "Known" >> self._known | "Before" >> _typed(beam.ParDo(before))
            seen = (seen, known) | "All" >> beam.Flatten()
        return seen | "First" >> beam.ParDo(_FirstPartitions()).with_output_types(Divided)


class RefuseDividedPeople(beam.PTransform):
    """Rows of partitions -> the same, once it is known that nobody is divided. Of bounded input only.

    divided: of ``FindDividedPeople`` over the same rows. The step ends with DividedPeopleError if somebody is.
    """

    def __init__(self, divided: beam.PCollection, policy: Policy) -> None:
        super().__init__()
        self._divided = divided
        self._policy = policy

    @no_annotations
    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        counted = (
            self._divided
            | "New" >> beam.Map(_new).with_output_types(int)
            | "Sum" >> beam.CombineGlobally(sum).without_defaults()
        )
        refuse = beam.ParDo(_Refuse(self._policy), beam.pvalue.AsIter(counted))
        return parts | "Refuse" >> refuse.with_output_types(tuple[bytes, tuple[int, bytes, bytes]])


def _typed(step: beam.ParDo) -> beam.ParDo:
    return step.with_output_types(tuple[bytes, bytes])


def _new(divided: Divided) -> int:
    return divided.new


class _Seen(beam.DoFn):
    """(partition key, digests) -> (bucket, sightings), everybody once a bundle."""

    _sightings: Sightings

    def start_bundle(self) -> None:
        self._sightings = Sightings()

    def process(self, element: tuple[bytes, bytes]) -> None:
        key, people = element
        self._sightings.add(key, np.frombuffer(people, dtype="<u8"))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for bucket, sightings in self._sightings.by_bucket():
            # At the end of time: nothing here waits for a watermark, and nothing is late.
            yield WindowedValue((bucket.to_bytes(2, "big"), sightings), window.max_timestamp(), [window])


class _SeenBefore(_Seen):
    """The same of keys of shards, each of which is part of its partition."""

    _partition_of: Mapping[bytes, bytes]

    def __init__(self, bound: BoundPolicy, secret: SecretSource, plan: PlanSource | None) -> None:
        self._bound = bound
        self._source = secret
        self._plan = plan

    def setup(self) -> None:
        self._partition_of = {}
        if self._plan is not None:
            self._partition_of = Shards(
                self._plan.resolve(), self._bound, self._source.resolve()
            ).partition_of

    def process(self, element: tuple[bytes, bytes]) -> None:
        key, people = element
        super().process((self._partition_of.get(key, key), people))


class _SeenInRows(_Seen):
    """The same of rows."""

    _key: bytes

    def __init__(self, bound: BoundPolicy, secret: SecretSource) -> None:
        self._field = bound.policy.cohorts.individual.name
        self._source = secret

    def setup(self) -> None:
        self._key = people_key(self._source.resolve())

    def process(self, element: tuple[bytes, Any]) -> None:
        key, (_, ipc, _) = element
        self._sightings.add(key, people_in(from_ipc(ipc).column(self._field), self._key)[1])


class _FirstPartitions(beam.DoFn):
    STATE = ReadModifyWriteStateSpec("first_partitions", BytesCoder())

    def __init__(self) -> None:
        self._counter = Metrics.counter(NAMESPACE, "people_in_several_partitions")

    def process(
        self, element: tuple[bytes, bytes], cell: Any = beam.DoFn.StateParam(STATE)
    ) -> Iterator[Divided]:
        bucket, sightings = element
        before = first_partitions_from_bytes(cell.read())
        after, new = before.after(sightings)
        if new or after.people.size != before.people.size:
            cell.write(after.to_bytes())
        if new:
            self._counter.inc(new)
            yield Divided(int.from_bytes(bucket, "big"), after.divided, new)


class _Refuse(beam.DoFn):
    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def process(self, element: Any, divided: Iterable[int]) -> Iterator[Any]:
        if people := sum(divided):
            raise refusal(people, self._policy)
        yield element
