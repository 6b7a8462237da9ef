"""Whether the tests see a mutant: each is tried in a process forked for it, and no file is touched.

Once, the tests run on unchanged code, and what is kept of each is which lines of the modules it reaches, and how long
it takes. A mutant is then tried with those of its own tests that reach its line, the quick ones first, and before them
those that killed others of the module, until the first fails.

A mutant of a plain function is exchanged in a process that has the tests loaded already: a second instead of three.
What is compiled, or runs while the module is loaded, is compiled from the changed tree in a process that has not.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from tests.mutants import ROOT, Mutant

SECONDS = 30
"""Of CPU, beside four times as many as its tests take unchanged, after which a mutant counts as killed: it does not
end. Of the clock ten times as many: the machine may be busy."""
FLAGS = (
    *("-q", "-m", "not cluster"),
    # Two of them collect garbage over and over, which is most of what a short trial takes.
    *(f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception")),
)


class Trials:
    """Trials of mutants of some modules. files: of all tests that may be needed."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._seconds: dict[str, float] = {}
        self._lines: dict[str, dict[str, list[int]]] = {}
        self._killers: dict[str, list[str]] = defaultdict(list)

    def prepare(self, modules: Collection[str]) -> str | None:
        """Run all tests once, and keep what they reach of these modules; a test that fails, or None."""
        _preload()
        watched = _Reached({str(ROOT / module): module for module in modules})

        def run() -> Any:
            code = pytest.main([*FLAGS, *self._files], plugins=[watched])
            return int(code), watched.failed, watched.seconds, watched.lines()

        told = _forked(run, None)
        if told is None:
            return "a test does not end, and"
        code, failed, self._seconds, self._lines = told
        return (failed or "something") if code else None

    def load(self) -> None:
        """Load the tests, and with them what they test, into this process: every later one begins with it."""
        with _silent():
            pytest.main([*FLAGS, "--collect-only", *self._files])

    def killed(self, mutant: Mutant, own: Sequence[str]) -> bool:
        """Whether one of a module's own tests fails on a mutant, or does not end."""
        first = self._killers[mutant.module]
        tests = self._reaching(mutant, own)
        order = {node: (place, 0.0) for place, node in enumerate(first[:6])}
        files = {file: len(first) + place for place, file in enumerate(own)}
        tests.sort(key=lambda node: order.get(node, (files[node.split("::")[0]], self._seconds[node])))
        limit = int(SECONDS + 4 * sum(map(self._seconds.__getitem__, tests)))

        def run() -> Any:
            if mutant.within is None:
                sys.meta_path.insert(0, _Changed(mutant))
                _cache_nothing_of(str(ROOT / mutant.module))
            else:
                _exchange(mutant)
            gc.freeze()
            chosen = _Chosen(tests)
            paths = list(dict.fromkeys(node.split("::")[0] for node in tests))
            return int(pytest.main([*FLAGS, "-x", *paths], plugins=[chosen])), chosen.failed

        if (told := _forked(run, limit)) is None:
            return True
        code, failed = told
        if failed is not None:
            if failed in first:
                first.remove(failed)
            first.insert(0, failed)
        return code != 0

    def _reaching(self, mutant: Mutant, own: Sequence[str]) -> list[str]:
        """The own tests that run a mutant's line, or else anything of its module; of one that is compiled or runs when
        the module is loaded, which nobody sees, all there are."""
        tests = [node for node in self._seconds if node.split("::")[0] in own]
        module = [node for node in tests if self._lines[node].get(mutant.module)]
        line = [node for node in module if mutant.line in self._lines[node][mutant.module]]
        return tests if mutant.within is None else line or module or tests


class _FirstFailure:
    """Which test failed first; pytest's hooks."""

    failed: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


