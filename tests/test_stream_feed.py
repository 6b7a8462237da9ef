"""The feed of the streaming benchmark: its files hold all rows in order of arrival, and its accounts see each fault."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest

from benchmarks.data_sets import DAY_MS
from benchmarks.stream_feed import (
    BEGIN_MS,
    OWN,
    PARTITION,
    REFERENCE,
    WINDOW,
    StreamFeed,
    accounts,
    number,
    records,
    write_stream_feed,
    write_stream_policy,
)
from benchmarks.stream_run import Saver, kind_of
from benchmarks.stream_watch import Watch
from kanonflow.pipelines.commands.demo_feed import FeedShape
from kanonflow.schemas.policy_file import load_policy

HOUR_MS = 3_600_000
ROWS = 500


@pytest.fixture
def feed(tmp_path: Path) -> StreamFeed:
    """Two days in files of six hours."""
    return write_stream_feed(FeedShape(rows=ROWS, days=2, seed=3), tmp_path / "feed", 6 * HOUR_MS)


def test_files_arrive_in_order_of_event_time(feed: StreamFeed) -> None:
    """All rows, each once, in files whose names sort as they arrive and whose newest event time never goes back."""
    names = [file.name for file in feed.files]
    assert names == sorted(names) == sorted(path.name for path in feed.folder.iterdir())
    found = sorted(number(record[REFERENCE]) for record in records(feed.folder))
    assert found == list(range(ROWS))
    assert feed.files[-1].rows == ROWS
    newest = -1
    for file, before in zip(feed.files, [0, *(file.rows for file in feed.files)], strict=False):
        with (feed.folder / file.name).open("rb") as stream:
            times = [int(record["booked_at"].timestamp() * 1000) for record in fastavro.reader(stream)]
        assert len(times) == file.rows - before
        newest = max(newest, *times)
        assert file.newest_ms == newest
        assert file.number == (newest - BEGIN_MS) // (6 * HOUR_MS)


def test_the_file_that_closes_a_window(feed: StreamFeed) -> None:
    """The first one whose newest row is as far past the window's end as rows may be out of order."""
    end = BEGIN_MS + DAY_MS
    closing = feed.closing(end, 600_000)
    assert closing is not None
    at = feed.files.index(closing)
    assert closing.newest_ms >= end + 600_000 > feed.files[at - 1].newest_ms
    assert feed.closing(BEGIN_MS + 2 * DAY_MS, 600_000) is None


@pytest.mark.parametrize("method", [OWN, WINDOW, "l-greedy", "pass-through"])
def test_the_policy_is_partitioned(method: str, tmp_path: Path) -> None:
    """The example policy with a partition, the solver asked for, and the id that the accounts go by."""
    policy = load_policy(write_stream_policy(method, tmp_path / "policy.yaml"))
    assert policy.partition_by == (PARTITION,)
    assert policy.solver.method == ("auto" if method in (OWN, WINDOW) else method)
    assert policy.lasting == (method not in (WINDOW, "pass-through"))
    assert {field.name: field.role for field in policy.fields}[REFERENCE] == "insensitive"


class DecliningCluster:
    """Declines the first request for a savepoint, fails the second, and gives the third."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.asked = 0

    def post(self, path: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        assert (path, wanted["drain"]) == ("/jobs/j/stop", False)
        self.asked += 1
        if self.asked == 1:
            raise OSError("409")
        return {"request-id": str(self.asked)}

    def get(self, path: str) -> dict[str, Any]:
        assert path == f"/jobs/j/savepoints/{self.asked}"
        operation = {"failure-cause": {}} if self.asked == 2 else {"location": "file:///s"}
        return {"status": {"id": "COMPLETED"}, "operation": operation}


def test_a_savepoint_is_asked_for_until_it_is_there(
    feed: StreamFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the middle of the feed on; then the next job goes on from it, and no other one is asked for."""
    cluster: Any = DecliningCluster(tmp_path)
    saver = Saver(cluster, feed, 1)
    watch = Watch(cluster.get, tmp_path, "job", 1, 1.0)
    monkeypatch.setattr(Watch, "running", lambda self: True)
    monkeypatch.setattr(Watch, "job_id", lambda self: "j")
    monkeypatch.setattr(Watch, "watermark", BEGIN_MS)
    saver.tick(watch)
    assert (cluster.asked, saver.resume()) == (0, [])
    monkeypatch.setattr(Watch, "watermark", BEGIN_MS + DAY_MS)
    for _ in range(6):
        saver.tick(watch)
    assert saver.resume() == ["--resume", "--savepoint_path=file:///s"]
    assert (cluster.asked, saver.asked) == (3, False)


