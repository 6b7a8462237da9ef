"""KAnonymize: the transform a pipeline uses. Records in; releases, metrics and rejected rows out."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.transforms.error_handling import ErrorHandler
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.typehints.decorators import no_annotations
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.durations import format_duration
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import policy_digest
from kanonflow.schemas.policy_source import policy_of
from kanonflow.transforms.begin_once import BeginOnce
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.local_runners import BuiltFor, check_local_runner, in_process
from kanonflow.transforms.release.rejected import at_places
from kanonflow.transforms.risks.check_record import CheckRecord, read_check
from kanonflow.transforms.risks.first_windows import FirstWindows
from kanonflow.transforms.risks.payload_risks import PayloadRisks
from kanonflow.transforms.rows.classify import classify_places
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.rows.element_types import fields_of, records_schema
from kanonflow.transforms.rows.elements import (
    COMPRESSED_ROWS,
    RawBatch,
    RejectedRows,
    Release,
    arrivals,
    from_ipc,
    to_ipc,
)
from kanonflow.transforms.rows.row_places import RowPlaces, places_of
from kanonflow.transforms.rows.split import split_numbered
from kanonflow.transforms.rows.unfit import LastRows, count_faults, count_unfit
from kanonflow.transforms.secret.remote_runners import refuse_secret_in_graph
from kanonflow.transforms.secret.seeds import Secret, SecretSource, check_source, partition_key
from kanonflow.transforms.shards.known_shards import NOBODY, KnownShards, PlanSource, plan_at
from kanonflow.transforms.shards.route_rows import RouteToShards
from kanonflow.transforms.shards.shard_plan import PlanError
from kanonflow.transforms.sinks.beam_rows import RejectedAsRows, ReleasedRows
from kanonflow.transforms.solver_check import check_solver
from kanonflow.transforms.windows.chain import CarriedState, Chain
from kanonflow.transforms.windows.divided_people import FindDividedPeople, RefuseDividedPeople
from kanonflow.transforms.windows.expect_people import ExpectPeople, people_of_partition
from kanonflow.transforms.windows.gauges import MILLIONTHS
from kanonflow.transforms.windows.solve_windows import (
    CARRIED_TAG,
    METRICS_TAG,
    NAMESPACE,
    REJECTED_TAG,
    WAKE,
    SolveWindows,
)
from kanonflow.transforms.windows.state_bytes import most_state_bytes
from kanonflow.transforms.windows.step import EarlierCohorts

BATCH_ROWS = 4096
_LOGGER = logging.getLogger(__name__)


class _Outputs(NamedTuple):
    released: beam.PCollection
    metrics: beam.PCollection
    rejected: beam.PCollection


class Anonymized(_Outputs):
    """released: PCollection[Release]. metrics: PCollection of records of metrics.avsc.

    rejected: PCollection[RejectedRows]; raw data, which must stay where the input is.
    carried: PCollection[CarriedState], one of each partition at the feed's end, where ``chain`` was given; raw data.
    """

    bound: BoundPolicy
    carried: beam.PCollection
    divided: beam.PCollection | None = None
    """PCollection[Divided]: of ``cohort: lasting`` with ``partition_by``, people in more than one partition."""

    @functools.cached_property
    def rows(self) -> beam.PCollection:
        """PCollection[beam.Row], a row for each released record, with the fields of the release (``ReleasedRows``).

        The step that makes them is in the pipeline if somebody asks: it costs more than to hand a release on.
        """
        producer = self.released.producer
        place = "" if producer is None else producer.full_label.partition("/Window released")[0]
        return self.released | f"{place}/Rows" >> ReleasedRows(self.bound)


class KAnonymize(BuiltFor):
    """K-anonymize a PCollection of records, window by window, partition by partition.

    policy: what every field is, the path of its file, or a mapping as the file holds it (``policy_of``); or a policy
    that is bound to the records, and its solver checked, already (then without ``input_schema``).
    secret: where workers get what all publishing randomness is derived from (``SecretFile``...); a Secret itself on
    local runners only, for a pickled pipeline holds what is given here: ``expand`` raises SecretError where the job
    graph would go elsewhere with it.
    input_schema: Arrow schema of the records, needed for Arrow elements; or the type of other elements (a NamedTuple, a
    dataclass). Without one, elements are dicts, beam.Row, NamedTuples or dataclasses. Where the collection's type hint
    tells their fields, these have their types (``records_schema``), and the policy is bound to them when the transform
    is applied. Of dicts, ``as`` and role give the type of each field. text: the columns of ``input_schema`` are text.
    threads: for the parts of one window; None: the policy's, else all cores of the worker.
    watermark_waits: the watermark of the records stays ``out_of_orderness`` behind already, so a window closes as
    soon as the watermark passes its end; else windows stay open that much longer.
    matching_records: each release brings one along, for whoever has to check it (matching_record.py). The released
    elements are then as confidential as the input: a sink that is not of this package must leave that field out.
    published: the releases that are there already, where this pipeline may make them again (a run that resumes, a
    stream that goes on); None: it begins with nothing.
    epoch: of the promise of ``cohort: lasting``, a number of 63 bits that no other run has; 0 where it does not matter.
    continued: of that epoch, whom an earlier run has put together (``ContinuedCohorts``); None: nobody is known.
    chain: with ``cohort: lasting``, which of the runs that continue each other it is; None: it hands nothing on.
    job_start: of a stream, how often its job had begun before; metrics and rejected rows tell it. None: of no stream.
    known_people: where people ``can_divide``, PBegin -> (partition key, digests) of whom an
    earlier run knows (``FindDividedPeople``); None: nobody.
    people: of ``cohort: lasting``, a bounded collection in the same pipeline of people who are known from the start:
    one element a person (dict, beam.Row..., or Arrow tables of them) with the individual, all quasi-identifiers and
    ``partition_by``. They enter with the first release of their partition.
    plan: of shards, or the path of its file, made from people whom ``people`` or an earlier run knows, with
    ``protect: row`` from rows (``kanonflow plan``); None: no partition is cut.
    shards: where the shard of everybody who is known before the first row is written down.
    verdict: what ``policy check POLICY --input SAMPLE --for DIR`` kept of this policy (DIR/restricted/check.json), or
    that as it was read. None: the payload of the first windows is measured, and said in the log (``first_windows``).
    on_measured: called by a worker with what it has measured of them.
    on_unfit: called by a worker when more than the policy's ``max_rejected`` of the rows that it saw last do not fit;
    None: only the gauges tell (``unfit_over_limit``, ``unfit_millionths``).

    Elements: RawBatch, pyarrow RecordBatch or Table, dict, beam.Row, NamedTuple, dataclass. ``element_rows`` says which
    values a field takes. A field that the policy does not name is not read; with ``others: refuse`` a record that has
    one is rejected.

    With ``cohort: lasting`` and ``partition_by``, people who have rows in more than one partition end a bounded run
    with DividedPeopleError before anything is released, unless the policy accepts that; of an unbounded feed they are
    counted (``people_in_several_partitions``), and given in ``Anonymized.divided``.

    Raises PolicyError when policy and schema do not fit, or the solver does not fit the protection; SecretError when
    the secret is no source of one; UncheckedError when the verdict is of another policy, or none.
    """

    def __init__(
        self,
        policy: Policy | BoundPolicy | Mapping[str, Any] | str | os.PathLike[str],
        secret: SecretSource,
        *,
        input_schema: pa.Schema | type | None = None,
        text: bool = False,
        threads: int | None = None,
        watermark_waits: bool = False,
        matching_records: bool = False,
        published: EarlierReleases | None = None,
        epoch: int = 0,
        continued: EarlierCohorts | None = None,
        chain: Chain | None = None,
        job_start: int | None = None,
        known_people: beam.PTransform | None = None,
        on_unfit: Callable[[LastRows], None] | None = None,
        people: beam.PCollection | None = None,
        verdict: str | os.PathLike[str] | CheckRecord | None = None,
        on_measured: Callable[[PayloadRisks], None] | None = None,
        plan: PlanSource | str | os.PathLike[str] | None = None,
        shards: KnownShards = NOBODY,
    ) -> None:
        super().__init__()
        check_source(secret)
        self._bound = (
            policy if isinstance(policy, BoundPolicy) else _bind(policy_of(policy), input_schema, text)
        )
        # Of elements whose type nobody has told yet: the collection may know it.
        self._open = not isinstance(policy, BoundPolicy) and input_schema is None
        self._was_told = False
        self._secret = secret
        self._threads = threads or self._bound.policy.solver.threads
        self._watermark_waits = watermark_waits
        self._matching_records = matching_records
        self._published = published
        self._epoch = epoch
        self._continued = continued
        self._chain = chain
        self._job_start = job_start
        self._known_people = known_people
        self._on_unfit = on_unfit
        self._people = people
        self._check = verdict if isinstance(verdict, CheckRecord | None) else _check_at(verdict, self._bound)
        self._on_measured = on_measured
        self._plan = plan_at(plan)
        self._shards = shards
        _refuse_people(self._bound.policy, people, continued)
        _refuse_plan(self._bound, self._plan, people, continued)
        self._error_handler: ErrorHandler | None = None

    @property
    def bound(self) -> BoundPolicy:
        """The policy bound to the records: final once the transform is applied, or ``input_schema`` is given."""
        self._was_told = True
        return self._bound

    def with_error_handler(self, error_handler: ErrorHandler | None) -> KAnonymize:
        """Hand rejected rows to one of Beam's error handlers, each as a row of ``beam_rows.REJECTED_ROW``; itself.

        They are raw data, and so is what the handler makes of them. They stay in ``Anonymized.rejected`` as well. What
        a sink rejects later (``Written.conflicts``) does not come here. None: there is no handler.
        """
        self._error_handler = error_handler
        return self

    def display_data(self) -> dict[str, Any]:
        """What a runner shows of the step: its policy, and what that promises. Not the secret, nor where it is."""
        policy = self._bound.policy
        return {
            "policy": DisplayDataItem(policy.name, label="Policy"),
            "policy_digest": DisplayDataItem(policy_digest(policy).hex(), label="Digest of the policy"),
            "k": DisplayDataItem(policy.k, label="k"),
            "protect": DisplayDataItem(str(policy.protect), label="What is protected"),
            "window": DisplayDataItem(
                "none" if policy.window_ms is None else format_duration(policy.window_ms), label="Window"
            ),
        }

    @no_annotations
    def expand(self, records: beam.PCollection) -> Anonymized:
        """Wire: batches -> classified and split by (partition, window) -> solved per partition -> windowed again."""
        self._bind_to(records.element_type)
        check_local_runner(records.pipeline)
        self.built_for = type(records.pipeline.runner).__name__
        refuse_secret_in_graph(records.pipeline, self._secret)
        parts = (
            records
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Batch" >> beam.ParDo(GatherBatches(self._bound)).with_output_types(RawBatch)
            | "Split"
            >> beam.ParDo(
                _ClassifyAndSplit(
                    self._bound,
                    self._secret,
                    self._on_unfit,
                    plain=PLAIN_BYTES if in_process(records.pipeline) else None,
                )
            ).with_outputs(REJECTED_TAG, main="parts")
        )
        keyed = parts.parts | "Keyed" >> beam.Map(_same).with_output_types(
            tuple[bytes, tuple[int, bytes, bytes]]
        )
        named, whom = None, None
        if self._people is not None:
            expect = ExpectPeople(self._bound, self._secret, self._epoch, self._plan)
            named = self._people | "Expect" >> expect
            whom = named | "Whom" >> beam.Map(people_of_partition)
        if self._plan is not None:
            route = RouteToShards(self._timed(), self._secret, self._plan, self._shards, whom)
            keyed = keyed | "Route" >> route
        carried = [] if self._continued is None else self._continued.keys()
        if carried:
            # Who waits there must leave or wait on, whether the partition has a row here or not.
            woken = (
                records.pipeline
                | "Carried" >> BeginOnce(b"carried")
                | "Woken"
                >> beam.FlatMap(lambda _: [(key, WAKE) for key in carried]).with_output_types(
                    tuple[bytes, tuple[int, bytes, bytes]]
                )
            )
            keyed = (woken, keyed) | "All" >> beam.Flatten()
        divided, before = None, self._known_people
        if named is not None:
            keyed = (named, keyed) | "With people" >> beam.Flatten()
            before = _Collected(whom)
        if self._bound.policy.can_divide:
            find = FindDividedPeople(self._bound, self._secret, before, self._plan)
            divided = parts.parts | "People" >> find
            if records.is_bounded and not self._bound.policy.accepts_divided:
                # Also what is woken: nothing is released before it is known.
                keyed = keyed | "Undivided" >> RefuseDividedPeople(divided, self._bound.policy)
        tags = METRICS_TAG, REJECTED_TAG, CARRIED_TAG
        solved = keyed | "Solve" >> beam.ParDo(
            SolveWindows(
                self._timed(),
                self._secret,
                self._threads,
                self._matching_records,
                self._published,
                epoch=self._epoch,
                continued=self._continued,
                chain=self._chain,
                most_state=most_state_bytes(type(records.pipeline.runner).__name__),
                compressed=not in_process(records.pipeline),
                at_end=records.is_bounded and in_process(records.pipeline),
                job_start=self._job_start,
                first=self._first_windows(),
                earliest=self._plan is not None,
            )
        ).with_outputs(*tags, main="released")
        rejected = (
            _of_type(RejectedRows, parts[REJECTED_TAG]),
            _of_type(RejectedRows, solved[REJECTED_TAG]),
        ) | "Rejected" >> beam.Flatten()
        anonymized = Anonymized(
            self._window("released", _of_type(Release, solved.released)),
            self._window("metrics", _of_type(Mapping[str, Any], solved[METRICS_TAG])),
            self._window("rejected", rejected),
        )
        anonymized.bound, anonymized.divided = self._bound, divided
        anonymized.carried = _of_type(CarriedState, solved[CARRIED_TAG])
        if self._error_handler is not None:
            # Not in the policy's windows: a row without a time would stand in one that begins before time does, which
            # sinks of files cannot take.
            self._error_handler.add_error_pcollection(
                rejected
                | "RejectedAsRows" >> RejectedAsRows()
                | "Window errors" >> beam.WindowInto(records.windowing.windowfn)
            )
        return anonymized

    def _bind_to(self, element_type: Any) -> None:
        """Bind the policy to the elements' type, if that tells their fields and nothing else did.

        Raises PolicyError: it does not fit, or somebody has gone by a binding to other types already.
        """
        fields = fields_of(element_type) if self._open and element_type is not RawBatch else None
        if fields is None:
            return
        policy = self._bound.policy
        bound = bind(policy, records_schema(policy, fields), text=False, source="the PCollection's elements")
        if self._was_told and bound.canonical_schema != self._bound.canonical_schema:
            mend = "read .bound after the transform is applied, or give input_schema=" + element_type.__name__
            raise PolicyError(
                [f"the elements' type gives fields other types than the policy alone; {mend}"], policy.name
            )
        self._bound = bound

    def _first_windows(self) -> FirstWindows | None:
        """What measures the first windows; None: somebody has measured a sample, or every risk is accepted."""
        if self._check is not None:
            _LOGGER.info(self._check.words())
        elif any(field.accept_risk is None for field in self._bound.policy.payload):
            return FirstWindows(self._bound, self._on_measured)
        return None

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


class _Collected(beam.PTransform):
    """PBegin -> a collection that is there already."""

    def __init__(self, collection: beam.PCollection) -> None:
        super().__init__()
        self._collection = collection

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        return self._collection | "As is" >> beam.Map(_same).with_output_types(tuple[bytes, bytes])


def _refuse_people(policy: Policy, people: beam.PCollection | None, continued: EarlierCohorts | None) -> None:
    """Raise PolicyError unless the people whom a policy names are there, and only where they can be known."""
    mistake = None
    if people is None:
        if policy.people is not None and continued is None:
            mistake = "a pipeline of one's own hands them in as a collection: KAnonymize(..., people=...)"
    elif continued is not None:
        mistake = "an earlier run's cohorts come with the people whom they know; leave the collection out"
    elif not people.is_bounded:
        mistake = "a collection without an end never says who is known from the start; give a bounded one"
    if mistake is not None:
        raise PolicyError([f"people: {mistake}"], policy.name)


def _refuse_plan(
    bound: BoundPolicy,
    plan: PlanSource | None,
    people: beam.PCollection | None,
    continued: EarlierCohorts | None,
) -> None:
    """Raise PlanError unless a plan is of this policy, and people are known whom it can have been made from."""
    if plan is None:
        return
    plan.resolve().refuse_other_policy(bound, "(plan)")
    if bound.policy.entering is not None and people is None and continued is None:
        raise PlanError(
            "plan: it is made from people who enter together, before any row of theirs; hand them in"
            " (KAnonymize(..., people=...)), or go on with a run that knows them"
        )
    if continued is None:
        plan.resolve().refuse_first()


def _bind(policy: Policy, schema: pa.Schema | type | None, text: bool) -> BoundPolicy:
    check_solver(policy)
    if schema is None:
        return bind(policy, text_schema(policy), text=True, source="the PCollection")
    if not isinstance(schema, pa.Schema):
        fields = fields_of(schema)
        if fields is None:
            name = getattr(schema, "__name__", type(schema).__name__)
            raise PolicyError([f"input_schema: expected an Arrow schema or a type of records, not {name}"])
        return bind(
            policy, records_schema(policy, fields), text=False, source=f"the fields of {schema.__name__}"
        )
    return bind(policy, schema, text=text, source="the PCollection")


def _check_at(path: str | os.PathLike[str], bound: BoundPolicy) -> CheckRecord:
    """The check at a path, of this policy. Raises UncheckedError."""
    how = (
        "measure a sample with  kanonflow policy check POLICY --input SAMPLE --for DIR  and give"
        " verdict=DIR/restricted/check.json, or none, and the first windows are measured"
    )
    return read_check(os.fspath(path), bound.policy, how)


def _same(element: Any) -> Any:
    return element


def _of_type(kind: Any, elements: beam.PCollection) -> beam.PCollection:
    """The collection, with the type of its elements: that of a tagged output cannot be declared with its step."""
    elements.element_type = convert_to_beam_type(kind)
    return elements


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
        table, broken, faults = rows_to_table(rows, self._bound)
        return RawBatch("", to_ipc(table), broken, faults=faults)


PLAIN_BYTES = 1 << 24
"""Of rows between steps of one process, that are not compressed: some 130,000 rows. Beam's local runner holds a feed
some five times until its windows are released, and compressing costs a row half a microsecond, to a third of the bytes.
"""


class _ClassifyAndSplit(beam.DoFn):
    """RawBatch -> (partition key, (window number, Arrow IPC bytes, places)); tagged: RejectedRows.

    last: what came last to this copy of the step, rejected rows included; of lasting cohorts also rows whose
    quasi-identifiers are at fault, though they go on: somebody who is known is released all the same.
    plain: bytes of rows after which this copy compresses what it hands on; None: never.
    """

    _secret: Secret
    _last: LastRows

    def __init__(
        self,
        bound: BoundPolicy,
        secret: SecretSource,
        on_unfit: Callable[[LastRows], None] | None = None,
        *,
        plain: int | None = None,
    ) -> None:
        self._bound = bound
        self._source = secret
        self._on_unfit = on_unfit
        self._plain, self._handed = plain, 0
        self._over = self._is_said = False
        self._valid = Metrics.counter(NAMESPACE, "rows_valid")

    def setup(self) -> None:
        """Get the secret."""
        self._secret = self._source.resolve()
        self._last = LastRows()

    def process(self, batch: RawBatch) -> Iterator[Any]:
        table = from_ipc(batch.ipc)
        classified = classify_places(
            table,
            self._bound,
            source=batch.name or None,
            arrived=arrivals(batch),
            faults=batch.faults,
            origins=batch.origins,
        )
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
            yield partition_key(self._secret, values), (window, self._handed_on(rows), told)

    def _handed_on(self, rows: pa.RecordBatch) -> bytes:
        """The rows as one Arrow IPC stream, compressed once much has been handed on."""
        much = self._plain is not None and self._handed >= self._plain
        ipc = to_ipc(rows, compressed=much and rows.num_rows >= COMPRESSED_ROWS)
        self._handed += len(ipc)
        return ipc

    def _judge(self, rows: int, rejected: Iterable[Mapping[str, Any]], good: pa.Table) -> None:
        """Tell what share of the last rows does not fit; once, and in the log, when it comes to be above the limit."""
        self._last.add(rows, count_unfit(rejected) + count_faults(good))
        share, limit = self._last.share, self._bound.policy.rejected_limit
        Metrics.gauge(NAMESPACE, "unfit_millionths").set(round(share * MILLIONTHS))
        Metrics.gauge(NAMESPACE, "unfit_over_limit").set(int(share > limit))
        over = share > limit
        if over and not self._over and self._on_unfit is not None:
            self._on_unfit(self._last)
        # Of a feed too small to be judged: nothing fits, which is a mistake whatever the limit is.
        over_or_all = over or (0 < self._last.rows == self._last.unfit.total())
        if over_or_all and not self._is_said:
            _LOGGER.error(self._last.words())
        self._over, self._is_said = over, over_or_all
