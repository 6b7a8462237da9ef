"""The solver's numbers: scaled, coded, under domains that only grow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.encode import describe, encode, extents
from kanonflow.transforms.kinds import value_sets
from kanonflow.transforms.kinds.domains import SetDomain
from tests.transforms.window_rows import bound_policy, window_rows

checked = settings(derandomize=True, max_examples=100)


def bound(kind: pa.DataType, **quasi: object) -> BoundPolicy:
    """A policy with one quasi-identifier ``x``."""
    declared = {"x": {"role": "quasi", **quasi}}
    policy = parse_policy({"version": 1, "k": 2, "fields": declared}, "test", "test")
    return bind(policy, pa.schema([("x", kind)]), text=False, source="test")


def column(values: list[object], kind: pa.DataType) -> pa.Table:
    """One column of canonical rows."""
    return pa.table({"x": pa.array(values, kind)})


def test_numbers_are_scaled_to_a_declared_domain() -> None:
    """0 and 1 are its ends, NaN a null; data does not move it."""
    policy = bound(pa.int32(), type="numeric", domain=[0, 200])
    encoded = encode(column([50, None, 200], pa.int32()), policy, None, {})
    np.testing.assert_array_equal(encoded.table.numeric[:, 0], [0.25, np.nan, 1.0])
    assert describe(encoded.domains, policy) == {"x": "[0, 200] declared"}


def test_running_domains_grow_and_never_shrink() -> None:
    """The domain after two windows is that of both."""
    policy = bound(pa.float64(), type="numeric")
    first = encode(column([1.0, 3.0], pa.float64()), policy, None, {})
    second = encode(column([2.0, 5.0], pa.float64()), policy, None, first.domains)
    np.testing.assert_allclose(second.table.numeric[:, 0], [0.25, 1.0])
    third = encode(column([None], pa.float64()), policy, None, second.domains)
    assert extents(third.domains, policy) == {"x": 4.0}


def test_only_nulls_and_only_one_value_have_no_extent() -> None:
    """They cost nothing; nothing is divided by zero."""
    policy = bound(pa.float64(), type="numeric")
    for values in ([None, None], [7.0, 7.0]):
        encoded = encode(column(values, pa.float64()), policy, None, {})
        assert extents(encoded.domains, policy) == {"x": 0.0}


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        (pa.float64(), [-1.7e308, 0.0, 1.7e308]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.int64(), [2**63 - 11, 2**63 - 6, 2**63 - 1]),
    ],
)
def test_values_at_the_edge_of_their_type_are_scaled_like_others(
    kind: pa.DataType, ends: list[float]
) -> None:
    """No overflow, no NaN where there is a value, and order is kept."""
    policy = bound(kind, type="numeric")
    encoded = encode(column(list(ends), kind), policy, None, {})
    low, middle, high = encoded.table.numeric[:, 0]
    assert (low, high) == (0.0, 1.0)
    assert 0.0 < middle < 1.0
    assert np.isfinite(extents(encoded.domains, policy)["x"])


def test_codes_follow_values_and_not_their_order() -> None:
    """Equal content gets equal codes, whichever row comes first; a null has a code of its own."""
    policy = bound(pa.string(), type="categorical")
    values = ["b", None, "a", "b"]
    codes = encode(column(values, pa.string()), policy, None, {}).table.categorical[:, 0]
    turned = encode(column(values[::-1], pa.string()), policy, None, {}).table.categorical[:, 0]
    np.testing.assert_array_equal(codes, turned[::-1])
    assert np.unique(codes).size == 3


def test_a_set_of_values_grows_by_what_a_window_adds() -> None:
    """Values of earlier windows count in |A|, though no row has them now."""
    policy = bound(pa.string(), type="categorical")
    first = encode(column(["a", "b"], pa.string()), policy, None, {})
    second = encode(column(["c", None], pa.string()), policy, None, first.domains)
    assert second.table.cardinality.tolist() == [4]


def test_a_null_counts_once_it_was_there() -> None:
    """A declared set has one more value from the first null on, also in windows without one."""
    policy = bound(pa.string(), type="categorical", domain=["a", "b"])
    sizes, domains = [], {}
    for values in (["a"], [None, "a"], ["b"]):
        encoded = encode(column(values, pa.string()), policy, None, domains)
        domains = encoded.domains
        sizes.append(int(encoded.table.cardinality[0]))
    assert sizes == [2, 3, 3]


def test_two_values_with_one_digest_stay_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a collision can neither merge values nor stop the feed."""
    monkeypatch.setattr(value_sets, "value_digests", lambda values: np.zeros(len(values), dtype=np.uint64))
    encoded = encode(column(["a", "b"], pa.string()), bound(pa.string(), type="categorical"), None, {})
    assert sorted(encoded.table.categorical[:, 0]) == [0, 1]
    assert isinstance(encoded.domains["x"], SetDomain)


@checked
@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 10**6))
def test_encoding_commutes_with_any_order_of_rows(n: int, seed: int, turn: int) -> None:
    """Rows in another order are the same rows of numbers in that order, under the same domains."""
    policy = bound_policy()
    rows = window_rows(n, seed, policy)
    order = np.random.default_rng(turn).permutation(n)
    one, other = (encode(each, policy, None, {}) for each in (rows, rows.take(pa.array(order))))
    np.testing.assert_array_equal(one.table.numeric[order], other.table.numeric)
    np.testing.assert_array_equal(one.table.categorical[order], other.table.categorical)
    assert describe(one.domains, policy) == describe(other.domains, policy)


def test_a_field_that_nobody_had_a_value_of_has_no_domain_yet() -> None:
    """The first value begins the domain; a range that reached to 0 would dull the field for good."""
    bound = bound_policy()
    rows = window_rows(6, 2, bound)
    name = next(column.name for column in bound.quasis if column.in_ranges and column.domain is None)
    place = rows.schema.get_field_index(name)
    empty = rows.set_column(place, rows.schema.field(place), pa.nulls(6, rows.schema.field(place).type))
    first = encode(empty, bound, None, {}).domains
    assert describe(first, bound)[name] == "no value yet"
    assert extents(first, bound)[name] == 0.0
    assert encode(rows, bound, None, first).domains[name] == encode(rows, bound, None, {}).domains[name]
