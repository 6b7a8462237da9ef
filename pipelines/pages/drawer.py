"""Drawings are made in a process of their own, for the engine that makes them can end the process that it runs in.

V8 aborts where it gets no memory, which nothing catches. A run that is over, and an audit that has its answer, must not
end with that: here it is an error like others.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kanonflow.pipelines.pages.missing_extra import HOW, MissingExtraError, missing

# By its path and without its folder on the way to modules: as a module it would take the whole package with it.
_PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("drawing_child.py")))
_TIMEOUT_S = 60.0
"""For one drawing, which takes milliseconds."""


class DrawingError(Exception):
    """A drawing that could not be made; the message says why, without anything of what was to be drawn."""

    exit_code = 3


class Drawer:
    """A process that draws. The first drawing starts it, and the first one after it ended starts another.

    program: what ``drawing_child`` does. timeout_s: for one drawing.
    """

    def __init__(self, program: Sequence[str] = _PROGRAM, timeout_s: float = _TIMEOUT_S) -> None:
        self._program = program
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def draw(self, spec: str) -> str:
        """The SVG of a Vega-Lite specification, which is JSON on one line.

        Raises DrawingError: the process cannot be started, ends, or takes too long. MissingExtraError.
        """
        if missing():
            raise MissingExtraError(f"pages of HTML need {' and '.join(missing())}: {HOW}")
        with self._lock:
            try:
                answer = json.loads(self._answer(spec))
            except BaseException:
                # What came half would be taken for the answer to the next question.
                self._end()
                raise
        if "svg" not in answer:
            raise DrawingError(f"the engine refused to draw ({answer.get('error')})")
        drawn: str = answer["svg"]
        return drawn

    def end(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _answer(self, spec: str) -> bytes:
        """A whole line."""
        child, late = self._running(), threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        watch = threading.Timer(self._timeout_s, stop)
        watch.daemon = True
        watch.start()
        line = b""
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            with contextlib.suppress(OSError):  # it is gone: so there is no answer
                child.stdin.write(spec.encode() + b"\n")
                child.stdin.flush()
                line = child.stdout.readline()
        finally:
            watch.cancel()
        if line.endswith(b"\n"):
            return line
        if late.is_set():
            raise DrawingError(f"a drawing took more than {self._timeout_s:g} seconds")
        child.kill()  # of one that is gone, its own end is told
        raise DrawingError(f"the process that draws ended with {_told(child.wait())}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        pipe = subprocess.PIPE
        try:
            self._child = subprocess.Popen(self._program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        except OSError as error:
            raise DrawingError(f"no process to draw could be started ({error.strerror})") from None
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what it did not take
                    stream.close()


@cache
def drawer() -> Drawer:
    """The one of this process; it ends with it."""
    made = Drawer()
    atexit.register(made.end)
    return made


def _told(code: int) -> str:
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(code)
