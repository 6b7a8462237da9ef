"""Idempotent sinks: one file a release, created once, never changed.

    OUT/release/<release_id>.avro               released rows (.parquet where the run says so)
    OUT/restricted/metrics/<release_id>.avro    one record; if the policy makes metrics public, what may be
                                                known of a release also in OUT/metrics. Of a release that was
                                                withheld: withheld-<release_id>-<digest of its rows>.avro, and
                                                the start of the stream's job; of none: unreleased-<release_id>
    OUT/restricted/rejected/<name>.avro         rejected rows: raw data
    OUT/restricted/cohorts/...                  who entered with a release (lineage/committed_rosters.py)
    OUT/restricted/carried/PARTITION.state      what a run leaves for the one that continues it (windows/chain.py); it
                                                says how the feed ended, so the last word counts

Every sink is a ParDo: what a timer emits may be late, and a GroupByKey downstream would drop it. A bundle
that runs again, a replay after a crash and a resumed run find their files and leave them. A release that
does not go on from what is published (release_lineage.py; published_slots.py has the files that say so) is a
conflict: it is counted, its rows become rejected rows, and so do those of every later release of its
partition, because two publications of the same people tell an attacker more than either.
"""

import hashlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import apache_beam as beam
import fastavro
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints.decorators import no_annotations
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from kanonflow.schemas.avro_schema import metrics_schema, rejected_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import MetricsAccess, Policy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.schemas.settled_releases import version_name
from kanonflow.transforms.columns.avro_encoding import avro_file, same_records
from kanonflow.transforms.columns.parquet_encoding import parquet_file, same_releases
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import (
    Outcome,
    create_if_absent,
    make_directory,
    read_whole,
    replace_whole,
)
from kanonflow.transforms.files.output_directories import (
    CARRIED_SUFFIX,
    carried_directory,
    metrics_directory,
    public_metrics_directory,
    rejected_directory,
    release_directory,
    restricted_directory,
)
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment
from kanonflow.transforms.release.metrics import NAMESPACE, withheld_metrics
from kanonflow.transforms.release.public_metrics import public_metrics, public_metrics_schema
from kanonflow.transforms.rows.elements import MatchingRecord, RejectedRows, Release, from_ipc
from kanonflow.transforms.rows.unfit import count_unfit, unfit_counter
from kanonflow.transforms.windows.chain import CarriedState

CONFLICT = "release_conflict"
CONFLICTS_TAG = "conflicts"
METRICS_TAG = "metrics"
MATCHING_RECORDS_TAG = "matching_records"
RELEASED_TAG = "released"


class Written(NamedTuple):
    """What ``WriteReleases`` hands on.

    released: ids of the releases whose file exists now.
    conflicts: rows of the releases that must not be written.
    metrics: records of releases that brought theirs along, as what became of the release makes them.
    matching_records: those of the releases whose file exists now; of what was withheld there is none.
    """

    released: beam.PCollection[str]
    conflicts: beam.PCollection[RejectedRows]
    metrics: beam.PCollection[Mapping[str, Any]]
    matching_records: beam.PCollection[MatchingRecord]


class WriteReleases(beam.PTransform):
    """PCollection[Release] -> Written; files ``OUT/release/<release_id>.avro``, or ``.parquet``.

    epoch: with ``cohort: lasting``, the run's; it stands in the schema of every release. release_format: ``avro`` or
    ``parquet``; the same for as long as an output is written to. A release that is out in the other one is not written
    again, and one of other rows is a conflict.
    Counters: ``releases``, ``rows_released`` (also of files that were there already), ``write_microseconds``, and those
    of ``ReleaseSlots``.
    Raises ValueError: no such format.
    """

    def __init__(
        self,
        output: str,
        bound: BoundPolicy,
        epoch: int = 0,
        release_format: ReleaseFormat | str = ReleaseFormat.AVRO,
    ) -> None:
        super().__init__()
        self._output = output
        self._schema = release_avro_schema(bound, epoch)
        self._policy = bound.policy
        self._format = ReleaseFormat(release_format)

    @no_annotations  # Beam has no type hint for a tuple of collections, and would warn of this one
    def expand(self, releases: beam.PCollection[Release]) -> Written:
        write = _WriteRelease(self._output, self._schema, self._policy, self._format)
        return written_by(write, releases)


