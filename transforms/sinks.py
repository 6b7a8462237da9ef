"""Idempotent Avro sinks: one file a release, created once, never changed.

    OUT/release/<release_id>.avro               released rows
    OUT/restricted/metrics/<release_id>.avro    one record; if the policy makes metrics public also in
                                                OUT/metrics, rounded
    OUT/restricted/rejected/<name>.avro         rejected rows: raw data

Every sink is a ParDo: what a timer emits may be late, and a GroupByKey downstream would drop it. A bundle
that runs again, a replay after a crash and a resumed run find their files and leave them. A release whose
file exists with OTHER rows is a conflict: it is counted, and its rows become rejected rows, because two
publications of the same people tell an attacker more than either.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import apache_beam as beam
import fastavro
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints.decorators import no_annotations

from kanonflow.schemas.avro_schema import metrics_schema, rejected_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import MetricsAccess, Policy
from kanonflow.transforms.avro_encoding import avro_file, same_records
from kanonflow.transforms.create_if_absent import Outcome, create_if_absent, is_local, make_directory
from kanonflow.transforms.public_metrics import public_metrics, public_metrics_schema
from kanonflow.transforms.raw_batch import RejectedRows, Release, from_ipc

NAMESPACE = "kanonflow"
CONFLICT = "release_conflict"
_CONFLICTS = "conflicts"
_RELEASED = "released"


def release_directory(output: str) -> str:
    """Where release files are."""
    return FileSystems.join(output, "release")


def restricted_directory(output: str) -> str:
    """Where everything is that must stay inside."""
    return FileSystems.join(output, "restricted")


def metrics_directory(output: str) -> str:
    """Where the exact metrics are."""
    return FileSystems.join(restricted_directory(output), "metrics")


def public_metrics_directory(output: str) -> str:
    """Where the rounded metrics are, if the policy makes them public."""
    return FileSystems.join(output, "metrics")


def rejected_directory(output: str) -> str:
    """Where rejected rows are."""
    return FileSystems.join(restricted_directory(output), "rejected")


def make_output_directories(output: str, policy: Policy) -> None:
    """Create the directories of a run, so that they exist even if nothing is ever written to one of them."""
    make_directory(restricted_directory(output), private=True)
    make_directory(rejected_directory(output), private=True)
    make_directory(metrics_directory(output), private=True)
    make_directory(release_directory(output))
    if policy.metrics is MetricsAccess.PUBLIC:
        make_directory(public_metrics_directory(output))


class Written(NamedTuple):
    """What ``WriteReleases`` hands on.

    released: ids of the releases whose file exists now.
    conflicts: rows of the releases that must not be written.
    """

    released: beam.PCollection[str]
    conflicts: beam.PCollection[RejectedRows]


class WriteReleases(beam.PTransform):
    """PCollection[Release] -> Written; files ``OUT/release/<release_id>.avro``.

    Counters: ``releases``, ``rows_released`` (also of files that were there already), ``release_conflict``.
    """

    def __init__(self, output: str, bound: BoundPolicy) -> None:
        super().__init__()
        self._output = output
        self._schema = release_avro_schema(bound)

    @no_annotations  # Beam has no type hint for a tuple of collections, and would warn of this one
    def expand(self, releases: beam.PCollection[Release]) -> Written:
        written = releases | "Write" >> beam.ParDo(_WriteRelease(self._output, self._schema)).with_outputs(
            _CONFLICTS, main=_RELEASED
        )
        return Written(written[_RELEASED], written[_CONFLICTS])


class WriteMetrics(beam.PTransform):
    """PCollection[dict as metrics.avsc] -> PCollection[path]; the first file of a release is kept.

    A retry measures other times, so unlike releases another content is no conflict.
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
    Counters: ``rows_rejected`` and ``rows_rejected_<reason>``.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, rejected: beam.PCollection[RejectedRows]) -> beam.PCollection[str]:
        return rejected | "Write" >> beam.ParDo(_WriteRejected(self._output))


