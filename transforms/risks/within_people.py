"""How a field varies within people, beside how it varies between them. Rows are of a sample, whose order says nothing.

What people keep cannot be told by how often it changes alone: a field that is nearly always the same is the same within
anything. So each figure stands beside the one that the same values give when they are dealt out at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SEED = 1
LEAST_PEOPLE = 10
"""People with two rows or more, below whom nothing is said of what people keep."""
KEPT = 0.9
"""Share of people with one value, from which on people keep a field."""


@dataclass(frozen=True)
class Keeping:
    """A field within the values of another ("people").

    people: with at least two rows that have a value. steady: the share of them that have one value in all of theirs.
    changed: share of their rows with another value than their most frequent. dealt: the same share where the values are
    dealt out at random.
    """

    people: int
    steady: float
    changed: float
    dealt: float

    @property
    def tells(self) -> bool:
        """Whether there are people enough, and values enough, to say anything."""
        return self.people >= LEAST_PEOPLE and self.dealt >= 0.02

    @property
    def constancy(self) -> float:
        """1 - changed / dealt: 1, people keep it; 0, it varies within people as much as between them."""
        return 1.0 - self.changed / self.dealt if self.dealt else 0.0


def keeping(
    codes: NDArray[np.int64], who: NDArray[np.int64], speaks: NDArray[np.bool_], *, seed: int = _SEED
) -> Keeping:
    """How a field is kept. codes: of its values, int64 (n,). who: of people, int64 (n,); -1: nobody's.
    speaks: where both say something. O(n log n)."""
    speaks = speaks & (who >= 0)
    codes, who = codes[speaks], who[speaks]
    if codes.size:
        several = np.bincount(who)[who] >= 2
        codes, who = codes[several], who[several]
    if not codes.size:
        return Keeping(0, 0.0, 0.0, 0.0)
    _, who = np.unique(who, return_inverse=True)
    rows = np.bincount(who)
    most = _most_frequent(codes, who)
    dealt = _most_frequent(np.random.default_rng(seed).permutation(codes), who)
    return Keeping(
        rows.size,
        float((most == rows).mean()),
        1.0 - float(most.sum()) / codes.size,
        1.0 - float(dealt.sum()) / codes.size,
    )


def names_people(codes: NDArray[np.int64], who: NDArray[np.int64], speaks: NDArray[np.bool_]) -> float:
    """Of the values on two rows or more, the share whose rows are all one person's; 0 without any. O(n log n)."""
    within = keeping(who, codes, speaks & (who >= 0))
    return within.steady if within.people >= LEAST_PEOPLE else 0.0


def _most_frequent(codes: NDArray[np.int64], who: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows of each person have its most frequent value."""
    pairs, counts = np.unique(who * (int(codes.max()) + 1) + codes, return_counts=True)
    most = np.zeros(int(who.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs // (int(codes.max()) + 1), counts)
    return most
