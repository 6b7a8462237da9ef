"""Loads (or compiles) every kernel once, so that the first window does not wait for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.diversity import Sensitive
from kanonflow.solvers.matching import random_factor
from kanonflow.solvers.solve import solve
from kanonflow.solvers.table import Table


class _Repeatable:
    """Words of a seeded generator, for exercise only."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64 - 1, count, dtype=np.uint64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return self._generator.permutation(n)


def circulant_graph() -> NDArray[np.int32]:
    """A ring of degree 3: not complete, so that matching takes every step."""
    return ((np.arange(12)[:, None] + np.arange(3)) % 12).astype(np.int32)


def warm_up(gated: bool = False, hierarchies: bool = False) -> None:
    """Solve tiny tables in every shape and from every start. About 0.5 s from the cache, a minute when it is empty.

    gated: also under rules for sensitive values, whose kernels take a minute more. hierarchies: for tables with
    hierarchies, for which every kernel is compiled by itself.
    """
    generator = np.random.default_rng(1)
    n = 24
    table = Table(
        numeric=generator.random((n, 1)),
        categorical=generator.integers(0, 3, (n, 2)).astype(np.int32),
        cardinality=np.array([3, 70]),
        weights=np.ones(3),
        individuals=np.arange(n),
    )
    if hierarchies:
        table = replace(table, numeric=np.rint(2.0 * table.numeric) / 2.0, heights=(np.array([0.5, 1.0]),))
    random_factor(circulant_graph(), _Repeatable(generator))
    for shape, start in (("graph", "l-greedy"), ("graph", "kd-leaves"), ("classes", "l-greedy")):
        solve(table, 3, shape=shape, start=start, budget=Budget(200.0), seed=1)
    solve(table, 3, shape="levels", budget=Budget(200.0), seed=1)
    if gated:
        rule = Sensitive(np.arange(n) % 3, "distinct", 2, "equal", 0.5)
        solve(table, 3, shape="classes", budget=Budget(200.0), seed=1, sensitive=[rule])
