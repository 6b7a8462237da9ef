"""Reading a feed that does not end: a splittable step over anything that can be read from a position onwards.

Beam's own ``UnboundedSource`` asks for a bundle finalizer in every bundle, and a Python worker keeps a step that
waits for one aside: on Flink each poll then builds the step, and its connection, anew (docs/decisions/013). Here
the position in the checkpoint is all there is, and one reader lives as long as its step.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, cast

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.shared import Shared
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp

from kanonflow.pipelines.run_records.refused_state import FEED_GONE, RefusedState
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.begin_once import BeginOnce
from kanonflow.transforms.files import storage
from kanonflow.transforms.reader_shares import WHOLE, Share, element_of, share_of, shares
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

PAUSE_SECONDS = 1.0
"""How long nothing is read between two bundles. Flink tells the steps behind about the watermark in a task of its own
after a bundle's end, and drops that when the next bundle has begun: without a pause a slow machine's watermark stood
still until the next checkpoint, or for ever (docs/decisions/013). Its job server takes whole seconds only."""

CHUNK_ROWS = 16_384
"""Rows of one read."""

BUNDLE_SECONDS = 1.0
"""How long a bundle reads where there is more to read. What it read goes on, and a checkpoint passes, when it ends."""

STOP_SECONDS = 3.0
"""How often a source looks whether its feed is to end: on object storage each look is a request."""

_ENDS = "ends"

_LOG = logging.getLogger(__name__)

_ROUNDING_SECONDS = 0.5
"""Beam takes the time until it asks how long the pause is off the pause, and Flink then the part of a second."""


class Chunk(NamedTuple):
    """What one read gave.

    batches: (oldest event time of its rows in ms since 1970 UTC, None when no row has one; the batch).
    position: where the next read begins, in the reader's own encoding.
    latest_ms: event time that every partition which is not idle has reached; None before the first row. Never
    goes back.
    more: there is more to read now.    done: the feed has ended for good.
    """

    batches: tuple[tuple[int | None, RawBatch], ...]
    position: bytes
    latest_ms: int | None
    more: bool
    done: bool = False


class PolledReader(Protocol):
    """An open connection to a feed."""

    def read(self, position: bytes, max_rows: int) -> Chunk:
        """What follows ``position`` (b"": the beginning), at most about ``max_rows`` rows, without waiting long.

        The same position gives the same rows again, also from another reader: a restart goes back to a checkpoint.
        """
        ...

    def ending(self, position: bytes) -> bytes:
        """The same position with an end: of what is there now. One that has an end already stays as it is.

        Raises OSError: what is there cannot be seen now; it may be asked again.
        """
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class FeedGoneError(InputError):
    """The feed cannot be read on, and no restart will change that; the message says why and what to do."""


class PolledRows(NamedTuple):
    """What ``ReadPolled`` gives. ends: PCollection[bytes], the position that each reader ended at, once it has."""

    rows: beam.PCollection
    ends: beam.PCollection


class PolledSource(Protocol):
    """A feed; travels to the workers, so it holds no connection."""

    def open(self) -> PolledReader:
        """A reader of its own."""
        ...


class SharedSource(PolledSource, Protocol):
    """A feed that several readers can share."""

    def of_share(self, share: Share) -> PolledSource:
        """The same feed, of which a reader reads its share alone; its positions say whose they are."""
        ...

    def begins_of(self, position: bytes, share: Share) -> bytes:
        """Of a position of the whole feed what the reader of a share begins at; of b"" that."""
        ...


class ReadPolled(beam.PTransform):
    """PBegin -> PolledRows; its rows PCollection[RawBatch], each at the event time of its oldest row.

    out_of_orderness_ms: how far the watermark stays behind the newest event. stop_file: when it is there, the feed ends
    with what it holds then (stop_stream.py); None: it ends by itself or never. refused: what tells that the state was
    refused, and ends the job; None: nothing does. begins_at: the position that a job without state begins at; b"": the
    feed's beginning. readers: how many share the feed; more than one only of a ``SharedSource``. A job with state has
    those of its state.
    """

    def __init__(
        self,
        source: PolledSource,
        out_of_orderness_ms: int,
        stop_file: str | None = None,
        refused: RefusedState | None = None,
        begins_at: bytes = b"",
        readers: int = 1,
    ) -> None:
        super().__init__()
        self._poll = _Poll(source, out_of_orderness_ms, stop_file, refused, readers)
        self._elements = [
            element_of(each, begins_at if each == WHOLE else _shared(source).begins_of(begins_at, each))
            for each in shares(readers)
        ]

    @no_annotations
    def expand(self, begin: beam.pvalue.PBegin) -> PolledRows:
        read = (
            begin
            | "Feed" >> BeginOnce(*self._elements)
            | "Poll" >> beam.ParDo(self._poll).with_outputs(_ENDS, main="rows")
        )
        read.rows.element_type = RawBatch
        read[_ENDS].element_type = bytes
        return PolledRows(read.rows, read[_ENDS])


class _Position(NamedTuple):
    """A restriction. at: where reading begins. done: nothing is left of it. drained: nothing more is to be read of it,
    and where that was is to be told."""

    at: bytes
    done: bool
    drained: bool = False


class _PositionCoder(Coder):
    def encode(self, value: _Position) -> bytes:
        return bytes([value.done + 2 * value.drained]) + value.at

    def decode(self, encoded: bytes) -> _Position:
        return _Position(encoded[1:], bool(encoded[0] & 1), bool(encoded[0] & 2))

    def is_deterministic(self) -> bool:
        return True


class _Tracker(RestrictionTracker):
    """Claims the position that a read ended at; what is left can only be cut off there."""

    def __init__(self, restriction: _Position) -> None:
        self._restriction = restriction

    def current_restriction(self) -> _Position:
        return self._restriction

    def try_claim(self, position: _Position) -> bool:
        if self._restriction.done:
            return False
        self._restriction = position
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[_Position, _Position] | None:
        if fraction_of_remainder != 0 or self._restriction.done:
            return None
        rest = self._restriction
        self._restriction = _Position(rest.at, True)
        return self._restriction, rest

    def check_done(self) -> bool:
        if not self._restriction.done:
            raise ValueError("a read neither ended nor put off what is left")
        return True

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(completed=float(self._restriction.done), remaining=1.0)

    def is_bounded(self) -> bool:
        return False


class _Provider(RestrictionProvider):
    def initial_restriction(self, element: bytes) -> _Position:
        return _Position(share_of(element)[1], False)

    def create_tracker(self, restriction: _Position) -> _Tracker:
        return _Tracker(restriction)

    def restriction_size(self, element: bytes, restriction: _Position) -> int:
        return 1

    def restriction_coder(self) -> _PositionCoder:
        return _PositionCoder()

    def truncate(self, element: bytes, restriction: _Position) -> _Position | None:
        """A drain reads nothing more; what is left to do is to tell where that was."""
        return None if restriction.done else restriction._replace(drained=True)


_PROVIDER = _Provider()
_ESTIMATOR = ManualWatermarkEstimator.default_provider()


class _OpenReaders:
    """The readers of a worker's process, by their elements, each lent to one bundle at a time.

    Bundles of one step take whichever of its copies in the process is free. A reader that stayed with a copy would be
    elsewhere than its element whenever another copy had read on, and would connect anew each time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[bytes, PolledReader] = {}
        self._steps = 0

    def join(self) -> _OpenReaders:
        """One more copy of the step uses them."""
        with self._lock:
            self._steps += 1
        return self

    def leave(self) -> None:
        """One copy less; the last one closes them."""
        with self._lock:
            self._steps -= 1
            left = [] if self._steps else list(self._idle.values())
            self._idle = self._idle if self._steps else {}
        for reader in left:
            reader.close()

    @contextlib.contextmanager
    def lent(self, element: bytes, open_one: Callable[[], PolledReader]) -> Iterator[PolledReader]:
        """The reader of an element, which nobody else has meanwhile."""
        with self._lock:
            reader = self._idle.pop(element, None)
        reader = reader or open_one()
        try:
            yield reader
        except BaseException:  # the next bundle opens another
            reader.close()
            raise
        with self._lock:
            other = self._idle.pop(element, None)  # of a bundle that was given up
            self._idle[element] = reader
        if other is not None:
            other.close()


