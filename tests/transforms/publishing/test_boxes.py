"""Boxes hold what their members have, no more than the grid adds, and cost what the formula says."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Protection
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.encode import describe, encode, extents
from kanonflow.transforms.kinds.range_values import range_array, range_values
from kanonflow.transforms.publishing.boxes import (
    Boxes,
    box_columns,
    declared_ncp,
    field_ncp,
    gcp,
    hull_boxes,
    snapped_boxes,
)
from tests import naive
from tests.regular_graphs import searched
from tests.transforms.window_rows import QUASIS, bound_policy, window_rows

BOUND = bound_policy()
ROWS = window_rows(90, 7, BOUND)
LABELS = np.repeat(np.arange(9), 10)[np.random.default_rng(2).permutation(90)].astype(np.int32)
GROUPS = {"slots": GeneralizationGraph(searched(90, 3, 4)).groups, "classes": Partition(LABELS).groups}


def members_of(groups: Groups) -> list[np.ndarray]:
    """The records behind the box of each released row."""
    rows = range(groups.starts.size - 1) if groups.of_row is None else groups.of_row
    return [groups.records[groups.starts[group] : groups.starts[group + 1]] for group in rows]


@pytest.mark.parametrize("shape", GROUPS)
def test_hulls_agree_with_sets_of_values(shape: str) -> None:
    """Ends are the least and greatest value, lists hold the distinct values, nulls are told; every type."""
    groups = GROUPS[shape]
    columns = box_columns(hull_boxes(ROWS, BOUND, groups))
    for column in BOUND.quasis:
        values = ROWS[column.name].to_pylist()
        for box, members in zip(columns[column.published_name].to_pylist(), members_of(groups), strict=True):
            distinct, nulls = naive.hull([values[member] for member in members])
            if not column.in_ranges:
                assert box == [None] * nulls + sorted(
                    distinct, key=lambda v: v.encode() if isinstance(v, str) else v
                )
            else:
                ends = (distinct[0], distinct[-1]) if distinct else (None, None)
                assert (box["min"], box["max"], box["nulls"]) == (*ends, nulls)


@pytest.mark.parametrize("shape", GROUPS)
def test_published_boxes_contain_their_hulls(shape: str) -> None:
    """Snapping only ever widens, keeps nulls and sets, and leaves the release's own types."""
    hulls = hull_boxes(ROWS, BOUND, GROUPS[shape])
    exact, snapped = box_columns(hulls), box_columns(snapped_boxes(hulls))
    schema = release_arrow_schema(BOUND)
    for column in BOUND.quasis:
        name = column.published_name
        assert snapped[name].type == schema.field(name).type
        assert snapped[name].null_count == 0
        for box, hull in zip(snapped[name].to_pylist(), exact[name].to_pylist(), strict=True):
            if not column.in_ranges or hull["min"] is None:
                assert box == hull
            else:
                assert box["min"] <= hull["min"] <= hull["max"] <= box["max"]
                assert box["nulls"] == hull["nulls"]


def test_ends_lie_on_the_declared_grid_or_domain() -> None:
    """lat ends in multiples of 0.05, seen at full hours, and no age leaves the declared 0..120."""
    columns = box_columns(snapped_boxes(hull_boxes(ROWS, BOUND, GROUPS["classes"])))
    for box in columns["lat"].to_pylist():
        assert all(Decimal(repr(end)) % Decimal("0.05") == 0 for end in (box["min"], box["max"]))
    for box in columns["seen"].to_pylist():
        assert (box["min"].minute, box["min"].second, box["max"].minute, box["max"].microsecond) == (
            0,
            0,
            59,
            999_000,
        )
    assert all(box["min"] >= 0 and box["max"] <= 120 for box in columns["age"].to_pylist())


def one_box(values: list, name: str) -> Boxes:
    """One group of hand-written values of one field; the other fields hold nulls."""
    bound = bound_policy(protect=Protection.ROW)
    rows = window_rows(len(values), 1, bound)
    kinds = bound.canonical_schema
    columns = [
        pa.array(values if field.name == name else [None] * len(values), field.type)
        if field.name in QUASIS
        else rows[field.name]
        for field in kinds
    ]
    return hull_boxes(
        pa.table(columns, schema=kinds), bound, Partition(np.zeros(len(values), np.int32)).groups
    )


EXTENTS = dict.fromkeys(QUASIS, 100.0)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("age", [20, 30, 70], 0.5),
        ("age", [20, 30, None], 1.0),
        ("age", [None, None], 0.0),
        ("age", [20, 20], 0.0),
        ("lat", [1.0, 26.0], 0.25),
        ("lat", [0.0, 1e300], 1.0),
        ("income", [Decimal("0.10"), Decimal("0.35")], 0.25),
        ("born", [date(2000, 1, 1), date(2000, 1, 11)], 0.1),
        ("job", ["a", "b", "a"], 1 / 99),
        ("job", ["a", None], 1 / 99),
        ("member", [True], 0.0),
    ],
)
def test_ncp_of_a_box(name: str, values: list, expected: float) -> None:
    """(u-l)/(U-L) in the field's units, at most 1; 1 for nulls among values; (count-1)/(|A|-1) for sets."""
    ncp = field_ncp(one_box(values, name), EXTENTS)
    assert ncp[name] == pytest.approx(expected)
    assert all(loss == 0 for other, loss in ncp.items() if other != name)


