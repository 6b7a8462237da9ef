"""A stream over a directory that was stopped, and another that goes on behind it, where cohorts do not last."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from kanonflow.pipelines.chains.continued_run import ContinueError
from kanonflow.pipelines.chains.continuing_input import ContinuingInput
from kanonflow.pipelines.chains.shards_record import stored_plan
from kanonflow.pipelines.feeds.polled_source import ReadPolled
from kanonflow.pipelines.run_records.run_directory import StreamStart, open_run_directory
from kanonflow.pipelines.runs.anonymize_files import connect, kanonymize
from kanonflow.pipelines.runs.feed_address import DirectoryFeed
from kanonflow.pipelines.runs.feed_end import stop_file
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_plan import ShardPlan
from tests.nightly import Nights, line, nights_of
from tests.pipelines.audit.good_runs import read
from tests.pipelines.runs.test_chain_of_windows import POLICIES, names, policy_of, run_json

pytestmark = pytest.mark.thorough

START = StreamStart("files", {"name": "mine"}, False, "--resume", lambda job: False)


def rows_of(day: int) -> list[str]:
    """Rows of 20 people, of one day."""
    return [line(who, day, 60 + who, f"n{day}-{who}") for who in range(20)]


@pytest.fixture(params=sorted(POLICIES))
def nights(request: pytest.FixtureRequest, tmp_path: Path) -> Nights:
    """Files of two days in the watched folder; a third day comes later."""
    nights = nights_of(tmp_path / "place", [rows_of(1), rows_of(2), rows_of(3)], policy_of(request.param))
    (nights.place / "in/3.csv").rename(nights.place / "3.csv")
    return nights


def stream(
    nights: Nights, output: str, continues: str | None = None, plan: ShardPlan | None = None
) -> tuple[str, ...]:
    """One that is asked to end at what lies there, on Beam's own runner, as ``stream`` wires it; its notes."""
    place = nights.place
    feed, out = DirectoryFeed(str(place / "in")), str(place / output)
    policy, secret = load_policy(place / "policy.yaml"), Secret.from_file(str(place / "secret"))
    opened = feed.open(policy)
    bound = bind(policy, opened.schema.columns, text=True, csv=True, source="feed")
    before = None if continues is None else str(place / continues)
    asked = ContinuingInput(lambda known, key, begins: None, lambda name: True)
    with open_run_directory(
        out,
        policy,
        [feed.record()],
        secret,
        resume=False,
        stream=START,
        bound=bound,
        continues=before,
        continuing=asked,
        plan=plan,
    ) as directory:
        Path(stop_file(out)).touch()
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            source = ReadPolled(
                opened.reading(bound), 0, stop_file(out), begins_at=feed.going_on(directory.begins)
            )
            anonymize = kanonymize(
                bound, secret, watermark_waits=True, chain=directory.chain, plan=stored_plan(out, plan)
            )
            connect(pipeline, source, anonymize, bound, out, streaming=True)
        return feed.begins(directory.begins)


def rows_of_outputs(nights: Nights, *outputs: str) -> Counter[str]:
    """Of all rows that were released or rejected, how often each was."""
    counted: Counter[str] = Counter()
    for output in (nights.place / name for name in outputs):
        for path in (output / "release").glob("[!.]*"):
            counted.update(row["ref"] for row in read(path)[1])
        for path in output.glob("restricted/rejected/*.avro"):
            counted.update(record["row"]["ref"] for record in read(path)[1])
    return counted


def test_a_stream_goes_on_behind_a_stopped_one(nights: Nights, capsys: Any) -> None:
    """Each row once, each release one name, places that follow each other; the whole passes. A late file of a window
    that the first one released has a name of its own. Files that a stream has read are no night's, and the other way
    round a night goes on behind the streams."""
    assert stream(nights, "out1") == ()
    (nights.place / "3.csv").rename(nights.place / "in/3.csv")
    late = [each.replace("n1-", "late-") for each in rows_of(1)]
    header = (nights.place / "in/1.csv").read_text().split("\n")[0]
    (nights.place / "in/4.csv").write_text("\n".join([header, *late]) + "\n")
    (note,) = stream(nights, "out2", "out1")
    assert "2 files were read there" in note
    assert [run_json(nights, each)["chain"]["place"] for each in ("out1", "out2")] == [0, 1]
    refs = rows_of_outputs(nights, "out1", "out2")
    assert set(refs.values()) == {1}
    assert len(refs) == 80
    ids = names(nights, "out1", "out2")
    assert len(set(ids)) == len(ids) >= 3
    assert nights.anonymize("[34].csv", "out3", "--continue", "@out2") == 2
    assert "3.csv, 4.csv" in capsys.readouterr().err
    (nights.place / "in/5.csv").write_text("\n".join([header, *rows_of(5)]) + "\n")
    assert nights.anonymize("5.csv", "out3", "--continue", "@out2") == 0
    assert set(rows_of_outputs(nights, "out1", "out2", "out3").values()) == {1}
    assert nights.verify("*.csv", "out1", "out2", "out3", secret=False) == 0
    assert "runs of the chain                            3" in capsys.readouterr().out


def test_one_that_was_not_stopped_is_not_continued(nights: Nights) -> None:
    """Nobody knows how far it has read; nor is a stream continued twice, or from a copy."""
    stream(nights, "out1")
    ended = nights.place / "out1/restricted/ended"
    position = ended.read_bytes()
    ended.unlink()
    with pytest.raises(ContinueError, match="a stream writes there whose feed has not ended"):
        stream(nights, "out2", "out1")
    ended.write_bytes(position)
    stream(nights, "out2", "out1")
    with pytest.raises(ContinueError, match="another run continues it already"):
        stream(nights, "out3", "out1")