class _Poll(beam.DoFn):
    """Reads for a moment and puts off the rest; what a bundle emits and where it ended are one commit."""

    def __init__(
        self,
        source: PolledSource,
        out_of_orderness_ms: int,
        stop_file: str | None = None,
        refused: RefusedState | None = None,
        readers: int = 1,
    ) -> None:
        self._source = source
        self._out_of_orderness_ms = out_of_orderness_ms
        self._stop_file = stop_file
        self._refused = refused
        self._looked_at: float | None = None
        self._stops = False
        self._is_refused = False
        self._readers = readers
        self._shared = Shared()
        self._open: _OpenReaders | None = None
        self._clock = time.monotonic
        self._rows = Metrics.counter(NAMESPACE, "rows_read")

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: bytes,
        tracker: Any = beam.DoFn.RestrictionParam(_PROVIDER),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(_ESTIMATOR),
    ) -> Iterator[TimestampedValue]:
        """Read from where the last bundle ended, and put off the rest."""
        left = tracker.current_restriction()
        if left.drained:
            if tracker.try_claim(left._replace(done=True)):
                yield from self._ended(left.at, watermark)
            return
        self._look()
        if self._is_refused and self._refused is not None:
            self._refused.end_job()
            tracker.defer_remainder(Duration(STOP_SECONDS + _ROUNDING_SECONDS))
            return
        if self._open is None:
            self._open = self._shared.acquire(_OpenReaders).join()
        with self._open.lent(element, lambda: self._opened(element)) as reader:
            yield from self._rows_of(reader, tracker, watermark)

    def _opened(self, element: bytes) -> PolledReader:
        share, _ = share_of(element)
        if share.of != self._readers:
            _LOG.warning(
                "the stream goes on with the readers that it began with, %d, and not with %d: its state holds where"
                " each of them is", share.of, self._readers,
            )  # fmt: skip
        return (self._source if share == WHOLE else _shared(self._source).of_share(share)).open()

    def _rows_of(self, reader: PolledReader, tracker: Any, watermark: Any) -> Iterator[TimestampedValue]:
        ends_at = self._clock() + BUNDLE_SECONDS
        at = self._with_end(reader, tracker.current_restriction().at)
        while True:
            chunk = self._read(reader, at)
            if not tracker.try_claim(_Position(chunk.position, chunk.done)):
                return
            at = chunk.position
            yield from self._batches(chunk, watermark.current_watermark())
            if chunk.done:
                yield from self._ended(at, watermark)
                return
            if chunk.latest_ms is not None:
                _advance(watermark, _at(chunk.latest_ms - self._out_of_orderness_ms))
            if not chunk.more or self._clock() >= ends_at:
                break
        tracker.defer_remainder(Duration(PAUSE_SECONDS + _ROUNDING_SECONDS))

    def _ended(self, at: bytes, watermark: Any) -> Iterator[TaggedOutput]:
        floor = watermark.current_watermark()
        yield TaggedOutput(_ENDS, TimestampedValue(at, MIN_TIMESTAMP if floor is None else floor))
        _advance(watermark, MAX_TIMESTAMP)

    def _read(self, reader: PolledReader, at: bytes) -> Chunk:
        try:
            return reader.read(at, CHUNK_ROWS)
        except FeedGoneError as error:
            if self._refused is not None:  # the next attempt ends the job, instead of failing again
                self._refused.refuse(FEED_GONE, str(error))
            raise

    def _look(self) -> None:
        """Now and then: is the feed to end, was the state refused?"""
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < STOP_SECONDS:
            return
        self._looked_at = now
        if self._stop_file is not None and not self._stops:
            self._stops = bool(storage.exists(self._stop_file))
        if self._refused is not None:
            self._is_refused = self._is_refused or self._refused.stands()

    def _with_end(self, reader: PolledReader, position: bytes) -> bytes:
        """The position to read on from: with an end, once somebody asked for one."""
        if self._stops:
            with contextlib.suppress(OSError):  # the next bundle asks again
                return reader.ending(position)
        return position

    def _batches(self, chunk: Chunk, held: Timestamp | None) -> Iterator[TimestampedValue]:
        floor = held if held is not None else MIN_TIMESTAMP
        for oldest_ms, batch in chunk.batches:
            self._rows.inc(from_ipc(batch.ipc).num_rows + len(batch.broken))
            yield TimestampedValue(batch, floor if oldest_ms is None else _at(oldest_ms))

    def teardown(self) -> None:
        """Close the readers, where no other copy of the step has them."""
        if self._open is not None:
            self._open.leave()
            self._open = None


def _shared(source: PolledSource) -> SharedSource:
    """A feed that has several readers is one that they can share."""
    return cast(SharedSource, source)


def _at(milliseconds: int) -> Timestamp:
    return Timestamp(micros=milliseconds * 1000)


def _advance(watermark: Any, to: Timestamp) -> None:
    """The estimator refuses to go back, which a restart or another partition may ask for."""
    current = watermark.current_watermark()
    if current is None or to > current:
        watermark.set_watermark(to)
