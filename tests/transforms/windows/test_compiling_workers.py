"""A worker that has no compiled kernels says so, once, before it compiles for minutes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kanonflow.transforms.protections.needed_kernels import Kernels
from kanonflow.transforms.windows import solve_windows

KERNELS = Kernels("classes", False, False, "ncp", True, ())


@pytest.mark.parametrize("missing", [0, 12])
def test_a_worker_says_that_it_compiles_and_how_long_it_took(
    missing: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """How many, before the first; the seconds, after the last; where all are there, nothing. No row is in it."""
    said_first = []

    def compiles(sets: Any, told: Any) -> bool:
        assert sets == KERNELS.sets
        for done in range(missing):
            told(done, missing, done / missing)
            said_first.append(len(caplog.records))
        return missing > 0

    monkeypatch.setattr(solve_windows, "compile_ahead", compiles)
    monkeypatch.setattr(Kernels, "load", lambda self: None)
    with caplog.at_level(logging.WARNING):
        solve_windows._load_kernels.__wrapped__(KERNELS)
    texts = [record.getMessage() for record in caplog.records]
    if not missing:
        assert texts == []
        return
    assert texts[0] == "compiles 12 kernels for this policy, once; this takes up to some minutes"
    assert texts[1].startswith("compiled kernels for this policy in ")
    assert len(texts) == 2
    assert set(said_first) == {1}


def test_what_measures_first_windows_is_compiled_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set once, and none where nothing is measured: a worker that compiled at its first window would be late."""
    asked: list[Any] = []
    monkeypatch.setattr(solve_windows, "compile_ahead", lambda sets, told: asked.append(sets))
    monkeypatch.setattr(Kernels, "load", lambda self: None)
    solve_windows._load_kernels.__wrapped__(KERNELS, ("more", KERNELS.sets[0]))
    assert asked == [(*KERNELS.sets, "more")]
