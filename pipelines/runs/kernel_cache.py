"""Whether a run compiles its solver first, as the first one after an installation does: a minute or two of silence."""

from __future__ import annotations

import importlib
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.window_structures import solver_shape

COMPILES = (
    "no compiled solver for such a policy is in the cache: it is compiled first, which takes a minute or two, once"
    " after an installation"
)

_KERNELS = {
    "row_graph": "kanonflow.solvers.search.two_opt",
    "classes": "kanonflow.solvers.class_search.moves",
}
"""By the shape that a policy is solved in, a module whose kernels each such run needs; others compile none at once."""
_OF_LASTING = "kanonflow.solvers.merging.moves"
"""The same of cohorts that last, which are merged in each window."""


def compiles_first(policy: Policy) -> bool:
    """Whether numba's cache has nothing of the kernels that the policy's solver needs.

    A cache that another version left counts as one: what of it is too old is found out kernel by kernel.
    """
    modules = [_KERNELS[shape]] if (shape := solver_shape(policy)) in _KERNELS else []
    modules += [_OF_LASTING] if policy.lasting else []
    return not all(map(_cached, modules))


def _cached(name: str) -> bool:
    """Whether numba's cache has a kernel of a module."""
    module = importlib.import_module(name)
    stem = Path(str(module.__file__)).stem
    folders = {
        Path(value.stats.cache_path)
        for value in vars(module).values()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == name and value.stats.cache_path
    }
    return any(True for folder in folders for _ in folder.glob(f"{stem}.*.nbi"))
