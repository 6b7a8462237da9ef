"""Codes numbered without a gap: by counting or by sorting, as numpy tells it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.units import numbering
from kanonflow.solvers.units.numbering import numbered


@settings(derandomize=True, max_examples=200)
@given(
    st.lists(st.integers(-2, 90) | st.sampled_from([10**12, -(2**62)]), max_size=30),
    st.sampled_from([np.int64, np.int32]),
)
def test_codes_are_numbered_as_numpy_does(codes: list[int], kind: type) -> None:
    """Few and many, below zero, far apart, of either width: the same places, ranks and counts, in the same types."""
    array = np.array(codes, dtype=np.int64).astype(kind)
    expected = np.unique(array, return_index=True, return_inverse=True, return_counts=True)[1:]
    for mine, theirs in zip(numbered(array), expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.tolist() == theirs.tolist()


def test_small_codes_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With gaps and without."""
    monkeypatch.setattr(numbering.np, "unique", None)
    assert numbered(np.array([2, 0, 2, 1])).number.tolist() == [2, 0, 2, 1]
    assert numbered(np.array([9, 4, 9])).number.tolist() == [1, 0, 1]
    with pytest.raises(TypeError):
        numbered(np.array([-1]))
