"""The kernels' own sort against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from kanonflow.solvers.units.stable_order import RUN, stable_order

pytestmark = pytest.mark.thorough


@njit
def _ordered(keys: np.ndarray) -> np.ndarray:
    order, scratch = np.empty(keys.size, dtype=np.int64), np.empty(keys.size, dtype=np.int64)
    stable_order(keys, keys.size, order, scratch)
    return order


@settings(max_examples=200, derandomize=True)
@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.5, np.inf, -np.inf, np.nan]), max_size=5 * RUN),
    st.integers(0, 2**32 - 1),
)
def test_the_order_is_numpys_stable_one(few: list[float], seed: int) -> None:
    """With ties, which stay as they came, infinities, and NaN at the end; short and long."""
    generator = np.random.default_rng(seed)
    for keys in (np.array(few, dtype=np.float64), generator.integers(0, 40, generator.integers(0, 700)) / 3):
        assert (_ordered(keys) == np.argsort(keys, kind="stable")).all()