class _Chosen(_FirstFailure):
    """Runs some tests only, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._places = {node: place for place, node in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (each for each in items if each.nodeid in self._places),
            key=lambda each: self._places[each.nodeid],
        )


class _Reached(_FirstFailure):
    """Which lines of some modules each test runs, and how long it takes. paths: the module of each path."""

    def __init__(self, paths: dict[str, str]) -> None:
        self._paths = paths
        self._now: set[tuple[str, int]] = set()
        self._by_test: dict[str, set[tuple[str, int]]] = {}
        self._by_fixture: dict[Any, set[tuple[str, int]]] = defaultdict(set)
        self._needs: dict[str, set[Any]] = defaultdict(set)
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began, self._now = time.process_time(), set()
        sys.settrace(self._call)
        threading.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self._by_test[item.nodeid] = self._now
            self.seconds[item.nodeid] = time.process_time() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        # What a fixture of many tests runs, each of them rests on.
        before, self._now = self._now, self._by_fixture[fixturedef.baseid, fixturedef.argname]
        try:
            return (yield)
        finally:
            self._now = before | self._now

    def pytest_runtest_teardown(self, item: Any) -> None:
        self._needs[item.nodeid] = {
            (each.baseid, each.argname)
            for defs in item._fixtureinfo.name2fixturedefs.values()
            for each in defs
        }

    def lines(self) -> dict[str, dict[str, list[int]]]:
        """The lines of each module that each test runs."""
        told: dict[str, dict[str, list[int]]] = {}
        for node, found in self._by_test.items():
            every = found.union(*(self._by_fixture[key] for key in self._needs[node]))
            own: dict[str, list[int]] = defaultdict(list)
            for path, line in sorted(every):
                own[self._paths[path]].append(line)
            told[node] = own
        return told

    def _call(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
        path = frame.f_code.co_filename
        return self._line if path in self._paths else None

    def _line(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any]:
        if event == "line":
            self._now.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, and compiles it from the changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = "kanonflow." + mutant.module.removesuffix(".py").replace("/", ".")
        super().__init__(self._name, str(ROOT / mutant.module))
        self._tree = mutant.tree()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self)
            if fullname == self._name
            else None
        )

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec")  # type: ignore[return-value]


def _exchange(mutant: Mutant) -> None:
    """Give the function that a mutant changes, wherever it is already held, the changed code."""
    assert mutant.within is not None
    path = str(ROOT / mutant.module)
    place = (path, *mutant.within)

    def fits(code: CodeType) -> bool:
        return (code.co_filename, code.co_qualname, code.co_firstlineno) == place

    def within(code: CodeType) -> Iterator[CodeType]:
        for part in code.co_consts:
            if isinstance(part, CodeType):
                yield part
                yield from within(part)

    changed = next(filter(fits, within(compile(mutant.tree(), path, "exec"))))  # type: ignore[arg-type]
    held = [each for each in gc.get_objects() if isinstance(each, FunctionType) and fits(each.__code__)]
    assert held, f"{mutant} is not loaded"
    for function in held:
        function.__code__ = changed


def _preload() -> None:
    """What no mutant changes, once for all of them: packages, schemas and solvers with the kernels of the defaults."""
    for name in ("numpy", "pyarrow", "fastavro", "numba", "scipy.sparse", "apache_beam", "hypothesis"):
        importlib.import_module(name)
    for floor in ("schemas", "solvers"):
        package = importlib.import_module(f"kanonflow.{floor}")
        for each in pkgutil.walk_packages(package.__path__, f"kanonflow.{floor}."):
            importlib.import_module(each.name)
    from kanonflow.solvers.warm_up import warm_up, warm_up_merging

    warm_up("classes", ruled=False, hierarchies=False, loss="ncp")
    warm_up_merging(hierarchies=False)


def _cache_nothing_of(path: str) -> None:
    """Machine code of the module is neither read nor kept: numba's key of a function leaves its constants out."""
    from numba.core import caching

    for name in ("load_overload", "save_overload"):
        plain = getattr(caching.Cache, name)

        def own(self: Any, *given: Any, _plain: Any = plain) -> Any:
            function = getattr(self, "_py_func", None)
            if function is not None and function.__code__.co_filename == path:
                return None
            return _plain(self, *given)

        setattr(caching.Cache, name, own)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing that is written to the terminal is seen."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, nothing = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nothing, stream)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, own in zip((1, 2), kept, strict=True):
            os.dup2(own, stream)
        for each in (*kept, nothing):
            os.close(each)


def _forked(run: Callable[[], Any], limit: int | None) -> Any:
    """What a function tells, in a process of its own; None: it did not end. limit: seconds of CPU."""
    handle, answer = tempfile.mkstemp()
    os.close(handle)
    try:
        if (child := os.fork()) == 0:
            try:
                _limited(limit)
                with _silent():
                    told: Any = {"told": run()}
            except BaseException:
                told = {"error": traceback.format_exc()}
            Path(answer).write_text(json.dumps(told))
            os._exit(0)
        os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        text = Path(answer).read_text()
        told = json.loads(text) if text else {"told": None}
        if "error" in told:
            # A fault of the trial is no kill.
            raise RuntimeError(told["error"])
        return told["told"]
    finally:
        os.unlink(answer)


def _limited(seconds: int | None) -> None:
    """In a group of its own, so that what it started ends with it."""
    import resource

    os.setpgid(0, 0)
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(10 * seconds)
