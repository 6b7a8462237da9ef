"""The arrows between the rooms, read from the imports of every source file.

pipelines -> transforms -> solvers, schemas        solvers and schemas import nothing of ours but themselves
Beam: transforms and pipelines only                the audit: neither transforms nor solvers
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
ARROWS = {
    "solvers": {"solvers"},
    "schemas": {"schemas"},
    "transforms": {"transforms", "solvers", "schemas"},
    "pipelines": {"pipelines", "transforms", "solvers", "schemas", "policies"},
    "policies": set(),
}
BEAM = {"transforms", "pipelines"}


class Import(NamedTuple):
    """One imported module: in which file and line, and its dotted name (dots in front when relative)."""

    file: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(text: str, file: Path) -> Iterator[Import]:
    """Every import of a source text, those inside functions too; ``from a import b`` counts as ``a.b``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (Import(file, node.lineno, f"{module}.{name.name}") for name in node.names)


def sources(*folders: str) -> list[Path]:
    """Python files below folders of the repository, relative to its root."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(*folders: str) -> list[Import]:
    """Every import below some folders."""
    return [found for file in sources(*folders) for found in imports_of((ROOT / file).read_text(), file)]


def offenders(found: list[Import]) -> str:
    """One line each, for a failed assertion."""
    return "\n".join(map(str, found))


def test_every_kind_of_import_is_seen() -> None:
    """Plain, from, relative, dotted and nested ones, with their modules in full."""
    text = "import a.b\nfrom c import d, e\nfrom . import f\ndef g():\n    from ..h import i\n"
    assert [found.module for found in imports_of(text, Path("x.py"))] == ["a.b", "c.d", "c.e", "..f", "..h.i"]
    assert len(imports(*ARROWS)) > 500


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_only_where_its_arrows_point(room: str) -> None:
    """Of the package, a room imports itself and the rooms below it."""
    wrong = [
        found
        for found in imports(room)
        if found.module.split(".")[0] == "kanonflow" and found.module.split(".")[1] not in ARROWS[room]
    ]
    assert not wrong, offenders(wrong)


def test_only_transforms_and_pipelines_import_beam() -> None:
    """Solvers and schemas work without Beam, in a test, a notebook or another engine."""
    rooms = sorted(set(ARROWS) - BEAM)
    wrong = [found for found in imports(*rooms) if found.module.split(".")[0] == "apache_beam"]
    assert not wrong, offenders(wrong)


def test_solvers_know_numbers_only() -> None:
    """Neither Arrow nor files, logs nor randomness of their own: arrays and seeds come as arguments."""
    foreign = {"pyarrow", "fastavro", "yaml", "cryptography", "rich", "random", "secrets", "logging"}
    wrong = [found for found in imports("solvers") if found.module.split(".")[0] in foreign]
    assert not wrong, offenders(wrong)


def test_the_audit_shares_no_code_with_what_it_audits() -> None:
    """``verify`` reads, casts, groups and judges by itself: it imports only the audit and the schemas."""
    audit = [file for file in sources("pipelines") if file.name.startswith("audit")]
    assert len(audit) > 5
    found = [found for file in audit for found in imports_of((ROOT / file).read_text(), file)]
    ours = [each for each in found if each.module.split(".")[0] == "kanonflow"]
    wrong = [
        each
        for each in ours
        if not each.module.startswith(("kanonflow.pipelines.audit", "kanonflow.schemas."))
    ]
    assert not wrong, offenders(wrong)


def test_rooms_are_imported_as_kanonflow() -> None:
    """No relative imports, and no room as a top-level module: that would make a second copy of every class."""
    found = imports(*ARROWS, "tests", "benchmarks")
    wrong = [each for each in found if each.module.startswith(".") or each.module.split(".")[0] in ARROWS]
    assert not wrong, offenders(wrong)


def test_nothing_imports_the_tests_or_the_benchmarks() -> None:
    """They may import everything; the package works without them."""
    wrong = [found for found in imports(*ARROWS) if found.module.split(".")[0] in ("tests", "benchmarks")]
    assert not wrong, offenders(wrong)
