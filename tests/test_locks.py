"""The lock files: what images and CI install is what setup.py allows, to the byte."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = {
    "run": ("cli", "kafka", "report"),
    "dataflow": ("gcp", "kafka"),
    "test": ("test", "cli", "kafka", "gcp"),
}
"""What each lock file has to hold, beside what every installation needs."""

Pins = dict[str, tuple[str, int]]


def _name(text: str) -> str:
    return re.sub("[-_.]+", "-", text).lower()


def _pins(lock: str) -> Pins:
    """Name -> version and number of hashes."""
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / "locks" / f"{lock}.lock").read_text(), flags=re.MULTILINE)
    found = {}
    for entry in entries[1:]:
        pinned = re.match(r"([A-Za-z0-9._-]+)(?:\[[a-z,-]+\])?==([^ \\\n]+)", entry)
        assert pinned is not None, f"{lock}.lock pins no version: {entry.splitlines()[0]}"
        found[_name(pinned[1])] = (pinned[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
    return found


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py says of this package."""
    told: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", told.update)
    runpy.run_path(str(ROOT / "setup.py"))
    return told


@pytest.mark.parametrize("lock", sorted(EXTRAS))
def test_a_lock_fits_the_ranges_of_setup(lock: str, declared: dict[str, Any]) -> None:
    """Every requirement is pinned, within its range, and every file has a hash."""
    pins = _pins(lock)
    wanted = [*declared["install_requires"], "setuptools>=70.1"]
    for extra in EXTRAS[lock]:
        wanted += declared["extras_require"][extra]
    for requirement in map(Requirement, wanted):
        version, _ = pins[_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{lock}.lock has {requirement.name} {version}"
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_the_locks_agree() -> None:
    """What was tested is what an image holds."""
    tested = _pins("test")
    for lock in ("run", "dataflow"):
        other = {name: version for name, (version, _) in _pins(lock).items()}
        assert {name: tested[name][0] for name in other} == other


def test_libraries_that_read_foreign_bytes_have_an_upper_bound(declared: dict[str, Any]) -> None:
    """A major version that nobody has tried is not installed with a release of ours. (Of time zones the newest.)"""
    for requirement in map(Requirement, declared["install_requires"]):
        assert requirement.name == "tzdata" or any(
            each.operator in ("<", "==") for each in requirement.specifier
        ), requirement.name


def test_images_and_make_install_from_the_locks() -> None:
    """An image, or CI, that resolved versions for itself would hold what nobody has tested."""
    for image, lock in (
        ("deploy/flink/Dockerfile.worker", "run"),
        ("deploy/dataflow/Dockerfile", "dataflow"),
    ):
        text = (ROOT / image).read_text()
        assert f"--require-hashes --requirement locks/{lock}.lock" in text
        assert "--no-deps --no-build-isolation ." in text
    make = (ROOT / "Makefile").read_text()
    assert "--require-hashes --requirement locks/$(1).lock" in make
    assert all(f"$(call install,{lock}," in make for lock in ("run", "test"))


def test_what_installs_is_locked_too() -> None:
    """uv comes by its hashes, alone."""
    assert "--require-hashes --requirement locks/installer.lock" in (ROOT / "Makefile").read_text()
    assert [(name, bool(hashes)) for name, (_, hashes) in _pins("installer").items()] == [("uv", True)]
    assert [(name, bool(hashes)) for name, (_, hashes) in _pins("fuzz").items()] == [("atheris", True)]
