"""``kanonflow export --to openlineage``: one OpenLineage event a release, by openlineage-python.

Protocol. An event is emitted through the transport of the library's own configuration, and then written to
``OUT/export.openlineage/ID.json``. A release with that file is not told again. A crash between the two repeats the
event: it has the same run id and the same bytes, so that a receiver knows it. An event is of a release's file that is
there, so nothing is told that is not published.

What is told is what the file of the release says, which is public: names and types of its fields, how many rows it has,
its window, its id, k, what is protected, the epoch, the policy's name. ``--reads`` and ``--writes`` say which data sets
it came from and went to. No path, no host and no user is told: the client's own additions (the git repository of the
working directory, variables of the environment) are left out, for events go to the transport as they are.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.pipelines.analysis.export_release import Counted, Exported, Laid, lay, umask
from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.pipelines.analysis.release_formats import BATCH_ROWS
from kanonflow.pipelines.analysis.released_fields import WINDOW
from kanonflow.schemas.errors import InputError

PRODUCER = "urn:kanonflow"
FACET = "kanonflow_anonymization"
"""Of the output: k, protect, policy, epoch, releaseId."""
FACET_SCHEMA = "urn:kanonflow:openlineage:1:AnonymizationDatasetFacet"
_NAMESPACE = "kanonflow"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
_NOWHERE = ("console", "noop")
"""Transports of the library that nobody receives."""
_WORDS = {"list": "array", "item": "_element"}
"""What Arrow calls an array and its members, as OpenLineage has it."""


def export_lineage(
    directories: Sequence[str],
    output: str | None = None,
    *,
    reads: Sequence[tuple[str, str]] = (),
    writes: Sequence[tuple[str, str]] = (),
) -> Exported:
    """Tell of each release that was not told of yet, in the order of their ids.

    output: the folder of what was told; None: ``export.openlineage`` in the first directory. reads, writes: data sets
    (namespace, name) as a receiver knows them; none: ``POLICY.feed`` and ``POLICY.releases`` of the job's namespace.
    Raises InputError: nothing to read, the extra is missing, no transport is configured, or an event was not received.
    """
    laid = lay(directories, Flat.COLUMNS, {}, {})
    folder = Path(output) if output is not None else Path(directories[0]) / "export.openlineage"
    client = _client()
    counted, already = Counted(last=-(10**9)), 0
    try:
        folder.mkdir(exist_ok=True)
        for path, release in laid.each():
            file = folder / f"{path.stem}.json"
            if file.exists():
                already += 1
                continue
            event = _event(path, release, counted, reads, writes)
            _emit(client, event, path)
            _keep(file, event)
            counted.files += 1
    except OSError as error:
        raise InputError(f"--output {folder}: cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(Exception):
            client.close()
    counted.columns = ()
    return laid.exported(
        directories, f"{client.transport.kind}, {folder}", counted, unit="event", already=already
    )


def _client() -> Any:
    try:
        from openlineage.client import OpenLineageClient
    except ImportError:
        raise InputError("--to openlineage: needs the extra: pip install 'kanonflow[openlineage]'") from None
    try:
        client = OpenLineageClient()
    except Exception as error:  # whatever is wrong with its configuration
        raise InputError(
            f"--to openlineage: its configuration cannot be used ({type(error).__name__})"
        ) from error
    if client.transport.kind in _NOWHERE:
        raise InputError(
            "--to openlineage: no receiver is configured; set OPENLINEAGE_URL, or OPENLINEAGE_CONFIG to a file of"
            " openlineage-python"
        )
    return client


def _emit(client: Any, event: Any, path: Path) -> None:
    """Raises InputError: it was not received."""
    try:
        client.transport.emit(event)
    except Exception as error:  # of whatever the transport is made of
        raise InputError(
            f"{path}: its event was not received by {client.transport.kind} ({type(error).__name__}); the same command"
            " tells it again, and what comes after it"
        ) from error


def _keep(file: Path, event: Any) -> None:
    """Appears whole. Another export may have told it meanwhile, in the same bytes."""
    from openlineage.client.serde import Serde

    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(Serde.to_json(event) + "\n")
        os.chmod(name, 0o666 & ~umask())
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        os.unlink(name)


def _event(
    path: Path,
    release: Laid,
    counted: Counted,
    reads: Sequence[tuple[str, str]],
    writes: Sequence[tuple[str, str]],
) -> Any:
    """The event of one release, which is added to ``counted``."""
    from openlineage.client import event_v2, facet_v2
    from openlineage.client.generated.base import DatasetFacet

    form, epoch = release.releases.form, release.releases.epochs[0]
    before = counted.rows
    window = _window(release, counted)
    rows = counted.rows - before
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or _NAMESPACE
    nominal = {}
    if window is not None:
        nominal["nominalTime"] = facet_v2.nominal_time_run.NominalTimeRunFacet(*window, producer=PRODUCER)
    anonymized = DatasetFacet(producer=PRODUCER).with_additional_properties(
        k=form.k,
        protect="row" if form.single_rows else "individual",
        policy=form.policy,
        epoch=epoch,
        releaseId=path.stem,
    )
    # The class that the library makes for additional members says whose schema they have by this.
    anonymized._schemaURL = FACET_SCHEMA
    facets = {
        "schema": facet_v2.schema_dataset.SchemaDatasetFacet(list(_fields(form.arrow)), producer=PRODUCER),
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet(path.stem, producer=PRODUCER),
        FACET: anonymized,
    }
    counts = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=rows, size=path.stat().st_size, fileCount=1, producer=PRODUCER
    )
    came = reads or [(namespace, f"{form.policy}.feed")]
    went = writes or [(namespace, f"{form.policy}.releases")]
    return event_v2.RunEvent(
        eventType=event_v2.RunState.COMPLETE,
        eventTime=_instant(dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)),
        run=event_v2.Run(str(uuid.uuid5(_RUNS, f"{form.policy} {path.stem}")), nominal),
        job=event_v2.Job(namespace, form.policy),
        inputs=[event_v2.InputDataset(*each) for each in came],
        outputs=[
            event_v2.OutputDataset(*each, facets=facets, outputFacets={"outputStatistics": counts})
            for each in went
        ],
        producer=PRODUCER,
    )


def _window(release: Laid, counted: Counted) -> tuple[str, str] | None:
    """The least start and the greatest end of its rows' windows; None without windows. Its rows are counted."""
    ends: list[tuple[dt.datetime, dt.datetime]] = []
    for rows, days, read in release.batches(BATCH_ROWS):
        counted.take(rows, days, read)
        if days is not None and read:
            start, end = (rows.column(name) for name in WINDOW)
            ends.append((pc.min(start).as_py(), pc.max(end).as_py()))
    if not ends:
        return None
    return _instant(min(start for start, _ in ends)), _instant(max(end for _, end in ends))


def _instant(when: dt.datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(columns: Sequence[pa.Field] | pa.Schema, within: bool = False) -> Iterator[Any]:
    """Names and types of columns, those within a range or a set among them."""
    from openlineage.client.facet_v2 import schema_dataset

    for place, column in enumerate(columns, start=1):
        inner = [column.type.field(number) for number in range(column.type.num_fields)]
        kind = str(column.type).partition("<")[0]
        yield schema_dataset.SchemaDatasetFacetFields(
            _WORDS.get(column.name, column.name) if within else column.name,
            _WORDS.get(kind, kind),
            ordinal_position=place,
            fields=list(_fields(inner, within=True)),
        )
