"""Loads (or compiles) every kernel once, so that the first window does not wait for it."""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.solve import solve
from kanonflow.solvers.table import Table


def warm_up() -> None:
    """Solve tiny tables in every shape and from every start. About 0.5 s from the cache, a minute when it is empty."""
    generator = np.random.default_rng(1)
    n = 24
    table = Table(
        numeric=generator.random((n, 1)),
        categorical=generator.integers(0, 3, (n, 2)).astype(np.int32),
        cardinality=np.array([3, 70]),
        weights=np.ones(3),
        individuals=np.arange(n),
    )
    for shape, start in (("graph", "l-greedy"), ("graph", "kd-leaves"), ("classes", "l-greedy")):
        solve(table, 3, shape=shape, start=start, budget=Budget(200.0), seed=1)
