"""What a fuzzer came to is read again: only errors that are named come out, and nothing grows."""

import resource

import pytest

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
