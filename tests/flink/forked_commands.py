"""``kanonflow`` commands as processes of their own, forked from one that has imported what they import.

Importing Beam and this package takes four to five seconds of processor time, which each of some fifty commands would
spend anew. What a command does, writes and leaves behind is the same; that it also starts as a user starts it, by name,
is shown by the tests of the commands, of the runbook's trial and of the benchmark.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# As the command does first: Beam would add a handler that writes to the terminal.
if not logging.getLogger().handlers:
    logging.getLogger().addHandler(logging.NullHandler())

_CONTEXT = multiprocessing.get_context("forkserver")
_IMPORTED = (
    "tests.flink.forked_commands",
    "kanonflow.pipelines.cli",
    "kanonflow.pipelines.options.options",
    "kanonflow.pipelines.runs.stream",
    "kanonflow.pipelines.kafka.sink",
    "kanonflow.pipelines.kafka.source",
    "apache_beam.runners.portability.flink_runner",
)


class ForkedCommand:
    """A command that runs, the leader of a session of its own. log: what takes all that it writes."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        _CONTEXT.set_forkserver_preload(list(_IMPORTED))
        given = (list(arguments), str(log), dict(os.environ), os.getcwd())
        self._process = _CONTEXT.Process(target=_run, args=given)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        while self.poll() is None and os.getpgid(self.pid) != self.pid:
            time.sleep(0.005)

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As of ``returncode``."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit code. Raises TimeoutError."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutError(f"the command still runs after {timeout:.0f} s")
        return self._process.exitcode


def run_command(arguments: Sequence[str], log: Path, timeout: float | None = None) -> None:
    """Run a command to its end, which must be a good one."""
    code = ForkedCommand(arguments, log).wait(timeout)
    assert code == 0, log.read_text()[-2000:]


def _run(arguments: list[str], log: str, environment: Mapping[str, str], folder: str) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(opened, stream)
    os.close(opened)
    sys.argv = ["kanonflow", *arguments]
    from kanonflow.pipelines.cli import main

    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    # A process that ``multiprocessing`` forks ends without: Beam's job server would stay.
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    sys.exit(code)