def test_a_domain_of_one_value_costs_nothing() -> None:
    """U = L and |A| = 1 have NCP 0, whatever the grid added; nulls among values still cost 1."""
    point = dict.fromkeys(QUASIS, 0.0)
    assert field_ncp(one_box([5, 6], "age"), point)["age"] == 0
    assert field_ncp(one_box([5, None], "age"), point)["age"] == 1
    assert field_ncp(one_box(["a", "b"], "job"), dict.fromkeys(QUASIS, 1.0))["job"] == 0


def test_ncp_is_a_mean_over_released_rows_and_gcp_over_weights() -> None:
    """A class counts as often as it has rows; income weighs double."""
    hulls = hull_boxes(ROWS, BOUND, GROUPS["classes"])
    boxes = box_columns(hulls)["lat"].to_pylist()
    costs = [
        1.0 if box["nulls"] and box["min"] is not None else (box["max"] - box["min"]) / 50 for box in boxes
    ]
    ncp = field_ncp(hulls, {**EXTENTS, "lat": 50.0})
    assert ncp["lat"] == pytest.approx(np.mean(costs))
    expected = (sum(ncp.values()) + ncp["income"]) / (len(ncp) + 1)
    assert gcp(ncp, BOUND) == pytest.approx(expected)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, -(2**63), 2**63 - 1]),
        pa.array([1, None, -5], pa.int32()),
        pa.array([0.5, None, -1e300]),
        pa.array([0.5, None, -3.25], pa.float32()),
        pa.array([Decimal("-1.25"), None, Decimal("9999999999999999.99")], pa.decimal128(18, 2)),
        pa.array([date(1900, 1, 1), None, date(2100, 1, 1)]),
        pa.array([-1, None, 2**40], pa.timestamp("ms", tz="UTC")),
    ],
    ids=lambda array: str(array.type),
)
def test_range_values_round_trip(array: pa.Array) -> None:
    """Arrow to numbers and back is the identity, also on slices."""
    for part in (array, array.slice(1)):
        values, valid = range_values(part)
        assert range_array(values, valid, part.type).equals(part)


@pytest.mark.parametrize("kind", [pa.int32(), pa.float32(), pa.decimal128(5, 2), pa.date32()], ids=str)
def test_an_end_beyond_the_type_becomes_its_last_value(kind: pa.DataType) -> None:
    """Snapping outward past what the type holds must not wrap around or fail."""
    far = np.array([-1e300, 1e300]) if kind == pa.float32() else np.array([-(2**62), 2**62])
    low, high = range_values(range_array(far, np.array([True, True]), kind))[0]
    assert low < -(10**4)
    assert high > 10**4


@pytest.mark.parametrize("keys", [{"scale": "log"}, {"scale": "rank", "quantiles": [1, 1, 5, 40]}])
@pytest.mark.parametrize("domain", [{}, {"domain": [-10, 1000]}], ids=["running", "declared"])
def test_a_scale_prices_the_boxes_as_the_search_does(keys: dict[str, Any], domain: dict[str, Any]) -> None:
    """The loss of a hull is the distance of its ends' positions in the solver's table; ends stay people's values, and
    what is published is rounded as ever. A domain that runs on is the same positions over a longer way."""
    plain = {"version": 1, "k": 2, "fields": {"capital-gain": {"role": "quasi", "type": "numeric"}}}
    linear = parse_policy(plain, "test", "test")
    plain["fields"]["capital-gain"] |= keys | domain  # type: ignore[index]
    schema = pa.schema([("capital-gain", pa.int64())])
    one, other = (
        bind(each, schema, text=False, source="test") for each in (parse_policy(plain, "", "t"), linear)
    )
    rows = pa.table({"capital-gain": pa.array([0, 7, -3, 90, 500, 1, 1, 30])})
    groups = Partition(np.array([0, 0, 1, 1, 2, 2, 3, 3], dtype=np.int32)).groups
    encoded = encode(rows, one, None, {})
    hulls = hull_boxes(rows, one, groups)
    places = encoded.table.numeric[:, 0]
    wanted = np.mean([abs(places[first] - places[first + 1]) for first in range(0, 8, 2)])
    widths = extents(encoded.domains, one)
    assert field_ncp(hulls, widths)["capital-gain"] == pytest.approx(wanted)
    assert (declared_ncp(hulls) == field_ncp(hulls, widths)) == bool(domain)
    assert describe(encoded.domains, one)["capital-gain"].endswith(f", by {keys['scale']}")
    assert box_columns(hulls) == box_columns(hull_boxes(rows, other, groups))
    if not domain:
        later = encode(rows.slice(0, 2), one, None, encoded.domains)
        np.testing.assert_array_equal(later.table.numeric[:, 0], places[:2])
        further = encode(pa.table({"capital-gain": [0, 7, 10**6]}), one, None, encoded.domains).table.numeric
        assert 0 < further[1, 0] - further[0, 0] < places[1] - places[0]
