"""What holds for every test: skips must be seen, and kernels are compiled ahead.

Skips: a test marked ``data`` needs the data sets; in CI nothing else may be skipped.

A test that is skipped because a package, a port or a file is missing looks like a passed one to whoever reads the
last line. With KANONFLOW_CI or CI set to true such a skip is a failure. Tests marked ``data`` are skipped when
KANONFLOW_DATA is not set, there too; when it is set, they must run.

Kernels: what numba compiles within a test does not count as its time: on a busy machine the compiler alone would take
it past its limit. With KANONFLOW_COMPILED_AHEAD set, a test that compiles a kernel of the package fails: where all
that it may call were compiled ahead. A test that is about compiling is marked ``compiles``.

Time: from KANONFLOW_TESTS_END on, in seconds since 1970, tests are skipped as left, in CI too: machines differ by more
than two, and a run that is cut off has told nothing. Then what holds the promise comes first, and what comes last
follows from KANONFLOW_TESTS_TURN, so that it is another part with each commit. `make test-all` leaves none.
"""

import hashlib
import os
import signal
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

TRUE = ("1", "true", "yes")
FIRST = ("privacy", "pipelines/audit", "transforms", "pipelines/runs", "pipelines/chains", "proofs")
"""Folders whose tests hold the promise, and that no row is lost or doubled."""
LEFT = "left: no time was left for it (KANONFLOW_TESTS_END)"
COMPILED: list[str] = []
"""Kernels of the package that were compiled since the last test was asked."""


def in_ci(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether skips must not pass unseen."""
    return any(environment.get(name, "").lower() in TRUE for name in ("KANONFLOW_CI", "CI"))


def pytest_configure() -> None:
    """Listen to numba's compiler. No test that draws its cases is timed: on a busy machine it would fail by that."""
    _listen_to_compiler()
    with suppress(ImportError):
        from hypothesis import settings

        settings.register_profile("untimed", deadline=None)
        settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the data sets where there are none; put first what must not be left."""
    if os.environ.get("KANONFLOW_TESTS_END"):
        items.sort(key=_turn)
    if os.environ.get("KANONFLOW_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs KANONFLOW_DATA"))


def _turn(item: pytest.Item) -> tuple[int, bytes]:
    """Files stay together, for they share what they set up."""
    file = item.nodeid.split("::")[0]
    inside = file.removeprefix("tests/")
    place = next((number for number, name in enumerate(FIRST) if inside.startswith(name)), len(FIRST))
    turn = os.environ.get("KANONFLOW_TESTS_TURN", "") if place == len(FIRST) else ""
    return place, hashlib.sha256(f"{turn} {file}".encode()).digest()


def pytest_runtest_setup() -> None:
    """Leave what would begin too late."""
    end = os.environ.get("KANONFLOW_TESTS_END")
    if end and time.time() > float(end):
        pytest.skip(LEFT)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The machine's Chromium without a window, one for all tests that are marked ``browser``."""
    from tests.page_checks import chromium

    sync_api = pytest.importorskip("playwright.sync_api")
    if (path := chromium()) is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI."""
    report = yield
    allowed = item.get_closest_marker("data") is not None and not os.environ.get("KANONFLOW_DATA")
    allowed |= report.skipped and LEFT in _reason(report.longrepr)
    if report.skipped and not hasattr(report, "wasxfail") and in_ci() and not allowed:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that passed, but compiled a kernel where all were compiled ahead."""
    COMPILED.clear()
    yield
    ahead = os.environ.get("KANONFLOW_COMPILED_AHEAD", "").lower() in TRUE
    if ahead and COMPILED and not item.get_closest_marker("compiles"):
        pytest.fail(
            f"compiled {', '.join(sorted(set(COMPILED)))} within its time limit: give it types that are compiled ahead"
            " (solvers/warm_up.py), or compile its own ahead too",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as a whole."""
    report = yield
    if report.skipped and in_ci():
        report.outcome = "failed"
        report.longrepr = f"module skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


def _reason(told: object) -> str:
    return str(told[2]) if isinstance(told, tuple) else str(told)


def _listen_to_compiler() -> None:
    """Take down each kernel of the package that numba compiles, and stop a test's clock for as long as it does.

    A kernel from numba's cache is not compiled.
    """
    from numba.core import event

    class Compilations(event.Listener):
        def __init__(self) -> None:
            self._depth = 0
            self._left = 0.0

        def on_start(self, event: Any) -> None:
            dispatcher = event.data.get("dispatcher")
            if dispatcher is not None and dispatcher.py_func.__module__.startswith("kanonflow."):
                COMPILED.append(f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}")
            if self._depth == 0:
                # The clock of pytest-timeout; numba compiles one function at a time, and what that calls.
                self._left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
            self._depth += 1

        def on_end(self, event: Any) -> None:
            self._depth -= 1
            if self._depth == 0 and self._left:
                signal.setitimer(signal.ITIMER_REAL, self._left)

    event.register("numba:compile", Compilations())
