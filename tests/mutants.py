"""How tight the tests of the promise are: a comparison or constant is changed, and the module's own tests must see it.

    python -m tests.mutants                          all mutants, and the score
    python -m tests.mutants --only gate_frozen,pool  of some modules
    python -m tests.mutants --list                   only say which there are

A mutant changes one place: ``<`` into ``<=`` and into ``>=``, ``==`` into ``!=``, ``in`` into ``not in``, ``is`` into
``is not``, True into False, a number into the next and the one before. All places of the modules in ``RELEASING`` are
changed, and of those in ``JUDGING`` a sample of 300, drawn by digests of what is changed: it stays as long as the code
does, and follows it when it moves.

Each mutant is run in a process forked for it, in which the module is compiled from the changed tree; no file is
touched. Its own tests run until the first fails; that one is tried first on the next mutant of the module. One that
survives must stand in ``tests/equivalent_mutants.py``, with the reason why it changes nothing that could be seen. It is
no part of make test: it takes an hour.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
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
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from tests.equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).parents[1]

RELEASE, ROSTER, WINDOWS = (
    "tests/transforms/release/",
    "tests/transforms/roster/",
    "tests/transforms/windows/",
)
RELEASING: dict[str, tuple[str, ...]] = {
    "transforms/publishing/gate_frozen.py": (f"{RELEASE}test_gate_frozen.py",),
    "transforms/publishing/gate.py": (f"{RELEASE}test_gate.py", f"{RELEASE}test_gate_frozen.py"),
    "transforms/roster/pool.py": (f"{ROSTER}test_pool.py",),
    "transforms/release/ledger.py": (f"{RELEASE}test_ledger.py",),
    "transforms/lineage/release_lineage.py": ("tests/transforms/lineage/test_release_lineage.py",),
    "transforms/roster/window_groups.py": (f"{ROSTER}test_window_groups.py",),
    "transforms/roster/founding.py": (f"{ROSTER}test_founding.py",),
    "transforms/publishing/publish.py": (f"{RELEASE}test_publish.py",),
    "transforms/windows/step.py": (f"{WINDOWS}test_step.py", f"{WINDOWS}test_step_in_chains.py"),
    "transforms/windows/partition_clock.py": (f"{WINDOWS}test_partition_clock.py",),
}
"""Modules that decide what is released, with their own tests. All their mutants are tried."""

_AUDIT = "tests/pipelines/audit/"
_PLANTED = (f"{_AUDIT}test_lasting.py", f"{_AUDIT}test_planted_faults.py", f"{_AUDIT}test_audit.py")
JUDGING: dict[str, tuple[str, ...]] = {
    f"pipelines/audit/{name}.py": (*(f"{_AUDIT}test_{own}.py" for own in tests), *_PLANTED)
    for name, tests in {
        "candidate_graph": ("candidate_graph",),
        "classes": ("classes",),
        "concealment": (),
        "diversity": ("diversity",),
        "header": (),
        "held": (),
        "judgement": (),
        "known": ("known",),
        "lasting": (),
        "lasting_groups": (),
        "matching": (),
        "metrics": (),
        "order": ("order",),
        "payload": (),
        "read_cohorts": (),
        "records": (),
        "released_groups": (),
        "rosters": (),
        "segment_chain": (),
        "waiting": ("waiting",),
    }.items()
}
"""Modules that judge releases, with their own tests."""

SAMPLED = 300
SECONDS = 240
"""Of CPU and of the clock, after which a mutant counts as killed: it does not end."""

_SWAPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


@dataclass(frozen=True)
class Mutant:
    """One changed place. module: its path. where: the function it stands in. before, after: the statement's innermost
    expression or line, as text. number: of equal ones within the function. tree: of the whole module, changed."""

    module: str
    where: str
    before: str
    after: str
    number: int
    line: int
    tree: ast.Module

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        """What stays when the code moves."""
        return self.module, self.where, self.before, self.after, self.number

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.where}: {self.before}  ->  {self.after}" + (
            f" (number {self.number})" if self.number else ""
        )


class _Places(ast.NodeVisitor):
    """Every place of a module that can be changed: the path of nodes to it, and what it becomes."""

    def __init__(self) -> None:
        self.found: list[tuple[tuple[str, ...], ast.AST, ast.AST, int, Any]] = []
        self._functions: list[str] = []
        self._around: list[ast.AST] = []

    def visit(self, node: ast.AST) -> None:
        self._around.append(node)
        super().visit(node)
        self._around.pop()

    def _named(self, node: Any) -> None:
        self._functions.append(node.name)
        for part in (*node.decorator_list, *(node.body if isinstance(node, ast.ClassDef) else ())):
            if not isinstance(node, ast.ClassDef) or part not in node.decorator_list:
                self.visit(part)
        if not isinstance(node, ast.ClassDef):
            for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
                self.visit(default)
            for part in node.body:
                self.visit(part)
        self._functions.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _named  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is no decision."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nor is a text."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """``strict=`` of zip is an assertion, too."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """For the types; what they hold holds."""

    def visit_Compare(self, node: ast.Compare) -> None:
        for number, operator in enumerate(node.ops):
            for swapped in _SWAPPED[type(operator)]:
                self._add(node, number, swapped())
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, None, not node.value)
        elif isinstance(node.value, int | float):
            self._add(node, None, node.value + 1)
            if isinstance(node.value, int) and node.value > 0:
                self._add(node, None, node.value - 1)

    def _add(self, node: ast.AST, number: int | None, value: Any) -> None:
        shown = next(
            (
                each
                for each in reversed(self._around[:-1])
                if isinstance(each, ast.expr) and not isinstance(each, ast.Constant)
            ),
            node,
        )
        if isinstance(node, ast.Compare):
            shown = node
        self.found.append((tuple(self._functions), node, shown, -1 if number is None else number, value))


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its places."""
    source = (ROOT / module).read_text()
    places = _Places()
    places.visit(ast.parse(source))
    seen: dict[tuple[str, str, str], int] = {}
    for place in range(len(places.found)):
        # A tree of its own for each: a changed node is shared by nobody.
        tree = ast.parse(source)
        own = _Places()
        own.visit(tree)
        functions, node, shown, number, value = own.found[place]
        before = ast.unparse(shown)
        if isinstance(node, ast.Compare):
            node.ops[number] = value
        else:
            assert isinstance(node, ast.Constant)
            node.value = value
        where, after = ".".join(functions) or "module", ast.unparse(shown)
        count = seen[where, before, after] = seen.get((where, before, after), -1) + 1
        yield Mutant(
            module, where, before, after, count, getattr(node, "lineno", 0), ast.fix_missing_locations(tree)
        )


