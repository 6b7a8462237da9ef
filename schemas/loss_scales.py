"""By which scale the width of a numeric box is counted as loss: ``scale`` of a field.

A scale is a map of values to positions that never falls, fixed by the policy and by nothing else. A range from a to b
then costs what lies between their positions, as a share of what lies between those of the domain's ends. Solvers see
positions alone; boxes are hulls of the values themselves, and nothing that publishes or checks them knows of scales.

    linear    v                                                  everything counts by its difference
    log       sign(v) log(1 + |v| / log_from)                    by ratios beyond log_from, by differences around 0
    rank      how many quantiles lie below, and how far to the next      by the share of people in between
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy_fields import Quasi, ScaleName

Float64s = NDArray[np.float64]

_FINEST, _COARSEST = Decimal("1e-30"), Decimal("1e30")
_LARGEST = float(np.finfo(np.float64).max)


class Scale(Protocol):
    """A map of values to positions."""

    @property
    def words(self) -> str:
        """Behind a domain, as the metrics tell it."""

    @property
    def is_linear(self) -> bool:
        """Whether differences count, as they do where a policy says nothing."""

    def places(self, values: Any) -> Any:
        """The positions of values in the units of a column, never falling where these rise; of one value one position.

        Of ``linear`` the values themselves, else float64, finite for every finite value. O(n), of ranks O(n log m).
        """


@dataclass(frozen=True)
class LinearScale:
    """Values are their own positions."""

    words: str = ""
    is_linear: bool = True

    def places(self, values: Any) -> Any:
        """As they are, whole numbers too: differences of large ones stay exact."""
        return values


@dataclass(frozen=True)
class LogScale:
    """unit: the value, in units of the column, up to which differences count, and beyond which ratios do. Below 0 it is
    the mirror image; 0 is at 0."""

    unit: float
    words: str = ", by log"
    is_linear: bool = False

    def places(self, values: Any) -> Float64s:
        """sign(v) log(1 + |v| / unit)."""
        numbers = np.asarray(values, dtype=np.float64)
        # A unit below 1 would take the largest doubles beyond themselves.
        size = np.minimum(np.abs(numbers), _LARGEST * min(self.unit, 1.0)) / self.unit
        places: Float64s = np.sign(numbers) * np.log1p(size)
        return places


@dataclass(frozen=True)
class RankScale:
    """quantiles: float64 (m,), never falling, in units of the column; they part the people into m + 1 equal parts.

    At the i-th quantile the position is i / (m + 1), at one that is there several times the mean of theirs, as ranks of
    equal values are; between two it is on the line. Beyond the outermost ones lies one part each, of which half is left
    behind at a distance as wide as all quantiles: t / (t + width), so no value, however far, makes the others near.
    """

    quantiles: tuple[float, ...]
    words: str = ", by rank"
    is_linear: bool = False

    @cached_property
    def _knots(self) -> tuple[Float64s, Float64s]:
        values, first, count = np.unique(self.quantiles, return_index=True, return_counts=True)
        return values, (first + (count + 1) / 2) / (len(self.quantiles) + 1)

    def places(self, values: Any) -> Float64s:
        """The share of people below, in (0, 1)."""
        numbers = np.asarray(values, dtype=np.float64)
        knots, ranks = self._knots
        # Halved first: the width of two finite doubles can be infinite.
        low, high = knots[0] / 2, knots[-1] / 2
        width, part = high - low, 1 / (len(self.quantiles) + 1)
        above = 1.0 - width / (width + np.maximum(numbers / 2 - high, 0.0))
        below = 1.0 - width / (width + np.maximum(low - numbers / 2, 0.0))
        return np.interp(numbers, knots, ranks) + part * (above - below)


LINEAR = LinearScale()


def scale_of(quasi: Quasi, digits: int) -> Scale:
    """The scale of a quasi-identifier. digits: behind the point that the units of its column count."""
    return _SCALES[quasi.scale](quasi, 10.0**digits)


_SCALES: dict[ScaleName, Callable[[Quasi, float], Scale]] = {
    ScaleName.LINEAR: lambda _, __: LINEAR,
    ScaleName.LOG: lambda quasi, units: LogScale(float(quasi.log_from or 1) * units),
    ScaleName.RANK: lambda quasi, units: RankScale(
        tuple(float(each) * units for each in quasi.quantiles or ())
    ),
}


def mistake_in_log_from(size: Decimal) -> str:
    """What is wrong with it, as words behind its key; "": nothing."""
    return "" if _FINEST <= size <= _COARSEST else "must be between 1e-30 and 1e30"


def mistake_in_quantiles(quantiles: Sequence[Decimal]) -> str:
    """What is wrong with quantiles, as words behind their key; "": nothing."""
    if any(abs(each) > _COARSEST for each in quantiles):
        return "must be between -1e30 and 1e30"
    if any(first > second for first, second in pairwise(quantiles)):
        return "must not fall"
    if len(set(map(float, quantiles))) < 2:
        return "needs at least two different numbers"
    return ""