def release_file(release: Release, schema: Mapping[str, Any]) -> bytes:
    """The Avro file of a release. Equal releases give equal bytes: codec, blocks and metadata are fixed, and
    the sync marker, random in most writers, comes from the release id."""
    return avro_file(from_ipc(release.ipc), schema, _sync_marker(release.release_id))


def records_file(records: Iterable[Mapping[str, Any]], schema: Mapping[str, Any], name: str) -> bytes:
    """The Avro file of a few records that are dicts already (metrics, rejected rows)."""
    out = BytesIO()
    fastavro.writer(out, dict(schema), records, codec="deflate", sync_marker=_sync_marker(name))
    return out.getvalue()


def conflicting_rows(release: Release, data: bytes) -> RejectedRows:
    """The rows of a release that lost its slot, as rejected rows; ``data`` is the file it would have been."""
    rows = from_ipc(release.ipc)
    message = "the release exists already with other rows, and a release is never replaced"
    records = tuple(
        {
            "reason": CONFLICT,
            "field": None,
            "message": message,
            "window_end": release.window_end,
            "source": f"release {release.release_id}",
            "row": {name: _text(value) for name, value in row.items()},
        }
        for row in rows.to_pylist()
    )
    return RejectedRows(f"conflict-{release.release_id}-{_digest(data)}", records)


def _workspace(output: str) -> str | None:
    """Where files are made before they appear: what a crash leaves of them must not lie among the releases."""
    restricted = restricted_directory(output)
    return restricted if is_local(restricted) else None


class _WriteRelease(beam.DoFn):
    def __init__(self, output: str, schema: Mapping[str, Any]) -> None:
        super().__init__()
        self._directory = release_directory(output)
        self._workspace = _workspace(output)
        self._schema = schema
        self._releases = Metrics.counter(NAMESPACE, "releases")
        self._rows = Metrics.counter(NAMESPACE, "rows_released")
        self._conflicts = Metrics.counter(NAMESPACE, CONFLICT)

    def setup(self) -> None:
        make_directory(self._directory)
        if self._workspace is not None:
            make_directory(self._workspace, private=True)

    def process(self, release: Release) -> Iterable[Any]:
        data = release_file(release, self._schema)
        path = FileSystems.join(self._directory, f"{release.release_id}.avro")
        if create_if_absent(path, data, same=same_records, workspace=self._workspace) is Outcome.DIFFERENT:
            self._conflicts.inc()
            yield TaggedOutput(_CONFLICTS, conflicting_rows(release, data))
            return
        self._releases.inc()
        self._rows.inc(from_ipc(release.ipc).num_rows)
        yield release.release_id


class _WriteMetrics(beam.DoFn):
    def __init__(self, output: str, policy: Policy) -> None:
        super().__init__()
        self._output = output
        self._public = policy.metrics is MetricsAccess.PUBLIC
        self._k = policy.k

    def setup(self) -> None:
        make_directory(restricted_directory(self._output), private=True)
        make_directory(metrics_directory(self._output), private=True)
        if self._public:
            make_directory(public_metrics_directory(self._output))
        self._schema = metrics_schema()
        self._public_schema = public_metrics_schema(self._schema)

    def process(self, record: Mapping[str, Any]) -> Iterable[str]:
        name = record["release_id"]
        path = FileSystems.join(metrics_directory(self._output), f"{name}.avro")
        create_if_absent(path, records_file([record], self._schema, name), private=True)
        if self._public:
            shown = records_file([public_metrics(record, self._k)], self._public_schema, name)
            public = FileSystems.join(public_metrics_directory(self._output), f"{name}.avro")
            create_if_absent(public, shown, workspace=_workspace(self._output))
        yield path


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
        path = FileSystems.join(self._directory, f"{name}.avro")
        if create_if_absent(path, data, private=True, same=same_records) is Outcome.DIFFERENT:
            path = FileSystems.join(self._directory, f"{name}-{_digest(data)}.avro")
            create_if_absent(path, data, private=True)
        Metrics.counter(NAMESPACE, "rows_rejected").inc(len(rejected.records))
        for record in rejected.records:
            Metrics.counter(NAMESPACE, f"rows_rejected_{record['reason']}").inc()
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
