"""Whom quasi-identifiers single out: people whose values nobody else has."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class Alone(NamedTuple):
    """fields: one, two or all. share: of the people whose values in them nobody else has."""

    fields: tuple[str, ...]
    share: float


def alone(codes: Mapping[str, Int64s]) -> tuple[Alone, ...]:
    """By each field, each pair of fields, and all of them.

    codes: int64 (p,) a field, of p people; equal values have equal codes, and a null is a value like others.
    O(f^2 p log p).
    """
    names = tuple(codes)
    sets: list[tuple[str, ...]] = [(name,) for name in names]
    sets += combinations(names, 2)
    if len(names) > 2:
        sets.append(names)
    return tuple(Alone(chosen, _share([codes[name] for name in chosen])) for chosen in sets)


def joined(columns: list[Int64s]) -> Int64s:
    """A code for each combination of values, from 0; int64 (p,). O(f p log p)."""
    together = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        together = together * (int(own.max(initial=0)) + 1) + own
        _, together = np.unique(together, return_inverse=True)
    return together.astype(np.int64)


def _share(columns: list[Int64s]) -> float:
    if not columns[0].size:
        return 0.0
    counts = np.bincount(joined(columns))
    return float((counts == 1).sum() / columns[0].size)
