"""Whether the tests see a mutant: each is tried in a process forked for it, and no file is touched.

Once, the tests run on code that is unchanged but for probes, one before each statement: what is kept of each test is
which lines of the modules it reaches, and how long it takes. A mutant is then tried with those of its own tests that
reach its line, the quick ones first, and before them those that killed others of the module, until the first fails.
Tests of more than ``SLOW`` seconds are not tried: what only a whole run sees, the module's own tests do not hold.

The tests are collected once, and each trial begins with them: a function has its code exchanged, constants and defaults
are set anew. Kernels of a changed module run as plain Python.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutants import ROOT, Mutant, compiles

SECONDS = 10
"""Of CPU, beside four times as many as a test takes unchanged, after which a mutant counts as killed: it does not
end."""
SLOW = 5
"""Of CPU."""
FLAGS = (
    # What is said of releases in Parquet is said of the same ones in Avro, too.
    *("-q", "-m", "not cluster", "-k", "not parquet", "-o", "timeout=0"),
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
        self._items: dict[str, pytest.Item] = {}
        self._held: dict[tuple[str, str, int], list[FunctionType]] = {}

    def prepare(self, modules: Collection[str], processes: int) -> str | None:
        """Run all tests once, and keep what they reach of these modules; a test that fails, or None."""
        _preload()

        def run(files: Sequence[str]) -> Any:
            watched = _Reached()
            for module in modules:
                sys.meta_path.insert(0, _Changed(module, _probed(module)))
            code = pytest.main([*FLAGS, *files], plugins=[watched])
            return int(code), watched.failed, watched.seconds, watched.lines()

        parts = [part for part in (self._files[place::processes] for place in range(processes)) if part]
        with ThreadPoolExecutor(processes) as pool:
            answers = list(pool.map(lambda part: _forked(lambda: run(part)), parts))
        for answer in answers:
            if answer is None:
                return "a test does not end, and"
            code, failed, seconds, lines = answer
            if code:
                return str(failed or "something")
            self._seconds |= seconds
            self._lines |= lines
        return None

    def try_all(
        self,
        mutants: Sequence[Mutant],
        own: Mapping[str, Sequence[str]],
        processes: int,
        told: Callable[[Mutant, str | None], None],
    ) -> None:
        """Tell of each mutant which of its module's own tests fails, or that they do not end; None: it survives."""
        told_all = False

        def loop(items: Sequence[pytest.Item]) -> None:
            nonlocal told_all
            self._items = {item.nodeid: item for item in items}
            self._held = _held_functions()
            with ThreadPoolExecutor(processes) as pool:
                list(pool.map(lambda mutant: told(mutant, self._killed(mutant, own[mutant.module])), mutants))
            told_all = True

        pytest.main([*FLAGS, "-s", *self._files], plugins=[_Collected(loop)])
        if not told_all:
            raise RuntimeError("the tests cannot be collected")

    def _killed(self, mutant: Mutant, own: Sequence[str]) -> str | None:
        first = self._killers[mutant.module]
        tests = self._reaching(mutant, own)
        order = {node: (place, 0.0) for place, node in enumerate(first[:6])}
        files = {file: len(first) + place for place, file in enumerate(own)}
        tests.sort(key=lambda node: order.get(node, (files[node.split("::")[0]], self._seconds[node])))
        folder = tempfile.mkdtemp()

        def run() -> str | None:
            tempfile.tempdir = folder
            _interpret(str(ROOT / mutant.module))
            if mutant.within is None:
                _set_anew(mutant)
            else:
                self._exchange(mutant)
            gc.freeze()
            return _first_failure([self._items[node] for node in tests], self._seconds)

        try:
            answer = _forked(lambda: [run()])
        except RuntimeError as error:
            # A fault of the trial is no kill.
            print(mutant, error, sep="\n", flush=True)
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if answer is None:
            return "it does not end"
        failed: str | None = answer[0]
        if failed is not None:
            if failed in first:
                first.remove(failed)
            first.insert(0, failed)
        return failed

    def _exchange(self, mutant: Mutant) -> None:
        """Give the function that a mutant changes, wherever it is held, the changed code."""
        assert mutant.within is not None
        path = str(ROOT / mutant.module)
        place = (path, *mutant.within)
        code = compile(mutant.tree(), path, "exec")  # type: ignore[arg-type]
        changed = next(each for each in _within(code) if _place_of(each) == place)
        for function in self._held[place]:
            function.__code__ = changed

    def _reaching(self, mutant: Mutant, own: Sequence[str]) -> list[str]:
        """The own tests that run a mutant's line, or else anything of its module, or else all there are; of one that
        is compiled or runs when the module is loaded, which nobody sees, those of the module. A constant may be read
        by a test that runs nothing: there all of the module's namesake are among them."""
        tests = [node for node, took in self._seconds.items() if node.split("::")[0] in own and took < SLOW]
        module = [node for node in tests if self._lines[node].get(mutant.module)]
        if mutant.within is None:
            namesake = f"/test_{Path(mutant.module).stem}.py::"
            return [node for node in tests if node in module or namesake in node] or tests
        return [node for node in module if mutant.line in self._lines[node][mutant.module]] or module or tests


class _FirstFailure:
    """Which test failed first; pytest's hooks."""

    failed: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


class _Collected:
    """Hands over what was collected, in the place of running it."""

    def __init__(self, loop: Callable[[Sequence[pytest.Item]], None]) -> None:
        self._loop = loop

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not session.testsfailed:
            self._loop(session.items)
        return True