class WriteMetrics(beam.PTransform):
    """PCollection[dict as metrics.avsc] -> PCollection[path]; the first file of a release is kept.

    A retry measures other times, so unlike releases another content is no conflict. Of a window that made a release the
    record comes from who wrote that (``Written.metrics``): what was withheld is none.
    """

    def __init__(self, output: str, policy: Policy) -> None:
        super().__init__()
        self._output = output
        self._policy = policy

    def expand(self, metrics: beam.PCollection[Mapping[str, Any]]) -> beam.PCollection[str]:
        return metrics | "Write" >> beam.ParDo(_WriteMetrics(self._output, self._policy))


class WriteRejected(beam.PTransform):
    """PCollection[RejectedRows] -> PCollection[path]; files ``OUT/restricted/rejected/<name>.avro``.

    Nothing may be lost here: if a file of that name holds other rows, these get a name of their own.
    Counters: ``rows_rejected``, ``rows_rejected_<reason>``, and of reasons that lie in the input
    ``rows_unfit_<reason>_<field>`` (``unfit_counter``).
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, rejected: beam.PCollection[RejectedRows]) -> beam.PCollection[str]:
        return rejected | "Write" >> beam.ParDo(_WriteRejected(self._output))


class WriteCarried(beam.PTransform):
    """PCollection[CarriedState] -> PCollection[path]; files ``OUT/restricted/carried/<partition>.state``.

    In front of it no durable boundary is needed: nothing is published by it, and a feed that is read again from a
    checkpoint ends again, and replaces the file.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, carried: beam.PCollection[CarriedState]) -> beam.PCollection[str]:
        return carried | "Write" >> beam.ParDo(_WriteCarried(self._output))


def release_file(
    release: Release, schema: Mapping[str, Any], release_format: ReleaseFormat = ReleaseFormat.AVRO
) -> bytes:
    """The file of a release. Equal releases give equal bytes: codec, blocks and metadata are fixed, and the sync marker
    of an Avro file, random in most writers, comes from the release id."""
    return _release_file(from_ipc(release.ipc), release.release_id, schema, release_format)


def _release_file(
    rows: pa.Table, name: str, schema: Mapping[str, Any], release_format: ReleaseFormat
) -> bytes:
    if release_format is ReleaseFormat.PARQUET:
        return parquet_file(rows, schema)
    return avro_file(rows, schema, _sync_marker(name))


def records_file(records: Iterable[Mapping[str, Any]], schema: Mapping[str, Any], name: str) -> bytes:
    """The Avro file of a few records that are dicts already (metrics, rejected rows)."""
    out = BytesIO()
    fastavro.writer(out, dict(schema), records, codec="deflate", sync_marker=_sync_marker(name))
    return out.getvalue()


def written_by(write: beam.DoFn, releases: beam.PCollection[Release]) -> Written:
    """What a sink's step made of the releases, which says it by ``published`` and ``withheld``."""
    tags = CONFLICTS_TAG, METRICS_TAG, MATCHING_RECORDS_TAG
    written = releases | "Write" >> beam.ParDo(write).with_outputs(*tags, main=RELEASED_TAG)
    outputs = Written(*(written[tag] for tag in (RELEASED_TAG, *tags)))
    for output, kind in zip(outputs, (str, RejectedRows, Mapping[str, Any], MatchingRecord), strict=True):
        output.element_type = convert_to_beam_type(kind)
    return outputs


def published(release: Release) -> Iterable[Any]:
    """What a sink says of a release that can be seen now."""
    yield release.release_id
    if release.metrics is not None:
        yield TaggedOutput(METRICS_TAG, release.metrics)
    if release.matching_record is not None:
        yield TaggedOutput(MATCHING_RECORDS_TAG, release.matching_record)


def withheld(release: Release, data: bytes) -> Iterable[Any]:
    """What a sink says of a release that it does not publish; ``data`` tells it from others of its name."""
    yield TaggedOutput(CONFLICTS_TAG, conflicting_rows(release, data))
    if release.metrics is not None:
        yield TaggedOutput(METRICS_TAG, withheld_metrics(release.metrics, CONFLICT))


