"""Whoever reads what a command prints may stop: the command ends, silently."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough


def ended(arguments: list[str], *, both: bool) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout (and stderr, if ``both``) nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kanonflow.pipelines.cli", *arguments],
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            check=False,
            timeout=300,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize(
    "arguments",
    [["policy", "schema"], ["policy", "check", "policies/transactions.yaml"], ["--help"], ["--version"]],
    ids=" ".join,
)
def test_a_closed_pipe_is_silent(arguments: list[str]) -> None:
    """141, as of a process that the signal ended, and not a word, whether much was printed or little."""
    assert ended(arguments, both=False) == (141, "")


def test_so_is_one_of_messages() -> None:
    """Where not even a mistake can be told."""
    assert ended(["policy", "check", "none.yaml"], both=True) == (141, "")
