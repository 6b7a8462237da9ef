"""Graphs over individuals: what a slot covers, what is published, and each break of the promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kanonflow.solvers.errors import StructureError
from kanonflow.solvers.level_graph import LevelGraph
from tests.regular_graphs import ring, side_by_side

K = 3
# Individuals 0..4 with two rows each, 5..8 with one; two more rows wait.
MEMBERS = side_by_side(ring(5, K), ring(4, K))
OF_ROW = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 3, 2, 1, 0, -1, -1])
GRAPH = LevelGraph(MEMBERS, OF_ROW)
PEOPLE = np.where(OF_ROW >= 0, OF_ROW * 10 + 7, 7)


def test_a_slot_covers_all_rows_of_its_members() -> None:
    """Slot by slot, the kept rows of each member; as many rows carry its box as each of them has."""
    records, starts = GRAPH.grouped()
    for slot, members in enumerate(MEMBERS):
        expected = sorted(row for row, who in enumerate(OF_ROW) if who in members)
        assert sorted(records[starts[slot] : starts[slot + 1]].tolist()) == expected
    assert GRAPH.rows.tolist() == [2] * 5 + [1] * 4
    assert GRAPH.slot_rows.tolist() == [2] * 5 + [1] * 4


def test_the_rows_of_the_matched_individual_are_published() -> None:
    """In the order of slots; over a perfect matching each kept row once."""
    factor = MEMBERS[:, 1]
    records = GRAPH.published_records(factor)
    assert OF_ROW[records].tolist() == np.repeat(factor, GRAPH.slot_rows).tolist()
    assert sorted(records.tolist()) == list(range(14))


def test_a_right_graph_passes() -> None:
    """Whatever numbers the individuals have."""
    GRAPH.check(K, PEOPLE)


def moved(row: int, who: int) -> LevelGraph:
    """The graph with a row counted to another individual."""
    of_row = OF_ROW.copy()
    of_row[row] = who
    return replace(GRAPH, of_row=of_row)


def crossed() -> LevelGraph:
    """Two levels joined by an exchange: still regular and simple."""
    members = MEMBERS.copy()
    members[0, 0], members[5, 0] = members[5, 0], members[0, 0]
    return replace(GRAPH, members=members)


def twice() -> LevelGraph:
    """A slot that names an individual twice, and so one once too seldom."""
    members = MEMBERS.copy()
    members[0, 1] = members[0, 0]
    return replace(GRAPH, members=members)


@pytest.mark.parametrize(
    ("graph", "people", "message"),
    [
        (LevelGraph(MEMBERS[:, :2], OF_ROW), PEOPLE, "degree 2, not k=3"),
        (crossed(), PEOPLE, "different numbers of rows"),
        (moved(14, 8), np.where(np.arange(16) == 14, 87, PEOPLE), "different numbers of rows"),
        (twice(), PEOPLE, "not a member of exactly k=3 slots"),
        (moved(14, 9), PEOPLE, "that no slot names"),
        (moved(0, 1), PEOPLE, "do not stay together"),
        (GRAPH, np.where(OF_ROW == 8, 77, PEOPLE), "do not stay together"),
        (moved(8, -1), PEOPLE, "has no row"),
    ],
)
def test_each_break_is_refused(graph: LevelGraph, people: np.ndarray, message: str) -> None:
    """Degree, levels, simplicity, whose row is whose."""
    with pytest.raises(StructureError, match=message):
        graph.check(K, people)
