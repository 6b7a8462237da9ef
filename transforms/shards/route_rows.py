"""The route in a pipeline: rows of partitions -> rows of shards, before the stateful step.

    rows of partitions ->  people whom the directory knows: (shard key, rows), at once
                       ->  strangers, keyed by digest mod BUCKETS
                           ->  (shard key, rows), when a window of theirs has ended
                       ->  with ``protect: row`` all, at once: a step without state

Protocol of the stateful step. It is keyed by bucket, in the global window. ``routed`` (ReadModifyWrite, versioned
bytes): the shard of each stranger so far. ``waiting`` (bag): batches of rows that wait. ``until`` (ReadModifyWrite):
the first end of their windows, for which the timer is set, a millisecond early: downstream a window is due at its end,
and the rows must be there. A retry sees the state as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.roster.first_partitions import (
    FirstPartitions,
    Sightings,
    first_partitions_from_bytes,
)
from kanonflow.transforms.rows.split import window_end
from kanonflow.transforms.secret.seeds import SecretSource, people_key
from kanonflow.transforms.shards.known_shards import NOBODY, KnownShards, PlanSource
from kanonflow.transforms.shards.route import (
    Batch,
    Waiting,
    known_parts,
    rows_by_shard,
    settled,
    strangers_by_bucket,
    waiting_from_bytes,
)
from kanonflow.transforms.shards.shards import Shards, in_partition

_STRANGERS = "strangers"
_PLACED = -1
"""In the place of a window's number: the bytes behind it are no rows, but people who have a shard."""
_Keyed = tuple[bytes, tuple[int, bytes, bytes]]


class RouteToShards(beam.PTransform):
    """(partition key, (window number, Arrow IPC bytes, places)) -> the same by key of the shard, where a plan cuts.

    directory: whose shard is written down already; ``NOBODY`` of nobody. placed: a collection of (shard key, digests of
    people, uint64 little-endian) in the same pipeline, of whom a collection of people names; None: there is none.
    Counter: ``people_routed``, strangers who got a shard.
    """

    def __init__(
        self,
        bound: BoundPolicy,
        secret: SecretSource,
        plan: PlanSource,
        directory: KnownShards = NOBODY,
        placed: beam.PCollection | None = None,
    ) -> None:
        super().__init__()
        self._args = bound, secret, plan
        self._directory = directory
        self._placed = placed

    @no_annotations
    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        if self._args[0].policy.entering is None:
            return parts | "Rows" >> beam.ParDo(_RowsByThemselves(*self._args)).with_output_types(_Keyed)
        split = parts | "Known" >> beam.ParDo(_KnownPeople(*self._args, self._directory)).with_outputs(
            _STRANGERS, main="known"
        )
        at_once = split.known | "Keyed" >> beam.Map(_same).with_output_types(_Keyed)
        strangers = split[_STRANGERS] | "Buckets" >> beam.Map(_same).with_output_types(tuple[bytes, bytes])
        if self._placed is not None:
            placed = self._placed | "Placed" >> beam.ParDo(_Placed(*self._args)).with_output_types(
                tuple[bytes, bytes]
            )
            strangers = (placed, strangers) | "With placed" >> beam.Flatten()
        routed = strangers | "Strangers" >> beam.ParDo(RouteStrangers(*self._args)).with_output_types(_Keyed)
        return (at_once, routed) | "Routed" >> beam.Flatten()


def _same(element: Any) -> Any:
    return element


class _Routing(beam.DoFn):
    """What all steps know on a worker."""

    _shards: Shards

    def __init__(self, bound: BoundPolicy, secret: SecretSource, plan: PlanSource) -> None:
        self._bound = bound
        self._source = secret
        self._plan = plan

    def setup(self) -> None:
        """Get the secret, and the keys that shards have under it."""
        self._shards = Shards(self._plan.resolve(), self._bound, self._source.resolve())


class _RowsByThemselves(_Routing):
    """Batches of partitions -> batches of shards."""

    def process(self, batch: Batch) -> Iterator[Batch]:
        yield from rows_by_shard(batch, self._shards)


class _RoutingPeople(_Routing):
    """What those of people know."""

    _key: bytes

    def setup(self) -> None:
        """Get the key of people's digests, too."""
        super().setup()
        self._key = people_key(self._source.resolve())

    @property
    def _individual(self) -> str:
        return self._bound.policy.cohorts.individual.name


