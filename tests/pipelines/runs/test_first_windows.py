"""A stream that nobody has measured a sample of: its first windows are, and terminal, page and log say it."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.chains.continuing_input import ContinuingInput
from kanonflow.pipelines.feeds.polled_source import ReadPolled
from kanonflow.pipelines.report.run_files import told_check
from kanonflow.pipelines.run_records.beginning import StreamStart
from kanonflow.pipelines.run_records.payload_check import measured_words, refuse_unchecked
from kanonflow.pipelines.run_records.run_directory import open_run_directory
from kanonflow.pipelines.runs import stream
from kanonflow.pipelines.runs.anonymize_files import beam_log, connect, kanonymize
from kanonflow.pipelines.runs.feed_address import DirectoryFeed
from kanonflow.pipelines.runs.feed_end import stop_file
from kanonflow.pipelines.runs.first_look import KeepMeasured
from kanonflow.pipelines.terminal.stream_notices import StreamNotices
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.risks.check_record import CheckRecord, UncheckedError
from kanonflow.transforms.secret.seeds import Secret

START = StreamStart("files", {"name": "mine"}, False, "--resume", lambda job: False)
ACCOUNT = "Quetzal"
"""Begins each person's account: a value that nothing says."""
POLICY = """\
version: 1
name: cards
k: 2
window: 1d
cohort: window
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  amount: {role: sensitive, as: int}
  account: {role: sensitive}
"""


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    """A policy, a secret, and a directory with four days of 60 people who have an account each."""
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "in").mkdir()
    lines = [
        f"p{who},2024-03-0{day} 1{each}:{who % 60:02d}:00,{20 + who % 40},{(who * 37 + each) % 7},{ACCOUNT}{who}"
        for day in (1, 2, 3, 4)
        for each in (0, 1)
        for who in range(60)
    ]
    (tmp_path / "in/1.csv").write_text("\n".join(["who,when,age,amount,account", *lines]) + "\n")
    (tmp_path / "secret").write_bytes(bytes(range(40)))
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


def run(feed: Path, check: CheckRecord | None = None) -> str:
    """A stream over the directory, on Beam's own runner, as the command wires it; its output."""
    source, out = DirectoryFeed(str(feed / "in")), str(feed / "out")
    policy, secret = load_policy(feed / "p.yaml"), Secret.from_file(str(feed / "secret"))
    opened = source.open(policy)
    bound = bind(policy, opened.schema.columns, text=True, csv=True, source="feed")
    asked = ContinuingInput(lambda known, key, begins: None, lambda name: True)
    with open_run_directory(
        out, policy, [source.record()], secret, resume=False, stream=START, bound=bound, continuing=asked
    ):
        Path(stop_file(out)).touch()
        with beam_log(out), beam.Pipeline(runner="FnApiRunner") as pipeline:
            anonymize = kanonymize(
                bound, secret, watermark_waits=True, verdict=check, on_measured=KeepMeasured(out, policy)
            )
            read = ReadPolled(opened.reading(bound), 0, stop_file(out))
            connect(pipeline, read, anonymize, bound, out, streaming=True)
    return out


def test_a_stream_over_a_directory_says_what_its_first_windows_tell(feed: Path) -> None:
    """In the log, for the page inside, and on the terminal; nobody else may read it, and no value is in it."""
    out = run(feed)
    path = Path(out, "restricted/measured.json")
    told = json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert told["rows"] == 120
    assert ("account", "REFUSED") in {(risk["field"], risk["verdict"]) for risk in told["risks"]}
    assert told_check(path.parent)["rows"] == 120
    terminal = io.StringIO()
    notices = StreamNotices(out, terminal, measured=lambda: measured_words(out))
    notices.look()
    notices.look(last=True)
    assert terminal.getvalue().count("fields.account: one person's") == 1
    assert "measured on 120 rows of the first windows, which are released all the same" in terminal.getvalue()
    log = Path(out, "restricted/beam.log").read_text()
    assert "fields.account: one person's" in log
    for text in (path.read_text(), terminal.getvalue(), log):
        assert ACCOUNT not in text
    assert len(list(Path(out, "release").glob("*.avro"))) == 4
    assert not list(path.parent.glob("*.tmp"))


def test_no_stream_goes_by_what_first_windows_told(feed: Path) -> None:
    """It is no check of a sample: the next one asks for that."""
    out = run(feed)
    with pytest.raises(UncheckedError, match="nobody has measured"):
        refuse_unchecked(out, load_policy(feed / "p.yaml"))


def test_a_stream_that_was_checked_measures_nothing(feed: Path) -> None:
    """And nothing is said of its windows."""
    out = run(feed, CheckRecord("check.json", 5, "noon"))
    assert not Path(out, "restricted/measured.json").exists()
    assert measured_words(out) == ""
    assert "first windows" not in Path(out, "restricted/beam.log").read_text()


@pytest.mark.parametrize("unmeasured", [False, True])
def test_the_command_hands_on_what_was_checked(
    feed: Path, unmeasured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nothing, where it was told to do without, though a check is there."""
    handed: list[Any] = []

    def stop(*_: Any, check: CheckRecord | None, **__: Any) -> None:
        handed.append(check)

    monkeypatch.setattr(stream, "stream_feed", stop)
    (feed / "p.yaml").write_text(POLICY.replace("account: {role: sensitive}", "account: {role: identifier}"))
    place = ["--policy", str(feed / "p.yaml")]
    sample = ["--input", str(feed / "in/1.csv"), "--for", str(feed / "out")]
    assert cli.main(["policy", "check", *place, *sample]) == 0
    run = ["stream", *place, "--source", str(feed / "in"), "--output", str(feed / "out")]
    assert cli.main([*run, *(["--unmeasured"] if unmeasured else [])]) == 0
    assert handed == [None] if unmeasured else handed[0].rows == 480
