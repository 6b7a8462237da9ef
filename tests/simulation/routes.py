"""The route of people to shards, in a job of the simulator: the two steps of the product, and the state of each bucket.

What comes of them is rows by key of a shard, for the stateful step behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apache_beam.pvalue import TaggedOutput

from kanonflow.pipelines.chains.shards_record import known_shards
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards import known_shards as read_shards
from kanonflow.transforms.shards.route import Batch
from kanonflow.transforms.shards.route_rows import RouteStrangers, _KnownPeople
from kanonflow.transforms.shards.shard_plan import ShardPlan
from tests.driven_partitions import Bag, Timer, Value


@dataclass
class Bucket:
    """The state of one bucket of people."""

    routed: Value = field(default_factory=Value)
    waiting: Bag = field(default_factory=Bag)
    until: Value = field(default_factory=Value)
    due: Timer = field(default_factory=Timer)

    def given(self) -> tuple[Any, ...]:
        """As the DoFn's methods take them."""
        return self.routed, self.waiting, self.until, self.due

    def copy(self) -> Bucket:
        """As a checkpoint holds it."""
        other = Bucket()
        other.routed.value, other.until.value = self.routed.value, self.until.value
        other.waiting.values, other.due.at = list(self.waiting.values), self.due.at
        return other


class Routes:
    """The steps of one job, as many copies as there are workers. buckets: their state, which they change."""

    def __init__(
        self,
        bound: BoundPolicy,
        secret: Secret,
        plan: ShardPlan,
        output: str,
        workers: int,
        buckets: dict[bytes, Bucket],
    ) -> None:
        # Another schedule's directory lies at the same path.
        read_shards._opened.cache_clear()
        self._known = _KnownPeople(bound, secret, plan, known_shards(output, plan))
        self._known.setup()
        self._strangers = [RouteStrangers(bound, secret, plan) for _ in range(workers)]
        for each in self._strangers:
            each.setup()
        self._buckets = buckets

    def arrive(self, batch: Batch, tries: int) -> Iterator[Batch]:
        """Rows of a partition come. tries: how often a bundle is done."""
        for output in list(self._known.process(batch)):
            if isinstance(output, TaggedOutput):
                key, waiting = output.value
                yield from self._bundle(
                    key,
                    lambda step, cells, key=key, waiting=waiting: step.process((key, waiting), *cells),
                    tries,
                )
            else:
                yield output

    def due(self, watermark: int) -> list[bytes]:
        """The buckets whose timers are to fire."""
        return sorted(
            key for key, each in self._buckets.items() if each.due.at is not None and each.due.at <= watermark
        )

    def fire(self, key: bytes, tries: int) -> Iterator[Batch]:
        """The timer of a bucket fires."""
        self._buckets[key].due.at = None
        return self._bundle(key, lambda step, cells: step.fire(*cells), tries)

    def _bundle(
        self, key: bytes, do: Callable[[RouteStrangers, tuple[Any, ...]], Iterator[Batch]], tries: int
    ) -> Iterator[Batch]:
        step = self._strangers[key[0] % len(self._strangers)]
        for _ in range(tries):
            bucket = self._buckets[key].copy() if key in self._buckets else Bucket()
            outputs = list(do(step, bucket.given()))
        self._buckets[key] = bucket
        yield from outputs
