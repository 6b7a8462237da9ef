"""A process of ``compile_ahead``: reads numbers of units, compiles each into numba's cache, and says so."""

from __future__ import annotations

import sys

from numba.core.errors import NumbaError

from kanonflow.solvers.kernels.units import kernel_named, known_units, read_type


def compile_unit(place: int) -> bool:
    """Whether the unit is compiled, or was. False: the list is of another state of the sources."""
    unit = known_units().units[place]
    try:
        kernel_named(unit.kernel).compile(tuple(map(read_type, unit.arguments)))
    except (ImportError, AttributeError, TypeError, ValueError, NumbaError):
        return False
    return True


def main() -> None:
    """Until the input ends."""
    for line in sys.stdin:
        print("made" if compile_unit(int(line)) else "left out", flush=True)


if __name__ == "__main__":
    main()
