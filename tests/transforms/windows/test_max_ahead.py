"""``max_ahead``: a row whose time is later than its arrival allows is rejected, and says nothing about time."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition, FilePosition
from kanonflow.pipelines.feeds.arriving_files import ArrivingFiles
from kanonflow.pipelines.kafka.source import _arrival
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import RawBatch, arrivals, arrived_at, from_ipc
from kanonflow.transforms.rows.event_times import event_times
from tests.pipelines.feeds.test_arriving_files import arrive, chunks
from tests.small_feeds import HOUR, START, bound_feed, feed_policy, row

POLICY = feed_policy()
BOUND = bound_feed(POLICY)
ROWS = [row(0, 0, 0), row(1, 1, 24), row(2, 2, 24.001), row(3, 3, 9000), row(4, 4, 1, age="old")]


def reasons(arrived: Any, policy: Any = POLICY) -> list[tuple[str, str]]:
    """Reference and reason of each rejected row."""
    bound = bound_feed(policy)
    found = classify(rows_to_table(ROWS, bound).table, bound, arrived=arrived)
    return [(record["row"]["reference"], record["reason"]) for record in found.rejected]


def test_a_row_is_a_day_ahead_at_most_where_its_arrival_is_known() -> None:
    """To the millisecond; a policy may say otherwise; without an arrival no row is ahead."""
    at_start = np.full(len(ROWS), START, np.int64)
    assert reasons(at_start) == [("r2", "ahead"), ("r3", "ahead"), ("r4", "bad_value")]
    assert reasons(at_start, feed_policy(max_ahead="2d")) == [("r3", "ahead"), ("r4", "bad_value")]
    assert reasons(at_start, feed_policy(max_ahead=0))[:2] == [("r1", "ahead"), ("r2", "ahead")]
    assert reasons(None) == reasons(np.full(len(ROWS), -1)) == [("r4", "bad_value")]
    each = np.array([START, START, START + HOUR, START + 9000 * HOUR, START])
    assert reasons(each) == [("r4", "bad_value")]


def test_a_row_that_is_ahead_says_nothing_about_time() -> None:
    """Also in a replay years later, when the wall clock has passed it: windows close as they did before."""
    table = rows_to_table(ROWS, BOUND).table
    times = event_times(table, BOUND, arrived=np.full(len(ROWS), START, np.int64))
    assert times.tolist() == [START, START + 24 * HOUR, START + HOUR]


def test_arrivals_travel_with_their_rows() -> None:
    """One for all, or one each; none is none."""
    assert arrivals(RawBatch("", b"", (), arrived_at([5, -1], 2))).tolist() == [5, -1]  # type: ignore[union-attr]
    assert arrivals(RawBatch("", b"", (), arrived_at(7, 3))).tolist() == [7, 7, 7]  # type: ignore[union-attr]
    assert arrivals(RawBatch("", b"")) is None


def test_a_file_arrives_when_it_was_modified(tmp_path: Path) -> None:
    """As its position says, whenever it is read; its rows that are ahead do not move time."""
    arrive(tmp_path, "a.csv", 0, 30, 2)
    os.utime(tmp_path / "a.csv", (START / 1000 + 3600, START / 1000 + 3600))
    for years in (0, 5):
        now = START / 1000 + years * 31_536_000 + 7200
        reader = ArrivingFiles(str(tmp_path), BOUND, clock=lambda now=now: now).open()
        read = list(chunks(reader))
        ((_, batch),) = [each for chunk in read for each in chunk.batches]
        assert read[-1].latest_ms == START + 2 * HOUR
        found = classify(from_ipc(batch.ipc), BOUND, arrived=arrivals(batch))
        assert [record["reason"] for record in found.rejected] == ["ahead"]


@pytest.mark.parametrize("touched", [START / 1000 + 40_000 * 3600, 0.0])
def test_a_file_of_the_future_arrives_when_it_is_listed(tmp_path: Path, touched: float) -> None:
    """``touch`` into the far future lets no row in that is ahead, nor does a file system without times keep all out.
    The time is in the position: from a checkpoint on it is the same, however late that is read."""
    arrive(tmp_path, "a.csv", 0, 9000, 2)
    os.utime(tmp_path / "a.csv", (touched, touched))
    listed = START / 1000 + 3600
    chosen = ArrivingFiles(str(tmp_path), BOUND, clock=lambda: listed).open().read(b"", 100).position
    for years in (0, 5):
        now = listed + years * 31_536_000
        reader = ArrivingFiles(str(tmp_path), BOUND, clock=lambda now=now: now).open()
        chunk = reader.read(chosen, 100)
        ((_, batch),) = chunk.batches
        assert arrivals(batch).tolist() == [START + HOUR] * 3  # type: ignore[union-attr]
        found = classify(from_ipc(batch.ipc), BOUND, arrived=arrivals(batch))
        assert [record["reason"] for record in found.rejected] == ["ahead"]


def test_a_position_of_an_earlier_build_has_the_files_time_only(tmp_path: Path) -> None:
    """It goes on as it began; a file without a time arrives at none that is known."""
    for modified, arrival in ((START / 1000, START), (0.0, -1)):
        data = json.loads(ArrivalPosition(file=FilePosition("a.csv", 1, modified)).encode())
        del data["file"]["listed"]
        assert ArrivalPosition.decode(json.dumps(data).encode()).file.arrived_ms == arrival  # type: ignore[union-attr]


def test_a_message_arrives_at_its_timestamp() -> None:
    """Whoever set it; one without any arrives at no time that is known."""

    class Message:
        def __init__(self, *told: int) -> None:
            self.timestamp = lambda: told

    assert [_arrival(Message(*told)) for told in ((0, 5), (1, 7), (2, 9))] == [-1, 7, 9]


def test_the_policy_says_how_far(tmp_path: Path) -> None:
    """A key like others: read, written only where it was given, checked."""
    assert "max_ahead" not in to_mapping(POLICY)
    policy = feed_policy(max_ahead="3h")
    assert parse_policy(to_mapping(policy), "", "test").max_ahead_ms == 3 * HOUR
    assert POLICY.ahead_limit_ms == 24 * HOUR
    with pytest.raises(PolicyError, match="max_ahead: must be a whole number and a unit"):
        feed_policy(max_ahead="soon")
    with pytest.raises(PolicyError, match="max_ahead: has no meaning without a window"):
        feed_policy(window=None, max_ahead="1d")