def chosen_mutants(only: Sequence[str] = ()) -> list[Mutant]:
    """All mutants of the modules that release, and the sample of those that judge. only: names of modules."""
    chosen = [mutant for module in RELEASING for mutant in mutants_of(module)]
    judging = [mutant for module in JUDGING for mutant in mutants_of(module)]
    judging.sort(key=lambda mutant: hashlib.sha256(json.dumps(mutant.name).encode()).digest())
    chosen += sorted(judging[:SAMPLED], key=lambda mutant: (mutant.module, mutant.line))
    return [mutant for mutant in chosen if not only or Path(mutant.module).stem in only]


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, and compiles it from the changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = "kanonflow." + mutant.module.removesuffix(".py").replace("/", ".")
        super().__init__(self._name, str(ROOT / mutant.module))
        self._tree = mutant.tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self)
            if fullname == self._name
            else None
        )

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec")  # type: ignore[return-value]


class _FirstFailure:
    """Which test failed first; pytest's hooks."""

    node: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.node is None:
            self.node = report.nodeid


def _preload() -> None:
    """What no mutant changes, once for all of them: packages, schemas and solvers with the kernels of the defaults."""
    for name in (
        "numpy",
        "pyarrow",
        "fastavro",
        "numba",
        "scipy.sparse",
        "apache_beam",
        "hypothesis",
        "pytest",
    ):
        importlib.import_module(name)
    for floor in ("schemas", "solvers"):
        package = importlib.import_module(f"kanonflow.{floor}")
        for each in pkgutil.walk_packages(package.__path__, f"kanonflow.{floor}."):
            if ".record_kernels" not in each.name and ".carry_kernels" not in each.name:
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


def _run(mutant: Mutant, tests: Sequence[str], answer: str) -> None:
    """In a process of its own: run the tests until one fails, and write which."""
    import resource

    import pytest

    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(4 * SECONDS)
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    sys.meta_path.insert(0, _Changed(mutant))
    _cache_nothing_of(str(ROOT / mutant.module))
    first = _FirstFailure()
    flags = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not cluster"]
    code = pytest.main([*flags, *tests], plugins=[first])
    Path(answer).write_text(json.dumps([int(code), first.node]))


def _try(mutant: Mutant, tests: Sequence[str], folder: str) -> tuple[bool, str | None]:
    """Whether a mutant is killed, and by which test; None: it did not end, or could not be loaded."""
    handle, answer = tempfile.mkstemp(dir=folder)
    os.close(handle)
    if (child := os.fork()) == 0:
        try:
            _run(mutant, tests, answer)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    text = Path(answer).read_text()
    if not text:
        return True, None
    code, node = json.loads(text)
    return code != 0, node


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants, print those that survive and the score; 1 where one survives that is not listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="names of modules, with commas")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args(argv)
    only = [name for name in arguments.only.split(",") if name]
    mutants = chosen_mutants(only)
    if arguments.list:
        for mutant in mutants:
            print(mutant)
        print(len(mutants), "mutants")
        return 0
    _preload()
    began = time.monotonic()
    own = {**RELEASING, **JUDGING}
    for tests in {tests for module, tests in own.items() if any(each.module == module for each in mutants)}:
        # Unchanged code first: tests that fail on it would kill everything.
        plain = next(each for each in mutants if own[each.module] == tests)
        same = Mutant(plain.module, "", "", "", 0, 0, ast.parse((ROOT / plain.module).read_text()))
        with tempfile.TemporaryDirectory() as folder:
            failed, node = _try(same, tests, folder)
        if failed:
            print(f"{node or tests} fails without any change")
            return 2
    killers: dict[str, list[str]] = {}
    survived: list[Mutant] = []

    def judge(mutant: Mutant) -> None:
        first = killers.setdefault(mutant.module, [])
        killed, node = _try(mutant, [*first[:6], *own[mutant.module]], folder)
        if not killed:
            survived.append(mutant)
            print("survived", "(equivalent)" if mutant.name in EQUIVALENT else "", mutant, flush=True)
        elif node is not None:
            if node in first:
                first.remove(node)
            first.insert(0, node)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.processes) as pool:
        list(pool.map(judge, mutants))
    unexplained = [mutant for mutant in survived if mutant.name not in EQUIVALENT]
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        all_of = sum(mutant.module == module for mutant in mutants)
        alive = sum(mutant.module == module for mutant in survived)
        print(f"{module}: {all_of - alive} of {all_of} killed")
    killed, equivalent = len(mutants) - len(survived), len(survived) - len(unexplained)
    print(
        f"{killed} of {len(mutants)} mutants killed, {equivalent} equivalent, {len(unexplained)} survive:"
        f" {killed / max(len(mutants) - equivalent, 1):.1%} of those that change anything,"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
