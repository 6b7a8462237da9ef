"""Several who look at the same files read each once, and see what they would have seen by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.feeds import read_files
from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile, find_inputs
from kanonflow.pipelines.feeds.read_files import ReadOnce, read_batches


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read, each time."""
    found: list[str] = []

    def counted(file: InputFile, *rest: Any) -> Any:
        found.append(file.name)
        return read_batches(file, *rest)

    monkeypatch.setattr(read_files, "read_batches", counted)
    return found


def feed(folder: Path, cells: bytes) -> InputFile:
    """A file of many rows, with some cells in the last."""
    path = folder / "feed.csv"
    path.write_bytes(b"name,age\n" + b"ann,30\n" * 300_000 + cells + b"\n")
    return find_inputs([str(path)])[0]


def contents(batches: Any) -> list[tuple[Any, ...]]:
    """What readers look at."""
    return [(batch.name, batch.ipc, batch.broken) for batch in batches]


def test_what_was_read_through_is_not_read_again(tmp_path: Path, readings: list[str]) -> None:
    """By whoever asks for the same columns in the same form; for others it is."""
    file, reading = feed(tmp_path, b"bob,31"), ReadOnce()
    plain = contents(read_batches(file, ["name"]))
    assert len(plain) > 1
    assert contents(reading(file, ["name"])) == contents(reading(file, ["name"], PLAIN, ["name"])) == plain
    assert len(readings) == 1
    assert contents(reading(file, ["age"])) == contents(read_batches(file, ["age"]))
    assert len(readings) == 2


def test_a_cell_that_is_no_text_is_read_as_asked(tmp_path: Path, readings: list[str]) -> None:
    """It breaks its row for one, and has no value for the other."""
    file, reading = feed(tmp_path, b"b\xffb,31"), ReadOnce()
    without, some = (contents(read_batches(file, ["name"], PLAIN, each)) for each in ((), ("name",)))
    assert without != some
    for _ in range(2):
        assert contents(reading(file, ["name"])) == without
        assert contents(reading(file, ["name"], PLAIN, ("name",))) == some
    assert len(readings) == 3


def test_no_more_is_kept_than_there_is_room_for(tmp_path: Path, readings: list[str]) -> None:
    """And nothing of a file that was not read to its end."""
    file, reading, narrow = feed(tmp_path, b"bob,31"), ReadOnce(), ReadOnce(most=1_000_000)
    assert next(reading(file, ["name"])) == next(reading(file, ["name"]))
    assert contents(narrow(file, ["name"])) == contents(narrow(file, ["name"]))
    assert len(readings) == 4
