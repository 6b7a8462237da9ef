"""Fields that follow from others: a district from which its region follows is published twice, and widened twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.explain.alone import joined

Int64s = NDArray[np.int64]

FOLLOWS = 0.99
"""Share of those who can be foretold from which on a field is said to follow."""
LEAST_COVERED = 0.5
"""Share of the rows whose determining value somebody else has too; of others nothing can be foretold."""
LEAST_SURPRISE = 0.05
"""Of a field in which all but so few have one value, nothing follows from another."""


class Dependency(NamedTuple):
    """dependent follows from the fields of ``by`` in ``share`` of the rows whose values in these are on others too."""

    by: tuple[str, ...]
    dependent: str
    share: float


def dependencies(codes: Mapping[str, Int64s]) -> tuple[Dependency, ...]:
    """Every field that follows from another one, or from two of which it follows from neither.

    codes: int64 (p,) a field, from 0 and below some times p. Two fields that are other spellings of each other follow
    from each other: both directions are there. O(f^3 p log p).
    """
    names = tuple(codes)
    found = [
        Dependency((by,), name, share)
        for name in names
        for by in names
        if by != name and (share := _follows(codes[by], codes[name])) is not None
    ]
    single = {(each.by[0], each.dependent) for each in found}
    for pair in combinations(names, 2):
        if {pair, pair[::-1]} & single:
            continue
        together = joined([codes[name] for name in pair])
        found += [
            Dependency(pair, name, share)
            for name in names
            if name not in pair
            and not any((by, name) in single for by in pair)
            and (share := _follows(together, codes[name])) is not None
        ]
    return tuple(found)


def determined(by: Mapping[str, Int64s], quasis: Mapping[str, Int64s]) -> Iterator[Dependency]:
    """Quasi-identifiers that follow from a payload field. by, quasis: int64 (n,) each, of rows, from 0.
    O(f g n log n)."""
    for name, codes in by.items():
        for quasi, values in quasis.items():
            share = _follows(codes, values)
            if share is not None:
                yield Dependency((name,), quasi, share)


def redundant(follows: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """One dependency for each field that others say already; of two that say the same the one that comes later."""
    found: list[Dependency] = []
    for each in sorted(follows, key=lambda each: (len(each.by), -each.share)):
        said = {one.dependent for one in found}
        if each.dependent not in said and not set(each.by) & said:
            found.append(each)
    return tuple(found)


def _follows(by: Int64s, values: Int64s) -> float | None:
    """The share of rows whose value is what most others with the same ``by`` have; None: it does not follow.

    A row counts where its ``by`` is on another row too, and is right where another one agrees with it: what is foretold
    of a row is told by others. O(n log n).
    """
    if not by.size:
        return None
    held = np.bincount(by)
    covered = held[by] >= 2
    if covered.mean() < LEAST_COVERED:
        return None
    group, value = by[covered], values[covered]
    if np.bincount(value).max() / value.size > 1.0 - LEAST_SURPRISE:
        return None
    width = int(value.max()) + 1
    pairs, count = np.unique(group * width + value, return_counts=True)
    most = np.zeros(held.size, dtype=np.int64)
    np.maximum.at(most, pairs // width, count)
    right = float(np.where(most >= 2, most, 0).sum() / value.size)
    return right if right >= FOLLOWS else None
