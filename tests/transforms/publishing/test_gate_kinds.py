"""The gate's own table of kinds, by hand. Whole trees of labels are read in ``test_node_boxes``."""

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.publishing.gate_kinds import in_node, inside

TREE = Hierarchy((("a1", "a", "*"), ("a2", "a", "*"), ("b1", "b", "*")))


@pytest.mark.parametrize(
    ("label", "below"),
    [
        ("a1", ["a1"]),
        ("a", ["a1", "a2"]),
        ("b", ["b1"]),
        ("*", ["a1", "a2", "b1", None]),
        (None, [None]),
    ],
)
def test_what_lies_under_a_label(label: str | None, below: list[str | None]) -> None:
    """Values that stand below it; a null under the root and under null alone; what the tree does not know nowhere."""
    values = ["a1", "a2", "b1", None, "c9"]
    places = np.arange(len(values))
    inside = in_node(pa.array([label], pa.string()), pa.array(values, pa.string()), places * 0, places, TREE)
    assert [value for value, lies in zip(values, inside, strict=True) if lies] == below


def test_nobody_lies_nowhere() -> None:
    """Of no members there is nothing to say."""
    none = np.empty(0, np.int64)
    assert in_node(pa.array(["a"]), pa.array([], pa.string()), none, none, TREE).shape == (0,)


@pytest.mark.parametrize(
    ("declared", "label", "below", "others"),
    [
        ({"lengths": [1, 3], "size": 5}, "941**", ["94110", "94199"], ["94210", "9411", "941**", None]),
        ({"lengths": [1, 3], "size": 5}, "94110", ["94110"], ["94111", None]),
        ({"lengths": [1, 3]}, "941*", ["94110", "941", "941-A"], ["94", "942", None]),
        ({"lengths": [1, 3]}, "*", ["94110", "x", None], []),
        ({"lengths": [1, 3]}, None, [None], ["94110"]),
        ({"of": "ipv4"}, "10.1.0.0/16", ["10.1.0.0", "10.1.255.255"], ["10.2.0.0", "10.1", "::1", None]),
        ({"of": "ipv4"}, "10.1.0.7", ["10.1.0.7"], ["10.1.0.70", None]),
        ({"of": "ipv4"}, "10.1.0.7/16", [], ["10.1.0.7", None]),
        ({"of": "ipv6"}, "2001:db8::/32", ["2001:DB8::1", "2001:db8:0:0::"], ["2001:db9::", None]),
        ({"of": "ipv6"}, "2001:db8::1", ["2001:db8:0::1"], ["2001:db8::10"]),
        ({"of": "ipv6"}, "*", ["::", None], []),
    ],
)
def test_what_begins_with_a_label(
    declared: dict[str, object], label: str | None, below: list[str | None], others: list[str | None]
) -> None:
    """Of prefixes what begins with them, however it is spelled, and nothing else."""
    field = {"role": "quasi", "type": "prefix", **declared}
    policy = parse_policy({"version": 1, "k": 2, "fields": {"x": field}}, "test", "test")
    (column,) = bind(policy, pa.schema([("x", pa.string())]), text=True, source="test").quasis
    values = pa.array([*below, *others], pa.string())
    places = np.arange(len(values))
    held = inside(column, pa.array([label], pa.string()), values, places * 0, places)
    assert held.tolist() == [True] * len(below) + [False] * len(others)
