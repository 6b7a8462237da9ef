"""The arrows between the floors and between the rooms of a floor, read from the imports of every source file.

pipelines -> transforms -> solvers, schemas        solvers and schemas import nothing of ours but themselves
Beam: transforms and pipelines only                the audit: itself and the schemas
rooms: no circle on any floor                      rivals: nobody, they register themselves
"""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
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
WITH_ROOMS = ("pipelines", "transforms", "solvers")
MOST_LOOSE_FILES = 7
MOST_MODULES = 20


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


def rooms_of(floor: str) -> list[str]:
    """The rooms of a floor, as ``floor/room``."""
    return sorted(
        init.parent.relative_to(ROOT).as_posix()
        for init in (ROOT / floor).rglob("__init__.py")
        if init.parent != ROOT / floor
    )


def room_of(file: Path) -> str:
    """The room that a file stands in; a loose file is a room of its own."""
    return file.parent.as_posix() if len(file.parts) > 2 else file.as_posix()


def imported_file(module: str) -> Path | None:
    """The file of ours that an import means, relative to the root: a module, or the module that has the name."""
    parts = module.split(".")[1:]
    for length in range(len(parts), 0, -1):
        for file in (Path(*parts[:length]).with_suffix(".py"), Path(*parts[:length], "__init__.py")):
            if (ROOT / file).is_file():
                return file
    return None


def test_every_kind_of_import_is_seen() -> None:
    """Plain, from, relative, dotted and nested ones, with their modules in full."""
    text = "import a.b\nfrom c import d, e\nfrom . import f\ndef g():\n    from ..h import i\n"
    assert [found.module for found in imports_of(text, Path("x.py"))] == ["a.b", "c.d", "c.e", "..f", "..h.i"]
    assert len(imports(*ARROWS)) > 500


@pytest.mark.parametrize("floor", ARROWS)
def test_a_floor_imports_only_where_its_arrows_point(floor: str) -> None:
    """Of the package, a floor imports itself and the floors below it."""
    wrong = [
        found
        for found in imports(floor)
        if found.module.split(".")[0] == "kanonflow" and found.module.split(".")[1] not in ARROWS[floor]
    ]
    assert not wrong, offenders(wrong)


@pytest.mark.parametrize("floor", WITH_ROOMS)
def test_the_rooms_of_a_floor_form_no_circle(floor: str) -> None:
    """Nothing imports upward: the rooms can be put in an order in which each imports only rooms before it."""
    arrows: dict[str, set[str]] = {room: set() for room in rooms_of(floor)}
    for found in imports(floor):
        # The face of a floor: it names what is inside, and importing a room runs it.
        if found.file == Path(floor, "__init__.py") or found.module.split(".")[:2] != ["kanonflow", floor]:
            continue
        target = imported_file(found.module)
        assert target is not None, found
        here, there = room_of(found.file), room_of(target)
        if here != there:
            arrows.setdefault(here, set()).add(there)
    assert sum(map(len, arrows.values())) > 10
    try:
        tuple(TopologicalSorter(arrows).static_order())
    except CycleError as circle:
        pytest.fail(f"a circle of rooms: {' <- '.join(circle.args[1])}")


def test_only_transforms_and_pipelines_import_beam() -> None:
    """Solvers and schemas work without Beam, in a test, a notebook or another engine."""
    floors = sorted(set(ARROWS) - BEAM)
    wrong = [found for found in imports(*floors) if found.module.split(".")[0] == "apache_beam"]
    assert not wrong, offenders(wrong)


def test_solvers_know_numbers_only() -> None:
    """Neither Arrow nor files, logs nor randomness of their own: arrays and seeds come as arguments."""
    foreign = {"pyarrow", "fastavro", "yaml", "cryptography", "rich", "random", "secrets", "logging"}
    wrong = [found for found in imports("solvers") if found.module.split(".")[0] in foreign]
    assert not wrong, offenders(wrong)


