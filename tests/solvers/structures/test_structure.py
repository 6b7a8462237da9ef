"""What every structure answers, against its members and labels read one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.matching.matching import random_factor
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Groups, Structure
from kanonflow.transforms.secret.seeds import Keystream
from tests.regular_graphs import searched

KEY = bytes(range(32))
GRAPH = GeneralizationGraph(searched(30, 3, 4))
LABELS = np.array([1, 0, -1, 1, 0, 0, 1, -1], dtype=np.int32)


def members_of(groups: Groups) -> list[list[int]]:
    """The records of each group."""
    return [groups.records[a:b].tolist() for a, b in zip(groups.starts, groups.starts[1:], strict=False)]


@given(st.lists(st.integers(-1, 4), max_size=30))
@settings(max_examples=100)
def test_the_groups_of_classes_are_their_records(numbers: list[int]) -> None:
    """Each class once, its records in order, each kept row with its own class; gaps between labels are closed."""
    structure = Partition(np.array(numbers, dtype=np.int32))
    groups = structure.groups
    used = sorted({number for number in numbers if number >= 0})
    wanted = [[row for row, number in enumerate(numbers) if number == label] for label in used]
    assert members_of(groups) == wanted
    assert groups.of_row is not None
    assert groups.of_row.tolist() == [used.index(number) for number in numbers if number >= 0]
    assert groups.rows.tolist() == [len(rows) for rows in wanted]
    records, group = groups.edges()
    assert records.tolist() == np.flatnonzero(structure.labels >= 0).tolist()
    assert all(record in wanted[number] for record, number in zip(records, group, strict=True))


def test_the_groups_of_a_graph_are_its_slots() -> None:
    """Row j carries the box of slot j alone, and an edge stands for every member."""
    groups = GRAPH.groups
    assert members_of(groups) == GRAPH.members.tolist()
    assert groups.of_row is None
    assert groups.rows.tolist() == [1] * 30
    records, slots = groups.edges()
    assert sorted(zip(slots, records, strict=True)) == sorted(
        (slot, record) for slot, members in enumerate(GRAPH.members) for record in members
    )


@pytest.mark.parametrize("structure", [GRAPH, Partition(LABELS), LatticeNode(LABELS, (1, 0))])
def test_a_drawn_matching_gives_every_row_a_member_of_its_group(structure: Structure) -> None:
    """A permutation of what is released, within groups; equal words draw the same."""
    released = structure.released()
    assert released.kept is None or released.kept.all()
    factor = released.draw(Keystream(KEY))
    assert np.array_equal(factor, released.draw(Keystream(KEY)))
    groups = members_of(released.groups)
    of_row = released.groups.of_row
    assert sorted(factor.tolist()) == list(range(factor.size))
    for row, record in enumerate(factor):
        assert record in groups[row if of_row is None else of_row[row]]


def test_what_is_told_of_each_shape() -> None:
    """Names, levels, who is kept and the numbers of the keystream, those of rows that wait included."""
    classes, node = Partition(LABELS), LatticeNode(LABELS, (1, 0))
    assert [each.shape for each in (GRAPH, classes, node)] == ["row_graph", "classes", "lattice_node"]
    assert [each.levels for each in (GRAPH, classes, node)] == [None, None, (1, 0)]
    assert GRAPH.kept is None
    assert GRAPH.released() is GRAPH
    assert classes.kept.tolist() == (LABELS >= 0).tolist()
    assert node.released().levels == (1, 0)
    assert node.released().labels.tolist() == LABELS[LABELS >= 0].tolist()
    assert GRAPH.described() is GRAPH.members
    assert classes.described() is LABELS


def test_a_graph_draws_one_random_factor_and_refuses_where_there_is_none() -> None:
    """As ``random_factor`` does, from the same words; StructureError for members that are not regular."""
    assert np.array_equal(GRAPH.draw(Keystream(KEY)), random_factor(GRAPH.members, Keystream(KEY)))
    with pytest.raises(StructureError):
        GeneralizationGraph(np.zeros((3, 2), dtype=np.int32)).draw(Keystream(KEY))