class ReleaseSlots:
    """What decides, for every kind of sink, whether a release may be published; counts what may not.

    Counters: ``release_conflict``, releases that were withheld; ``partitions_parked``, partitions that publish nothing
    any more.
    """

    def __init__(self, output: str, policy: Policy) -> None:
        self._slots = PublishedSlots(output, policy)
        self._conflicts = Metrics.counter(NAMESPACE, CONFLICT)
        self._parked = Metrics.counter(NAMESPACE, "partitions_parked")
        self._seen_parked: set[bytes] = set()

    def admit(self, release: Release) -> bool:
        """Take the release's slot, and write down who entered; whether it may be published now.

        If not, it is counted, and its partition parked.

        A crash between this and the publishing is made good by the replay, which finds the same slot.
        """
        slot = release.slot
        if slot is None:
            return True
        if self._slots.is_parked(slot.partition):
            if slot.partition not in self._seen_parked:  # an attempt begins with nothing counted
                self._seen_parked.add(slot.partition)
                self._parked.inc()
            self._conflicts.inc()
            return False
        if release.solution is not None:
            self._slots.keep_solution(slot, release.solution)
        if (other := self._slots.take(slot, release.entered, release.groups)) is None:
            return True
        self._park(slot, other)
        return False

    def is_parked(self, release: Release) -> bool:
        """Whether nothing more of the release's partition is published."""
        return release.slot is not None and self._slots.is_parked(release.slot.partition)

    def conflict(self, release: Release) -> None:
        """A release that was admitted is published with other rows: of a run that kept no slots, or lost them."""
        self._park(release.slot, None)

    def _park(self, slot: Slot | None, other: Slot | CommittedSegment | None) -> None:
        self._conflicts.inc()
        if slot is not None:
            if self._slots.park(slot, other) and slot.partition not in self._seen_parked:
                self._parked.inc()
            self._seen_parked.add(slot.partition)


def conflicting_rows(release: Release, data: bytes) -> RejectedRows:
    """The rows of a release that is withheld, as rejected rows; ``data`` tells it from others of its name."""
    rows = from_ipc(release.ipc)
    message = (
        "the release exists already with other rows, or does not go on from what is published, or its partition is"
        " parked for such a release (restricted/parked); a release is never replaced"
    )
    name = version_name(release.release_id, _digest(data) if release.slot is None else release.slot.digest)
    records = tuple(
        {
            "reason": CONFLICT,
            "field": None,
            "message": message,
            "window_end": release.window_end,
            "source": f"release {release.release_id}",
            "part": name,
            "row": {name: _text(value) for name, value in row.items()},
        }
        for row in rows.to_pylist()
    )
    return RejectedRows(f"conflict-{name}", records)


def _is_there(path: str, data: bytes) -> bool:
    return bool(storage.exists(path)) and same_releases(read_whole(path), data)


def _workspace(output: str) -> str | None:
    """Where files are made before they appear: what a crash leaves of them must not lie among the releases."""
    restricted = restricted_directory(output)
    return restricted if is_local(restricted) else None


class _WriteRelease(beam.DoFn):
    def __init__(
        self, output: str, schema: Mapping[str, Any], policy: Policy, release_format: ReleaseFormat
    ) -> None:
        super().__init__()
        self._format = release_format
        self._directory = release_directory(output)
        self._workspace = _workspace(output)
        self._schema = schema
        self._slots = ReleaseSlots(output, policy)
        self._releases = Metrics.counter(NAMESPACE, "releases")
        self._rows = Metrics.counter(NAMESPACE, "rows_released")
        self._microseconds = Metrics.counter(NAMESPACE, "write_microseconds")

    def setup(self) -> None:
        make_directory(self._directory)
        if self._workspace is not None:
            make_directory(self._workspace, private=True)

    def process(self, release: Release) -> Iterable[Any]:
        begin = time.perf_counter()
        rows = from_ipc(release.ipc)
        data = _release_file(rows, release.release_id, self._schema, self._format)
        path = self._place(release.release_id)
        # What is out already is no conflict of a partition that was parked since: its rows are not withheld.
        there = self._slots.is_parked(release) and _is_there(path, data)
        if not there and not self._slots.admit(release):
            yield from withheld(release, data)
            return
        if create_if_absent(path, data, same=same_releases, workspace=self._workspace) is Outcome.DIFFERENT:
            self._slots.conflict(release)
            yield from withheld(release, data)
            return
        self._releases.inc()
        self._rows.inc(rows.num_rows)
        self._microseconds.inc(int((time.perf_counter() - begin) * 1e6))
        yield from published(release)

    def _place(self, release_id: str) -> str:
        """The release's file: in whatever format it is out already, or this one's."""
        own, *others = (
            storage.join(self._directory, release_id + each.suffix)
            for each in sorted(ReleaseFormat, key=lambda each: each is not self._format)
        )
        return next((path for path in others if storage.exists(path)), own)


