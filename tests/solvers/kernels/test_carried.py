"""Machine code that the package carries: taken where it is surely right, and nowhere else."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core import config, event
from numba.core.registry import cpu_target

from kanonflow.solvers.kernels import carried, kernel_cache
from kanonflow.solvers.kernels.carried import (
    MANIFEST,
    TARGETS,
    CarriedCode,
    carried_code,
    chosen_target,
    fitting_target,
    made_with,
    sources_digest,
)

V3 = "+" + ",+".join(TARGETS["x86-64-v3"])
SOURCE = """
from kanonflow.solvers.kernels.kernel import kernel


@kernel(inner=True)
def _half(x):
    return x / {divisor}


@kernel
def halves(values):
    total = 0.0
    for value in values:
        total += _half(value)
    return total
"""


class Compiled(event.Listener):
    """Counts what numba compiles."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: Any) -> None:
        self.count += 1

    def on_end(self, event: Any) -> None:
        pass


@pytest.fixture
def compiled() -> Iterator[Compiled]:
    counter = Compiled()
    with event.install_listener("numba:compile", counter):
        yield counter


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """A room with one file of two kernels, imported anew at each call, with an empty cache of numba's at each."""
    caches = iter(range(100))
    # Bytecode is told from that of an edited file by size and second alone.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(divisor: str = "2.0") -> ModuleType:
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / f"numba{next(caches)}"))
        file = tmp_path / "room" / "halving.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(SOURCE.format(divisor=divisor))
        spec = importlib.util.spec_from_file_location("halving", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "halving", module)
        spec.loader.exec_module(module)
        return module

    return imported


def carry(module: ModuleType, folder: Path) -> CarriedCode:
    """What a wheel would carry of the module."""
    code = CarriedCode(folder, "x86-64", cpu_target.target_context.codegen().magic_tuple()[0])
    assert module.halves(np.ones(3)) == 1.5
    (arguments,) = module.halves.overloads
    code.save(
        module.halves.py_func, arguments, module.halves._cache.stored(arguments, cpu_target.target_context)
    )
    return code


def test_carried_code_is_run_and_nothing_compiled(
    tmp_path: Path,
    room: Callable[..., ModuleType],
    compiled: Compiled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a folder that nobody may write to, with no folder for numba's own cache either."""
    code = carry(room(), tmp_path / "compiled")
    assert compiled.count == 2
    monkeypatch.setattr(kernel_cache, "carried_code", lambda: code)
    again = room()
    monkeypatch.setattr(config, "CACHE_DIR", "/proc/nowhere")
    for path in (tmp_path / "compiled").rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert again.halves(np.ones(3)) == 1.5
    assert compiled.count == 2
    # The control: other types of arguments are not carried.
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "numba"))
    assert again.halves(np.ones(3, dtype=np.float32)) == 1.5
    assert compiled.count == 4