class _KnownPeople(_RoutingPeople):
    """Batches of partitions -> batches of shards; tagged: (bucket, rows that wait) of strangers."""

    _memory: FirstPartitions

    def __init__(
        self, bound: BoundPolicy, secret: SecretSource, plan: PlanSource, directory: KnownShards
    ) -> None:
        super().__init__(bound, secret, plan)
        self._directory = directory

    def setup(self) -> None:
        """Open the directory, too."""
        super().setup()
        self._memory = self._directory.open()

    def process(self, batch: Batch) -> Iterator[Any]:
        if not self._shards.is_cut(batch[0]):
            yield batch
            return
        parts, rest = known_parts(batch, self._memory, self._key, self._individual)
        yield from parts
        if rest is not None:
            for bucket, waiting in strangers_by_bucket(rest, self._key, self._individual):
                yield beam.pvalue.TaggedOutput(_STRANGERS, (bucket.to_bytes(2, "big"), waiting.to_bytes()))


class _Placed(_RoutingPeople):
    """(shard key, digests) -> (bucket, the people of it as sightings). Too few for a cohort are known by their rows."""

    def process(self, element: tuple[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
        key, people = element[0], np.frombuffer(element[1], dtype="<u8")
        partition = self._shards.partition_of.get(key)
        if partition is None or people.size < self._bound.policy.cohorts.cohort_size:
            return
        sightings = Sightings()
        sightings.add(key, in_partition(partition, people))
        for bucket, seen in sightings.by_bucket():
            yield bucket.to_bytes(2, "big"), Waiting(bytes(16), _PLACED, seen, b"").to_bytes()


class RouteStrangers(_RoutingPeople):
    """(bucket, rows that wait) -> (shard key, (window number, Arrow IPC bytes, places))."""

    ROUTED = ReadModifyWriteStateSpec("routed", BytesCoder())
    WAITING = BagStateSpec("waiting", BytesCoder())
    UNTIL = ReadModifyWriteStateSpec("until", VarIntCoder())
    DUE = TimerSpec("kanonflow_shard_due", TimeDomain.WATERMARK)

    def __init__(self, bound: BoundPolicy, secret: SecretSource, plan: PlanSource) -> None:
        super().__init__(bound, secret, plan)
        self._counter = Metrics.counter(NAMESPACE, "people_routed")

    def process(
        self,
        element: tuple[bytes, bytes],
        routed: Any = beam.DoFn.StateParam(ROUTED),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        until: Any = beam.DoFn.StateParam(UNTIL),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Batch]:
        """Send rows on whose people have a shard; lay the others down."""
        came = waiting_from_bytes(element[1])
        memory = first_partitions_from_bytes(routed.read())
        if came.window == _PLACED and came.partition == bytes(16):
            routed.write(memory.after(came.ipc).state.to_bytes())
            return
        batch = (came.partition, (came.window, came.ipc, came.places))
        parts, rest = known_parts(batch, memory, self._key, self._individual)
        yield from parts
        if rest is not None:
            waiting.add(rest.to_bytes())
            self._arm(due, until, window_end(rest.window, self._bound.policy), until.read())

    @on_timer(DUE)
    def fire(
        self,
        routed: Any = beam.DoFn.StateParam(ROUTED),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        until: Any = beam.DoFn.StateParam(UNTIL),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Batch]:
        """Give a shard to everybody of whom a window has ended, and arm the timer for the next one."""
        now = until.read()
        if now is None:
            return
        memory = first_partitions_from_bytes(routed.read())
        done = settled(
            [waiting_from_bytes(data) for data in waiting.read()], memory, self._shards, self._key, now
        )
        waiting.clear()
        for rest in done.waits:
            waiting.add(rest.to_bytes())
        until.clear()
        if done.until is not None:
            self._arm(due, until, done.until, None)
        if done.memory is not memory:
            self._counter.inc(done.memory.people.size - memory.people.size)
            routed.write(done.memory.to_bytes())
        yield from done.out

    def _arm(self, due: Any, until: Any, end: int, armed: int | None) -> None:
        if armed is None or end < armed:
            until.write(end)
            early = end + self._bound.policy.out_of_orderness_ms - 1
            due.set(Timestamp(micros=early * 1000))
