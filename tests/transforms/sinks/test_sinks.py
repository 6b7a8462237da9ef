"""What the sinks write, once and only once."""

import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing import test_stream as stepped
from apache_beam.transforms.window import TimestampedValue

from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.release_format import RELEASE_FORMATS, SCHEMA_KEY
from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.lineage.published_slots import PublishedSlots, holds_slots
from kanonflow.transforms.lineage.release_lineage import Claim, Slot
from kanonflow.transforms.rows.elements import RejectedRows, Release, to_ipc
from kanonflow.transforms.sinks.sinks import WriteMetrics, WriteRejected, WriteReleases, release_file
from tests.object_store import ObjectStore, object_store
from tests.pass_through import exact_boxes, metrics_record
from tests.runners import bounded_pipeline, loopback_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, feed_policy

pytestmark = pytest.mark.thorough

REJECTED = {
    "reason": "bad_value",
    "field": "age",
    "message": "age: not a number",
    "window_end": None,
    "source": "a.csv",
    "row": {"age": "x", "job": None},
}


def _policy(**changes: Any) -> Policy:
    fields = {
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "job": {"role": "quasi", "type": "categorical"},
        "amount": {"role": "sensitive", "as": "decimal(9,2)"},
    }
    return parse_policy({"version": 1, "k": 2, "fields": fields} | changes, "test", "test")


@pytest.fixture(scope="module")
def bound() -> BoundPolicy:
    names = ("age", "job", "amount")
    return bind(_policy(), pa.schema([(name, pa.string()) for name in names]), text=True, source="test")


def _release(bound: BoundPolicy, ages: list[int | None], release_id: str = "ab12") -> Release:
    rows = pa.table(
        {
            "age": pa.array(ages, pa.int32()),
            "job": pa.array(["nurse"] * len(ages)),
            "amount": pa.array([None] * len(ages), pa.decimal128(9, 2)),
        }
    )
    return Release(release_id, None, None, to_ipc(exact_boxes(rows, bound, release_id)))


