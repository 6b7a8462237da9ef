"""The gate on graphs over individuals: a right release passes, each planted fault is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kanonflow.schemas.policy import Protection, Shape
from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.matching import random_factor
from kanonflow.transforms.boxes import hull_boxes, level_groups, snapped_boxes
from kanonflow.transforms.gate import GateError
from kanonflow.transforms.publish import _assemble, publish
from kanonflow.transforms.seeds import Keystream
from tests.regular_graphs import searched, side_by_side
from tests.transforms.test_gate import Case, narrowed
from tests.transforms.window_rows import bound_policy, window_rows

K = 3
BOUND = bound_policy(K, Protection.INDIVIDUAL)
BOUND = replace(BOUND, policy=replace(BOUND.policy, shape=Shape.GRAPH))
ROWS = window_rows(40, 3, BOUND, people=24)
"""People 0..15 have two rows, the others one."""
PERSON = np.arange(40) % 24
GRAPH = LevelGraph(side_by_side(searched(16, K, 1), searched(8, K, 2)), PERSON)
FACTOR = random_factor(GRAPH.members, Keystream(bytes(32)))


def built(graph: LevelGraph, factor: np.ndarray, records: np.ndarray | None = None) -> Case:
    """A release put together as publishing does; records: instead of the matched individuals' rows."""
    chosen = graph.published_records(factor) if records is None else records
    boxes = snapped_boxes(hull_boxes(ROWS, BOUND, level_groups(graph)))
    released = _assemble(ROWS, chosen.astype(np.int32), boxes, BOUND, "r", (0, 86_400_000))
    return Case(released, ROWS, graph, chosen.astype(np.int32), BOUND)


def test_a_right_release_passes() -> None:
    """Nothing is raised, by hand or by publishing."""
    built(GRAPH, FACTOR).check()
    publish(ROWS, GRAPH, BOUND, Keystream(bytes(32)), "r", (0, 86_400_000))


@pytest.mark.parametrize(
    "field", ["age", "lat", "height", "income", "born", "seen", "job", "floor", "member"]
)
def test_a_box_that_misses_a_row_of_a_member_is_refused(field: str) -> None:
    """All rows of one slot with a box too small in one field, every type of field."""
    slot = np.repeat(np.arange(24), GRAPH.slot_rows)
    broken = built(GRAPH, FACTOR).with_column(
        field,
        lambda boxes: [narrowed(box) if own == 2 else box for box, own in zip(boxes, slot, strict=True)],
    )
    with pytest.raises(GateError, match=f"field {field}: 1 boxes do not hold"):
        broken.check()


def test_different_boxes_within_a_slot_are_refused() -> None:
    """A wider box for one of two rows of a slot holds everybody, but takes the rows of a person apart."""
    wide = {"min": 0, "max": 120, "nulls": True}
    with pytest.raises(GateError, match="field age: the rows of a slot have different boxes"):
        built(GRAPH, FACTOR).with_column("age", lambda boxes: [wide, *boxes[1:]]).check()


def test_rows_of_a_person_under_two_slots_are_refused() -> None:
    """Two slots of one level exchange one of their two rows, both being members of both or not."""
    records = GRAPH.published_records(FACTOR)
    for slot in range(1, 16):
        crossed = records.copy()
        crossed[0], crossed[2 * slot] = records[2 * slot], records[0]
        with pytest.raises(GateError, match=r"\d+ rows do not stand with the others of their individual"):
            built(GRAPH, FACTOR, crossed).check()


def test_a_person_on_a_slot_that_is_not_its_own_is_refused() -> None:
    """All rows of a person together, under a box of which it is no member."""
    other = next(slot for slot in range(16) if FACTOR[0] not in GRAPH.members[slot])
    factor = FACTOR.copy()
    factor[0], factor[other] = FACTOR[other], FACTOR[0]
    with pytest.raises(GateError, match="do not stand with the others"):
        built(GRAPH, factor).check()


def test_a_row_released_twice_is_refused() -> None:
    """And another one not at all."""
    records = GRAPH.published_records(FACTOR)
    records[0] = records[1]
    with pytest.raises(GateError, match="2 records would be released other than once"):
        built(GRAPH, FACTOR, records).check()


def test_levels_that_are_mixed_are_refused() -> None:
    """Members of a slot with one row and with two; whoever has two is told by the number of rows."""
    members = GRAPH.members.copy()
    members[0, 0], members[16, 0] = members[16, 0], members[0, 0]
    mixed = replace(GRAPH, members=members)
    with pytest.raises(GateError, match="members of a slot have different numbers of rows"):
        replace(built(GRAPH, FACTOR), structure=mixed).check()
    with pytest.raises(GateError, match="different numbers of rows"):
        publish(ROWS, mixed, BOUND, Keystream(bytes(32)), "r", (0, 86_400_000))


def test_a_thin_or_waiting_structure_is_refused() -> None:
    """Degree below k, and a row that is to wait among those that go out."""
    case = built(GRAPH, FACTOR)
    with pytest.raises(GateError, match="degree 2, not k=3"):
        replace(case, structure=replace(GRAPH, members=GRAPH.members[:, :2])).check()
    waiting = np.where(np.arange(40) == 39, -1, PERSON)
    with pytest.raises(GateError, match="1 rows belong to no class and must wait"):
        replace(case, structure=replace(GRAPH, of_row=waiting)).check()


def test_rows_of_two_people_as_one_are_refused() -> None:
    """The structure's word on whose row it is does not count: the rows themselves are read."""
    swapped = PERSON.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    with pytest.raises(GateError, match="the rows of an individual do not stay together"):
        built(replace(GRAPH, of_row=swapped), FACTOR).check()


@pytest.mark.parametrize("shape", [Shape.CLASSES, None])
def test_other_policies_do_not_take_it(shape: Shape | None) -> None:
    """Neither classes of individuals nor single rows are what was promised then."""
    protect = Protection.INDIVIDUAL if shape else Protection.ROW
    policy = replace(BOUND.policy, shape=shape, protect=protect)
    with pytest.raises(GateError, match="can be released under shape: graph only"):
        replace(built(GRAPH, FACTOR), bound=replace(BOUND, policy=policy)).check()
