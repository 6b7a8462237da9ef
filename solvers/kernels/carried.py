"""The machine code that a wheel carries, compiled for portable kinds of CPU (decision 058).

    solvers/compiled/manifest.json                 of what state of the sources and with which numba it was made
    solvers/compiled/<target>/<room>/*.nbi, *.nbc  numba's own files, one index a function

It is machine code, and runs in any process whose CPU has the instructions, whatever else numba compiles for there. So
nothing of numba is set: neither for our kernels nor for other code of the process.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding
from numba.core import caching, codegen, compiler, config

SOLVERS = Path(__file__).parents[1]
FOLDER = SOLVERS / "compiled"
MANIFEST = "manifest.json"

_V2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
TARGETS: Mapping[str, tuple[str, ...]] = {
    "x86-64-v3": (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64": (),
}
"""LLVM's names of CPUs that kernels are compiled for, the best first, and the features each of them has to have."""


def sources_digest() -> str:
    """SHA-256 of every source file of the solvers: an edit in a kernel is an edit of those that call it. 2 ms."""
    state = hashlib.sha256()
    for path in sorted(SOLVERS.rglob("*.py")):
        content = path.read_bytes()
        state.update(f"{path.relative_to(SOLVERS).as_posix()}\0{len(content)}\0".encode())
        state.update(content)
    return state.hexdigest()


def made_with() -> dict[str, Any]:
    """What machine code rests on beside the sources, as far as another one of it could be wrong."""
    return {
        "python": list(sys.version_info[:2]),
        "numba": importlib.metadata.version("numba"),
        "llvm": list(binding.llvm_version_info),
        "triple": binding.get_process_triple(),
    }


class _Target(NamedTuple):
    """The part of numba's code generator that the key of a cache asks for."""

    triple: str
    name: str

    def magic_tuple(self) -> tuple[str, str, str]:
        return (self.triple, self.name, "")


class CarriedCode:
    """What a folder holds for one target. Files are read when a kernel is first called."""

    def __init__(self, folder: Path, target: str, triple: str) -> None:
        self._folder = folder / target
        self._target = _Target(triple, target)

    def _file(self, function: Callable[..., Any]) -> Any:
        source = Path(function.__code__.co_filename)
        status = os.stat(source)
        stamp = caching._hash_source_file(str(source), status.st_mtime, status.st_size)
        room = source.parent.name
        name = f"{source.stem}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        return caching.IndexDataCacheFile(str(self._folder / room), name, stamp)

    def _key(self, function: Callable[..., Any], signature: Any) -> Any:
        cache = caching.FunctionCache.__new__(caching.FunctionCache)
        cache._py_func = function
        return cache._index_key(signature, self._target)

    def holds(self, function: Callable[..., Any], signature: Any, context: Any) -> bool:
        """Whether there is code for these types of arguments."""
        return self._key(function, signature) in self._file(function)._load_index()

    def load(self, function: Callable[..., Any], signature: Any, context: Any) -> Any:
        """numba's compile result for these types of arguments, None where there is none."""
        data = self._file(function).load(self._key(function, signature))
        return None if data is None else compiler.CompileResult._rebuild(context, *data)

    def save(self, function: Callable[..., Any], signature: Any, stored: tuple[Any, ...]) -> None:
        """Keep what numba's cache stored, without the listing of the source: it names folders of this machine."""
        (self._folder / Path(function.__code__.co_filename).parent.name).mkdir(parents=True, exist_ok=True)
        parts = list(stored)
        parts[6] = ""
        self._file(function).save(self._key(function, signature), tuple(parts))


def fitting_target(features: str) -> str | None:
    """The best target that a CPU runs, by LLVM's list of its features (``+avx,-avx512f,...``)."""
    has = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    return next((name for name, needed in TARGETS.items() if has.issuperset(needed)), None)


def chosen_target() -> str | None:
    """The target whose code this process may run, None for none of them.

    A CPU that was named in numba's settings counts for those that it is one of; so do settings that change the code.
    """
    if config.DISABLE_JIT or config.BOUNDSCHECK or config.DEBUGINFO_DEFAULT or config.OPT != 3:
        return None
    fits = fitting_target(codegen.get_host_cpu_features())
    if config.CPU_NAME is None and config.CPU_FEATURES is None:
        return fits
    named = (config.CPU_NAME, config.CPU_FEATURES or "")
    able = list(TARGETS)[list(TARGETS).index(fits) :] if fits else []
    return config.CPU_NAME if named[1] == "" and named[0] in able else None


@functools.cache
def carried_code() -> CarriedCode | None:
    """What the installation carries for this CPU; None when it carries nothing that is surely right here.

    That is: nothing at all, for other CPUs, or for other sources or another numba than those that are here.
    """
    try:
        manifest = json.loads((FOLDER / MANIFEST).read_text())
    except FileNotFoundError:
        return None
    target = chosen_target()
    if target is None or target not in manifest["targets"] or manifest["made_with"] != made_with():
        return None
    if manifest["sources"] != sources_digest():
        return None
    return CarriedCode(FOLDER, target, manifest["made_with"]["triple"])