def _write(
    output: Path, bound: BoundPolicy, releases: Iterable[Release], release_format: str = "avro"
) -> dict[str, int]:
    """Run the release sink, and the rejected sink behind it; its counters but for the time that writing took."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    sink = WriteReleases(str(output), bound, release_format=release_format)
    written = pipeline | beam.Create(list(releases)) | sink
    _ = written.conflicts | WriteRejected(str(output))
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_namespace("kanonflow"))["counters"]
    found = {counter.key.metric.name: counter.result for counter in counters}
    if found.get("releases"):
        assert found.pop("write_microseconds") > 0
    return found


def _connect(output: Path | str, bound: BoundPolicy, releases: Any, metrics: Any, rejected: Any) -> None:
    written = releases | WriteReleases(str(output), bound)
    _ = metrics | WriteMetrics(str(output), bound.policy)
    _ = (rejected, written.conflicts) | beam.Flatten() | WriteRejected(str(output))


def _all_files(output: Path) -> list[str]:
    return sorted(path.name for path in output.rglob("*") if path.is_file())


def _read(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_release_is_one_file_with_its_rows(tmp_path: Path, bound: BoundPolicy) -> None:
    """release/<release_id>.avro holds the rows, generalized fields as records and arrays, and the policy's
    description of them in its schema; nothing else is in the folder."""
    counters = _write(tmp_path, bound, [_release(bound, [30, None]), _release(bound, [40], "cd34")])
    assert _files(tmp_path / "release") == ["ab12.avro", "cd34.avro"]
    rows = _read(tmp_path / "release" / "ab12.avro")
    assert [row["age"] for row in rows] == [
        {"min": 30, "max": 30, "nulls": False},
        {"min": None, "max": None, "nulls": True},
    ]
    assert rows[0]["job"] == ["nurse"]
    assert counters == {"releases": 2, "rows_released": 3}


@pytest.mark.parametrize("open_pipeline", [bounded_pipeline, loopback_pipeline])
def test_every_sink_writes_on_bounded_runners(
    tmp_path: Path, bound: BoundPolicy, open_pipeline: Callable[..., Any]
) -> None:
    """In-process and through a portable job service: one file each."""
    with open_pipeline() as pipeline:
        _connect(
            tmp_path,
            bound,
            pipeline | "R" >> beam.Create([_release(bound, [1])]),
            pipeline | "M" >> beam.Create([metrics_record("ab12")]),
            pipeline | "X" >> beam.Create([RejectedRows("b1", (REJECTED,))]),
        )
    assert _all_files(tmp_path) == ["ab12.avro", "ab12.avro", "b1.avro"]


def test_every_sink_writes_late_elements_of_a_stream(tmp_path: Path, bound: BoundPolicy) -> None:
    """What arrives behind the watermark is written like everything else: no sink groups or drops."""
    with streaming_pipeline() as pipeline:
        stream = (
            stepped.TestStream()
            .advance_watermark_to(10)
            .add_elements([TimestampedValue(_release(bound, [1], "late"), 5)])
            .advance_watermark_to(100)
            .add_elements([TimestampedValue(_release(bound, [2], "later"), 5)])
            .advance_watermark_to_infinity()
        )
        releases = pipeline | stream
        metrics = releases | beam.Map(lambda release: metrics_record(release.release_id))
        rejected = releases | beam.Map(lambda release: RejectedRows(release.release_id, (REJECTED,)))
        _connect(tmp_path, bound, releases, metrics, rejected)
    assert _all_files(tmp_path) == ["late.avro"] * 3 + ["later.avro"] * 3


def test_equal_releases_give_equal_bytes(bound: BoundPolicy) -> None:
    """A file is a function of the release: no clock, no random marker; another id is another marker."""
    schema = release_avro_schema(bound)
    first, again = (release_file(_release(bound, [1, 2, 3]), schema) for _ in range(2))
    assert first == again
    assert first[-16:] != release_file(_release(bound, [1, 2, 3], "other"), schema)[-16:]


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
@pytest.mark.parametrize("again", RELEASE_FORMATS)
def test_writing_a_release_again_changes_nothing(
    tmp_path: Path, bound: BoundPolicy, release_format: str, again: str
) -> None:
    """A retry finds its file: same inode, same time, no conflict, and its rows count as released. One that would
    write another format finds it too."""
    _write(tmp_path, bound, [_release(bound, [30, 31])], release_format)
    path = tmp_path / "release" / f"ab12.{release_format}"
    before = path.stat()
    counters = _write(tmp_path, bound, [_release(bound, [30, 31])], again)
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert counters == {"releases": 1, "rows_released": 2}
    assert _files(tmp_path / "release") == [path.name]


def test_a_retry_on_another_pyarrow_finds_its_file(tmp_path: Path, bound: BoundPolicy) -> None:
    """The same rows in other bytes are no other release; the file stays as it is."""
    _write(tmp_path, bound, [_release(bound, [30, 31])], "parquet")
    path = tmp_path / "release" / "ab12.parquet"
    file = pq.ParquetFile(path)
    schema, rows = file.metadata.metadata[SCHEMA_KEY.encode()], file.read()
    with pq.ParquetWriter(path, rows.schema.remove_metadata(), compression="zstd") as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({SCHEMA_KEY: schema})
    before = path.read_bytes()
    counters = _write(tmp_path, bound, [_release(bound, [30, 31])], "parquet")
    assert counters == {"releases": 1, "rows_released": 2}
    assert path.read_bytes() == before


def test_a_parquet_release_is_one_file_with_its_rows(tmp_path: Path, bound: BoundPolicy) -> None:
    """Generalized fields as structs and lists; metrics and rejected rows are Avro in any case."""
    _write(tmp_path, bound, [_release(bound, [30, None])], "parquet")
    rows = pq.read_table(tmp_path / "release" / "ab12.parquet").to_pylist()
    _write(tmp_path / "other", bound, [_release(bound, [30, None])])
    assert rows == _read(tmp_path / "other" / "release" / "ab12.avro")
    assert [path.name for path in tmp_path.rglob("*.tmp")] == []


def test_an_unknown_format_is_refused(bound: BoundPolicy) -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match="orc"):
        WriteReleases("out", bound, release_format="orc")


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
@pytest.mark.parametrize("again", RELEASE_FORMATS)
def test_a_release_is_never_overwritten(
    tmp_path: Path, bound: BoundPolicy, release_format: str, again: str
) -> None:
    """Other rows in a slot that is taken: the file stays, a conflict is counted, and the new rows are
    rejected rows with that reason; replayed they are written once. No second file stands there in another format."""
    _write(tmp_path, bound, [_release(bound, [30, 31])], release_format)
    place = tmp_path / "release" / f"ab12.{release_format}"
    before = place.read_bytes()
    for _ in range(2):
        counters = _write(tmp_path, bound, [_release(bound, [50, 51])], again)
        assert counters == {
            "release_conflict": 1,
            "rows_rejected": 2,
            "rows_rejected_release_conflict": 2,
        }
    assert place.read_bytes() == before
    assert _files(tmp_path / "release") == [place.name]
    (path,) = (tmp_path / "restricted" / "rejected").iterdir()
    records = _read(path)
    assert [record["reason"] for record in records] == ["release_conflict"] * 2
    assert '"min": 50' in records[0]["row"]["age"]


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
def test_a_conflict_parks_the_partition(tmp_path: Path, bound: BoundPolicy, release_format: str) -> None:
    """The release that does not fit and the next one of its partition are withheld; another partition's is not, nor is
    one that is out already and comes again."""

    def made(partition: bytes, part: int, digest: str, *built_on: Claim) -> Release:
        name = f"{partition.hex()}{part}"
        slot = Slot(partition, None, part, name, digest, 1, built_on)
        return _release(bound, [30 + part, 31], name)._replace(slot=slot)

    first = made(b"a", 0, "d0")
    _write(tmp_path, bound, [first], release_format)
    stray = made(b"a", 1, "d1", Claim(None, 0, "other"))
    follows = made(b"a", 2, "d2", Claim(None, 0, "d0"))
    counters = _write(tmp_path, bound, [stray], release_format)
    assert (counters["release_conflict"], counters["partitions_parked"]) == (1, 1)
    releases = [follows, stray, first, made(b"b", 0, "d0")]
    counters = _write(tmp_path, bound, releases, release_format)
    assert (counters["release_conflict"], counters["partitions_parked"]) == (2, 1)  # of a new attempt
    assert (counters["releases"], counters["rows_rejected"]) == (2, 4)
    assert _files(tmp_path / "release") == [f"610.{release_format}", f"620.{release_format}"]
    told = json.loads((tmp_path / "restricted" / "parked" / b"a".hex()).read_text())
    assert (told["release_id"], told["published"]) == ("611", "610")


def test_slots_are_kept_on_an_object_store(bound: BoundPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Created once, found by listing, judged as on this machine's disk."""
    with object_store(monkeypatch):
        slots = PublishedSlots("gs://bucket/out", feed_policy(max_delay="2h"))
        assert (slots.near(b"a", 5 * HOUR), slots.newest_end(b"a")) == ([], None)
        early = Slot(b"a", 3 * HOUR, 0, "r3", "d3", 1)
        late = Slot(b"a", 5 * HOUR, 0, "r5", "d5", 2, (early.claim,))
        assert slots.take(early) is None
        assert slots.take(late) is None
        assert slots.near(b"a", 5 * HOUR) == [early, late]
        assert (slots.newest_end(b"a"), slots.newest_end(b"b")) == (5 * HOUR, None)
        assert slots.take(early._replace(digest="other")) == early
        assert slots.take(Slot(b"a", 4 * HOUR, 0, "r4", "d4", 1, (early.claim,))) == late
        assert not slots.is_parked(b"a")
        assert slots.park(late, early)
        assert PublishedSlots("gs://bucket/out", feed_policy(max_delay="2h")).is_parked(b"a")
        assert holds_slots("gs://bucket/out")
        assert not holds_slots("gs://bucket/other")


