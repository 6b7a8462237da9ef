"""Generated tables in the likeness of data sets that S0 used and that cannot be had here; seeded.

They reproduce shapes (width, ties, skew), not values: losses on them compare with each other, not with S0's tables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table

NO_CHILD = 99
LARGEST_FAMILY = 15
OLDEST_CHILD = 45


def _scaled(columns: list[NDArray[np.float64]]) -> Table:
    """Numeric columns over the range that they fill, as S0 takes domains."""
    values = np.stack(columns, axis=1).astype(np.float64)
    low, wide = values.min(axis=0), np.ptp(values, axis=0)
    return Table(
        numeric=(values - low) / np.where(wide > 0, wide, 1.0),
        categorical=np.empty((values.shape[0], 0), dtype=np.int32),
        cardinality=np.empty(0, dtype=np.int64),
        weights=np.ones(values.shape[1]),
    )


def census_table(rows: int, seed: int) -> Table:
    """Four small integers as in the census variables FAMUNIT, FAMSIZE, ELDCH, YNGCH: most rows are duplicates.

    Which family of the household (1 in 19 of 20); its size, 1 to 15; age of the eldest and of the youngest own child,
    99 without one, equal for an only child. 40,000 rows hold about 1,700 different ones.
    """
    rng = np.random.default_rng(seed)
    unit = np.where(rng.random(rows) < 0.95, 1, 1 + rng.geometric(0.6, rows))
    size = np.where(unit > 1, rng.geometric(0.75, rows), 1 + rng.binomial(7, 0.27, rows))
    size = np.where(rng.random(rows) < 0.02, size + rng.integers(1, 7, rows), size)
    size = np.minimum(size, LARGEST_FAMILY)
    parent = (size > 1) & (rng.random(rows) < np.where(size > 2, 0.85, 0.25))
    eldest = np.minimum(rng.gamma(2.2, 7.0, rows).astype(np.int64), OLDEST_CHILD)
    several = parent & (size > 3) & (rng.random(rows) < 0.9)
    gap = np.where(several, np.minimum(1 + rng.gamma(1.5, 2.2, rows).astype(np.int64), eldest), 0)
    none = ~parent
    return _scaled([unit, size, np.where(none, NO_CHILD, eldest), np.where(none, NO_CHILD, eldest - gap)])


def wide_table(rows: int, seed: int) -> Table:
    """23 numeric attributes, as many as S0's Youtube set: counts with long tails, ratios, and dates; few equal rows.

    One hidden popularity and one hidden liking drive twelve counts (log-normal), eight ratios and three dates.
    """
    rng = np.random.default_rng(seed)
    popularity, liking = rng.normal(size=rows), rng.normal(size=rows)
    age = rng.uniform(0, 3000, rows)
    counts = [
        np.floor(np.exp(8 - 0.4 * j + 1.2 * popularity + 0.3 * (j % 3) * liking + rng.normal(0, 0.5, rows)))
        for j in range(12)
    ]
    ratios = [
        1 / (1 + np.exp(-(0.8 * liking + 0.2 * j * popularity / 8 + rng.normal(0, 0.6, rows))))
        for j in range(8)
    ]
    dates = [age, age + rng.exponential(400, rows), np.floor(age / 30)]
    return _scaled([*counts, *ratios, *dates])


def mixed_table(rows: int, seed: int) -> Table:
    """Four numbers and four categories, tied together by thirty hidden kinds of customer; few equal rows.

    Age, hour of the day, amount (long tail) and distance; shop category (14 values), state (50), occupation (120,
    skewed) and sex. A kind has its own centre of age, hour and amount, three categories and five states it prefers.
    """
    rng = np.random.default_rng(seed)
    kinds = 30
    kind = rng.choice(kinds, rows, p=_skewed(kinds, 0.7))
    age = np.clip(rng.uniform(20, 75, kinds)[kind] + rng.normal(0, 8, rows), 16, 95)
    hour = (rng.uniform(7, 22, kinds)[kind] + rng.normal(0, 3, rows)) % 24
    amount = np.exp(np.clip(rng.normal(3.5, 0.8, kinds)[kind] + rng.normal(0, 0.7, rows), 0, 7))
    distance = rng.gamma(2.0, 12.0, rows)
    shop = rng.integers(0, 14, (kinds, 3))[kind, rng.choice(3, rows, p=[0.6, 0.3, 0.1])]
    state = rng.integers(0, 50, (kinds, 5))[kind, rng.integers(0, 5, rows)]
    state = np.where(rng.random(rows) < 0.1, rng.integers(0, 50, rows), state)
    shop = np.where(rng.random(rows) < 0.1, rng.integers(0, 14, rows), shop)
    occupation = rng.choice(120, rows, p=_skewed(120, 0.9))
    numbers = _scaled([np.floor(age), np.floor(hour), np.round(amount, 2), np.round(distance, 1)]).numeric
    return Table(
        numeric=numbers,
        categorical=np.stack([shop, state, occupation, rng.integers(0, 2, rows)], axis=1).astype(np.int32),
        cardinality=np.array([14, 50, 120, 2]),
        weights=np.ones(8),
    )


def _skewed(values: int, exponent: float) -> NDArray[np.float64]:
    """Shares that fall as a power of the rank."""
    shares = (1.0 + np.arange(values)) ** -exponent
    return shares / shares.sum()
