"""A sensitive field of the records, and what every class must show of its values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import TableError

KINDS = ("distinct", "entropy", "frequency")
"""Kinds of l-diversity."""
DISTANCES = ("equal", "ordered")
"""Distances of t-closeness."""


@dataclass(frozen=True)
class Sensitive:
    """One sensitive field of n records and what is asked of it.

    codes: int64 (n,), values numbered from 0, in their order where the distance is ordered. kind: of KINDS with its
    l, or None. distance: of DISTANCES with its t, or None.
    """

    codes: NDArray[np.int64]
    kind: str | None = None
    l: float = 1.0  # noqa: E741 - the name it has everywhere
    distance: str | None = None
    t: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in (None, *KINDS) or self.distance not in (None, *DISTANCES):
            raise TableError(f"diversity is one of {', '.join(KINDS)}, closeness of {', '.join(DISTANCES)}")
        if self.codes.size and self.codes.min() < 0:
            raise TableError("sensitive values must be numbered from 0")

    @property
    def values(self) -> int:
        """Number of codes, S."""
        return int(self.codes.max(initial=-1)) + 1
