"""The list of what is compiled: each kernel with the types of its arguments, what it calls, and how long it takes.

``units.json`` is written by ``deploy/wheel/record_kernels.py`` and read by ``compile_ahead``, which shares its units
out to processes. A unit is a kernel for one list of argument types; its needs are units that numba compiles first, as
it calls them. The list only says what to begin with: what it lacks is compiled where it is called, what it has too
much is left out.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba.core.types

# What numba says of itself does not name all of them.
types: Any = numba.core.types

UNITS = Path(__file__).with_name("units.json")

_ARRAY = re.compile(r"(\w+)\[(\d)([CFA])(!?)\]")


@dataclass(frozen=True)
class Unit:
    """kernel: dotted name below ``kanonflow.solvers``. arguments: as ``type_text`` spells them.

    seconds: of a processor, without those of its needs. needs: other units, by their places in the list.
    """

    kernel: str
    arguments: tuple[str, ...]
    seconds: float
    needs: tuple[int, ...]


@dataclass(frozen=True)
class Units:
    """units: each after its needs. sets: by name, what Python can call in it, by places in the list."""

    units: tuple[Unit, ...]
    sets: dict[str, tuple[int, ...]]

    def of(self, names: Iterable[str]) -> list[int]:
        """Every unit that some sets need, themselves before those that call them. Unknown names need none."""
        found: set[int] = set()
        waiting = [place for name in names for place in self.sets.get(name, ())]
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting += self.units[place].needs
        return sorted(found)


def type_text(kind: Any) -> str:
    """A type of numba's in words that ``read_type`` reads. Raises ValueError for kinds that no kernel has so far."""
    if isinstance(kind, types.Array):
        if not kind.aligned:
            raise ValueError(f"no word for {kind}")
        return f"{type_text(kind.dtype)}[{kind.ndim}{kind.layout}{'' if kind.mutable else '!'}]"
    if isinstance(kind, types.NamedTuple):
        held = kind.instance_class
        return f"{held.__module__}:{held.__qualname__}({' '.join(map(type_text, kind.types))})"
    if isinstance(kind, types.BaseTuple):
        return f"({' '.join(map(type_text, kind.types))})"
    if isinstance(kind, types.NoneType):
        return "none"
    if isinstance(kind, types.Omitted) and kind.value is None:
        return "omitted"
    if isinstance(kind, types.Boolean) and not isinstance(kind, types.Literal):
        return "boolean"
    if isinstance(kind, types.Integer | types.Float) and not isinstance(kind, types.Literal):
        return str(kind)
    raise ValueError(f"no word for {kind}")


def read_type(text: str) -> Any:
    """The type of numba's that ``type_text`` spelled so. Raises ValueError, AttributeError or ImportError."""
    if text.endswith(")"):
        name, _, inside = text[:-1].partition("(")
        parts = [read_type(part) for part in _parts(inside)]
        if not name:
            return types.Tuple(parts)
        module, _, held = name.partition(":")
        return types.NamedTuple(parts, getattr(importlib.import_module(module), held))
    if array := _ARRAY.fullmatch(text):
        dtype, dimensions, layout, constant = array.groups()
        return types.Array(getattr(types, dtype), int(dimensions), layout, readonly=bool(constant))
    if text == "none":
        return types.none
    if text == "omitted":
        return types.Omitted(None)
    return getattr(types, text)


def _parts(text: str) -> list[str]:
    """The words of a text, where spaces inside brackets part nothing."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def kernel_named(name: str) -> Any:
    """The dispatcher of a kernel. Raises ImportError or AttributeError: there is none."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"kanonflow.solvers.{module}"), function)


@functools.cache
def known_units(path: Path = UNITS) -> Units:
    """The list of the package; an empty one where the file is not there."""
    try:
        held = json.loads(path.read_text())
    except FileNotFoundError:
        return Units((), {})
    texts = held["types"]
    units = tuple(
        Unit(name, tuple(texts[number] for number in numbers), seconds, tuple(needs))
        for name, numbers, seconds, needs in held["units"]
    )
    return Units(units, {name: tuple(places) for name, places in held["sets"]})
