"""Whether every released row is given a record of its own: a row that moves, and one that is one too many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph
from kanonflow.pipelines.audit.judge.matching import place
from tests.pipelines.audit.judge.test_candidate_graph import graph_of


def matched(
    rows: list[tuple[int, list[int]]], record_turn: list[int], record_size: list[int] | None = None
) -> CandidateGraph:
    """Single rows, each with the turn of its window and the records in its box."""
    fits = np.zeros((len(rows), len(record_turn)), bool)
    for row, (_, records) in enumerate(rows):
        fits[row, records] = True
    graph = graph_of(fits, [1] * len(rows), record_size or [1] * len(record_turn))
    turn = np.array([turn for turn, _ in rows], np.int64)
    return replace(graph, row_turn=turn, record_turn=np.array(record_turn, np.int64))


def test_later_windows_do_not_starve_earlier_ones() -> None:
    """Rows of two windows compete for the first window's records: all are placed, whatever their order."""
    fits = np.array([[True, True], [True, False]])
    graph = CandidateGraph(
        indptr=np.array([0, 2, 3]),
        columns=np.array([0, 1, 0], np.int32),
        row_size=np.array([3, 3]),
        record_size=np.array([3, 3]),
        row_turn=np.array([1, 0]),
        record_turn=np.array([0, 1]),
    )
    placement = place(graph)
    assert placement.perfect
    assert fits[placement.flow_row, placement.flow_record].all()


def test_what_fits_is_placed_without_a_search() -> None:
    """Rows of one and of several take the records that only they can have, until none is left over: no phase."""
    placement = place(graph_of(np.array([[True, False], [True, True]]), [1, 3], [2, 2]))
    assert (placement.perfect, placement.phases) == (True, 0)
    assert sorted(zip(placement.flow_row, placement.flow_record, placement.flow, strict=True)) == [
        (0, 0, 1),
        (1, 0, 1),
        (1, 1, 2),
    ]


# The first row leaves the third but its second record; the second takes its first, which is of an earlier window.
CROSSED = [(0, [2]), (0, [0, 1]), (0, [0, 2])]


def test_one_phase_finds_all_shortest_paths() -> None:
    """Three times three rows of which the last finds its records taken: three paths of one length are one search."""
    rows = [(turn, [3 * block + record for record in own]) for block in range(3) for turn, own in CROSSED]
    placement = place(matched(rows, [0, 1, 0] * 3))
    assert (placement.perfect, placement.phases) == (True, 1)


def test_the_first_row_of_all_moves_too() -> None:
    """A row of the next window can have its record alone: an honest release, and it passes."""
    assert place(matched([(0, [0, 1]), (1, [0])], [0, 1])).perfect


def test_a_row_too_many_is_of_the_later_window() -> None:
    """What is released once more is told of the release that came after, not of the one that was whole before."""
    placement = place(matched([*CROSSED, (1, [1])], [0, 1, 0]))
    assert placement.row_left.tolist() == [0, 0, 0, 1]
    assert placement.record_left.tolist() == [0, 0, 0]


def test_rows_leave_a_record_from_its_middle() -> None:
    """Three rows share three equal records, and one after the other makes way for rows that can be nowhere else: those
    with a free record of their own first, then the one in whose place another has to move.
    """
    rows = [(0, [0, 1]), (0, [0, 2]), (0, [0, 3]), (0, [3, 4]), (1, [0]), (2, [0]), (3, [0])]
    placement = place(matched(rows, [0, 3, 3, 1, 2], [3, 1, 1, 1, 1]))
    assert placement.perfect
    assert placement.placed == 7


@pytest.mark.parametrize("seed", range(60))
def test_flow_of_larger_graphs_is_largest(seed: int) -> None:
    """Thirty groups a side, few pairs, several windows: as much as another algorithm places, and it is a flow."""
    random = np.random.default_rng(seed)
    fits = random.random((30, 30)) < random.choice([0.05, 0.08, 0.12, 0.2])
    row_size, record_size = random.integers(1, 4, 30), random.integers(1, 4, 30)
    graph = replace(
        graph_of(fits, row_size.tolist(), record_size.tolist()), row_turn=random.integers(0, 4, 30),
        record_turn=random.integers(0, 4, 30),
    )  # fmt: skip
    placement = place(graph)
    arcs = np.zeros((62, 62), np.int32)
    arcs[0, 1:31], arcs[31:61, 61] = row_size, record_size
    arcs[1:31, 31:61] = fits * 99
    assert placement.placed == maximum_flow(csr_array(arcs), 0, 61).flow_value
    assert fits[placement.flow_row, placement.flow_record].all()
    assert (placement.flow > 0).all()
    by_row = np.bincount(placement.flow_row, weights=placement.flow, minlength=30)
    by_record = np.bincount(placement.flow_record, weights=placement.flow, minlength=30)
    assert (by_row + placement.row_left == row_size).all()
    assert (by_record + placement.record_left == record_size).all()
    assert (placement.row_left >= 0).all()
    assert (placement.record_left >= 0).all()
    pairs = list(zip(placement.flow_row, placement.flow_record, strict=True))
    assert len(set(pairs)) == len(pairs)
