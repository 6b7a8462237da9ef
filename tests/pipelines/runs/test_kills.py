"""A run under a deadline that is killed at random points and resumed: no row twice, none lost, the audit passes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

CASES = 4
KILLED = (-signal.SIGKILL, -signal.SIGALRM)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("protect", ["row", "individual"])
def test_no_row_is_in_two_releases_however_often_a_run_with_a_deadline_is_killed(
    tmp_path: Path, protect: str
) -> None:
    """One to three deaths each: before and after a file gets its name, or at any time. Then --resume ends the run."""
    command = [sys.executable, "-m", "tests.pipelines.runs.killed_runs", str(tmp_path), protect, str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(cases) == CASES
    for case in cases:
        assert (case["code"], case["verify"]) == (0, 0), (case, done.stderr[-3000:])
        assert (case["twice"], case["missing"]) == ([], [])
        assert case["released"] > 100
    assert sum(death in KILLED for case in cases for death in case["deaths"]) >= CASES
