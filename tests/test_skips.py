"""What ``conftest.py`` makes of skips, and of kernels that a test compiles, seen from outside."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.skipif(True, reason="something is missing")
def test_misses_something():
    pass

@pytest.mark.data
def test_reads_data():
    pass

@pytest.mark.xfail(reason="known")
def test_fails_as_known():
    assert False
"""
MODULE = "import pytest\npytest.importorskip('no_such_package')\n\ndef test_never_runs():\n    pass\n"
COUNTS = ("passed", "failed", "skipped", "xfailed", "error")


COMPILING = """
import numba
import pytest

def ours(number):
    return number + 1

ours.__module__ = "kanonflow.invented"
kernel = numba.njit(ours)
own = numba.njit(lambda number: number + 2)

def test_compiles():
    assert kernel(1) == 2

def test_calls_what_is_compiled():
    assert kernel(2) == 3

def test_compiles_what_is_not_ours():
    assert own(2) == 4

@pytest.mark.compiles
def test_is_about_compiling():
    assert kernel(1.0) == 2.0
"""


def counts(folder: Path, tests: str = TESTS, **environment: str) -> dict[str, int]:
    """The closing line of a run of its own over tests, as numbers."""
    (folder / "test_some.py").write_text(tests)
    if tests == TESTS:
        (folder / "test_module.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  data: needs data\n  compiles: compiles\n")
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    cleared = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "KANONFLOW_CI", "KANONFLOW_DATA", "KANONFLOW_COMPILED_AHEAD", "PYTEST_ADDOPTS")
        and not name.startswith("PYTEST_XDIST")
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
    ]
    run = subprocess.run(
        command, cwd=folder, env={**cleared, **environment}, capture_output=True, text=True, check=False
    )
    words = run.stdout.strip().splitlines()[-1].replace(",", "").split()
    return {
        word.removesuffix("s"): int(words[at - 1]) for at, word in enumerate(words) if word.startswith(COUNTS)
    }


def test_outside_of_ci_a_skip_is_a_skip(tmp_path: Path) -> None:
    """A missing package, a condition and missing data sets skip; the rest runs."""
    assert counts(tmp_path) == {"passed": 1, "skipped": 3, "xfailed": 1}


@pytest.mark.parametrize("name", ["CI", "KANONFLOW_CI"])
def test_in_ci_a_skip_is_a_failure(tmp_path: Path, name: str) -> None:
    """What misses something fails, as a test and as a module; only the data sets may be missing."""
    assert counts(tmp_path, **{name: "true"}) == {"passed": 1, "skipped": 1, "xfailed": 1, "error": 2}


def test_what_would_begin_too_late_is_left_in_ci_too(tmp_path: Path) -> None:
    """Nothing of what was left is told as passed; what misses something still fails, and before the end all runs."""
    late = counts(tmp_path, CI="true", KANONFLOW_TESTS_END="1")
    assert late == {"skipped": 3, "error": 2}
    in_time = counts(tmp_path, CI="true", KANONFLOW_TESTS_END="99999999999")
    assert in_time == {"passed": 1, "skipped": 1, "xfailed": 1, "error": 2}


def test_what_holds_the_promise_comes_first_and_the_rest_takes_turns(tmp_path: Path) -> None:
    """Whatever the turn, files of privacy begin; of the others each is last in some turn."""
    for folder in ("privacy", "pages", "solvers", "schemas"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text("def test_it(): pass\n")
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--import-mode=importlib", "tests"]
    last = set()
    for turn in range(12):
        told = {"KANONFLOW_TESTS_END": "99999999999", "KANONFLOW_TESTS_TURN": str(turn)}
        run = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **told}, capture_output=True, text=True, check=True
        )
        order = [line.split("/")[1] for line in run.stdout.splitlines() if "::" in line]
        assert order[0] == "privacy"
        last.add(order[-1])
    assert last == {"pages", "solvers", "schemas"}


def test_data_that_is_there_is_used(tmp_path: Path) -> None:
    """With KANONFLOW_DATA set, tests marked ``data`` run."""
    assert counts(tmp_path, KANONFLOW_DATA=str(tmp_path))["passed"] == 2


def test_a_test_that_compiles_a_kernel_fails_where_all_were_compiled_ahead(tmp_path: Path) -> None:
    """The one that calls it with new types fails; what is compiled, what is not ours and what says so may be."""
    assert counts(tmp_path, COMPILING, KANONFLOW_COMPILED_AHEAD="yes") == {"passed": 3, "failed": 1}
    assert counts(tmp_path, COMPILING) == {"passed": 4}


SLOW = """
import time
import numba
import pytest
from numba.core import event

@pytest.mark.timeout(1)
def test_compiles_for_long():
    with event.trigger_event("numba:compile", data={}):
        with event.trigger_event("numba:compile", data={}):
            time.sleep(2)

@pytest.mark.timeout(1)
def test_takes_long_by_itself():
    with event.trigger_event("numba:compile", data={}):
        pass
    time.sleep(3)
"""


def test_compiling_does_not_count_as_time_of_a_test(tmp_path: Path) -> None:
    """Its clock stands still while numba is at work, and goes on behind it."""
    assert counts(tmp_path, SLOW) == {"passed": 1, "failed": 1}