def release(output: Path, name: str, rows: Sequence[int]) -> None:
    """A release with nothing but ids."""
    write(output / "release", name, [{REFERENCE: f"T{row:010d}"} for row in rows])


def rejected(output: Path, name: str, rows: Sequence[int], reason: str) -> None:
    """Rejected rows."""
    told = [{"reason": reason, "row": {REFERENCE: f"T{row:010d}"}} for row in rows]
    write(output / "restricted/rejected", name, told)


def told(output: Path, name: str, release_no: int) -> None:
    """The metrics of a release."""
    record = {
        "partition": "a",
        "window_end": 0,
        "release_no": release_no,
        "released": True,
        "release_id": name,
    }
    write(output / "restricted/metrics", name, [record])


def write(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """An Avro file of records that look like the first one."""
    folder.mkdir(parents=True, exist_ok=True)

    def of(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {"type": "record", "name": name, "fields": fields(value)}
        return {bool: "boolean", int: "long", str: "string"}[type(value)]

    def fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"name": key, "type": of(key, value)} for key, value in record.items()]

    schema = {"type": "record", "name": "Row", "fields": fields(rows[0])}
    with (folder / f"{name}.avro").open("wb") as stream:
        fastavro.writer(stream, schema, rows)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Ten rows: seven in two releases, three rejected."""
    release(tmp_path, "one", range(4))
    release(tmp_path, "two", range(4, 7))
    told(tmp_path, "one", 0)
    told(tmp_path, "two", 1)
    rejected(tmp_path, "x", [7, 8], "late")
    rejected(tmp_path, "y", [9], "held_back")
    return tmp_path


def test_exact_accounts(output: Path) -> None:
    """Every row left once."""
    found = accounts(10, output)
    assert found.exact
    assert (found.released, dict(found.rejected)) == (7, {"late": 2, "held_back": 1})


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (lambda output: release(output, "two", range(4, 6)), {"missing": 1}),
        (lambda output: release(output, "two", [3, 4, 5, 6]), {"repeated": 1}),
        (lambda output: rejected(output, "y", [9, 2], "late"), {"repeated": 1}),
        (lambda output: release(output, "two", [4, 5, 6, 10]), {"foreign": 1}),
        (lambda output: told(output, "two", 0), {"slots_repeated": 1}),
        (lambda output: (output / "restricted/metrics/two.avro").unlink(), {"unpaired": 1}),
        (lambda output: rejected(output, "y", [9], "release_conflict"), {}),
        (lambda output: rejected(output, "y", [9], "gate_refused"), {}),
    ],
)
def test_accounts_that_are_not_exact(
    fault: Callable[[Path], None], seen: dict[str, int], output: Path
) -> None:
    """Each fault is seen as what it is."""
    fault(output)
    found = accounts(10, output)
    assert not found.exact
    names = ("missing", "repeated", "foreign", "slots_repeated", "unpaired")
    assert {name: getattr(found, name) for name in names if getattr(found, name)} == seen


def test_kinds_of_processes() -> None:
    """The number goes, the name stays."""
    assert [kind_of(name) for name in ("task-manager-1", "command", "job-manager")] == [
        "task-manager",
        "command",
        "job-manager",
    ]
