"""By which scale widths count: the maps against what they say of themselves, a value at a time, and their keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundColumn, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.loss_scales import LogScale, RankScale, Scale
from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping

checked = settings(derandomize=True, max_examples=40)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
QUANTILES = st.lists(st.integers(-50, 50), min_size=2, max_size=9).map(sorted).filter(lambda q: q[0] < q[-1])
DOUBLE = pa.float64()
RANK = {"scale": "rank", "quantiles": [0, 0, 10, 100]}


def column(arrow: pa.DataType = DOUBLE, name: str = "capital-gain", **keys: Any) -> BoundColumn:
    """Of a policy with one numeric quasi-identifier."""
    policy = parse_policy(
        {"version": 1, "k": 2, "fields": {name: {"role": "quasi", "type": "numeric", **keys}}}, "test", "test"
    )
    return bind(policy, pa.schema([(name, arrow)]), text=False, source="test").columns[0]


def rank_by_hand(value: float, quantiles: list[float]) -> float:
    """As RankScale says it."""
    part, width = 1 / (len(quantiles) + 1), quantiles[-1] - quantiles[0]
    places: dict[float, list[float]] = {}
    for place, quantile in enumerate(quantiles, 1):
        places.setdefault(quantile, []).append(place * part)
    at = {quantile: sum(each) / len(each) for quantile, each in places.items()}
    if value in at:
        return at[value]
    if value > quantiles[-1]:
        return at[quantiles[-1]] + part * (value - quantiles[-1]) / (value - quantiles[-1] + width)
    if value < quantiles[0]:
        return at[quantiles[0]] - part * (quantiles[0] - value) / (quantiles[0] - value + width)
    low = max(each for each in quantiles if each < value)
    high = min(each for each in quantiles if each > value)
    return at[low] + (at[high] - at[low]) * (value - low) / (high - low)


@checked
@given(QUANTILES, st.lists(st.integers(-200, 200), min_size=1))
def test_ranks_are_what_their_words_say(quantiles: list[int], values: list[int]) -> None:
    """Quantile by quantile, equal ones at their mean, and one part beyond either end."""
    found = RankScale(tuple(map(float, quantiles))).places(np.array(values))
    wanted = [rank_by_hand(value, [float(each) for each in quantiles]) for value in values]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@checked
@given(st.floats(1e-9, 1e9), st.floats(-1e12, 1e12))
def test_logarithms_are_what_their_words_say(unit: float, value: float) -> None:
    """Mirrored at 0, which stays where it is."""
    wanted = math.copysign(math.log1p(abs(value) / unit), value)
    assert LogScale(unit).places(value) == pytest.approx(wanted, rel=1e-12)
    assert LogScale(unit).places(0) == 0.0


@pytest.mark.parametrize("scale", [LogScale(0.01), LogScale(1e4), RankScale((-3.0, 0.0, 0.0, 1e-3, 1e20))])
@checked
@given(values=st.lists(NUMBERS, min_size=2))
def test_positions_are_finite_and_never_fall(scale: Scale, values: list[float]) -> None:
    """Of the largest doubles, too: but for the last digit of a double."""
    places = scale.places(np.sort(np.array(values)))
    assert np.isfinite(places).all()
    assert (np.diff(places) >= -1e-12 * np.abs(places[1:])).all()


def test_decimals_count_as_the_numbers_they_are() -> None:
    """A cent is no unit of a policy."""
    cents, plain = column(pa.decimal128(9, 2), **RANK), column(**RANK)
    np.testing.assert_allclose(
        cents.scale.places(np.array([0, 550, 10_000])), plain.scale.places(np.array([0.0, 5.5, 100.0]))
    )
    log = {"scale": "log", "log_from": 2}
    assert column(pa.decimal128(9, 2), **log).scale.places(500) == pytest.approx(
        column(**log).scale.places(5)
    )


def test_a_policy_without_the_key_is_what_it_was() -> None:
    """Its digest, by which states and chains know it, knows nothing of scales; linear is what it has."""
    head = {"version": 1, "k": 2, "name": "old"}
    old, linear, rank = (
        parse_policy({**head, "fields": {"age": {"role": "quasi", "type": "numeric", **keys}}}, "", "old")
        for keys in ({}, {"scale": "linear"}, RANK)
    )
    assert not {"scale", "quantiles", "log_from"} & to_mapping(old)["fields"]["age"].keys()
    assert policy_digest(old) == policy_digest(linear) != policy_digest(rank)
    assert parse_policy(to_mapping(rank), "", "old") == rank
    values = np.array([1, 2**62 + 1])
    assert column().scale.places(values) is values, "differences of large whole numbers stay exact"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"scale": "rank"}, "quantiles: missing"),
        ({"scale": "ranks"}, "did you mean rank"),
        ({"scale": "rank", "quantiles": [3, 1]}, "must not fall"),
        ({"scale": "rank", "quantiles": [1, "1.0"]}, "at least two different"),
        ({"scale": "rank", "quantiles": [1, "many"]}, "a list of numbers"),
        ({"scale": "rank", "quantiles": [1, "1e31"]}, "between -1e30 and 1e30"),
        ({"quantiles": [1, 2]}, "belongs to scale: rank"),
        ({"scale": "rank", "quantiles": [1, 2], "log_from": 1}, "belongs to scale: log"),
        ({"scale": "log", "log_from": 0}, "a positive number"),
        ({"scale": "log", "log_from": "1e-31"}, "between 1e-30 and 1e30"),
        ({"type": "date", "scale": "log"}, "belongs to type: numeric"),
        ({"type": "categorical", "quantiles": [1, 2]}, "belongs to type: numeric"),
    ],
)
def test_what_does_not_fit_is_said_with_the_mend(keys: dict[str, Any], told: str) -> None:
    """By name of the field and key."""
    with pytest.raises(PolicyError, match=told) as caught:
        column(**keys)
    assert "fields.capital-gain." in str(caught.value)
