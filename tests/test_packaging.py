"""What an installation contains: one package, with its schemas and policies."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACE = ROOT / "pipelines" / "face"
ROOMS = ("pipelines", "transforms", "solvers", "schemas", "policies")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Name -> content of every file in a wheel built from a copy of the sources."""
    pytest.importorskip("setuptools", minversion="70.1")
    folder = tmp_path_factory.mktemp("packaging")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / "copy" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / "copy" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(folder / "copy")]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_only_the_package_is_installed(contents: dict[str, bytes]) -> None:
    """Rooms with generic names stay inside ``kanonflow``; no tests, no benchmarks."""
    top = {name.split("/")[0] for name in contents}
    assert {name for name in top if not name.endswith(".dist-info")} == {"kanonflow"}
    inside = {name.split("/")[1] for name in contents if name.startswith("kanonflow/")}
    assert inside == {"__init__.py", "py.typed", *ROOMS}


def test_every_source_file_is_in_the_package(contents: dict[str, bytes]) -> None:
    """A new folder without ``__init__.py``, or a data file of a new kind, would be left out silently."""
    files = [
        path
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.parent != FACE
        and path.suffix in (".py", ".avsc", ".json", ".yaml", ".xml", ".java", ".j2", ".css")
    ]
    expected = {f"kanonflow/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in files}
    for name in ("__init__.py", "py.typed"):
        expected[f"kanonflow/{name}"] = (FACE / name).read_bytes()
    inside = {name: content for name, content in contents.items() if name.startswith("kanonflow/")}
    assert sorted(inside) == sorted(expected)
    assert inside == expected


def test_schemas_and_policies_are_package_data(contents: dict[str, bytes]) -> None:
    """``importlib.resources`` finds them in an installation."""
    for name in ("transaction", "metrics", "rejected"):
        assert f"kanonflow/schemas/{name}.avsc" in contents
    assert sum(name.startswith("kanonflow/policies/") and name.endswith(".yaml") for name in contents) >= 5


def test_the_command_is_declared(contents: dict[str, bytes]) -> None:
    """``kanonflow`` on the path starts the command line."""
    (declared,) = (content for name, content in contents.items() if name.endswith("/entry_points.txt"))
    assert b"kanonflow = kanonflow.pipelines.cli:main" in declared


def test_the_package_says_what_it_is(contents: dict[str, bytes]) -> None:
    """To an index and to type checkers; no address and no licence that nobody has chosen."""
    (metadata,) = (
        content.decode() for name, content in contents.items() if name.endswith(".dist-info/METADATA")
    )
    for line in (
        "Name: kanonflow",
        "Summary: Continuous",
        "Keywords: k-anonymity",
        "Requires-Python: >=3.11,<3.13",
    ):
        assert f"\n{line}" in metadata
    assert "Classifier: Typing :: Typed" in metadata
    assert "Classifier: Programming Language :: Python :: 3.11" in metadata
    for never in ("Home-page:", "Project-URL:", "License:", "License-Expression:", "Author"):
        assert f"\n{never}" not in metadata
    assert (
        "Requires-Dist: apache-beam<3,>=2.76\n" in metadata
    )  # a range: a pipeline of one's own has a Beam already
