"""The gate lets a right release through and refuses each planted fault, naming fields and counts only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Protection
from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.matching.matching import random_factor
from kanonflow.solvers.matching.random_words import shuffled_within
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.publishing.boxes import hull_boxes, snapped_boxes
from kanonflow.transforms.publishing.gate import GateError, check_release, inside
from kanonflow.transforms.publishing.publish import _assemble
from kanonflow.transforms.secret.seeds import Keystream
from tests.regular_graphs import searched
from tests.transforms.window_rows import bound_policy, window_rows

K = 3


@dataclass(frozen=True)
class Case:
    """The arguments of one call of the gate."""

    released: pa.Table
    rows: pa.Table
    structure: Any
    factor: NDArray[np.int32]
    bound: BoundPolicy

    def check(self) -> None:
        check_release(self.released, self.rows, self.structure, self.factor, self.bound)

    def with_column(self, name: str, change: Callable[[list], list]) -> Case:
        """The case with one released column changed."""
        place = self.released.schema.get_field_index(name)
        values = pa.array(change(self.released[name].to_pylist()), self.released.schema.field(name).type)
        return replace(
            self, released=self.released.set_column(place, self.released.schema.field(name), values)
        )


def built(rows: pa.Table, structure: Any, factor: NDArray[np.int32], bound: BoundPolicy) -> Case:
    """A release put together as publishing does, whatever its structure is worth."""
    boxes = snapped_boxes(hull_boxes(rows, bound, structure.groups))
    return Case(_assemble(rows, factor, boxes, bound, "r", (0, 86_400_000)), rows, structure, factor, bound)


@functools.cache
def row_case(n: int = 60, people: int | None = None) -> Case:
    bound = bound_policy(K)
    structure = GeneralizationGraph(searched(n, K, 1))
    factor = random_factor(structure.members, Keystream(bytes(32)))
    return built(window_rows(n, 3, bound, people), structure, factor, bound)


def individual_case(labels: list[int] | None = None) -> Case:
    """12 people with 2 rows each, in classes of 4 people."""
    bound = bound_policy(K, Protection.INDIVIDUAL)
    rows = window_rows(24, 3, bound, people=12)
    chosen = np.array([row % 12 // 4 for row in range(24)] if labels is None else labels, dtype=np.int32)
    factor = shuffled_within(np.maximum(chosen, 0), Keystream(bytes(32)).words(24))
    return built(rows, Partition(chosen), factor, bound)


@pytest.mark.parametrize("case", [row_case(), individual_case()], ids=["row", "individual"])
def test_a_right_release_passes(case: Case) -> None:
    """Nothing is raised."""
    case.check()


def test_k_rows_can_be_released() -> None:
    """As many rows as k, each a member of every slot: no window is too small that the promise allows."""
    bound = bound_policy(K)
    every = GeneralizationGraph(np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]], dtype=np.int32))
    built(window_rows(K, 3, bound), every, np.array([1, 2, 0], dtype=np.int32), bound).check()


def test_classes_that_are_a_node_of_a_lattice_are_judged_as_classes() -> None:
    """Where no row is suppressed, the node itself is what is released."""
    case = individual_case()
    replace(case, structure=LatticeNode(case.structure.labels, (0,))).check()
    alone = LatticeNode(np.arange(case.rows.num_rows, dtype=np.int32), (0,))
    with pytest.raises(GateError):
        replace(case, structure=alone).check()


def test_what_is_neither_a_graph_nor_classes_is_refused() -> None:
    """The gate reads members and labels by itself; an answer that only says it is a structure does not go out."""
    case = individual_case()
    with pytest.raises(GateError, match="neither a graph nor closed classes"):
        replace(case, structure=case.structure.groups).check()


def narrowed(box: dict | list) -> dict | list:
    """A box that no longer holds what defined it: the least value or an element is taken away."""
    if isinstance(box, list):
        return box[1:]
    if box["min"] is None:
        return {**box, "nulls": False}
    return {**box, "min": box["max"], "max": box["min"]} if box["min"] != box["max"] else {**box, "min": None}


@pytest.mark.parametrize(
    "field", ["age", "lat", "height", "income", "born", "seen", "job", "floor", "member"]
)
@pytest.mark.parametrize("shape", ["row", "individual"])
def test_a_box_that_misses_a_member_is_refused(field: str, shape: str) -> None:
    """One row's (or class's) box made too small in one field, every type of field."""
    case = row_case() if shape == "row" else individual_case()
    labels = np.arange(60) if shape == "row" else case.structure.labels
    broken = case.with_column(
        field, lambda boxes: [narrowed(b) if c == 2 else b for b, c in zip(boxes, labels, strict=True)]
    )
    with pytest.raises(GateError, match=f"field {field}: 1 boxes do not hold"):
        broken.check()


@pytest.mark.parametrize("field", ["age", "job"])
def test_nulls_must_be_told(field: str) -> None:
    """A box that holds a null but does not say so is refused."""

    def silent(boxes: list) -> list:
        return [
            [v for v in b if v is not None] if isinstance(b, list) else {**b, "nulls": False} for b in boxes
        ]

    with pytest.raises(GateError, match=f"field {field}: "):
        row_case().with_column(field, silent).check()


def test_different_boxes_within_a_class_are_refused() -> None:
    """A wider box for one row of a class holds everybody, but singles the row out."""
    case = individual_case()
    wide = {"min": 0, "max": 120, "nulls": True}
    with pytest.raises(GateError, match="field age: the rows of a class have different boxes"):
        case.with_column("age", lambda boxes: [wide, *boxes[1:]]).check()


def test_a_payload_of_another_record_is_refused() -> None:
    """The released payload must be that of the matched records, also where only one field was exchanged."""
    for field in ("serial", "shop", "amount"):
        case = row_case().with_column(field, lambda values: values[::-1])
        with pytest.raises(GateError, match=f"field {field}: the released values"):
            case.check()


def test_a_matching_off_the_edges_is_refused() -> None:
    """A payload on a slot that its record is no member of; in classes, on a row of another class."""
    case = row_case()
    shifted = np.roll(case.factor, 1)
    off = ~(case.structure.members == shifted[:, None]).any(axis=1)
    with pytest.raises(
        GateError, match=f"^{off.sum()} rows carry the payload of a record that is not their member"
    ):
        built(case.rows, case.structure, shifted, case.bound).check()
    case = individual_case()
    with pytest.raises(GateError, match="not their member"):
        built(case.rows, case.structure, np.arange(24, dtype=np.int32)[::-1].copy(), case.bound).check()


def test_a_record_released_twice_is_refused() -> None:
    """One record's payload on two slots means another's on none."""
    case = row_case()
    factor = case.factor.copy()
    factor[0] = factor[1]
    with pytest.raises(GateError, match="2 records would be released other than once"):
        built(case.rows, case.structure, factor, case.bound).check()
    for stranger in (60, 61):
        with pytest.raises(GateError, match="1 records would be released other than once"):
            replace(case, factor=np.where(case.factor == 5, stranger, case.factor).astype(np.int32)).check()
    with pytest.raises(GateError, match="1 records would be released other than once"):
        replace(case, factor=np.where(case.factor == 5, -1, case.factor).astype(np.int32)).check()


def test_missing_rows_are_refused() -> None:
    """Fewer rows out than in, too few rows for k, a structure over other rows."""
    case = row_case()
    with pytest.raises(GateError, match="59 rows would be released where 60 were to be"):
        replace(case, released=case.released.slice(0, 59)).check()
    with pytest.raises(GateError, match="covers 60 records, not 59"):
        replace(
            case, rows=case.rows.slice(0, 59), released=case.released.slice(0, 59), factor=case.factor[:59]
        ).check()
    with pytest.raises(GateError, match="2 rows cannot be released with k=3"):
        replace(
            case, rows=case.rows.slice(0, 2), released=case.released.slice(0, 2), factor=case.factor[:2]
        ).check()


def test_a_column_too_many_or_too_few_is_refused() -> None:
    """An individual that slipped through, or a column of another name, is named; its values are not."""
    case = row_case()
    slipped = case.released.append_column("person", case.rows["person"])
    with pytest.raises(GateError, match=r"release schema \(person\)") as caught:
        replace(case, released=slipped).check()
    assert "p00" not in str(caught.value)
    with pytest.raises(GateError, match=r"\(shop\)"):
        replace(case, released=case.released.drop_columns(["shop"])).check()


def test_a_graph_that_breaks_the_promise_is_refused() -> None:
    """Too low a degree, an irregular one, two rows of an individual in a slot, the wrong protection."""
    case = row_case()
    thin = GeneralizationGraph(case.structure.members[:, :2])
    with pytest.raises(GateError, match="degree 2, below k=3"):
        replace(case, structure=thin).check()
    uneven = case.structure.members.copy()
    uneven[0, 0] = next(record for record in range(60) if record not in uneven[0])
    with pytest.raises(GateError, match="not a member of exactly k=3 slots"):
        replace(case, structure=GeneralizationGraph(uneven)).check()
    with pytest.raises(GateError, match="the same individual twice"):
        row_case(people=4).check()
    case = row_case()
    bound = bound_policy(K, Protection.INDIVIDUAL)
    with pytest.raises(GateError, match="cannot be released under protect: individual"):
        replace(case, bound=bound).check()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([row % 12 // 2 for row in range(24)], "shared by fewer than k=3 individuals"),
        ([0] * 23 + [1], "stands in two classes"),
        ([0] * 11 + [-1] + [0] * 11 + [-1], "2 rows belong to no class and must wait"),
        ([2 * (row % 12 // 6) for row in range(24)], "a class has no record"),
    ],
)
def test_a_partition_that_breaks_the_promise_is_refused(labels: list[int], message: str) -> None:
    """Small classes, a split individual, a waiting row among the released ones, a gap in the numbers."""
    case = individual_case()
    with pytest.raises(GateError, match=message):
        replace(
            case, structure=Partition(np.array(labels, dtype=np.int32)), factor=np.arange(24, dtype=np.int32)
        ).check()


def test_a_count_of_rows_that_few_share_is_refused() -> None:
    """Two of four people of a class with three rows, the others with two: linked rows would tell them."""
    bound = bound_policy(K, Protection.INDIVIDUAL)
    rows = window_rows(10, 3, bound, people=4)
    with pytest.raises(GateError, match="a row count of a class is shared by fewer than k=3 individuals"):
        built(rows, Partition(np.zeros(10, np.int32)), np.arange(10, dtype=np.int32), bound).check()


def test_the_exit_code_of_a_refusal_is_3() -> None:
    """The run failed; the arguments were not to blame."""
    assert GateError.exit_code == 3


def test_a_value_that_nobody_has_widens_no_other_box() -> None:
    """The first set lists a value of no row, the second lacks that of its member: one is outside, and only that one."""
    column = bound_policy(K).column("job")
    boxes = pa.array([["a", "stranger"], ["b"], ["a"]])
    values = pa.array(["a", "b", "a"])
    rows = np.array([0, 1, 1, 2])
    assert inside(column, boxes, values, rows, np.array([0, 1, 2, 2])).tolist() == [True, True, False, True]
