"""The directory as a feed: every file once and whole, from any position on, whatever is wrong with a file."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

from kanonflow.pipelines.feeds import arriving_files, columnar_files, csv_files
from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles, ArrivingFilesReader, FileChangedError
from kanonflow.pipelines.feeds.polled_source import Chunk, PolledSource, ReadPolled
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from tests.runners import bounded_pipeline, loopback_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, references, row

pytestmark = pytest.mark.thorough

POLICY = feed_policy(others="refuse")
BOUND = bound_feed(POLICY)
COLUMNS = ("who", "when", "age", "job", "town", "amount", "reference")
NOW = START / 1000 + 10 * 3600
CHUNK = 16_384


def source(directory: Path, **changes: object) -> ArrivingFiles:
    """The feed of text rows, at ten hours after START."""
    return ArrivingFiles(str(directory), BOUND, clock=lambda: NOW, **changes)  # type: ignore[arg-type]


def csv(rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> bytes:
    """Rows as a CSV file."""
    lines = [",".join(columns), *(",".join(str(each[name]) for name in columns) for each in rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def arrive(directory: Path, name: str, *hours: float, first: int = 0) -> None:
    """A CSV file with a row at each of the hours, under its final name at once."""
    rows = [row(first + number, number, hour) for number, hour in enumerate(hours)]
    (directory / ".coming").write_bytes(csv(rows))
    (directory / ".coming").rename(directory / name)


def chunks(reader: ArrivingFilesReader, position: bytes = b"", max_rows: int = CHUNK) -> Iterator[Chunk]:
    """What comes out, read by read, up to where there is nothing more for now."""
    for _ in range(200):
        chunk = reader.read(position, max_rows)
        yield chunk
        position = chunk.position
        if not chunk.more:
            return
    raise AssertionError("the reader does not come to rest")


def numbers(read: Sequence[Chunk]) -> list[str]:
    """The references of all rows, in the order of reading."""
    return [
        reference
        for chunk in read
        for _, batch in chunk.batches
        for reference in from_ipc(batch.ipc).column("reference").to_pylist()
    ]


def broken(read: Sequence[Chunk]) -> list[dict]:
    """All broken records."""
    return [dict(record) for chunk in read for _, batch in chunk.batches for record in batch.broken]


def test_files_are_read_once_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Also one that arrives late under an earlier name; nothing is read twice."""
    arrive(tmp_path, "b.csv", 0.1, 0.2, first=10)
    arrive(tmp_path, "a.csv", 1.5, first=20)
    reader = source(tmp_path).open()
    read = list(chunks(reader))
    assert numbers(read) == ["r20", "r10", "r11"]
    arrive(tmp_path, "a0.csv", 0.3, first=30)
    late = list(chunks(reader, read[-1].position))
    assert numbers(late) == ["r30"]
    assert list(chunks(reader, late[-1].position)) == [
        Chunk((), late[-1].position, START + int(1.5 * HOUR), more=False)
    ]


