"""``python -m deploy.wheel.carry_kernels FOLDER``: the machine code of all kernels, for a wheel to carry.

For each target (``kernels/carried``) every set of kernels is compiled by numba as for that CPU, in a process of its
own, and what Python calls of it is kept. What a kernel calls is in its own code. Some minutes on each of two cores.

Two builds of the same sources give the same bytes. numba numbers all functions of a process as it meets them, and the
numbers are part of the names in machine code: so one process compiles one unit after the other, in the order of the
list, with an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from numba.core.registry import cpu_target

from kanonflow.solvers.compile_kernels import Progress
from kanonflow.solvers.kernels.carried import MANIFEST, TARGETS, CarriedCode, made_with, sources_digest
from kanonflow.solvers.kernels.compile_units import compile_unit
from kanonflow.solvers.kernels.units import kernel_named, known_units, read_type
from kanonflow.solvers.warm_up import KERNEL_SETS, warm_up_set


def carry(folder: Path, target: str, names: list[str]) -> int:
    """Compile some sets, and keep what is loaded of them as code for a target; returns how many kernels.

    Raises ValueError: numba does not compile for that target in this process.
    """
    triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    if (name, features) != (target, ""):
        raise ValueError(f"numba compiles for {name!r} {features!r} here, not for {target!r}")
    code = CarriedCode(folder, target, triple)
    units = known_units()
    entries = {place for each in names for place in units.sets.get(each, ())}
    progress = Progress()
    for ready, place in enumerate(sorted(entries), 1):
        compile_unit(place)
        progress(ready, len(entries), ready / len(entries))
    for each in names:
        warm_up_set(each)
    for unit in (units.units[place] for place in sorted(entries)):
        kernel, arguments = kernel_named(unit.kernel), tuple(map(read_type, unit.arguments))
        kernel.compile(arguments)
        code.save(kernel.py_func, arguments, kernel._cache.stored(arguments, cpu_target.target_context))
    return len(entries)


def _sets(names: str) -> list[str]:
    chosen = names.split(",")
    if unknown := sorted({*chosen} - {*KERNEL_SETS}):
        raise argparse.ArgumentTypeError(f"no sets: {', '.join(unknown)}; choose of {', '.join(KERNEL_SETS)}")
    return chosen


def _child(folder: Path, target: str, sets: list[str]) -> None:
    """``carry`` in a process of its own, with nothing in numba's cache and sets in one order."""
    with tempfile.TemporaryDirectory() as cache:
        settings = {
            "NUMBA_CPU_NAME": target,
            "NUMBA_CPU_FEATURES": "",
            "NUMBA_CACHE_DIR": cache,
            "PYTHONHASHSEED": "0",
        }
        command = [sys.executable, "-m", "deploy.wheel.carry_kernels", str(folder)]
        command += ["--target", target, "--sets", ",".join(sets)]
        subprocess.run(command, check=True, env=os.environ | settings)


def main() -> None:
    """All targets, each in a process whose numba was set before it was imported; then the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument(
        "--sets", type=_sets, default=list(KERNEL_SETS), help="separated by commas (default: all)"
    )
    asked = parser.parse_args()
    sets = asked.sets
    if asked.target:
        print(f"{asked.target}: {carry(asked.folder, asked.target, sets)} kernels")
        return
    if not known_units().sets:
        parser.error("there is no list of kernels: run python -m deploy.wheel.record_kernels")
    # What is there may be of another state of the sources.
    (asked.folder / MANIFEST).unlink(missing_ok=True)
    with ThreadPoolExecutor(len(TARGETS)) as pool:
        list(pool.map(lambda target: _child(asked.folder, target, sets), TARGETS))
    manifest = {"sources": sources_digest(), "made_with": made_with(), "targets": list(TARGETS)}
    (asked.folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
