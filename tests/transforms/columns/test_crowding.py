"""People who crowd in a small part of a domain are noticed, with the keys that count widths where they are."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.crowding import crowding, rank_quantiles

RANDOM = np.random.default_rng(5)


def by_hand(values: list[float], low: float, high: float) -> float:
    """The shortest range between two values that holds half of them, as a share of the domain."""
    half = (len(values) + 1) // 2
    return min(
        (b - a) / (high - low)
        for a in values
        for b in values
        if b >= a and sum(a <= each <= b for each in values) >= half
    )


def test_half_of_the_people_in_a_hundredth_of_the_domain_are_a_crowd() -> None:
    """Above it they are none; nor are few, nor a value that half of the people have."""
    values = np.round(RANDOM.lognormal(0, 0.5, 120), 2)
    share = by_hand(values.tolist(), 0, 100)
    assert crowding(values, 0, 100 * share / 0.0099).share == pytest.approx(0.0099)  # type: ignore[union-attr]
    assert crowding(values, 0, 100 * share / 0.0101) is None
    assert crowding(values[:90], 0, 1e6) is None
    assert crowding(np.append(np.zeros(500), np.arange(400)), 0, 400) is None, "the others lie evenly"
    assert crowding(np.full(500, np.nan), 0, 1) is None


def test_what_is_proposed_is_what_a_policy_may_say() -> None:
    """Ranks where quantiles differ; logarithms where nearly all people have one value."""
    gains = np.append(np.zeros(5_000), np.exp(RANDOM.normal(8, 0.4, 150)))
    for values, high, scale in (
        (RANDOM.lognormal(6, 1.5, 2_000), 1e7, "rank"),
        (gains, 1e7, "log"),
        (np.append(np.full(600, 5.0), np.zeros(400)), 1e4, "log"),
    ):
        found = crowding(values, 0, high)
        assert found is not None
        assert found.keys["scale"] == scale
        field = {"role": "quasi", "type": "numeric", "domain": [0, int(high)], **found.keys}
        parse_policy({"version": 1, "k": 2, "fields": {"x": field}}, "test", "test")
        assert f"scale: {scale}, " in found.mend


def test_quantiles_are_nobodys_own_value() -> None:
    """Rounded as far as a part of the people lies; they stay in order, and part the people as they should."""
    values = np.exp(RANDOM.normal(9, 1.3, 4_000))
    cuts = np.array([float(each) for each in rank_quantiles(values, 20)])
    assert not np.isin(cuts, values).any()
    assert (np.diff(cuts) > 0).all()
    assert cuts[0] > values.min()
    assert cuts[-1] < values.max()
    parts = np.bincount(np.searchsorted(cuts, values), minlength=20) / values.size
    assert parts.min() > 0.03
    assert parts.max() < 0.08