def test_the_audit_shares_no_code_with_what_it_audits() -> None:
    """``verify`` reads, casts, groups and judges by itself: its room imports only itself and the schemas."""
    assert len(sources("pipelines/audit")) > 5
    ours = [each for each in imports("pipelines/audit") if each.module.split(".")[0] == "kanonflow"]
    wrong = [
        each
        for each in ours
        if not each.module.startswith(("kanonflow.pipelines.audit.", "kanonflow.schemas."))
    ]
    assert not wrong, offenders(wrong)


def test_nothing_imports_a_rival() -> None:
    """The algorithms of the papers register themselves, as those of other packages do; nothing rests on one."""
    rivals = [each for each in imports(*ARROWS, "deploy") if "solvers.rivals" in each.module]
    assert len(rivals) > 20
    wrong = [each for each in rivals if room_of(each.file) != "solvers/rivals"]
    assert not wrong, offenders(wrong)


def test_pages_alone_draw() -> None:
    """One module makes all charts: no other writes SVG."""
    drawing = [file.as_posix() for file in sources(*ARROWS) if "<svg" in (ROOT / file).read_text()]
    assert drawing == ["pipelines/pages/charts.py"]


@pytest.mark.parametrize("floor", WITH_ROOMS)
def test_few_files_are_loose(floor: str) -> None:
    """A floor is rooms; the command alone stands on the top floor of pipelines."""
    loose = {path.name for path in (ROOT / floor).glob("*.py")} - {"__init__.py"}
    assert len(loose) <= MOST_LOOSE_FILES, loose
    if floor == "pipelines":
        assert loose == {"cli.py"}


@pytest.mark.parametrize("floor", WITH_ROOMS)
def test_every_room_answers_one_question(floor: str) -> None:
    """Which is the docstring of the room, and all that its ``__init__.py`` holds."""
    for room in rooms_of(floor):
        if room == "pipelines/face":  # kanonflow itself: the public names
            continue
        tree = ast.parse((ROOT / room / "__init__.py").read_text())
        assert len((ast.get_docstring(tree) or "").splitlines()) == 1, room
        assert len(tree.body) == 1, room
        assert len(list((ROOT / room).glob("*.py"))) > 2, f"{room}: one file is no room"


def test_no_room_is_crowded() -> None:
    """A question that takes more than twenty modules is several. Guests do not count."""
    sizes = {
        room: len(list((ROOT / room).glob("*.py"))) - 1 for floor in WITH_ROOMS for room in rooms_of(floor)
    }
    crowded = {room for room, size in sizes.items() if size > MOST_MODULES} - {"solvers/rivals"}
    assert not crowded


def test_the_plan_of_the_house_names_every_room() -> None:
    """``docs/internals.md`` and no room that is not there."""
    named = set(
        re.findall(rf"`((?:{'|'.join(WITH_ROOMS)})(?:/\w+)+)/?`", (ROOT / "docs/internals.md").read_text())
    )
    assert named == {room for floor in WITH_ROOMS for room in rooms_of(floor)}


def test_no_module_hides_what_its_package_exports() -> None:
    """``kanonflow.solvers.solve`` is the function: importing a module of that name would put it in its place."""
    for init in (path for floor in ARROWS for path in (ROOT / floor).rglob("__init__.py")):
        modules = {path.stem for path in init.parent.glob("*.py")} | {
            path.name for path in init.parent.iterdir()
        }
        names = [
            name.asname or name.name
            for node in ast.walk(ast.parse(init.read_text()))
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        ]
        assert not set(names) & modules, init


def test_floors_are_imported_as_kanonflow() -> None:
    """No relative imports, and no floor as a top-level module: that would make a second copy of every class."""
    found = imports(*ARROWS, "tests", "benchmarks")
    wrong = [each for each in found if each.module.startswith(".") or each.module.split(".")[0] in ARROWS]
    assert not wrong, offenders(wrong)


def test_nothing_imports_the_tests_or_the_benchmarks() -> None:
    """They may import everything; the package works without them."""
    wrong = [found for found in imports(*ARROWS) if found.module.split(".")[0] in ("tests", "benchmarks")]
    assert not wrong, offenders(wrong)
