"""The audit of topics: what holds for files holds for messages, and whatever is no release's row is told."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.commands import topic_copies
from kanonflow.pipelines.commands.topic_copies import Message, Span
from kanonflow.pipelines.commands.verify_topics import verify
from kanonflow.pipelines.feeds.message_values import JsonValues
from kanonflow.pipelines.kafka.address import KafkaAddress
from kanonflow.schemas.errors import InputError
from tests.pipelines.kafka.registry_stub import StubRegistry, stub_registry
from tests.pipelines.small_runs import Run, people
from tests.twin_messages import cells_of_message

pytestmark = pytest.mark.thorough

ROWS = "kafka://a:1/rows?format=json"


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Message]]:
    """Topics in memory, by name."""
    known: dict[str, list[Message]] = {}

    def messages(address: KafkaAddress, span: Span | None = None) -> Iterator[Message]:
        assert span is None or not (span.begins or span.ends), "all of the topic is read"
        yield from known[address.topic]

    monkeypatch.setattr(topic_copies, "committed_messages", messages)
    return known


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """A schema registry."""
    with stub_registry() as running:
        yield running


def values(run: Run) -> list[Message]:
    """The releases' rows as JSON messages."""
    rows = [(stem, row) for stem, rows in run.releases.items() for row in run.in_order(rows)]
    return [Message(stem.encode(), json.dumps(row, default=str).encode()) for stem, row in rows]


def test_a_topic_that_goes_on_may_have_rows_waiting(tmp_path: Path, topics: dict[str, list[Message]]) -> None:
    """What else is asked of the audit reaches it: half a run is incomplete, unless rows may wait."""
    run = people()
    del run.releases["day2"]
    policy, patterns, out = run.write(tmp_path)
    topics["out"] = values(run)
    assert not verify(policy, patterns, out, "kafka://a:1/out?format=json").passed
    assert verify(policy, patterns, out, "kafka://a:1/out?format=json", waiting=True).passed


def framed(run: Run, number: int) -> list[Message]:
    """The releases' rows as Avro behind the id of a schema."""
    found = []
    for stem, rows in run.releases.items():
        for row in run.in_order(rows):
            out = io.BytesIO()
            out.write(b"\0" + number.to_bytes(4, "big"))
            fastavro.schemaless_writer(out, fastavro.parse_schema(run.schema, _force=True), row)
            found.append(Message(stem.encode(), out.getvalue()))
    return found


def inputs(run: Run) -> list[Message]:
    """The input's lines as JSON messages."""
    return [Message(None, json.dumps(row).encode()) for row in csv.DictReader(run.lines)]


def figures(report: AuditReport) -> Any:
    """Without times."""
    return replace(report.figures, seconds_reading=0.0, seconds_checking=0.0)


@pytest.mark.parametrize("how", ["json", "avro", "registry"])
def test_topics_give_the_report_of_files(
    tmp_path: Path, topics: dict[str, list[Message]], registry: StubRegistry, how: str
) -> None:
    """Input and releases as messages; only releases; only the input."""
    run = people()
    policy, patterns, out = run.write(tmp_path)
    expected = audit(policy, patterns, out)
    assert expected.passed, expected.render()
    topics["rows"] = inputs(run)
    options = f"format={how}" + (f"&registry={registry.url}" if how == "registry" else "")
    number = registry.add("out-value", run.whole_schema(policy))
    topics["out"] = values(run) if how == "json" else framed(run, number)
    if how == "avro":
        topics["out"] = [Message(key, (value or b"")[5:]) for key, value in topics["out"]]
    for source, topic in (
        ([ROWS], f"kafka://a:1/out?{options}"),
        (patterns, f"kafka://a:1/out?{options}"),
        ([ROWS], None),
    ):
        report = verify(policy, source, out, topic)
        assert (report.failures, figures(report)) == ((), figures(expected))
    assert verify(policy, patterns, out, None).passed


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda messages: messages[1:], "released"),
        (lambda messages: [*messages, messages[0]], ""),
        (lambda messages: [*messages, Message(None, b"{}")], "1 messages whose key is no release's id"),
        (lambda messages: [*messages, Message(b"../x", b"{}")], "1 messages whose key is no release's id"),
        (
            lambda messages: [*messages, Message(b"day1", b"hunter2")],
            "1 messages that are no rows of a release",
        ),
        (lambda messages: [*messages, Message(b"day1", None)], "1 messages that are no rows of a release"),
        (lambda messages: [_changed(messages[0], name="hunter2"), *messages[1:]], "no rows of a release"),
        (lambda messages: [_changed(messages[0], ref=5), *messages[1:]], "releases whose rows do not have"),
        (lambda messages: [Message(b"day9", messages[0].value), *messages[1:]], "not the id of the release"),
    ],
)
def test_what_is_wrong_in_a_topic_fails(
    tmp_path: Path, topics: dict[str, list[Message]], change: Any, told: str
) -> None:
    """Rows that lack, rows twice, strangers, damage, another field; no message holds a value."""
    run = people()
    policy, patterns, out = run.write(tmp_path)
    topics["out"] = change(values(run))
    report = verify(policy, patterns, out, "kafka://a:1/out?format=json")
    assert not report.passed
    assert told in report.render()
    assert "hunter2" not in report.render()


def _changed(message: Message, **fields: Any) -> Message:
    return Message(message.key, json.dumps(json.loads(message.value or b"") | fields).encode())


def test_messages_that_are_no_rows_must_have_been_rejected(
    tmp_path: Path, topics: dict[str, list[Message]]
) -> None:
    """As many as the run rejected as such."""
    run = people()
    run.rejected += [("unparseable", {})] * 4
    policy, _, out = run.write(tmp_path)
    poison = [b"", b"[]", b'{"who": {"a": 1}}', b'{"who": "\\ud800"}', b"\xff"]
    topics["rows"] = [*inputs(run), Message(None, None), *(Message(None, value) for value in poison[:3])]
    assert verify(policy, [ROWS], out, None).failures == ()
    topics["rows"] += [Message(None, value) for value in poison[3:]]
    report = verify(policy, [ROWS], out, None)
    assert report.failures == ("6 broken input lines, but 4 were rejected as such",)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "-0.0",
        "1.50",
        "100",
        "1e2",
        "1.5E-3",
        "12e-1",
        "0e99",
        "1e400",
        "1e-400",
        "1e99999999999999999999",
    ],
)
def test_numbers_are_read_as_the_stream_reads_them(text: str) -> None:
    """Two ways to the same text."""
    value = f'{{"a": {text}}}'.encode()
    (row,) = JsonValues(["a"]).decode([value]).rows.to_pylist()
    assert cells_of_message(value, ["a"]) == [row["a"]]


def test_a_topic_goes_alone(tmp_path: Path) -> None:
    """Which of two would be the feed?"""
    policy, patterns, out = people().write(tmp_path)
    with pytest.raises(InputError, match="a topic goes alone"):
        verify(policy, [ROWS, *patterns], out, None)


def test_copies_are_gone_afterwards(
    tmp_path: Path, topics: dict[str, list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may hold raw data, also after an error."""
    run = people()
    policy, patterns, out = run.write(tmp_path / "run")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    topics["rows"] = inputs(run)
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(KeyError))
        verify(policy, [ROWS], out, "kafka://a:1/none?format=json")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert verify(policy, patterns, out, None).passed