def _first_failure(items: Sequence[pytest.Item], seconds: Mapping[str, float]) -> str | None:
    """Run these tests until one fails, and tell which. The process ends with one that does not end."""
    watched = _FirstFailure()
    for item, following in zip_longest(items, items[1:]):
        if not item.config.pluginmanager.is_registered(watched):
            item.config.pluginmanager.register(watched)
        limit = int(time.process_time() + SECONDS + 4 * seconds[item.nodeid])
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if watched.failed is not None:
            break
    return watched.failed


_PROBE = "kanonflow_probe"
_Spans = set[tuple[str, int, int]]


def _probed(module: str) -> ast.Module:
    """A module that tells, before each statement of a function that is not compiled, its name and the lines."""
    tree = ast.parse((ROOT / module).read_text())

    def probe(body: list[ast.stmt]) -> None:
        for number in reversed(range(len(body))):
            each = body[number]
            inner = [getattr(each, part, None) or [] for part in ("body", "orelse", "finalbody")]
            inner += [part.body for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ()))]
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                within(each)
            else:
                for part in inner:
                    probe(part)
            last = min([part[0].lineno - 1 for part in inner if part], default=each.end_lineno or each.lineno)
            told = repr((module, each.lineno, max(last, each.lineno)))
            body[number:number] = ast.parse(f"{_PROBE}({told})").body

    def within(node: ast.AST) -> None:
        for each in getattr(node, "body", []):
            if isinstance(each, ast.ClassDef):
                within(each)
            elif isinstance(each, ast.FunctionDef) and not any(map(compiles, each.decorator_list)):
                probe(each.body)

    within(tree)
    return ast.fix_missing_locations(tree)


class _Reached(_FirstFailure):
    """Which lines of the modules with probes each test runs, and how long it takes."""

    def __init__(self) -> None:
        self._now: _Spans = set()
        self._by_test: dict[str, _Spans] = {}
        self._by_fixture: dict[Any, _Spans] = defaultdict(set)
        self._needs: dict[str, set[Any]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        setattr(builtins, _PROBE, self._now.add)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.process_time()
        self._now.clear()
        try:
            return (yield)
        finally:
            self._by_test[item.nodeid] = set(self._now)
            self.seconds[item.nodeid] = time.process_time() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        # What a fixture of many tests runs, each of them rests on.
        before = set(self._now)
        self._now.clear()
        try:
            return (yield)
        finally:
            self._by_fixture[fixturedef.baseid, fixturedef.argname] |= self._now
            self._now |= before

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
            own: dict[str, set[int]] = defaultdict(set)
            for module, first, last in every:
                own[module].update(range(first, last + 1))
            told[node] = {module: sorted(lines) for module, lines in own.items()}
        return told


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, and compiles it from a changed tree."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self._name = _module_name(module)
        super().__init__(self._name, str(ROOT / module))
        self._tree = tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self)
            if fullname == self._name
            else None
        )

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec")  # type: ignore[return-value]


def _place_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _within(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _within(part)


def _held_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions that are loaded, by the place of their code."""
    held: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            held[_place_of(each.__code__)].append(each)
    return held


def _set_anew(mutant: Mutant) -> None:
    """Set the constants of a module, and the defaults of its functions and classes, as its changed tree has them; also
    where they were imported."""
    name = _module_name(mutant.module)
    module, tree = sys.modules[name], mutant.tree()
    fresh = dict(vars(module))
    exec(compile(tree, str(ROOT / mutant.module), "exec"), fresh)
    assigned = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        for target in ast.walk(target)
        if isinstance(target, ast.Name)
    }
    for own, old in list(vars(module).items()):
        new = fresh.get(own)
        if own in assigned:
            for other in list(sys.modules.values()):
                if vars(other).get(own) is old:
                    setattr(other, own, new)
        elif getattr(old, "__module__", None) == name:
            _set_defaults(old, new)


def _set_defaults(old: Any, new: Any) -> None:
    """Of a function, or of all that a class holds: also of what makes a tuple with names, and constants of a class."""
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    elif isinstance(old, staticmethod | classmethod):
        _set_defaults(old.__func__, new.__func__)
    elif isinstance(old, type):
        for own, value in vars(new).items():
            if isinstance(value, FunctionType | staticmethod | classmethod) and own in vars(old):
                _set_defaults(vars(old)[own], value)
            elif type(value) in (bool, int, float, tuple) and not own.startswith("__"):
                setattr(old, own, value)
                if own in getattr(old, "__dataclass_fields__", {}):
                    old.__dataclass_fields__[own].default = value


def _module_name(module: str) -> str:
    return "kanonflow." + module.removesuffix(".py").replace("/", ".")


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


def _interpret(path: str) -> None:
    """What of a module is compiled runs as plain Python, wherever it is held: nothing is compiled for a trial."""
    from numba.core.dispatcher import Dispatcher

    for module in list(sys.modules.values()):
        for name, each in list(vars(module).items()):
            if isinstance(each, Dispatcher) and each.py_func.__code__.co_filename == path:
                setattr(module, name, each.py_func)


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


def _forked(run: Callable[[], Any]) -> Any:
    """What a function tells, in a process of its own; None: it did not end."""
    handle, answer = tempfile.mkstemp()
    os.close(handle)
    try:
        if (child := os.fork()) == 0:
            try:
                # A session of its own: what it started ends with it, and a busy machine gives it a share.
                os.setsid()
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
            raise RuntimeError(told["error"])
        return told["told"]
    finally:
        os.unlink(answer)
