"""What ``conftest.py`` makes of skips, seen from outside."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def counts(folder: Path, **environment: str) -> dict[str, int]:
    """The closing line of a run of its own over the tests above, as numbers."""
    (folder / "test_some.py").write_text(TESTS)
    (folder / "test_module.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = data: needs data\n")
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    cleared = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "KANONFLOW_CI", "KANONFLOW_DATA", "PYTEST_ADDOPTS")
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


def test_data_that_is_there_is_used(tmp_path: Path) -> None:
    """With KANONFLOW_DATA set, tests marked ``data`` run."""
    assert counts(tmp_path, KANONFLOW_DATA=str(tmp_path))["passed"] == 2