def test_progress_counts_files_that_were_read_to_their_end(tmp_path: Path) -> None:
    """The newest event of these only, and it never goes back; a batch carries its oldest event."""
    arrive(tmp_path, "a.csv", 3.0, 1.0, 2.0)
    arrive(tmp_path, "b.csv", 0.5)
    read = list(chunks(source(tmp_path).open()))
    seen = [(chunk.latest_ms, [at for at, _ in chunk.batches]) for chunk in read]
    assert seen == [
        (None, []),
        (START + 3 * HOUR, [START + HOUR]),
        (START + 3 * HOUR, [START + HOUR // 2]),
    ]


def test_a_clock_that_is_wrong_does_not_move_the_progress(tmp_path: Path) -> None:
    """An event more than a day ahead does not count, nor does one that is no time; both are handed on."""
    rows = [row(0, 0, 2), row(1, 1, 5 * 24), row(2, 2, 0) | {"when": "soon"}, row(3, 3, 0) | {"when": ""}]
    (tmp_path / "a.csv").write_bytes(csv(rows))
    read = list(chunks(source(tmp_path).open()))
    assert read[-1].latest_ms == START + 2 * HOUR
    assert len(numbers(read)) == 4
    (tmp_path / "b.csv").write_bytes(csv(rows[1:]))
    assert list(chunks(source(tmp_path).open()))[-1].latest_ms == START + 2 * HOUR


def test_without_a_time_field_there_is_no_progress(tmp_path: Path) -> None:
    """Then all is one window, which closes when the feed ends."""
    arrive(tmp_path, "a.csv", 1.0)
    bound = bound_feed(feed_policy(window=None))
    (chosen, read) = chunks(ArrivingFiles(str(tmp_path), bound).open())
    assert (chosen.latest_ms, read.latest_ms) == (None, None)
    assert [at for at, _ in read.batches] == [None]


def test_unfinished_files_and_folders_are_not_read(tmp_path: Path) -> None:
    """Nor what the pattern does not match; a file is read once it has its name."""
    for name in (".a.csv", "_a.csv", "a.csv.tmp", "a.csv.part", "other.csv"):
        arrive(tmp_path, name, 1.0)
    (tmp_path / "folder.csv").mkdir()
    arrive(tmp_path / "folder.csv", "a.csv", 1.0)
    reader = source(tmp_path, pattern="a*.csv").open()
    (nothing,) = chunks(reader)
    assert (nothing.batches, nothing.more, nothing.done) == ((), False, False)
    (tmp_path / "a.csv.tmp").rename(tmp_path / "a.csv")
    assert numbers(list(chunks(reader, nothing.position))) == ["r0"]


def test_a_directory_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    """A feed may be started before its producer."""
    reader = source(tmp_path / "later").open()
    (nothing,) = chunks(reader)
    (tmp_path / "later").mkdir()
    arrive(tmp_path / "later", "a.csv", 1.0)
    assert numbers(list(chunks(reader, nothing.position))) == ["r0"]


def test_the_end_marker_ends_the_feed_after_all_files(tmp_path: Path) -> None:
    """Not before the others are read, and for good."""
    (tmp_path / "_END").touch()
    arrive(tmp_path, "a.csv", 1.0)
    reader = source(tmp_path).open()
    read = list(chunks(reader))
    assert [chunk.done for chunk in read] == [False, True]
    assert numbers(read) == ["r0"]
    assert reader.read(read[-1].position, CHUNK).done
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_END").touch()
    assert [chunk.done for chunk in chunks(source(tmp_path / "empty").open())] == [True]


def test_a_file_that_comes_just_before_the_end_marker_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that saw the marker but not the file before it is not believed at once."""
    (tmp_path / "_END").touch()
    listed = arriving_files.list_arrived

    def slow_listing(directory: str, pattern: str) -> object:
        monkeypatch.setattr(arriving_files, "list_arrived", listed)
        before = listed(directory, pattern)
        arrive(tmp_path, "a.csv", 1.0)
        return before

    monkeypatch.setattr(arriving_files, "list_arrived", slow_listing)
    assert numbers(list(chunks(source(tmp_path).open()))) == ["r0"]


def write_parquet(path: Path, count: int) -> None:
    """The rows of a day's many people, in row groups of their own size."""
    rows = [row(number, number % 50, 9 * number / count) for number in range(count)]
    pq.write_table(pa.Table.from_pylist([{name: each[name] for name in COLUMNS} for each in rows]), path)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_any_position_gives_the_same_rows_to_any_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In the middle of a file, with a new reader and with one that stands elsewhere; broken rows too."""
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(csv_files, "BROKEN_PER_CHUNK", 40)
    monkeypatch.setattr(columnar_files, "ROWS_PER_BATCH", 1_000)
    path = tmp_path / f"a.{kind}"
    write_parquet(tmp_path / "a.parquet", 4_000)
    if kind != "parquet":
        lines = csv(pq.read_table(tmp_path / "a.parquet").to_pylist()).splitlines(keepends=True)
        lines = [line if number % 30 else b"too,few\n" for number, line in enumerate(lines, 1)]
        path.write_bytes(gzip.compress(b"".join(lines)) if kind == "csv.gz" else b"".join(lines))
        (tmp_path / "a.parquet").unlink()
    arrive(tmp_path, "b.csv", 1.0)
    read = list(chunks(source(tmp_path).open(), max_rows=600))
    assert len(read) > 4
    assert len(numbers(read)) + len(broken(read)) == 4_001
    names = [batch.name for chunk in read for _, batch in chunk.batches]
    assert len(set(names)) == len(names)
    elsewhere = source(tmp_path).open()
    content = {batch.name: batch for chunk in read for _, batch in chunk.batches}
    for number in reversed(range(len(read) - 1)):
        for reader in (elsewhere, source(tmp_path).open()):
            again = list(chunks(reader, read[number].position))
            rest = {batch.name: batch for chunk in again for _, batch in chunk.batches}
            expected = {batch.name for chunk in read[number + 1 :] for _, batch in chunk.batches}
            assert rest == {name: content[name] for name in expected}
            assert again[-1] == read[-1]._replace(batches=again[-1].batches)


def test_what_a_position_gives_does_not_depend_on_what_arrives(tmp_path: Path) -> None:
    """A file that sorts first arrives after another was chosen: the chosen one is still what the position gives."""
    arrive(tmp_path, "b.csv", 1.0, first=1)
    chosen = source(tmp_path).open().read(b"", CHUNK)
    assert (chosen.batches, chosen.more) == ((), True)
    before = source(tmp_path).open().read(chosen.position, CHUNK).batches
    arrive(tmp_path, "a.csv", 1.0, first=2)
    assert source(tmp_path).open().read(chosen.position, CHUNK).batches == before


def write_avro(path: Path, count: int) -> None:
    """Rows of text as Avro."""
    fields = [{"name": name, "type": "string"} for name in COLUMNS]
    with path.open("wb") as file:
        rows = ({name: each[name] for name in COLUMNS} for each in (row(n, n, 1) for n in range(count)))
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows, codec="deflate")


def test_a_damaged_file_is_one_broken_record_and_the_next_is_read(tmp_path: Path) -> None:
    """Whatever is wrong: reason unparseable, the file's name, no path and no values; and the feed goes on."""
    write_avro(tmp_path / "whole.avro", 20_000)
    cut = (tmp_path / "whole.avro").read_bytes()[:-100_000]
    (tmp_path / "whole.avro").unlink()
    files = {
        "a.avro": (b"Obj\x01broken", "not an Avro file"),
        "b.parquet": (b"PAR1 nothing PAR1", "not a Parquet file"),
        "c.csv.gz": (gzip.compress(csv([row(0, 0, 1)] * 5_000))[:-9], "damaged or cut off"),
        "d.pdf": (b"%PDF", "unknown kind of file"),
        "d.xlsx": (b"PK", "not a workbook"),
        "e.csv": (b"", "the file is empty"),
        "f.avro": (cut, "damaged or cut off"),
        "g\udcff.csv": (b"n\xe4me\n1\n", "the header is not UTF-8 text"),
    }
    for name, (content, _) in files.items():
        (tmp_path / name).write_bytes(content)
    arrive(tmp_path, "z.csv", 1.0, first=77)
    read = list(chunks(source(tmp_path).open()))
    assert read[-2].latest_ms is None
    assert read[-1].latest_ms == START + HOUR
    assert numbers(read)[-1] == "r77"
    records = broken(read)
    assert [record["source"] for record in records] == [name.replace("\udcff", "�") for name in files]
    for record, (_, message) in zip(records, files.values(), strict=True):
        assert (record["reason"], record["field"], record["row"]) == ("unparseable", None, {})
        assert message in record["message"]
        assert str(tmp_path) not in record["message"]
    for chunk in read:
        for _, batch in chunk.batches:
            classify(from_ipc(batch.ipc), BOUND)  # does not raise: the next step takes what a refusal carries


def test_rows_before_the_damage_stay_and_come_again_alike(tmp_path: Path) -> None:
    """A file that is cut off in its middle gives its first rows and one broken record, from any position."""
    write_avro(tmp_path / "a.avro", 60_000)
    (tmp_path / "a.avro").write_bytes((tmp_path / "a.avro").read_bytes()[:-200_000])
    read = list(chunks(source(tmp_path).open()))
    assert len(numbers(read)) >= CHUNK
    assert len(broken(read)) == 1
    assert read[-1].latest_ms is None
    again = [source(tmp_path).open().read(before.position, CHUNK) for before in read[:-1]]
    assert again == read[1:]


@pytest.mark.parametrize("known_by", ["event_id", "bytes"])
def test_a_copy_of_a_file_that_was_read_is_one_broken_record(tmp_path: Path, known_by: str) -> None:
    """Under a second name its rows would be out twice, where no event id tells them. It stays one when the first is
    moved away meanwhile, for a position gives the same rows always; files without rows are no copies."""
    first, other = ([row(who, who, 0.1) for who in each] for each in ((0, 1), (0, 2)))  # as long, and another
    for name, rows in {"a.csv": first, "b.csv": first, "c.csv": other, "d.csv": [], "e.csv": []}.items():
        (tmp_path / name).write_bytes(csv(rows, (*COLUMNS, "event")))
    policy = feed_policy(events=known_by == "event_id")
    feed = ArrivingFiles(str(tmp_path), bound_feed(policy), clock=lambda: NOW)
    seen = list(chunks(feed.open()))
    batches = [batch for chunk in seen for _, batch in chunk.batches]
    rows = sum(from_ipc(batch.ipc).num_rows for batch in batches)
    broken = [record["message"] for batch in batches for record in batch.broken]
    if known_by == "event_id":
        assert (rows, broken) == (6, [])
        return
    assert rows == 4
    (message,) = broken
    assert "it holds what a.csv holds, byte for byte" in message
    begun = next(chunk.position for chunk in seen if b'"copy_of": "a.csv"' in chunk.position)
    (tmp_path / "a.csv").unlink()
    again = feed.open().read(begun, CHUNK)
    assert sum(from_ipc(batch.ipc).num_rows for _, batch in again.batches) == 0


def test_a_file_of_other_columns_is_refused_as_a_whole(tmp_path: Path) -> None:
    """The record names the columns: those that lack, that have no role, that are of another type."""
    (tmp_path / "a.csv").write_bytes(csv([row(0, 0, 1)], COLUMNS[1:]))
    (tmp_path / "b.csv").write_bytes(csv([row(0, 0, 1)], (*COLUMNS, "event")))
    pq.write_table(pa.table({name: [1] for name in COLUMNS}), tmp_path / "c.parquet")
    read = list(chunks(source(tmp_path).open()))
    assert numbers(read) == []
    messages = [record["message"] for record in broken(read)]
    assert "fields that the input does not have: who" in messages[0]
    assert "input fields without a role: event" in messages[1]
    assert "fields.when" in messages[2]


def test_a_typed_feed_takes_typed_files_only(tmp_path: Path) -> None:
    """Same canonical types, in any order of columns; a column without values fits; text and other types do not."""
    rows = [{name: row(n, n, 1)[name] for name in COLUMNS} for n in range(3)]
    text = pa.Table.from_pylist(rows)
    typed = text.set_column(2, "age", text["age"].cast(pa.int32()))
    typed = typed.set_column(1, "when", text["when"].cast(pa.timestamp("us", "UTC")))
    typed = typed.set_column(5, "amount", text["amount"].cast(pa.float64()))
    bound = bind(POLICY, typed.schema, text=False, source="test")
    nanoseconds = typed["when"].cast(pa.timestamp("ns", "UTC"))
    files = {
        "a": typed,
        "b": typed.select(COLUMNS[::-1]).set_column(5, "when", nanoseconds),
        "c": typed.set_column(4, "town", pa.nulls(3)),
        "d": typed.set_column(2, "age", text["age"].cast(pa.float64())),
    }
    for name, table in files.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "e.csv").write_bytes(csv(rows))
    read = list(chunks(ArrivingFiles(str(tmp_path), bound, clock=lambda: NOW).open()))
    assert len(numbers(read)) == 9
    messages = [record["message"] for record in broken(read)]
    assert messages[0].endswith(
        "columns of other types than the feed's: age (double, but the feed has int32)"
    )
    assert "when (text, but the feed has timestamp[ms, tz=UTC])" in messages[1]
    for chunk in read:
        for _, batch in chunk.batches:
            assert not classify(from_ipc(batch.ipc), bound).rejected


def test_a_file_that_changes_while_it_is_read_stops_the_feed(tmp_path: Path) -> None:
    """Changed or gone, between two reads or when a checkpoint comes back to it; put back, it is read on."""
    write_parquet(tmp_path / "a.parquet", 40_000)
    content, stat = (tmp_path / "a.parquet").read_bytes(), (tmp_path / "a.parquet").stat()
    reader = source(tmp_path).open()
    begun = reader.read(reader.read(b"", CHUNK).position, CHUNK)
    write_parquet(tmp_path / "a.parquet", 40_001)
    for each in (reader, source(tmp_path).open()):
        with pytest.raises(FileChangedError, match=r"the file a\.parquet changed while it was read"):
            each.read(begun.position, CHUNK)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileChangedError, match=r"the file a\.parquet was removed"):
        reader.read(begun.position, CHUNK)
    (tmp_path / "a.parquet").write_bytes(content)
    os.utime(tmp_path / "a.parquet", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert len(numbers(list(chunks(reader, begun.position)))) == 40_000 - CHUNK


def test_a_reader_that_failed_does_not_take_its_file_for_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage that fails is no fault of the file: the error gets out, and the next try reads all of the rest."""
    write_parquet(tmp_path / "a.parquet", 40_000)
    reader = source(tmp_path).open()
    begun = reader.read(reader.read(b"", CHUNK).position, CHUNK)

    def fail(*_: object, **__: object) -> None:
        raise OSError("the storage is gone")

    with monkeypatch.context() as patch:
        patch.setattr(arriving_files, "event_times", fail)
        with pytest.raises(OSError, match="the storage is gone"):
            reader.read(begun.position, CHUNK)
    assert len(numbers(list(chunks(reader, begun.position)))) == 40_000 - CHUNK


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    """It must not look like a feed that is quiet."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: cannot be listed \(NotADirectoryError\)"):
        source(tmp_path / "file").open().read(b"", CHUNK)