def test_the_first_metrics_of_a_release_are_kept(tmp_path: Path) -> None:
    """Metrics hold timings, so a retry has others; the first file stays, and it is no conflict."""
    for milliseconds in (1.0, 2.0):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            record = metrics_record("ab12", solve_ms=milliseconds)
            _ = pipeline | beam.Create([record]) | WriteMetrics(str(tmp_path), _policy())
    (path,) = (tmp_path / "restricted" / "metrics").iterdir()
    assert [record["solve_ms"] for record in _read(path)] == [1.0]
    assert not (tmp_path / "metrics").exists()


@pytest.mark.parametrize("rejected", [3, 4])
def test_a_window_without_a_release_that_an_earlier_build_told_is_told_once(
    tmp_path: Path, rejected: int
) -> None:
    """Build 26c8339 named its metrics as those of releases. Made again, it is known there; another state's is not it,
    nor is a release of that name."""
    folder = tmp_path / "restricted" / "metrics"
    told = {"released": False, "kind": "expiry", "rows_new": 7, "rows_waiting": 4}
    for name in ("ab12", "cd34"):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            record = metrics_record(name, **(told | {"released": name == "cd34"}), rows_rejected={"late": 3})
            _ = pipeline | beam.Create([record]) | WriteMetrics(str(tmp_path), _policy())
    (folder / "unreleased-ab12.avro").rename(folder / "ab12.avro")
    records = [metrics_record(name, **told, rows_rejected={"late": rejected}) for name in ("ab12", "cd34")]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create(records) | WriteMetrics(str(tmp_path), _policy())
    again = ["unreleased-ab12.avro"] if rejected == 4 else []
    assert _files(folder) == ["ab12.avro", "cd34.avro", *again, "unreleased-cd34.avro"]


