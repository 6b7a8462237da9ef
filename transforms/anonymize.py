"""KAnonymize: the transform a pipeline uses. Records in; releases, metrics and rejected rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.typehints.decorators import no_annotations
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.release.rejected import at_places
from kanonflow.transforms.rows.classify import classify_places
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.rows.elements import RawBatch, RejectedRows, arrivals, from_ipc, to_ipc
from kanonflow.transforms.rows.row_places import RowPlaces, places_of
from kanonflow.transforms.rows.split import split_numbered
from kanonflow.transforms.rows.unfit import LastRows, count_faults, count_unfit
from kanonflow.transforms.secret.remote_runners import refuse_secret_in_graph
from kanonflow.transforms.secret.seeds import Secret, SecretSource, partition_key
from kanonflow.transforms.solver_check import check_solver
from kanonflow.transforms.windows.gauges import MILLIONTHS
from kanonflow.transforms.windows.solve_windows import (
    METRICS_TAG,
    NAMESPACE,
    REJECTED_TAG,
    SolveWindows,
)
from kanonflow.transforms.windows.step import EarlierCohorts

BATCH_ROWS = 4096


class Anonymized(NamedTuple):
    """released: PCollection[Release]. metrics: PCollection of records of metrics.avsc.

    rejected: PCollection[RejectedRows]; raw data, which must stay where the input is.
    """

    released: beam.PCollection
    metrics: beam.PCollection
    rejected: beam.PCollection


class KAnonymize(beam.PTransform):
    """K-anonymize a PCollection of records, window by window, partition by partition.

    policy: what every field is; or a policy that is bound to the records, and its solver checked, already (then without
    ``input_schema``). secret: where workers get what all publishing randomness is derived from
    (``SecretFile``...); a Secret itself on local runners only, for a pickled pipeline holds what is given here:
    ``expand`` raises SecretError where the job graph would go elsewhere with it.
    input_schema: Arrow schema of the records; needed for Arrow elements. Without one, elements are dicts, beam.Row or
    NamedTuples, and the policy's ``as`` gives the type of each field. text: the columns of ``input_schema`` are text.
    threads: for the parts of one window; None: the policy's, else all cores of the worker.
    watermark_waits: the watermark of the records stays ``out_of_orderness`` behind already, so a window closes as
    soon as the watermark passes its end; else windows stay open that much longer.
    matching_records: each release brings one along, for whoever has to check it (matching_record.py). The released
    elements are then as confidential as the input: a sink that is not of this package must leave that field out.
    published: the releases that are there already, where this pipeline may make them again (a run that resumes, a
    stream that goes on); None: it begins with nothing.
    epoch: of the promise of ``cohort: lasting``, a number of 63 bits that no other run has; 0 where it does not matter.
    continued: of that epoch, whom an earlier run has put together (``ContinuedCohorts``); None: nobody is known.
    on_unfit: called by a worker when more than the policy's ``max_rejected`` of the rows that it saw last do not fit;
    None: only the gauges tell (``unfit_over_limit``, ``unfit_millionths``).

    Elements: RawBatch, pyarrow RecordBatch or Table, dict, beam.Row, NamedTuple. Fields that the policy does not name
    are not read. Raises PolicyError when policy and schema do not fit, or the solver does not fit the protection.
    """

    def __init__(
        self,
        policy: Policy | BoundPolicy,
        secret: SecretSource,
        *,
        input_schema: pa.Schema | None = None,
        text: bool = False,
        threads: int | None = None,
        watermark_waits: bool = False,
        matching_records: bool = False,
        published: EarlierReleases | None = None,
        epoch: int = 0,
        continued: EarlierCohorts | None = None,
        on_unfit: Callable[[LastRows], None] | None = None,
    ) -> None:
        super().__init__()
        self._bound = policy if isinstance(policy, BoundPolicy) else _bind(policy, input_schema, text)
        self._secret = secret
        self._threads = threads or self._bound.policy.solver.threads
        self._watermark_waits = watermark_waits
        self._matching_records = matching_records
        self._published = published
        self._epoch = epoch
        self._continued = continued
        self._on_unfit = on_unfit

    @property
    def bound(self) -> BoundPolicy:
        """The policy bound to the records."""
        return self._bound

    @no_annotations
    def expand(self, records: beam.PCollection) -> Anonymized:
        """Wire: batches -> classified and split by (partition, window) -> solved per partition -> windowed again."""
        refuse_secret_in_graph(records.pipeline, self._secret)
        parts = (
            records
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Batch" >> beam.ParDo(GatherBatches(self._bound)).with_output_types(RawBatch)
            | "Split"
            >> beam.ParDo(_ClassifyAndSplit(self._bound, self._secret, self._on_unfit)).with_outputs(
                REJECTED_TAG, main="parts"
            )
        )
        keyed = parts.parts | "Keyed" >> beam.Map(_same).with_output_types(
            tuple[bytes, tuple[int, bytes, bytes]]
        )
        tags = METRICS_TAG, REJECTED_TAG
        solved = keyed | "Solve" >> beam.ParDo(
            SolveWindows(
                self._timed(),
                self._secret,
                self._threads,
                self._matching_records,
                self._published,
                epoch=self._epoch,
                continued=self._continued,
            )
        ).with_outputs(*tags, main="released")
        rejected = (parts[REJECTED_TAG], solved[REJECTED_TAG]) | "Rejected" >> beam.Flatten()
        return Anonymized(
            self._window("released", solved.released),  # Release
            self._window("metrics", solved[METRICS_TAG]),  # dict
            self._window("rejected", rejected),  # RejectedRows
        )

    def _timed(self) -> BoundPolicy:
        """The policy as the stateful step goes by it: with the time that it has to keep windows open itself."""
        if not self._watermark_waits:
            return self._bound
        return replace(self._bound, policy=replace(self._bound.policy, out_of_orderness_ms=0))

    def _window(self, name: str, outputs: beam.PCollection) -> beam.PCollection:
        policy = self._bound.policy
        if policy.window_ms is None:
            return outputs | f"Window {name}" >> beam.WindowInto(GlobalWindows())
        windows = FixedWindows(
            Duration(micros=policy.window_ms * 1000), Timestamp(micros=policy.window_offset_ms * 1000)
        )
        return outputs | f"Window {name}" >> beam.WindowInto(windows)


def _bind(policy: Policy, schema: pa.Schema | None, text: bool) -> BoundPolicy:
    check_solver(policy)
    if schema is None:
        return bind(policy, text_schema(policy), text=True, source="the PCollection")
    return bind(policy, schema, text=text, source="the PCollection")


def _same(element: Any) -> Any:
    return element


class GatherBatches(beam.DoFn):
    """Any element -> RawBatch; single records are gathered up to a batch or to the end of the bundle."""

    def __init__(self, bound: BoundPolicy) -> None:
        self._bound = bound
        self._gathered: list[Any] = []
        self._oldest = MIN_TIMESTAMP

    def start_bundle(self) -> None:
        self._gathered = []

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if isinstance(element, RawBatch):
            yield element
        elif isinstance(element, pa.RecordBatch | pa.Table):
            # Identifiers and fields that the policy does not name end here.
            kept = [name for name in self._bound.input_columns if name in element.schema.names]
            yield RawBatch("", to_ipc(element.select(kept)), ())
        else:
            self._oldest = min(self._oldest, timestamp) if self._gathered else timestamp
            self._gathered.append(element)
            if len(self._gathered) >= BATCH_ROWS:
                # At the oldest record's time: a later one would let the watermark pass rows that are on their way.
                yield TimestampedValue(self._flush(), self._oldest)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        if self._gathered:
            yield WindowedValue(self._flush(), self._oldest, [GlobalWindow()])

    def _flush(self) -> RawBatch:
        rows, self._gathered = self._gathered, []
        table, broken = rows_to_table(rows, self._bound)
        return RawBatch("", to_ipc(table), broken)


class _ClassifyAndSplit(beam.DoFn):
    """RawBatch -> (partition key, (window number, Arrow IPC bytes, places)); tagged: RejectedRows.

    last: what came last to this copy of the step, rejected rows included; of lasting cohorts also rows whose
    quasi-identifiers are at fault, though they go on: somebody who is known is released all the same.
    """

    _secret: Secret
    _last: LastRows

    def __init__(
        self, bound: BoundPolicy, secret: SecretSource, on_unfit: Callable[[LastRows], None] | None = None
    ) -> None:
        self._bound = bound
        self._source = secret
        self._on_unfit = on_unfit
        self._over = False
        self._valid = Metrics.counter(NAMESPACE, "rows_valid")

    def setup(self) -> None:
        """Get the secret."""
        self._secret = self._source.resolve()
        self._last = LastRows()

    def process(self, batch: RawBatch) -> Iterator[Any]:
        table = from_ipc(batch.ipc)
        classified = classify_places(table, self._bound, source=batch.name or None, arrived=arrivals(batch))
        places = places_of(batch, table.num_rows)
        refused: Iterable[Mapping[str, Any]] = classified.rejected
        if batch.numbers and places is not None:  # else the batch is what it was, and its name tells
            refused = at_places(refused, places.of_rows(~classified.good))
        rejected = (*batch.broken, *refused)
        if rejected:
            yield beam.pvalue.TaggedOutput(REJECTED_TAG, RejectedRows(batch.name, rejected))
        self._judge(table.num_rows + len(batch.broken), rejected, classified.rows)
        self._valid.inc(classified.rows.num_rows)
        numbers = np.arange(classified.rows.num_rows) if places is None else places.numbers[classified.good]
        for (values, window, rows), its in split_numbered(classified.rows, numbers, self._bound):
            told = b"" if places is None else RowPlaces(places.origin, its).to_bytes()
            yield partition_key(self._secret, values), (window, to_ipc(rows), told)

    def _judge(self, rows: int, rejected: Iterable[Mapping[str, Any]], good: pa.Table) -> None:
        """Tell what share of the last rows does not fit, and once when it comes to be above the limit."""
        self._last.add(rows, count_unfit(rejected) + count_faults(good))
        share, limit = self._last.share, self._bound.policy.rejected_limit
        Metrics.gauge(NAMESPACE, "unfit_millionths").set(round(share * MILLIONTHS))
        Metrics.gauge(NAMESPACE, "unfit_over_limit").set(int(share > limit))
        if share > limit and not self._over and self._on_unfit is not None:
            self._on_unfit(self._last)
        self._over = share > limit