def test_an_edited_source_is_compiled(
    tmp_path: Path,
    room: Callable[..., ModuleType],
    compiled: Compiled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The code that is carried is of another content of the file."""
    code = carry(room(), tmp_path / "compiled")
    monkeypatch.setattr(kernel_cache, "carried_code", lambda: code)
    assert room("4.0").halves(np.ones(3)) == 0.75
    assert compiled.count == 4


def test_what_is_kept_names_no_folder_of_the_builder(tmp_path: Path, room: Callable[..., ModuleType]) -> None:
    """numba keeps an annotated listing of the source by its path."""
    carry(room(), tmp_path / "compiled")
    (data,) = (tmp_path / "compiled").rglob("*.nbc")
    assert str(tmp_path / "room").encode() not in data.read_bytes()


def test_a_cpu_gets_code_that_it_has_the_instructions_for() -> None:
    """All of a target's features, or the next target."""
    assert fitting_target(V3 + ",+avx512f,-amx-tile") == "x86-64-v3"
    for feature in TARGETS["x86-64-v3"]:
        lacking = V3.replace(f"+{feature},", f"-{feature},") + ("" if feature != "xsave" else ",-xsave")
        if feature == "xsave":
            lacking = V3.replace("+xsave", "-xsave")
        assert fitting_target(lacking) == "x86-64", feature
    assert fitting_target("") == "x86-64"


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, "x86-64-v3"),
        ({"CPU_NAME": "x86-64-v3", "CPU_FEATURES": ""}, "x86-64-v3"),
        ({"CPU_NAME": "x86-64", "CPU_FEATURES": ""}, "x86-64"),
        ({"CPU_NAME": "generic", "CPU_FEATURES": ""}, None),
        ({"CPU_NAME": "skylake"}, None),
        ({"CPU_FEATURES": "-avx2"}, None),
        ({"BOUNDSCHECK": 1}, None),
        ({"DEBUGINFO_DEFAULT": 1}, None),
        ({"OPT": 1}, None),
        ({"DISABLE_JIT": 1}, None),
    ],
    ids=str,
)
def test_settings_of_numba_are_followed(
    settings: dict[str, Any], chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names a CPU, or asks for other code, gets what numba compiles then."""
    monkeypatch.setattr(carried.codegen, "get_host_cpu_features", lambda: V3)
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(config, name, None)
    for name, value in settings.items():
        monkeypatch.setattr(config, name, value)
    assert chosen_target() == chosen


def test_a_named_cpu_that_this_one_is_not_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for x86-64-v3 never runs on a CPU without its instructions, whatever the settings say."""
    monkeypatch.setattr(carried.codegen, "get_host_cpu_features", lambda: "+sse2")
    monkeypatch.setattr(config, "CPU_NAME", "x86-64-v3")
    monkeypatch.setattr(config, "CPU_FEATURES", "")
    assert chosen_target() is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A manifest as a wheel has it, for these sources and this machine."""
    manifest = {"sources": sources_digest(), "made_with": made_with(), "targets": list(TARGETS)}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    monkeypatch.setattr(carried, "FOLDER", tmp_path)
    monkeypatch.setattr(carried, "chosen_target", lambda: "x86-64")
    carried_code.cache_clear()
    yield tmp_path / MANIFEST
    carried_code.cache_clear()


def test_an_installation_is_taken_as_it_was_built(installed: Path) -> None:
    """The control of the tests below."""
    assert carried_code() is not None


@pytest.mark.parametrize(
    "change",
    [
        {"sources": "0"},
        {"targets": ["x86-64-v3"]},
        {"made_with": made_with() | {"numba": "0.1"}},
        {"made_with": made_with() | {"llvm": [1, 2, 3]}},
        {"made_with": made_with() | {"triple": "aarch64-apple-darwin"}},
        {"made_with": made_with() | {"python": [3, 9]}},
    ],
    ids=str,
)
def test_code_of_anything_else_is_left_alone(installed: Path, change: dict[str, Any]) -> None:
    """Of another state of the sources, another numba, LLVM, Python or system, or without the CPU's target."""
    installed.write_text(json.dumps(json.loads(installed.read_text()) | change))
    assert carried_code() is None


def test_a_clone_carries_nothing(installed: Path) -> None:
    """Without the manifest there is nothing, whatever lies there."""
    installed.unlink()
    assert carried_code() is None


def test_every_file_of_the_solvers_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit, a new file or another name of one is another state."""
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "b.py"
    file.write_text("x")
    monkeypatch.setattr(carried, "SOLVERS", tmp_path)
    states = [sources_digest()]
    file.write_text("y")
    states.append(sources_digest())
    file.rename(tmp_path / "a" / "c.py")
    states.append(sources_digest())
    (tmp_path / "d.py").touch()
    states.append(sources_digest())
    assert len(set(states)) == 4


def test_an_inner_kernel_has_no_wrapper(room: Callable[..., ModuleType]) -> None:
    """Only kernels call it; the other one is for Python, too."""
    module = room()
    assert module.halves(np.ones(2)) == 1.0
    assert module._half.targetoptions["no_cpython_wrapper"]
    assert "no_cpython_wrapper" not in module.halves.targetoptions
