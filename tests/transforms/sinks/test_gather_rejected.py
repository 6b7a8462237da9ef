"""Rejected rows in few files: each row once, whatever is handed on when, and the same files from the same run."""

from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from kanonflow.pipelines.runs.stream import summarize_stream
from kanonflow.transforms.files.output_directories import make_output_directories, rejected_directory
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.sinks.gather_rejected import (
    GATHER_MS,
    MOST_ROWS,
    GatherForAWhile,
    GatherRejected,
    decode_part,
    encode_part,
    gathered,
    with_part,
)
from kanonflow.transforms.sinks.sinks import WriteRejected
from tests.runners import bounded_pipeline, streaming_pipeline
from tests.small_feeds import feed_policy

pytestmark = pytest.mark.thorough


def part(name: str, rows: int = 2, reason: str = "late") -> RejectedRows:
    """A part of so many rows."""
    records = (
        {
            "reason": reason,
            "field": None,
            "message": "m",
            "window_end": 5,
            "source": None,
            "row": {"ref": f"{name}-{n}"},
        }
        for n in range(rows)
    )
    return RejectedRows(name, tuple(records))


def files(output: Path) -> list[list[str]]:
    """The references in each file."""
    found = sorted(Path(rejected_directory(str(output))).glob("*.avro"))
    return [[row["row"]["ref"] for row in fastavro.reader(BytesIO(path.read_bytes()))] for path in found]


PARTS = [part(f"b{number:03}", number % 4) for number in range(181)]


def test_a_bounded_run_writes_one_file_and_the_same_again(tmp_path: Path) -> None:
    """In whatever order the parts come; a part of very many rows is a file of its own."""
    large = part("large", MOST_ROWS)
    expected = Counter(record["row"]["ref"] for each in (*PARTS, large) for record in each.records)
    for parts in (PARTS, PARTS[::-1]):
        with bounded_pipeline() as pipeline:
            _ = (
                pipeline
                | beam.Create([*parts, large], reshuffle=False)
                | beam.WindowInto(FixedWindows(60))
                | GatherRejected()
                | WriteRejected(str(tmp_path))
            )
        written = files(tmp_path)
        assert len(written) == 2
        assert Counter(reference for file in written for reference in file) == expected


class Cell:
    """A state cell or a timer in memory."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> None:
        self.value = value

    def add(self, value: Any) -> None:
        self.value = [*self.value, value]

    def set(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = [] if isinstance(self.value, list) else None


class Step:
    """The stateful step of a stream, with its cells; ``checkpoint`` and ``back`` as a runner would."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.step = GatherForAWhile(lambda: self.now)
        self.cells = {"parts": Cell([]), "rows": Cell(None), "end": Cell(None), "due": Cell(None)}

    def take(self, rejected: RejectedRows) -> list[RejectedRows]:
        return list(self.step.process((b"k", encode_part(with_part(rejected))), **self.cells))

    def fire(self) -> list[RejectedRows]:
        self.cells["due"].value = None
        return list(self.step.when_due(self.cells["parts"], self.cells["rows"]))

    def ends(self) -> list[RejectedRows]:
        return list(self.step.at_the_end(self.cells["parts"], self.cells["rows"], self.cells["due"]))


def references(found: list[RejectedRows]) -> list[str]:
    return [record["row"]["ref"] for each in found for record in each.records]


def test_a_stream_hands_on_by_time_and_by_size() -> None:
    """396 rows in 181 parts are one file within the time; nothing before, nothing twice, and many rows at once."""
    step = Step()
    parts = [part(f"b{number:03}", 3 if number < 34 else 2) for number in range(181)]
    assert [step.take(each) for each in (part("none", 0), *parts)] == [[]] * 182
    assert step.cells["due"].value == step.now + GATHER_MS / 1000
    (file,) = step.fire()
    assert len(file.records) == 396
    assert step.fire() == []
    assert step.ends() == []
    step.take(part("more", 1))
    assert len(references(step.take(part("many", MOST_ROWS - 1)))) == MOST_ROWS
    assert step.fire() == []


def test_the_end_of_a_feed_waits_for_no_clock() -> None:
    """The last rows are handed on, and the timer is gone, which else would hold the end back."""
    step = Step()
    step.take(part("last", 2))
    assert references(step.ends()) == ["last-0", "last-1"]
    assert step.cells["due"].value is None


def test_what_comes_again_from_an_older_checkpoint_counts_once(tmp_path: Path) -> None:
    """Gathered into other files, the same parts are the same rows to the summary."""
    make_output_directories(str(tmp_path), feed_policy())
    first, second, third = part("a"), part("b"), part("", 1)
    once = [encode_part(with_part(each)) for each in (first, second)]
    again = [encode_part(with_part(each)) for each in (second, third, third)]
    with bounded_pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create([*gathered(once), *gathered([once[1]]), *gathered(again)])
            | WriteRejected(str(tmp_path))
        )
    assert len(files(tmp_path)) == 3
    assert summarize_stream(str(tmp_path)).rejected == {"late": 2 + 2 + 1 + 1}


def test_parts_of_one_name_with_other_rows_are_two() -> None:
    """Nothing may be lost because a name was there before."""
    parts = [encode_part(with_part(each)) for each in (part("a"), part("a", 3), part("a"))]
    (file,) = gathered(parts)
    assert len(file.records) == 5


def test_state_of_another_version_is_refused() -> None:
    """As all state is."""
    with pytest.raises(StateError, match="layout 9"):
        decode_part(b'[9, "a", []]')


def test_a_stream_that_ends_has_everything_in_its_files(tmp_path: Path) -> None:
    """On a runner with timers: what was gathered is handed on when time ends."""
    stream = TestStream()
    for number, each in enumerate(PARTS[:9]):
        stream = stream.add_elements([TimestampedValue(each, number)]).advance_watermark_to(number)
    with streaming_pipeline() as pipeline:
        _ = (
            pipeline
            | stream.advance_watermark_to_infinity()
            | GatherRejected(streaming=True)
            | WriteRejected(str(tmp_path))
        )
    assert Counter(reference for file in files(tmp_path) for reference in file) == Counter(all_of(PARTS[:9]))


def all_of(parts: list[RejectedRows]) -> Iterator[str]:
    """The references of the parts."""
    return (record["row"]["ref"] for each in parts for record in each.records)


def test_many_rejected_rows_of_a_bounded_run_are_several_files_and_the_same_again() -> None:
    """What one worker holds at its end is cut by the names of the parts, in whatever order they came."""
    parts = [encode_part(with_part(part(f"b{number:03}", 900))) for number in range(30)]
    files = [list(gathered(order, MOST_ROWS)) for order in (parts, parts[::-1])]
    assert [len(file.records) for file in files[0]] == [10_800, 10_800, 5_400]
    assert files[0] == files[1]
    assert len({record["row"]["ref"] for file in files[0] for record in file.records}) == 27_000
