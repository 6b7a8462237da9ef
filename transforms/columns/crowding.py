"""Whether people crowd in a small part of a numeric field's domain, so that differences say little of what a box
covers; and by which scale its widths should count then."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.transforms.kinds.range_values import range_values

Float64s = NDArray[np.float64]

CROWDED = 0.01
"""Share of the domain in which half of the people lie, up to which they crowd."""
LEAST_PEOPLE = 100
_PARTS = 20
_OF_A_PART = 10
"""People a part of the quantiles that are proposed, at least."""
_LEAST_PARTS = 5


@dataclass(frozen=True)
class Crowding:
    """share: of the domain, in which half of the people lie, of those who do not have the one value that half have.
    keys: of a field's declaration that make its widths count where the people are."""

    share: float
    keys: dict[str, str | list[str]]

    @property
    def written(self) -> dict[str, str]:
        """The keys, with values as YAML has them."""
        return {
            name: f"[{', '.join(value)}]" if isinstance(value, list) else value
            for name, value in self.keys.items()
        }

    @property
    def mend(self) -> str:
        """What to say in the policy."""
        return ", ".join(f"{name}: {value}" for name, value in self.written.items())

    @property
    def words(self) -> str:
        """The whole in words."""
        shown = "less than 0.1%" if self.share < 0.001 else f"{self.share:.1%}"
        return f"half of the people lie in {shown} of its domain, so a narrow range may cover most of them"


def crowding(values: Float64s, low: float, high: float) -> Crowding | None:
    """How people crowd in a domain; None: they do not, or are few.

    values: float64 (p,), one a person, NaN for none. low, high: the ends of the domain. O(p log p).
    """
    present = np.sort(np.clip(values[~np.isnan(values)], low, high))
    different, count = np.unique(present, return_counts=True)
    rest = present
    if present.size and 2 * count.max() >= present.size:
        # One value that most have costs nothing by any scale: those beside it lose.
        rest = present[present != different[count.argmax()]]
    if rest.size < LEAST_PEOPLE or not high > low:
        return None
    half = (rest.size + 1) // 2
    share = float((rest[half - 1 :] - rest[: rest.size - half + 1]).min() / (high - low))
    return Crowding(share, _keys(present, rest)) if share <= CROWDED else None


def crowding_of(column: BoundColumn, of_people: pa.Array) -> Crowding | None:
    """Of a quasi-identifier of numbers whose differences count; None also: it is another.

    of_people: canonical, its value of each person. Without a declared domain it is what these values span.
    """
    if not (column.in_ranges and column.values.scale is not None and column.scale.is_linear):
        return None
    units, valid = range_values(of_people)
    if not valid.any():
        return None
    ends = column.domain or (units[valid].min(), units[valid].max())
    values = np.where(valid, column.values.widths(units.astype(np.float64)), np.nan)
    low, high = column.values.widths(np.array(ends, dtype=np.float64)).tolist()
    return crowding(values, low, high)


def _keys(present: Float64s, rest: Float64s) -> dict[str, str | list[str]]:
    """Ranks where there are people enough for quantiles, else logarithms from where the first tenth ends."""
    parts = min(_PARTS, present.size // _OF_A_PART)
    quantiles = rank_quantiles(present, parts) if parts >= _LEAST_PARTS else []
    if len(set(quantiles)) >= _LEAST_PARTS - 1:
        return {"scale": "rank", "quantiles": quantiles}
    sizes = np.abs(rest[rest != 0] if rest.any() else present[present != 0])
    digits = int(np.clip(np.floor(np.log10(np.quantile(sizes, 0.1))), -9, 9))
    return {"scale": "log", "log_from": _plain(10.0**digits)}


def rank_quantiles(values: Float64s, parts: int) -> list[str]:
    """Numbers that part the values evenly, as YAML has them; without the least and the greatest, which are somebody's.

    Each is rounded to a power of ten that is at most half as far as the next that differs, so that it is a quantile of
    nobody's own value; one that is several quantiles at once stays, for many have it.
    """
    cuts = np.quantile(values, np.arange(1, parts) / parts, method="inverted_cdf")
    different = np.unique(cuts)
    gaps = np.diff(different)
    rounded = []
    for cut in cuts:
        place = int(np.searchsorted(different, cut))
        near = gaps[max(place - 1, 0) : place + 1]
        alone = (cuts == cut).sum() == 1
        rounded.append(_plain(_rounded(float(cut), float(near.min()) / 2 if near.size and alone else 0.0)))
    return rounded


def _rounded(number: float, most: float) -> float:
    """To a multiple of the greatest power of ten up to ``most``; 0: as it is."""
    if most <= 0:
        return number
    step = 10.0 ** math.floor(math.log10(most))
    return round(number / step) * step


def _plain(number: float) -> str:
    return f"{number:.10f}".rstrip("0").rstrip(".") or "0"
