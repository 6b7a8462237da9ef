"""What an installation contains: one package, with its schemas and policies. Its wheel says what it was made of, and is
the same bytes whoever builds it."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACE = ROOT / "pipelines" / "face"
EPOCH = 1_700_000_000
ROOMS = ("pipelines", "transforms", "solvers", "schemas", "policies")


def built(folder: Path, umask: int = 0o022, *places: str) -> Path:
    """A wheel of a copy of the sources, and of what else is named, of which nobody else's modes or times are left."""
    copy = folder / "copy"
    for place in (*ROOMS, *places):
        shutil.copytree(
            ROOT / place,
            copy / place,
            ignore=shutil.ignore_patterns("__pycache__"),
            copy_function=shutil.copyfile,
        )
    for name in ("setup.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(copy)]
    subprocess.run(command, check=True, umask=umask, env=os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH)})
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with all that it may be made of."""
    pytest.importorskip("setuptools", minversion="70.1")
    return built(tmp_path_factory.mktemp("packaging"), 0o022, "deploy/wheel", "locks")


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    """Name -> content of every file in it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_wheel_built_again_is_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """In another folder, at another time, by somebody whose files nobody else may read."""
    assert built(tmp_path, 0o077, "deploy/wheel", "locks").read_bytes() == wheel.read_bytes()


def test_a_wheel_says_what_it_runs_with(contents: dict[str, bytes]) -> None:
    """Each package of the lock with its version and the digests of its files; of itself what it asks for; no time but
    that of the commit."""
    (name,) = (name for name in contents if "/sboms/" in name)
    assert name == "kanonflow-0.1.0.dist-info/sboms/kanonflow.cdx.json"
    bill = json.loads(contents[name])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert "properties" not in bill["metadata"]
    lock = (ROOT / "locks" / "run.lock").read_text()
    entries = lock.split("\n    --hash")
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", lock, re.M))
    assert {each["name"]: each["version"] for each in bill["components"]} == pinned
    digests = [hash_ for each in bill["components"] for hash_ in each["externalReferences"][0]["hashes"]]
    assert sorted(each["content"] for each in digests) == sorted(entry[8:72] for entry in entries[1:])
    (own,) = bill["dependencies"]
    assert own["ref"] == "pkg:pypi/kanonflow@0.1.0"
    assert f"pkg:pypi/numba@{pinned['numba']}" in own["dependsOn"]
    assert set(own["dependsOn"]) <= {each["bom-ref"] for each in bill["components"]}


def test_a_copy_without_locks_has_no_bill(tmp_path: Path) -> None:
    """Rather none than one of versions that nobody pinned."""
    with zipfile.ZipFile(built(tmp_path)) as archive:
        assert not [name for name in archive.namelist() if "sboms" in name]


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
