"""Small tables for the solvers' tests: numbers with nulls, narrow and wide categories, repeated rows, individuals."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.starts.circulant import constructive_members
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from tests import naive


def mixed_table(
    seed: int,
    n: int,
    *,
    people: int | None = None,
    numeric: int = 2,
    cardinality: tuple[int, ...] = (3, 70),
    kinds: int | None = None,
    nulls: float = 0.15,
    k: int = 1,
    trees: int = 0,
) -> Table:
    """n rows drawn from ``kinds`` different ones (None: all different ones are possible).

    Numbers lie on multiples of 1/8, so that ties are common. people: each row belongs to a random one of that many
    individuals, whose numbers are not consecutive, but to nobody more than a k-th of the rows. trees: so many of the
    numeric columns are hierarchies of 9 leaves.
    """
    rng = np.random.default_rng(seed)
    count = n if kinds is None else kinds
    numbers = rng.integers(0, 9, (count, numeric)) / 8
    numbers[rng.random((count, numeric)) < nulls] = np.nan
    codes = (
        np.stack([rng.integers(0, min(size, 6), count) for size in cardinality], axis=1)
        if cardinality
        else None
    )
    chosen = np.arange(n) if kinds is None else rng.integers(0, kinds, n)
    return Table(
        numeric=numbers[chosen],
        categorical=np.empty((n, 0), np.int32) if codes is None else codes[chosen].astype(np.int32),
        cardinality=np.array(cardinality, dtype=np.int64),
        weights=rng.integers(1, 4, numeric + len(cardinality)).astype(float),
        individuals=None if people is None else _owners(rng, n, people, n // k) * 10 + 3,
        heights=tuple(
            tree_heights(tree_paths(seed + j, 9)) if j < trees else None
            for j in range(numeric if trees else 0)
        ),
    )


def tree_paths(seed: int, leaves: int) -> list[str]:
    """A random tree: of each leaf the path from the root, a letter a node, in depth-first order."""
    rng = np.random.default_rng(seed)
    paths: list[str] = []

    def grow(path: str, count: int) -> None:
        if count == 1:
            paths.append(path)
            return
        cuts = np.unique(rng.integers(0, count + 1, rng.integers(1, 4)))
        parts = np.diff(np.concatenate([[0], cuts, [count]]))
        for number, part in enumerate(parts[parts > 0]):
            grow(path + chr(ord("a") + number), int(part))

    grow("", leaves)
    return paths


def tree_heights(paths: list[str]) -> NDArray[np.float64]:
    """NCP of each leaf with the next, float64 (leaves - 1,)."""
    return np.array([naive.tree_ncp(paths, [leaf, leaf + 1]) for leaf in range(len(paths) - 1)])


def _owners(rng: np.random.Generator, n: int, people: int, most: int) -> NDArray[np.int64]:
    """An individual for each row, nobody with more than ``most``."""
    counts = np.zeros(people, dtype=np.int64)
    owners = np.empty(n, dtype=np.int64)
    for row in range(n):
        owners[row] = rng.choice(np.flatnonzero(counts < most))
        counts[owners[row]] += 1
    return owners


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    least: int = 6,
    most: int = 24,
    k: int = 1,
    individuals: bool | None = None,
    trees: bool = False,
) -> Table:
    """Mixed tables in which a graph of degree k exists; individuals: with, without, or either (None).

    trees: whether numeric columns may be hierarchies.
    """
    n = draw(st.integers(max(least, k), most))
    named = draw(st.booleans()) if individuals is None else individuals
    return mixed_table(
        draw(st.integers(0, 2**32 - 1)),
        n,
        people=draw(st.integers(-(-n // (n // k)), n)) if named else None,
        k=k,
        numeric=draw(st.integers(0, 2)),
        cardinality=draw(st.sampled_from([(3,), (3, 70), (2, 5, 64, 65), (1, 100, 130)])),
        kinds=draw(st.sampled_from([None, 4, 9])),
        trees=draw(st.integers(0, 2)) if trees else 0,
    )


def scrambled_members(
    units: Units, k: int, *, distinct: bool, seed: int, swaps: int = 200
) -> NDArray[np.int32]:
    """A legal graph over units, int32 (n, k): the constructive one after random legal exchanges."""
    members = constructive_members(units, k, distinct=distinct)
    rng = np.random.default_rng(seed)
    for _ in range(swaps):
        b, d = rng.integers(0, members.shape[0], 2)
        p, q = rng.integers(0, k, 2)
        members[b, p], members[d, q] = members[d, q], members[b, p]
        if not all(naive.may_stand_together(units, members[slot].tolist()) for slot in (b, d)):
            members[b, p], members[d, q] = members[d, q], members[b, p]
    return members


def scrambled_graph(table: Table, k: int, seed: int) -> NDArray[np.int32]:
    """A legal graph over the rows of a table, by exchanges of rows, not of units."""
    who = np.arange(table.records) if table.individuals is None else table.individuals
    alone = group_rows(table)._replace(
        weight=np.ones(table.records, dtype=np.int32),
        limit=np.ones(table.records, dtype=np.int32),
        individual=np.unique(who, return_inverse=True)[1].astype(np.int64),
    )
    return scrambled_members(alone, k, distinct=True, seed=seed)


def unit_rows(units: Units) -> list[int]:
    """A row of each unit: what naive twins, which know rows only, use in its place."""
    return units.rows[units.first[:-1]].tolist()