def test_the_source_travels(tmp_path: Path) -> None:
    """Pickled to a worker, it reads the same; it is what ReadPolled takes."""
    arrive(tmp_path, "a.csv", 1.0)
    here: PolledSource = ArrivingFiles(str(tmp_path), BOUND)
    there: PolledSource = pickle.loads(pickle.dumps(here))
    position = here.open().read(b"", CHUNK).position
    assert there.open().read(position, CHUNK) == here.open().read(position, CHUNK)


@pytest.mark.parametrize("open_pipeline", [bounded_pipeline, loopback_pipeline])
def test_the_feed_of_a_directory_is_anonymized(
    tmp_path: Path, open_pipeline: Callable[..., AbstractContextManager[beam.Pipeline]]
) -> None:
    """From files to releases in a pipeline: all rows of all files, hour by hour; a damaged file ends nothing."""
    for hour in range(3):
        rows = [row(12 * hour + n, n, hour + n / 13) for n in range(12)]
        (tmp_path / f"{hour}.csv").write_bytes(csv(rows))
    (tmp_path / "1a.csv").write_bytes(b"\n\n")
    (tmp_path / "_END").touch()
    with open_pipeline() as pipeline:
        feed = (pipeline | ReadPolled(ArrivingFiles(str(tmp_path), BOUND), POLICY.out_of_orderness_ms)).rows
        done = feed | KAnonymize(POLICY, SECRET)
        released = done.released | beam.FlatMap(
            lambda each: [(each.window_end, name) for name in references(from_ipc(each.ipc))]
        )
        rejected = done.rejected | beam.FlatMap(lambda each: [record["source"] for record in each.records])
        wanted = [(START + (n // 12 + 1) * HOUR, f"r{n}") for n in range(36)]
        assert_that(released, equal_to(wanted), "released")
        assert_that(rejected, equal_to(["1a.csv"]), "rejected")
