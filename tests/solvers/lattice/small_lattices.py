"""Small random lattices for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable


def random_table(
    generator: np.random.Generator, leaves: int, height: int, *, root: bool = True
) -> LevelTable:
    """A random hierarchy whose last level is one root unless ``root`` is False."""
    rows = [np.arange(leaves)]
    for level in range(1, height + 1):
        below = int(rows[-1].max()) + 1
        nodes = 1 if level == height and root else int(generator.integers(1, below + 1))
        _, parents = np.unique(generator.integers(0, nodes, size=below), return_inverse=True)
        rows.append(parents[rows[-1]])
    return LevelTable(np.stack(rows).astype(np.int32))


def random_lattice(
    seed: int, records: int, attributes: int, *, individuals: int | None, leaves: int = 6, height: int = 3
) -> Lattice:
    """Records with skewed random values."""
    generator = np.random.default_rng(seed)
    tables = tuple(
        random_table(
            generator, int(generator.integers(1, leaves + 1)), int(generator.integers(1, height + 1))
        )
        for _ in range(attributes)
    )
    values = np.stack(
        [(generator.random(records) ** 2 * table.domain).astype(np.int32) for table in tables], axis=1
    )
    people = None if individuals is None else generator.integers(0, individuals, size=records)
    return Lattice(tables, values, individuals=people)


def lattices() -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of ``random_lattice``."""
    return st.fixed_dictionaries(
        {
            "seed": st.integers(0, 2**20),
            "records": st.integers(4, 40),
            "attributes": st.integers(1, 4),
            "individuals": st.one_of(st.none(), st.integers(2, 25)),
        }
    )
