"""What answers at once loads nothing that takes long to load."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("apache_beam", "numba", "numpy", "pyarrow", "fastavro", "cryptography")
PROGRAM = """
import sys
from kanonflow.pipelines.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code or 0
print("LOADED", *sorted(name for name in sys.modules if "." not in name))
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--help", 0),
        ("--version", 0),
        ("anonymize --help", 0),
        ("export --help", 0),
        ("report --help", 0),
        ("policy schema", 0),
        ("anonymise", 2),
        ("verify --polcy p.yaml", 2),
    ],
)
def test_what_answers_at_once_loads_nothing_heavy(command: str, code: int) -> None:
    """Neither Beam nor a library of arrays; the answer itself is other tests'."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()], capture_output=True, text=True, check=False
    )
    assert ran.returncode == code, ran.stderr
    loaded = ran.stdout.rpartition("LOADED")[2].split()
    assert "kanonflow" in loaded
    assert not set(HEAVY) & set(loaded)


POLICY = """version: 1
k: 2
window: 1d
fields:
  who: {role: individual}
  when: {role: time, as: timestamp}
  age: {role: quasi, type: numeric, as: int}
  amount: {role: sensitive, as: double}
"""
ROWS = "who,when,age,amount\na,2020-01-01,31,1.5\nb,2020-01-02,x,2.5\n"


def test_whether_files_fit_is_said_without_beam_and_without_solvers(tmp_path: Path) -> None:
    """A local file needs no Beam, and where no solver is asked none is loaded; a misfit is told all the same."""
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "in.csv").write_text(ROWS)
    command = ["policy", "check", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv"), "--fit-only"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2, ran.stderr
    assert "age" in ran.stderr
    loaded = ran.stdout.rpartition("LOADED")[2].split()
    assert "pyarrow" in loaded
    assert not {"apache_beam", "numba", "scipy"} & set(loaded)


def test_what_public_names_stand_for_is_loaded_when_they_are_asked_for() -> None:
    """The package lists them all, and has no others."""
    code = (
        "import sys, kanonflow.transforms as t; assert 'apache_beam' not in sys.modules;"
        "assert dir(t) == sorted(t.__all__); assert all(getattr(t, name).__name__ == name for name in t.__all__);"
        "assert not hasattr(t, 'anonymise_table')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
