"""Boxes of fields with a hierarchy against their definition, and the gate's own reading of labels."""

from __future__ import annotations

import functools
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.encode import encode, extents
from kanonflow.transforms.publishing import gate_kinds
from kanonflow.transforms.publishing.boxes import (
    box_columns,
    field_ncp,
    gcp,
    hull_boxes,
    snapped_boxes,
)
from kanonflow.transforms.publishing.gate import GateError, check_release
from kanonflow.transforms.publishing.gate_kinds import in_node
from kanonflow.transforms.publishing.publish import publish
from kanonflow.transforms.secret.seeds import Keystream

pytestmark = pytest.mark.thorough

ROWS = (
    ("1", "low", "small", "*"),
    ("2", "low", "small", "*"),
    ("3", "3", "small", "*"),
    ("40", "tens", "large", "*"),
    ("50", "tens", "large", "*"),
    ("600", "hundreds", "large", "*"),
)
TREE = Hierarchy(ROWS)
LEAVES = [row[0] for row in ROWS]


@functools.cache
def _bound() -> BoundPolicy:
    fields = {
        "size": {"role": "quasi", "type": "hierarchy", "as": "int", "hierarchy": [list(row) for row in ROWS]},
        "note": "sensitive",
    }
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    return bind(policy, pa.schema([("size", pa.string()), ("note", pa.string())]), text=True, source="test")


def _rows(values: list[str | None]) -> pa.Table:
    column = pa.array([None if value is None else int(value) for value in values], pa.int32())
    return pa.table({"size": column, "note": pa.array([f"n{place}" for place in range(len(values))])})


def _naive_label(values: list[str | None]) -> tuple[str | None, float]:
    """The label of the lowest node above all values, and its NCP."""
    if all(value is None for value in values):
        return None, 0.0
    paths = [next(row for row in ROWS if row[0] == value) if value else ("*",) * 4 for value in values]
    if None in values:
        return "*", 1.0
    level = next(level for level in range(4) if len({path[level] for path in paths}) == 1)
    below = sum(1 for row in ROWS if row[level] == paths[0][level])
    return paths[0][level], below / len(ROWS) if below > 1 else 0.0


_VALUES = st.lists(st.sampled_from([*LEAVES, None]), min_size=1, max_size=5)


@given(st.lists(_VALUES, min_size=1, max_size=6))
def test_boxes_are_the_lowest_common_ancestors(groups: list[list[str | None]]) -> None:
    """Labels, losses, and snapping that changes nothing; nulls alone are null, nulls among values the root."""
    rows = _rows([value for group in groups for value in group])
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    hulls = hull_boxes(rows, _bound(), Groups(np.arange(rows.num_rows), starts, None))
    wanted = [_naive_label(group) for group in groups]
    assert box_columns(snapped_boxes(hulls))["size"].to_pylist() == [label for label, _ in wanted]
    assert field_ncp(hulls, {"size": 6.0})["size"] == pytest.approx(np.mean([loss for _, loss in wanted]))


@given(st.sampled_from([*{label for row in ROWS for label in row}, None, "unknown"]), _VALUES)
def test_the_gate_reads_labels_for_itself(label: str | None, values: list[str | None]) -> None:
    """A value lies under the labels of its row only; a null under the root and under null."""
    places = np.arange(len(values))
    inside = in_node(
        pa.array([label], pa.string()),
        _rows(values).column("size").combine_chunks(),
        places * 0,
        places,
        TREE,
    )
    for value, found in zip(values, inside, strict=True):
        if value is None:
            assert found == (label in (None, "*"))
        else:
            assert found == (label in next(row for row in ROWS if row[0] == value))


def test_the_gate_looks_at_pairs_that_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 values and as many labels: one look a member, not one a label and value."""
    codes = [str(number) for number in range(4000)]
    tree = Hierarchy(tuple((code, f"g{code}", "*") for code in codes))
    looks = []
    holds = gate_kinds._holds
    monkeypatch.setattr(gate_kinds, "_holds", lambda *given, **tree: looks.append(1) or holds(*given, **tree))
    places = np.arange(4000)
    labels = pa.array([f"g{code}" for code in codes])
    assert in_node(labels, pa.array(codes), places, places, tree).all()
    assert not in_node(labels, pa.array(codes), places, places[::-1], tree).any()
    assert len(looks) == 8000


def test_a_label_below_a_member_does_not_pass_the_gate() -> None:
    """What publishing makes passes; one label too low in one class is refused, by field and count."""
    rows = _rows(["1", "2", "40", "600"])
    structure = Partition(np.array([0, 0, 1, 1], dtype=np.int32))
    published = publish(rows, structure, _bound(), Keystream(bytes(32)), "r", (None, None))
    assert sorted(published.rows.column("size").to_pylist()) == ["large", "large", "low", "low"]
    placed = published.rows.take(pa.array(np.argsort(published.order)))
    check_release(placed, rows, structure, published.factor, _bound())
    for low in ("40", "tens", None, "unknown"):
        labels = pa.array([low if label == "large" else label for label in placed.column("size").to_pylist()])
        at = placed.schema.get_field_index("size")
        wrong = placed.set_column(at, placed.schema.field(at), labels.cast(pa.string()))
        with pytest.raises(GateError, match="field size: 1 boxes do not hold all of their members"):
            check_release(wrong, rows, structure, published.factor, _bound())


def test_the_search_sees_the_price_of_the_label() -> None:
    """Leaves by their place in the tree and what lies above neighbours; a null has no place."""
    rows = _rows(["1", "2", "3", "600", None])
    encoded = encode(rows, _bound(), None, {})
    table = encoded.table
    assert table.categorical.shape == (5, 0)
    assert table.weights.tolist() == [1.0]
    order = sorted(LEAVES, key=lambda leaf: TREE.places[LEAVES.index(leaf)])
    neighbours = [_naive_label([a, b])[1] for a, b in pairwise(order)]
    assert TREE.heights.tolist() == pytest.approx(neighbours)
    (heights,) = table.heights
    assert heights is not None
    assert heights.tolist() == TREE.heights.tolist()
    places = [order.index(leaf) / 5 for leaf in ("1", "2", "3", "600")]
    assert table.numeric[:4, 0].tolist() == pytest.approx(places)
    assert np.isnan(table.numeric[4, 0])


@settings(derandomize=True, max_examples=30)
@given(st.lists(st.sampled_from([*LEAVES, None]), min_size=4, max_size=12), st.integers(0, 99))
def test_the_loss_of_the_search_is_the_loss_of_the_labels(values: list[str | None], seed: int) -> None:
    """GCP of what is published, and what the solver says of its graph, are one number; its bound lies below."""
    rows = _rows(values)
    encoded = encode(rows, _bound(), None, {})
    solution = solve(Task(encoded.table, 2, budget=Budget(20.0), seed=seed))
    hulls = hull_boxes(rows, _bound(), solution.structure.groups)
    assert gcp(field_ncp(hulls, extents(encoded.domains, _bound())), _bound()) == pytest.approx(solution.loss)
    assert solution.lower_bound <= solution.loss + 1e-12
