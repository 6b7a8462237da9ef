"""What a fuzzer came to is read again: only errors that are named come out, and nothing grows."""

import resource
from pathlib import Path

import pytest

from tests.fuzz.fuzz import written_if_raised
from tests.fuzz.targets import TARGETS, corpus


@pytest.mark.parametrize("name", TARGETS)
def test_only_named_errors_come_out(name: str) -> None:
    """Of seeds, of what was a fault once, and of what leads through other code."""
    for label, data in corpus(name):
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"{name}, {label}: {type(error).__name__}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_reading_again_and_again_takes_no_more_memory(name: str) -> None:
    """Some hundred more readings, less than 32 MB."""
    inputs = [data for _, data in corpus(name)]
    for data in inputs:
        TARGETS[name](data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = max(1, 400 // len(inputs))
    for _ in range(rounds):
        for data in inputs:
            TARGETS[name](data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def test_what_an_error_came_from_is_written(tmp_path: Path) -> None:
    """By ourselves, byte for byte, and the error goes on; nothing is written of what was read."""

    def read(data: bytes) -> None:
        if data == b"\0wrong\n":
            raise KeyError

    watched = written_if_raised("csv", read, tmp_path / "found")
    watched(b"right")
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyError):
        watched(b"\0wrong\n")
    (written,) = (tmp_path / "found").iterdir()
    assert written.name.startswith("csv-raised-")
    assert written.read_bytes() == b"\0wrong\n"
