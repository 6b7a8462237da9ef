"""Where a stream begins that continues another, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.chains.continued_run import ContinueError, earlier_run
from kanonflow.pipelines.chains.feeds_read import begin_after, feeds_of_chain
from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition, FilePosition, name_digest
from kanonflow.pipelines.kafka.progress import (
    PartitionProgress,
    TopicProgress,
    decode_position,
    encode_position,
    going_on,
)
from kanonflow.pipelines.runs.files_of_streams import refuse_read_files
from tests.small_feeds import bound_feed, feed_policy

TOPIC = {"topic": "rows"}
POSITION = encode_position(
    TopicProgress({0: PartitionProgress(7, 5, 7), 1: PartitionProgress(9, 3, 9)}, 3)
).decode()


def stream(folder: Path, source: dict[str, str], ended: str | None, **told: Any) -> dict[str, Any]:
    """What a stream leaves that has ended; its run.json. ended: None: of a build that wrote nothing down."""
    (folder / "restricted").mkdir(parents=True)
    (folder / "restricted" / "ended").write_text(ended or "")
    record = {"job": {"name": "mine"}, "input": [source], **told}
    (folder / "restricted" / "run.json").write_text(json.dumps(record))
    return record


def test_a_stream_begins_behind_the_last_one_of_its_source(tmp_path: Path) -> None:
    """Also behind one that is not the last run of the chain; of another source nothing was read."""
    record = stream(tmp_path / "one", TOPIC, POSITION)
    feeds = feeds_of_chain(str(tmp_path / "one"), record)
    assert begin_after("one", feeds, TOPIC, chosen=False) == POSITION
    assert begin_after("one", feeds, {"topic": "other"}, chosen=False) is None
    assert begin_after("one", feeds, {"directory": "/feed"}, chosen=False) is None
    files = {"input": [{"name": "a.csv", "bytes": 3}], "feeds": feeds}
    assert begin_after("two", feeds_of_chain(str(tmp_path / "two"), files), TOPIC, chosen=False) == POSITION
    later = POSITION.replace("7", "8")
    last = stream(tmp_path / "three", TOPIC, later, feeds=feeds)
    assert begin_after("three", feeds_of_chain(str(tmp_path / "three"), last), TOPIC, chosen=False) == later


def test_who_does_not_know_how_far_is_refused_unless_told(tmp_path: Path) -> None:
    """An older build's end says nothing: refused with what to do; so is a place that contradicts the record."""
    feeds = feeds_of_chain(str(tmp_path / "one"), stream(tmp_path / "one", TOPIC, None))
    with pytest.raises(
        ContinueError, match=r"the topic rows.*did not write down how far.*from=PARTITION:OFFSET"
    ):
        begin_after("one", feeds, TOPIC, chosen=False)
    assert begin_after("one", feeds, TOPIC, chosen=True) is None
    feed = {"directory": str(tmp_path / "feed")}
    feeds = feeds_of_chain(str(tmp_path / "two"), stream(tmp_path / "two", feed, None))
    with pytest.raises(ContinueError, match="another directory"):
        begin_after("two", feeds, {"directory": f"{tmp_path}/./feed"}, chosen=False)
    known = feeds_of_chain(str(tmp_path / "three"), stream(tmp_path / "three", TOPIC, POSITION))
    with pytest.raises(ContinueError, match="leave from= out"):
        begin_after("three", known, TOPIC, chosen=True)


def test_the_next_one_begins_there_without_an_end_and_without_a_time() -> None:
    """Offsets stay; what was read of a directory stays read."""
    at = decode_position(going_on(POSITION.encode()))
    assert at == TopicProgress({0: PartitionProgress(7), 1: PartitionProgress(9)})
    read = ArrivalPosition((name_digest("a.csv"),), None, 17, ending=True)
    assert ArrivalPosition.decode(read.going_on()) == ArrivalPosition((name_digest("a.csv"),))
    assert ArrivalPosition(file=FilePosition("b.csv", 1, 0.0)).going_on() == ArrivalPosition().encode()


def test_files_that_a_stream_has_read_are_refused_where_they_lie(tmp_path: Path) -> None:
    """By name and folder; a new file beside them, and one of the name elsewhere, are not; of an older build's directory
    every file may have been read."""
    feed = tmp_path / "feed"
    position = ArrivalPosition((name_digest("a.csv"),)).encode().decode()
    stream(tmp_path / "one", {"directory": str(feed)}, position)
    one, old = str(tmp_path / "one"), str(tmp_path / "old")
    with pytest.raises(
        ContinueError, match=r"have read 1 of the 2 files of the input already.*a\.csv\. Their"
    ):
        refuse_read_files(one, [str(feed / "a.csv"), str(feed / "b.csv")])
    refuse_read_files(one, [str(feed / "b.csv"), str(tmp_path / "a.csv")])
    refuse_read_files(None, [str(feed / "a.csv")])
    stream(tmp_path / "old", {"directory": str(feed)}, None)
    with pytest.raises(ContinueError, match=r"b\.csv"):
        refuse_read_files(old, [str(feed / "b.csv")])


@pytest.mark.parametrize("source", [TOPIC, {"directory": "/feed"}], ids=["topic", "directory"])
def test_a_stream_that_crashed_is_not_continued(tmp_path: Path, source: dict[str, str]) -> None:
    """Its job may be gone, but not what it published, and no release tells which rows of the source those are."""
    record = stream(tmp_path / "one", source, POSITION)
    (tmp_path / "one" / "restricted" / "ended").unlink()
    bound = bound_feed(feed_policy(cohort="lasting", intake=12))
    with pytest.raises(ContinueError, match=r"has not ended.*last checkpoint or savepoint.*a second time"):
        earlier_run(str(tmp_path / "one"), str(tmp_path / "two"), record, bound)
    assert not (tmp_path / "two").exists()
