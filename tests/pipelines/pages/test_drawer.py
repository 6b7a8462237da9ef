"""Whatever becomes of the process that draws, whoever asked it gets a drawing or an error, and goes on."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from kanonflow.pipelines.pages import drawer as drawing
from kanonflow.pipelines.pages.charts import svg_of
from kanonflow.pipelines.pages.drawer import Drawer, DrawingError
from kanonflow.pipelines.pages.missing_extra import MissingExtraError

SPEC = {"data": {"values": [{"x": 31}]}, "mark": "point", "encoding": {}}


@pytest.fixture
def playing(request: pytest.FixtureRequest) -> Iterator[Drawer]:
    """A drawer whose process does what the test says, of which ``request.param`` is the program."""
    made = Drawer((sys.executable, "-c", request.param), 0.5)
    yield made
    made.end()


def one_that(*lines: str) -> pytest.MarkDecorator:
    """The program of ``playing``."""
    program = "\n".join(
        ("import os, sys, time", "for line in sys.stdin:", *(f"    {each}" for each in lines))
    )
    return pytest.mark.parametrize("playing", [program], indirect=True)


def test_it_draws() -> None:
    """Several from one process, which ends when it is asked to."""
    made = Drawer()
    first = made.draw(json.dumps(SPEC))
    assert first.startswith("<svg")
    child = made._child
    assert made.draw(json.dumps(SPEC)) == first
    assert made._child is child
    assert child is not None
    made.end()
    assert child.poll() is not None
    assert made.draw(json.dumps(SPEC)) == first
    made.end()


def test_nothing_is_drawn_in_this_process() -> None:
    """The engine is not even imported."""
    sys.modules.pop("vl_convert", None)
    assert "<svg" in svg_of(SPEC)
    assert "vl_convert" not in sys.modules


def test_what_cannot_be_drawn_is_an_error_without_its_values() -> None:
    """And the process goes on."""
    made = Drawer()
    for wrong in ('{"mark": "somebody"}', "somebody"):
        with pytest.raises(DrawingError, match="refused to draw") as raised:
            made.draw(wrong)
        assert "somebody" not in str(raised.value)
    assert "<svg" in made.draw(json.dumps(SPEC))
    made.end()


@one_that("os.abort()")
def test_a_process_that_dies_is_an_error(playing: Drawer) -> None:
    """Each time, with how it ended."""
    for _ in range(2):
        with pytest.raises(DrawingError, match="ended with SIGABRT"):
            playing.draw("{}")


@one_that('sys.stdout.write(\'{"svg": "<s\'); sys.stdout.flush(); os._exit(7)')
def test_half_an_answer_is_none(playing: Drawer) -> None:
    """Nor is it taken for the next one."""
    with pytest.raises(DrawingError, match="ended with 7"):
        playing.draw("{}")


@one_that("time.sleep(600)")
def test_one_that_hangs_is_ended(playing: Drawer) -> None:
    """After its time."""
    with pytest.raises(DrawingError, match=r"more than 0\.5 seconds"):
        playing.draw("{}")


@pytest.mark.parametrize("playing", ["import time; time.sleep(600)"], indirect=True)
def test_one_that_does_not_listen_is_ended(playing: Drawer) -> None:
    """More than a pipe holds is written to it."""
    with pytest.raises(DrawingError, match=r"more than 0\.5 seconds"):
        playing.draw("x" * 1_000_000)


@one_that("time.sleep(600)")
def test_an_interrupt_ends_it(playing: Drawer) -> None:
    """And is the caller's."""
    playing._timeout_s = 60
    here, ended = threading.main_thread().ident, threading.Event()
    assert here is not None

    def interrupt() -> None:
        # A second one, as the first may come just before the wait that it should end.
        for seconds in (0.3, 20):
            if not ended.wait(seconds):
                signal.pthread_kill(here, signal.SIGINT)

    def draw() -> None:
        try:
            playing.draw("{}")
        finally:
            ended.set()

    # A process that was begun in the background ignores interrupts, and so do the tests in it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            draw()
    finally:
        signal.signal(signal.SIGINT, before)
    assert playing._child is None


def test_one_that_cannot_be_started_is_an_error() -> None:
    """Of a machine without memory, say."""
    with pytest.raises(DrawingError, match="could be started"):
        Drawer(("/nowhere/python",)).draw("{}")


def test_without_the_extra_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to get it."""
    monkeypatch.setattr(drawing, "missing", lambda: ("vl-convert-python",))
    with pytest.raises(MissingExtraError, match="pip install"):
        Drawer(("/nowhere/python",)).draw("{}")