def test_public_metrics_are_an_allow_list(tmp_path: Path) -> None:
    """metrics: public puts what may be known of a release next to it: losses of the boxes to 3 digits, counts of
    people, the ledger in steps; the exact record stays in restricted/. Of a window without a release there is no
    public file, which would itself tell that rows were left out."""
    record = metrics_record(
        "ab12",
        protect="individual",
        gcp=0.2,
        release_gcp=0.123456,
        release_ncp={"age": 0.98765},
        loss_end=0.13,
        rows_released=19,
        individuals=19,
        rows_rejected={"too_few_peers": 1, "late": 29},
        rejected_shared={"too_few_peers": 0, "late": 28},
        evaluations=4000,
    )
    records = [record, metrics_record("cd34", released=False, kind="expiry")]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create(records) | WriteMetrics(str(tmp_path), _policy(metrics="public"))
    assert _files(tmp_path / "metrics") == ["ab12.avro"]
    assert _files(tmp_path / "restricted" / "metrics") == ["ab12.avro", "unreleased-cd34.avro"]
    (shown,) = _read(tmp_path / "metrics" / "ab12.avro")
    (exact,) = _read(tmp_path / "restricted" / "metrics" / "ab12.avro")
    assert (shown["gcp"], shown["ncp"]) == (0.123, {"age": 0.988})
    assert (shown["rows_released"], shown["individuals"]) == (19, 19)
    assert (shown["rows_rejected"], shown["rows_waiting"]) == ({"late": 20}, 0)
    assert not {"loss_end", "evaluations", "rows_new", "partition", "rejected_shared"} & shown.keys()
    assert (exact["loss_end"], exact["gcp"], exact["rows_rejected"]["late"]) == (0.13, 0.2, 29)


def test_rejected_rows_are_never_lost_and_never_doubled(tmp_path: Path) -> None:
    """The same batch twice is one file; other rows under the same name get a file of their own; rows without
    a name get one each time."""
    other = REJECTED | {"reason": "late"}
    for records in ([REJECTED], [REJECTED], [other], [other]):
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            _ = pipeline | beam.Create([RejectedRows("b1", tuple(records))]) | WriteRejected(str(tmp_path))
    folder = tmp_path / "restricted" / "rejected"
    assert sorted(_read(path)[0]["reason"] for path in folder.iterdir()) == ["bad_value", "late"]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        nameless = [RejectedRows("", (REJECTED,))] * 2
        _ = pipeline | beam.Create(nameless) | WriteRejected(str(tmp_path))
    assert len(list(folder.iterdir())) == 4


