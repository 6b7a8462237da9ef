"""How tight the tests of the promise are: a comparison or constant is changed, and the module's own tests must see it.

    python -m tests.mutants                          all mutants, and the score of each module
    python -m tests.mutants --only gate_frozen,pool  of some modules
    python -m tests.mutants --only audit             of the sample, or of its rooms: judge, lasting, files ...
    python -m tests.mutants --results FILE           goes on where a run that was cut off stood
    python -m tests.mutants --list                   only say which there are

A mutant changes one place: ``<`` into ``<=`` and into ``>=``, ``==`` into ``!=``, ``in`` into ``not in``, ``is`` into
``is not``, True into False, a number into the next and the one before. All places of the modules in ``RELEASING`` are
changed, and of those in ``JUDGING`` a sample of 300, drawn by digests of what is changed: it stays as long as the code
does, and follows it when it moves.

One that survives must stand in ``tests/equivalent_mutants.py``, with the reason why it changes nothing that could be
seen. How they are tried is in ``tests/mutant_trials.py``. It is no part of make test, which holds the lists only.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).parents[1]

RELEASE, PUBLISHING, ROSTER, WINDOWS = (
    "tests/transforms/release/",
    "tests/transforms/publishing/",
    "tests/transforms/roster/",
    "tests/transforms/windows/",
)
RELEASING: dict[str, tuple[str, ...]] = {
    "transforms/publishing/gate_frozen.py": (f"{PUBLISHING}test_gate_frozen.py",),
    "transforms/publishing/gate.py": (f"{PUBLISHING}test_gate.py", f"{PUBLISHING}test_gate_frozen.py"),
    "transforms/publishing/gate_kinds.py": (
        f"{PUBLISHING}test_gate_kinds.py",
        f"{PUBLISHING}test_gate.py",
        f"{PUBLISHING}test_gate_frozen.py",
    ),
    "transforms/roster/pool.py": (f"{ROSTER}test_pool.py",),
    "transforms/release/ledger.py": (f"{RELEASE}test_ledger.py",),
    "transforms/lineage/release_lineage.py": ("tests/transforms/lineage/test_release_lineage.py",),
    "transforms/roster/window_groups.py": (f"{ROSTER}test_window_groups.py",),
    "transforms/roster/founding.py": (f"{ROSTER}test_founding.py",),
    "transforms/protections/intake.py": (
        "tests/transforms/protections/test_intake.py",
        "tests/transforms/protections/test_lasting.py",
    ),
    "transforms/publishing/publish.py": (f"{PUBLISHING}test_publish.py",),
    "transforms/windows/step.py": (f"{WINDOWS}test_step.py", f"{WINDOWS}test_step_in_chains.py"),
    "transforms/windows/partition_clock.py": (f"{WINDOWS}test_partition_clock.py",),
}
"""Modules that decide what is released, with their own tests. All their mutants are tried."""

AUDIT = "pipelines/audit"
NOT_JUDGING: dict[str, str] = {
    "judge/load_kernels": "compiles ahead",
    "report": "puts words to what was found",
    "unchecked": "words alone",
    "read/findings": "a list of faults and its words",
    "read/text_rows": "reads rows of text; held against the product's own reading",
    "read/text_columns": "likewise, column by column; held against the former",
    "read/values": "makes codes of values, likewise",
    "read/read_input": "puts together what these read",
    "files/release_files": "reads a file of releases",
    "files/avro_cells": "likewise, cell by cell; held against fastavro",
    "files/parquet_header": "reads Thrift; any other byte is refused, and planted ones are tests of the format",
    "records/record_file": "reads a file of records",
}
"""Modules of the audit that decide nothing, each with what it does instead. All others judge."""


def _judging() -> dict[str, tuple[str, ...]]:
    tests = ROOT / "tests" / AUDIT
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((ROOT / AUDIT).rglob("*.py")):
        module = path.relative_to(ROOT / AUDIT).with_suffix("")
        if path.name == "__init__.py" or str(module) in NOT_JUDGING:
            continue
        # Its namesake first, then its room, then the audit of runs written by hand.
        room = tests / module.parent
        files = [room / f"test_{module.name}.py", *sorted(room.glob(f"test_{module.name}_*.py"))]
        files += sorted(room.glob("test_*.py")) if module.parent.name else []
        files += [tests / each for each in (*_HAND_MADE, *(_PLANTED if module.parts[0] in _READING else ()))]
        there = [each for each in files if each.exists() and each.name not in _MINUTES]
        own = dict.fromkeys(str(each.relative_to(ROOT)) for each in there)
        found[str(path.relative_to(ROOT))] = tuple(own)
    return found


_HAND_MADE = ("test_audit.py",)
_MINUTES = ("test_chain.py", "test_old_chains.py")
"""Tests of whole chains, by the command: nothing is tried with them."""
_PLANTED = ("lasting/test_lasting.py", "test_planted_faults.py")
_READING = ("read", "files", "records", "audit", "candidates", "evidence", "followed_share", "protections")
"""Rooms, and modules, whose tests are faults planted in whole runs, too."""
JUDGING = _judging()
"""Modules that judge releases, with their own tests: whatever stands in the folder, so that the list follows it."""

SAMPLED = 300

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
    expression or line, as text. number: of equal ones within the function. line, place: in the module.

    within: qualified name and first line of the outermost function whose code it changes; None: it runs while the
    module is loaded. compiled: whether that function is compiled.
    """

    module: str
    where: str
    before: str
    after: str
    number: int
    line: int
    place: int
    within: tuple[str, int] | None
    compiled: bool

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        """What stays when the code moves."""
        return self.module, self.where, self.before, self.after, self.number

    def tree(self) -> ast.Module:
        """Of the whole module, changed."""
        tree, places = _parsed(self.module)
        places.found[self.place].change()
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.where}: {self.before}  ->  {self.after}" + (
            f" (number {self.number})" if self.number else ""
        )


