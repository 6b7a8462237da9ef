"""Writes the list of what is compiled (``kernels/units.json``) by compiling it: ``python -m
deploy.wheel.record_kernels``, after a change of kernels. Ten minutes or more of a processor.

Each set of kernels is warmed up in a process of its own, with an empty cache that the processes share: what numba
compiles, what calls what, and how long it takes comes from numba's own events.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from kanonflow.solvers.kernels.kernel_cache import KernelCache
from kanonflow.solvers.kernels.units import UNITS, Unit, Units, type_text
from kanonflow.solvers.warm_up import KERNEL_SETS, warm_up_set

_ROOT = "kanonflow.solvers."
_Key = tuple[str, tuple[str, ...]]


class Recorder(event.Listener):
    """Units by (kernel, arguments), with seconds and needs; what is not ours, or not cached, counts to its caller."""

    def __init__(self) -> None:
        self.seconds: dict[_Key, float] = {}
        self.needs: dict[_Key, dict[_Key, None]] = {}
        self.inside: dict[str, float] = {}
        self._stack: list[tuple[_Key | None, str, float]] = []
        self._nested: list[float] = []

    def on_start(self, event: Any) -> None:
        made = event.data["dispatcher"]
        name = f"{made.py_func.__module__}.{made.py_func.__qualname__}"
        self._stack.append((unit_key(made, event.data["args"]), name, time.process_time()))
        self._nested.append(0.0)

    def on_end(self, event: Any) -> None:
        key, name, begin = self._stack.pop()
        whole = time.process_time() - begin
        own = whole - self._nested.pop()
        caller = self._caller()
        if key is None and caller is not None:
            self.seconds[caller] = self.seconds.get(caller, 0.0) + own
            line = f"{caller[0]} <- {name}"
            self.inside[line] = self.inside.get(line, 0.0) + own
        elif key is not None:
            self.seconds[key] = self.seconds.get(key, 0.0) + own
            self.needs.setdefault(key, {})
        if self._nested:
            self._nested[-1] += whole

    def called(self, made: Any, arguments: tuple[Any, ...]) -> None:
        """numba asks for a kernel while it infers the types of another one."""
        key, caller = unit_key(made, arguments), self._caller()
        if key is not None and caller is not None and key != caller:
            self.needs.setdefault(caller, {})[key] = None

    def _caller(self) -> _Key | None:
        return next((key for key, _, _ in reversed(self._stack) if key is not None), None)


def kernels_of(prefix: str) -> list[Any]:
    """The dispatchers of every module that is imported and whose name begins so."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(prefix)]
    values = {id(value): value for module in modules for value in vars(module).values()}
    return [value for value in values.values() if isinstance(value, Dispatcher)]


def write_units(units: Units, path: Path = UNITS) -> None:
    """One line a type and a unit, so that a change is seen in a diff."""
    texts = {text: None for unit in units.units for text in unit.arguments}
    number = {text: place for place, text in enumerate(texts)}
    lines = [
        [unit.kernel, [number[text] for text in unit.arguments], round(unit.seconds, 2), list(unit.needs)]
        for unit in units.units
    ]
    held = {
        "types": _listed(list(texts)),
        "units": _listed(lines),
        "sets": _listed([[name, list(places)] for name, places in units.sets.items()]),
    }
    path.write_text("{\n" + ",\n".join(f'"{key}": {value}' for key, value in held.items()) + "\n}\n")


def _listed(values: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(value) for value in values) + "\n]"


def unit_key(made: Any, arguments: tuple[Any, ...]) -> _Key | None:
    """How the list names a kernel of ours for some arguments; None for functions of others, and for losses."""
    module = str(made.py_func.__module__)
    if not (module.startswith(_ROOT) and isinstance(made._cache, KernelCache)):
        return None
    name = f"{module.removeprefix(_ROOT)}.{made.py_func.__qualname__}"
    try:
        return name, tuple(map(type_text, arguments))
    except ValueError:
        # It is compiled where it is called.
        return None


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Everything that numba compiles meanwhile."""
    recorder = Recorder()
    dispatcher: Any = Dispatcher
    before = dispatcher.get_call_template

    def asked(self: Any, arguments: Any, keywords: Any) -> Any:
        if not keywords:
            recorder.called(self, tuple(arguments))
        return before(self, arguments, keywords)

    dispatcher.get_call_template = asked
    event.register("numba:compile", recorder)
    try:
        yield recorder
    finally:
        event.unregister("numba:compile", recorder)
        dispatcher.get_call_template = before


def loaded_kernels() -> list[_Key]:
    """Every unit that is loaded in this process and that Python can call."""
    keys = (
        unit_key(made, arguments)
        for made in kernels_of(_ROOT)
        if not made.targetoptions.get("no_cpython_wrapper")
        for arguments in made.overloads
    )
    return sorted({key for key in keys if key is not None})


def _child(name: str) -> dict[str, Any]:
    """Warm up a set in another process."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, name], stdout=subprocess.PIPE, check=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _key(held: list[Any]) -> _Key:
    return held[0], tuple(held[1])


def assembled(told: dict[str, dict[str, Any]]) -> tuple[Units, dict[str, float]]:
    """The list, and the seconds of what is not ours by who calls it, of what processes told of their sets."""
    seconds: dict[_Key, float] = {}
    needs: dict[_Key, list[_Key]] = {}
    inside: dict[str, float] = {}
    for each in told.values():
        for held, taken, called in each["units"]:
            # Two processes may have compiled it.
            seconds.setdefault(_key(held), taken)
            needs.setdefault(_key(held), [_key(need) for need in called])
        for line, taken in each["inside"]:
            inside[line] = inside.get(line, 0.0) + taken
    order: dict[_Key, int] = {}

    def place(key: _Key) -> int:
        if key not in order:
            for each in needs[key]:
                if each in needs:
                    place(each)
            order[key] = len(order)
        return order[key]

    sets = {
        name: tuple(sorted(place(key) for key in map(_key, each["loaded"]) if key in needs))
        for name, each in told.items()
    }
    units = tuple(
        Unit(*key, seconds[key], tuple(sorted(order[each] for each in needs[key] if each in order)))
        for key in order
    )
    return Units(units, sets), inside


def record() -> tuple[Units, dict[str, float]]:
    """Warm up all sets, as many at once as there are cores; see ``assembled``."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        os.environ["NUMBA_CACHE_DIR"] = folder
        return assembled(dict(zip(KERNEL_SETS, pool.map(_child, KERNEL_SETS), strict=True)))


def main() -> None:
    """With the name of a set: warm it up and print what came of it, as JSON. Without: all of them, into the list."""
    if len(sys.argv) > 1:
        with recorded() as recorder:
            warm_up_set(sys.argv[1])
        made = [[key, taken, list(recorder.needs[key])] for key, taken in recorder.seconds.items()]
        told = {"units": made, "inside": list(recorder.inside.items()), "loaded": loaded_kernels()}
        print(json.dumps(told))
        return
    units, inside = record()
    write_units(units)
    for unit in sorted(units.units, key=lambda unit: -unit.seconds)[:40]:
        print(f"{unit.seconds:6.2f} s  {unit.kernel}")
    for line, taken in sorted(inside.items(), key=lambda each: -each[1])[:20]:
        print(f"{taken:6.2f} s  {line}")
    for name in units.sets:
        places = units.of([name])
        print(f"{name}: {len(places)} units, {sum(units.units[each].seconds for each in places):.0f} s")


if __name__ == "__main__":
    main()