def test_restricted_is_for_its_owner_only(tmp_path: Path, bound: BoundPolicy) -> None:
    """restricted/ and its folders are 0700, its files 0600; release files follow the umask."""
    os.makedirs(tmp_path / "restricted")
    os.chmod(tmp_path / "restricted", 0o755)
    make_output_directories(str(tmp_path), _policy())
    _write(tmp_path, bound, [_release(bound, [1])])
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([metrics_record("ab12")]) | WriteMetrics(str(tmp_path), _policy())
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([RejectedRows("b", (REJECTED,))]) | WriteRejected(str(tmp_path))
    for path in (tmp_path / "restricted", *(tmp_path / "restricted").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    umask = os.umask(0)
    os.umask(umask)
    mode = stat.S_IMODE((tmp_path / "release" / "ab12.avro").stat().st_mode)
    assert mode == 0o666 & ~umask


def test_folders_exist_when_nothing_is_released(tmp_path: Path) -> None:
    """An empty run leaves empty folders, not missing ones."""
    make_output_directories(str(tmp_path), _policy(metrics="public"))
    folders = ("release", "metrics", "restricted/metrics", "restricted/rejected")
    assert all((tmp_path / folder).is_dir() for folder in folders)


def test_creating_is_atomic_and_first_come(tmp_path: Path) -> None:
    """create_if_absent never changes a file, says what is there, and leaves no temporary files."""
    path = str(tmp_path / "x")
    assert create_if_absent(path, b"one") is Outcome.CREATED
    assert create_if_absent(path, b"one") is Outcome.SAME
    assert create_if_absent(path, b"two") is Outcome.DIFFERENT
    assert (tmp_path / "x").read_bytes() == b"one"
    assert _files(tmp_path) == ["x"]


def test_of_two_that_create_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears between the look and the link is not overwritten."""
    path = tmp_path / "x"
    link = os.link

    def late(source: str, target: str) -> None:
        path.write_bytes(b"other")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert create_if_absent(str(path), b"mine") is Outcome.DIFFERENT
    assert (path.read_bytes(), _files(tmp_path)) == (b"other", ["x"])


def test_without_hard_links_a_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot link still gets its file, and still keeps the one it has."""

    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "x")
    assert create_if_absent(path, b"one") is Outcome.CREATED
    assert create_if_absent(path, b"two") is Outcome.DIFFERENT
    assert _files(tmp_path) == ["x"]


BUCKET = "gs://demo-bucket-of-releases/out"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store behind gs://."""
    with object_store(monkeypatch) as store:
        yield store


def test_in_a_bucket_the_service_decides_who_was_first(bucket: ObjectStore) -> None:
    """An upload carries the precondition that there is no object yet; what is there is never replaced."""
    path = f"{BUCKET}/a.avro"
    assert create_if_absent(path, b"first") is Outcome.CREATED
    assert create_if_absent(path, b"first") is Outcome.SAME
    assert create_if_absent(path, b"second") is Outcome.DIFFERENT
    assert bucket.objects == {path: b"first"}
    uploads = [query for method, _, query in bucket.requests if method == "POST"]
    assert [query.get("ifGenerationMatch") for query in uploads] == ["0"] * 3


def test_of_workers_that_upload_at_once_one_creates_the_object(bucket: ObjectStore) -> None:
    """Nothing lies between the test and the creation, and no temporary object is left."""
    path, outcomes = f"{BUCKET}/a.avro", []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        outcomes.append((create_if_absent(path, b"%d" % number), b"%d" % number))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    created = [data for outcome, data in outcomes if outcome is Outcome.CREATED]
    assert created == [bucket.objects[path]]
    assert sorted(outcome for outcome, _ in outcomes) == [Outcome.CREATED] + [Outcome.DIFFERENT] * 7
    assert list(bucket.objects) == [path]


def test_an_upload_whose_answer_was_lost_finds_its_own_object(bucket: ObjectStore) -> None:
    """The client sends it again and is told that it is there already: no conflict."""
    bucket.lose_answers = 1
    assert create_if_absent(f"{BUCKET}/a.avro", b"first") is Outcome.SAME
    assert sum(method == "POST" for method, _, _ in bucket.requests) == 2


def test_every_sink_writes_to_a_bucket(bucket: ObjectStore, bound: BoundPolicy) -> None:
    """Releases, metrics, rejected rows and the rows of a conflict are objects under the output's prefix."""
    for ages in ([1, 2], [3, 4]):
        with bounded_pipeline() as pipeline:
            _connect(
                BUCKET,
                bound,
                pipeline | "R" >> beam.Create([_release(bound, ages)]),
                pipeline | "M" >> beam.Create([metrics_record("ab12")]),
                pipeline | "X" >> beam.Create([RejectedRows("b1", (REJECTED,))]),
            )
    names = sorted(path.removeprefix(f"{BUCKET}/") for path in bucket.objects)
    conflict = names.pop()
    assert names == [
        "release/ab12.avro",
        "restricted/metrics/ab12.avro",
        "restricted/rejected/b1.avro",
    ]
    assert conflict.startswith("restricted/rejected/conflict-ab12-")
    (first,) = (data for path, data in bucket.objects.items() if path.endswith("release/ab12.avro"))
    assert first == release_file(_release(bound, [1, 2]), release_avro_schema(bound))
