"""What answers at once loads nothing that takes long to load."""

import subprocess
import sys

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