_COUNTS = ("rows_new", "rows_waited", "rows_waiting", "rows_rejected")


class _WriteMetrics(beam.DoFn):
    def __init__(self, output: str, policy: Policy) -> None:
        super().__init__()
        self._output = output
        self._public = policy.metrics is MetricsAccess.PUBLIC

    def setup(self) -> None:
        make_directory(restricted_directory(self._output), private=True)
        make_directory(metrics_directory(self._output), private=True)
        if self._public:
            make_directory(public_metrics_directory(self._output))
        self._schema = metrics_schema()
        self._public_schema = public_metrics_schema(self._schema)

    def process(self, record: Mapping[str, Any]) -> Iterable[str]:
        name, digest = record["release_id"], record.get("digest")
        if not record["released"]:
            if digest is None and self._is_told(record):
                return
            # Under a name of its own: a release of this id may be there, or come when the right state goes on.
            start = f"-{record['job_start']}" if record.get("job_start") else ""
            name = f"unreleased-{name}" if digest is None else f"withheld-{version_name(name, digest)}{start}"
        path = storage.join(metrics_directory(self._output), f"{name}.avro")
        create_if_absent(path, records_file([record], self._schema, name), private=True)
        # Of a window that released nothing, the mere existence of a file would show that rows were left out.
        if self._public and record["released"]:
            shown = records_file([public_metrics(record, self._schema)], self._public_schema, name)
            public = storage.join(public_metrics_directory(self._output), f"{name}.avro")
            create_if_absent(public, shown, workspace=_workspace(self._output))
        yield path

    def _is_told(self, record: Mapping[str, Any]) -> bool:
        """Whether an earlier build, which named them as releases, has told this window without a release."""
        path = storage.join(metrics_directory(self._output), f"{record['release_id']}.avro")
        if not storage.exists(path):
            return False
        (there,) = fastavro.reader(BytesIO(read_whole(path)))
        return not there["released"] and all(there[name] == record[name] for name in _COUNTS)


class _WriteRejected(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output
        self._directory = rejected_directory(output)

    def setup(self) -> None:
        make_directory(restricted_directory(self._output), private=True)
        make_directory(self._directory, private=True)
        self._schema = rejected_schema()

    def process(self, rejected: RejectedRows) -> Iterable[str]:
        if not rejected.records:
            return
        name = rejected.name or uuid.uuid4().hex
        data = records_file(rejected.records, self._schema, name)
        path = storage.join(self._directory, f"{name}.avro")
        if create_if_absent(path, data, private=True, same=same_records) is Outcome.DIFFERENT:
            path = storage.join(self._directory, f"{name}-{_digest(data)}.avro")
            create_if_absent(path, data, private=True)
        Metrics.counter(NAMESPACE, "rows_rejected").inc(len(rejected.records))
        for reason, rows in Counter(record["reason"] for record in rejected.records).items():
            Metrics.counter(NAMESPACE, f"rows_rejected_{reason}").inc(rows)
        for (reason, field), rows in count_unfit(rejected.records).items():
            Metrics.counter(NAMESPACE, unfit_counter(reason, field)).inc(rows)
        yield path


class _WriteCarried(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, state: CarriedState) -> Iterable[str]:
        folder = carried_directory(self._output)
        for place in (restricted_directory(self._output), folder):
            make_directory(place, private=True)
        path = storage.join(folder, f"{state.partition.hex()}{CARRIED_SUFFIX}")
        replace_whole(path, state.to_bytes(), workspace=_workspace(self._output))
        yield path


def _sync_marker(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"kanonflow sync").digest()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _text(value: Any) -> str | None:
    """A published value as text; ranges and sets as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)