@dataclass(frozen=True)
class _Place:
    """node: what is changed. shown: the expression it stands in. operator: which of a comparison's, None: it is a
    constant. value: what it becomes. where, within, compiled: as of ``Mutant``."""

    node: Any
    shown: ast.AST
    operator: int | None
    value: Any
    where: str
    within: tuple[str, int] | None
    compiled: bool

    def change(self) -> Any:
        """Change it; what was there before."""
        if self.operator is None:
            before, self.node.value = self.node.value, self.value
        else:
            before, self.node.ops[self.operator] = self.node.ops[self.operator], self.value
        return before

    def shown_as(self) -> tuple[str, str]:
        """The expression as it is, and changed."""
        before = ast.unparse(self.shown)
        changed = replace(self, value=self.change())
        after = ast.unparse(self.shown)
        changed.change()
        return before, after


class _Places(ast.NodeVisitor):
    """Every place of a module that can be changed."""

    def __init__(self) -> None:
        self.found: list[_Place] = []
        self._names: list[str] = []
        self._within: tuple[str, int] | None = None
        self._compiled = False
        self._around: list[ast.AST] = []

    def visit(self, node: ast.AST) -> None:
        self._around.append(node)
        super().visit(node)
        self._around.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for part in (*node.decorator_list, *node.body):
            self.visit(part)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names.append(node.name)
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        before = self._within, self._compiled
        if self._within is None:
            self._compiled = self._compiled or any(map(compiles, node.decorator_list))
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            self._within = ".".join(self._names), first
        for part in node.body:
            self.visit(part)
        self._within, self._compiled = before
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is no decision."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nor is a text."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """``strict=`` of zip is an assertion, too, and so is ``frozen=`` of a class; ``cache=`` and ``nogil=`` are of
        compiling."""
        if node.arg not in ("strict", "frozen", "cache", "nogil"):
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """For the types; what they hold holds."""

    def visit_Compare(self, node: ast.Compare) -> None:
        for number, operator in enumerate(node.ops):
            for swapped in _SWAPPED[type(operator)]:
                self._add(node, node, number, swapped())
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        shown = next(
            (
                each
                for each in reversed(self._around[:-1])
                if isinstance(each, ast.expr) and not isinstance(each, ast.Constant)
            ),
            node,
        )
        if isinstance(node.value, bool):
            self._add(node, shown, None, not node.value)
        elif isinstance(node.value, int | float):
            self._add(node, shown, None, node.value + 1)
            if isinstance(node.value, int) and node.value > 0:
                self._add(node, shown, None, node.value - 1)

    def _add(self, node: ast.AST, shown: ast.AST, operator: int | None, value: Any) -> None:
        where = ".".join(self._names) or "module"
        self.found.append(_Place(node, shown, operator, value, where, self._within, self._compiled))


