"""Solvers that packages bring, ours of the papers among them: entry points of the group ``kanonflow.solvers``.

    entry_points={"kanonflow.solvers": ["nearest-first = their_package.solver:solver_named"]}

One line a name. What it points to is called with the name and gives a ``Solver`` (``catalogue``). Names are read from
the installed packages' metadata; a package is imported once one of its names is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kanonflow.solvers.problem.errors import BudgetError

GROUP = "kanonflow.solvers"


@functools.cache
def _entries() -> Mapping[str, EntryPoint]:
    """By name, in the order of the packages. Some 20 ms, once a process."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if found.setdefault(entry.name, entry).value != entry.value:
            both = f"{found[entry.name].value} and {entry.value}"
            raise BudgetError(f"two packages bring a solver {entry.name!r}: {both}; uninstall one")
    return found


def registered_names() -> tuple[str, ...]:
    """Every name that a package brings. Imports none of them."""
    return tuple(_entries())


@functools.cache
def registered(name: str) -> Any:
    """The ``Solver`` that a package brings under a name; None where there is none.

    Raises BudgetError: what stands behind the name cannot be imported, or two packages bring it.
    """
    entry = _entries().get(name)
    if entry is None:
        return None
    try:
        return entry.load()(name)
    except Exception as failed:
        # Whatever a package of somebody else does wrong, its name is at fault and not the run.
        raise BudgetError(f"solver {name!r} of {entry.value} cannot be loaded: {failed}") from failed


def unknown_start(name: str, starts: tuple[str, ...]) -> BudgetError:
    """What to raise for a start that nobody brings. starts: those of the product."""
    named = ", ".join(dict.fromkeys((*starts, *registered_names())))
    return BudgetError(f"unknown start {name!r}: choose one of {named}")
