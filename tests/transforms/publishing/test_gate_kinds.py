"""The gate's own table of kinds, by hand. Whole trees of labels are read in ``test_node_boxes``."""

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.transforms.publishing.gate_kinds import in_node

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