def compiles(decorator: ast.expr) -> bool:
    """Whether a decorator may keep more of a function than its code; those of Python's own do not."""
    name = ast.unparse(decorator).split("(")[0].split(".")[-1]
    return name not in (
        "property",
        "cached_property",
        "classmethod",
        "staticmethod",
        "contextmanager",
        "wraps",
    )


def _parsed(module: str) -> tuple[ast.Module, _Places]:
    tree, places = ast.parse((ROOT / module).read_text()), _Places()
    places.visit(tree)
    return tree, places


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its places."""
    _, places = _parsed(module)
    seen: Counter[tuple[str, str, str]] = Counter()
    for number, place in enumerate(places.found):
        told = (place.where, *place.shown_as())
        line = getattr(place.node, "lineno", 0)
        yield Mutant(module, *told, seen[told], line, number, place.within, place.compiled)
        seen[told] += 1


def chosen_mutants(only: Sequence[str] = ()) -> list[Mutant]:
    """All mutants of the modules that release, and the sample of those that judge. only: names of modules or rooms."""
    chosen = [mutant for module in RELEASING for mutant in mutants_of(module)]
    judging = [mutant for module in JUDGING for mutant in mutants_of(module)]
    judging.sort(key=lambda mutant: hashlib.sha256(json.dumps(mutant.name).encode()).digest())
    chosen += sorted(judging[:SAMPLED], key=lambda mutant: (mutant.module, mutant.line))
    return [
        mutant
        for mutant in chosen
        if not only or not set(only).isdisjoint(Path(mutant.module).with_suffix("").parts)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants, print those that survive and the scores; 1 where one survives that is not listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="names of modules or their rooms, with commas")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--results",
        type=Path,
        help="keep what is killed, and by which test, in this file; it is not tried again",
    )
    arguments = parser.parse_args(argv)
    mutants = chosen_mutants([name for name in arguments.only.split(",") if name])
    if arguments.list:
        print(*mutants, f"{len(mutants)} mutants", sep="\n")
        return 0
    began, kept = time.monotonic(), arguments.results
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    known = {tuple(json.loads(line)[:-1]) for line in lines}
    told = _survivors([mutant for mutant in mutants if mutant.name not in known], arguments.processes, kept)
    if isinstance(told, str):
        # Tests that fail on unchanged code would kill everything.
        print(f"{told} fails without any change")
        return 2
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        own_mutants = [mutant for mutant in mutants if mutant.module == module]
        print(f"{module}: {_score(own_mutants, told)}")
    print(f"all: {_score(mutants, told)}, {time.monotonic() - began:.0f} s")
    return 1 if any(mutant.name not in EQUIVALENT for mutant in told) else 0


def _survivors(mutants: Sequence[Mutant], processes: int, kept: Path | None) -> set[Mutant] | str:
    """Those that no own test kills; a test that fails without any change. kept: the file of what is killed."""
    from tests.mutant_trials import Trials

    own = {**RELEASING, **JUDGING}
    trials = Trials(list(dict.fromkeys(file for mutant in mutants for file in own[mutant.module])))
    if (failed := trials.prepare({mutant.module for mutant in mutants}, processes)) is not None:
        return failed
    survived: set[Mutant] = set()

    def judge(mutant: Mutant, killer: str | None) -> None:
        if killer is None:
            survived.add(mutant)
            print("survived", "(equivalent)" if mutant.name in EQUIVALENT else "", mutant, flush=True)
        elif kept is not None:
            with kept.open("a") as file:
                file.write(json.dumps([*mutant.name, killer]) + "\n")

    trials.try_all(mutants, own, processes, judge)
    return survived


def _score(mutants: Sequence[Mutant], survived: set[Mutant]) -> str:
    """The figures of some mutants, as a line."""
    alive = [mutant for mutant in mutants if mutant in survived]
    equivalent = sum(mutant.name in EQUIVALENT for mutant in alive)
    killed, changing = len(mutants) - len(alive), len(mutants) - equivalent
    return (
        f"{killed} of {len(mutants)} killed, {equivalent} equivalent, {len(alive) - equivalent} survive:"
        f" {killed / max(changing, 1):.1%} of those that change anything"
    )


if __name__ == "__main__":
    sys.exit(main())
