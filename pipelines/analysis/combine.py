"""Rubin's rules: one estimate and one interval from m imputed tables.

With Q_i and U_i the estimate and its variance (the squared standard error) in table i of m:

    Q = mean Q_i                   pooled estimate
    U = mean U_i                   within tables: what the rows would leave open if their values were known
    B = sum (Q_i - Q)^2 / (m - 1)  between tables: what the values leave open
    T = U + (1 + 1/m) B            variance of Q
    l = (1 + 1/m) B / T            share of it that is due to the values
    v = 1 / (1 / v_m + 1 / v_o)    degrees of freedom (Barnard and Rubin, 1999), where
        v_m = (m - 1) / l^2,  v_o = (v_c + 1) / (v_c + 3) v_c (1 - l),  v_c those of one table, rows less coefficients
    Q -+ t(v) sqrt T               interval at a level, by Student's t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kanonflow.schemas.errors import InputError

Float64s = NDArray[np.float64]


@dataclass(frozen=True)
class Combined:
    """Float64 (p,) each, or () where one number a table was given. estimate: Q. within: U. between: B. variance: T.
    imputed_share: l. degrees_of_freedom: v, infinite where tables do not differ and their own are not given. lower,
    upper: of the interval."""

    estimate: Float64s
    within: Float64s
    between: Float64s
    variance: Float64s
    imputed_share: Float64s
    degrees_of_freedom: Float64s
    lower: Float64s
    upper: Float64s


def combine(
    estimates: Sequence[ArrayLike],
    variances: Sequence[ArrayLike],
    *,
    rows_less_coefficients: float | None = None,
    level: float = 0.95,
) -> Combined:
    """By the formulas above.

    estimates, variances: (m,) or (m, p), of each imputed table; variances are squared standard errors.
    rows_less_coefficients: v_c; None: so many that v = v_m. level: of the interval.
    Raises InputError: fewer than two tables, other shapes, negative variances, or a level that is none.
    """
    values, own = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if values.ndim not in (1, 2) or values.shape != own.shape or len(values) < 2:
        raise InputError(
            "combine: give as many variances as estimates, one a table or one row a table, of two tables"
        )
    if not (np.isfinite(values).all() and np.isfinite(own).all() and (own >= 0).all()):
        raise InputError("combine: estimates and variances must be numbers, and variances not negative")
    if not 0 < level < 1:
        raise InputError("combine: level must be between 0 and 1, as in 0.95")
    if rows_less_coefficients is not None and not rows_less_coefficients > 0:
        raise InputError("combine: rows_less_coefficients must be above 0")
    m = len(values)
    pooled, within, between = values.mean(axis=0), own.mean(axis=0), values.var(axis=0, ddof=1)
    total = within + (1 + 1 / m) * between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (1 + 1 / m) * between / total, 0.0)
        freedom = (m - 1) / share**2
        if rows_less_coefficients is not None:
            complete = float(rows_less_coefficients)
            observed = (complete + 1) / (complete + 3) * complete * (1 - share)
            freedom = 1 / (1 / freedom + 1 / observed)
    half = _quantile(freedom, level) * np.sqrt(total)
    return Combined(pooled, within, between, total, share, freedom, pooled - half, pooled + half)


def _quantile(freedom: Any, level: float) -> Any:
    """Student's t, (1 + level) / 2; of infinite degrees of freedom the normal distribution's."""
    from scipy.special import ndtri, stdtrit

    normal = ndtri((1 + level) / 2)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(freedom), stdtrit(freedom, (1 + level) / 2), normal)
