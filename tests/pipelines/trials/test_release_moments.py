"""With which window rows leave, against a loop that goes from window to window and keeps lists."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.risks.intakes import NEVER
from kanonflow.pipelines.trials.release_moments import release_moments


def naive(window: list[int], who: list[int], known: list[int], waits: int, k: int) -> list[int]:
    """Each window in turn: who is known and in time is released together, if they are k people."""
    left = [NEVER] * len(window)
    waiting: list[int] = []
    # Rows leave with windows that have rows of their own due, or people who enter.
    moments = sorted({*window, *(each for each in known if each != NEVER)})
    for now in moments:
        waiting += [row for row in range(len(window)) if window[row] == now]
        waiting = [row for row in waiting if now - window[row] <= waits]
        due = [row for row in waiting if known[row] <= now]
        if len({who[row] for row in due}) >= k:
            for row in due:
                left[row] = now
            waiting = [row for row in waiting if left[row] == NEVER]
    return left


@pytest.mark.parametrize("seed", range(40))
def test_release_moments(seed: int) -> None:
    """Sparse and dense windows, people who enter late or never, rows that may wait or not."""
    rng = np.random.default_rng(seed)
    n, people = int(rng.integers(1, 80)), int(rng.integers(1, 12))
    window, who = rng.integers(-3, 12, n), rng.integers(0, people, n)
    enters = rng.choice([-100, 0, 2, 5, NEVER], people, p=[0.4, 0.2, 0.2, 0.1, 0.1])
    first = np.full(people, NEVER)
    np.minimum.at(first, who, window)
    # Nobody enters before his first row, but who is known from the beginning.
    known = np.where(enters == -100, -100, np.where(enters == NEVER, NEVER, np.maximum(enters, first)))[who]
    waits, k = int(rng.integers(0, 4)), int(rng.integers(1, 5))
    found = release_moments(window, who, known, waits, k)
    assert found.tolist() == naive(window.tolist(), who.tolist(), known.tolist(), waits, k)


def test_nobody() -> None:
    """No rows, no moments."""
    none = np.empty(0, dtype=np.int64)
    assert release_moments(none, none, none, 2, 5).size == 0
