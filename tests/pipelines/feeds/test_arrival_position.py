"""The position in a directory: small, the same bytes again, and never a name read twice that it still knows."""

from __future__ import annotations

import json

import pytest

from kanonflow.pipelines.feeds.arrival_position import (
    ALWAYS_REMEMBERED,
    ArrivalPosition,
    FilePosition,
    name_digest,
)
from kanonflow.schemas.errors import InputError

FILE = FilePosition("a.csv", 12, 1_700_000_000.123456, 3, 1, 1_700_000_000_000)


@pytest.mark.parametrize(
    "position",
    [
        ArrivalPosition(),
        ArrivalPosition((name_digest("x"), name_digest("y")), FILE, 5),
        ArrivalPosition((), FilePosition("\udcff\n.csv", 0, 0.1), -1),
    ],
)
def test_what_is_written_is_read_again(position: ArrivalPosition) -> None:
    """Exactly, also times with fractions and names that are no text."""
    assert ArrivalPosition.decode(position.encode()) == position
    assert ArrivalPosition.decode(position.encode()).encode() == position.encode()


def test_the_beginning_is_empty() -> None:
    """What a feed that was never read stands at."""
    assert ArrivalPosition.decode(b"") == ArrivalPosition()


@pytest.mark.parametrize("data", [b"x", b"[]", b"{}", json.dumps({"version": 2}).encode()])
def test_another_version_is_refused(data: bytes) -> None:
    """Not guessed at: reading on from a wrong place would lose rows or publish them twice."""
    with pytest.raises(InputError, match="written by another version"):
        ArrivalPosition.decode(data)


def read_many(count: int, stay: bool) -> ArrivalPosition:
    """After ``count`` files, which stay in the directory or are moved away at once."""
    position, names = ArrivalPosition(), []
    for number in range(count):
        name = f"{number}.csv"
        names = [*names, name] if stay else [name]
        position = position.begun(FilePosition(name, 1, 1.0)).finished(number, names if number > 4090 else [])
    return position


def test_files_that_went_are_forgotten_after_many_others() -> None:
    """The position grows with the directory and not with the years."""
    position = read_many(ALWAYS_REMEMBERED + 500, stay=False)
    assert len(position.read) == ALWAYS_REMEMBERED
    assert name_digest("499.csv") not in position.read
    assert name_digest("500.csv") in position.read
    assert len(position.encode()) < 11 * ALWAYS_REMEMBERED + 200


def test_files_that_stay_are_never_forgotten() -> None:
    """However many there are."""
    count = ALWAYS_REMEMBERED + 10
    assert len(set(read_many(count, stay=True).read)) == count


def test_progress_never_goes_back() -> None:
    """An older file, or one without any time, leaves it where it is."""
    position = ArrivalPosition((), FILE, 10)
    assert position.finished(5, []).latest_ms == 10
    assert position.finished(None, []).latest_ms == 10
    assert position.finished(15, []).latest_ms == 15
    assert ArrivalPosition((), FILE, None).finished(None, []).latest_ms is None
