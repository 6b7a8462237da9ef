"""What known matches leave, against enumeration and for shapes whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.judge.concealment import GroupMembers, group_members
from kanonflow.pipelines.audit.judge.known import Left, left_after
from kanonflow.pipelines.audit.judge.matching import place
from tests import naive
from tests.pipelines.audit.judge.test_candidate_graph import expand, graph_of, group_graphs
from tests.pipelines.small_runs import people

NOBODY = GroupMembers(np.zeros(99, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))


def left(fits: np.ndarray, row_size: list[int], record_size: list[int], known: int, k: int) -> Left | None:
    """The figures without individuals; None where there is no perfect matching to begin with."""
    graph = graph_of(fits, row_size, record_size)
    placement = place(graph)
    if not placement.perfect:
        return None
    return left_after(graph, placement, NOBODY, np.zeros(len(record_size), np.int64), known, k)


def allowed_pairs(fits: list[list[bool]]) -> np.ndarray:
    """Bool (rows, records): the pairs of all perfect matchings."""
    allowed = np.zeros((len(fits), len(fits)), dtype=bool)
    for matching in naive.complete_placements(fits):
        allowed[np.arange(len(fits)), matching] = True
    return allowed


def enumerated(fits: list[list[bool]], row: int, record: int) -> tuple[int, int]:
    """Fewest allowed rows of a record, and records of a row, once (row, record) is known."""
    kept = [line for at, line in enumerate(fits) if at != row]
    allowed = allowed_pairs([[cell for at, cell in enumerate(line) if at != record] for line in kept])
    return int(allowed.sum(axis=0).min()), int(allowed.sum(axis=1).min())


@given(group_graphs(balanced=True))
@settings(max_examples=150, derandomize=True)
def test_one_known_match_leaves_what_enumeration_leaves(case: tuple) -> None:
    """The figures are those of taking out one allowed pair of a row and a record."""
    fits, row_size, record_size = case
    fits = fits | np.eye(*fits.shape, dtype=bool)
    found = left(fits, row_size, record_size, known=1, k=2)
    if found is None or sum(row_size) < 2:
        return
    singles, _, _ = expand(fits, row_size, record_size)
    pairs = zip(*np.nonzero(allowed_pairs(singles)), strict=True)
    possible = {enumerated(singles, int(row), int(record)) for row, record in pairs}
    assert (found.rows_of_record, found.behind_row) in possible


def test_a_complete_class_loses_one_candidate_a_match() -> None:
    """Two classes of three: one known match leaves two in its class (two of the five rows); all of them leave none."""
    fits = np.eye(2, dtype=bool)
    assert left(fits, [3, 3], [3, 3], known=1, k=3) == Left(2, 2, pytest.approx(2 / 5))
    assert left(fits, [3, 3], [3, 3], known=6, k=3) == Left(0, 0, 0.0)


def test_one_known_match_opens_a_ring_of_two() -> None:
    """Four slots of two in a ring: there are two matchings, and one match tells which."""
    fits = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], dtype=bool)
    assert left(fits, [1] * 4, [1] * 4, known=1, k=2) == Left(1, 1, 1.0)


def test_individuals_count_while_they_have_records_left() -> None:
    """A class of two people with two records each: after one match both still stand behind every row; after two of
    the same or of both, one or two do."""
    graph = graph_of(np.ones((1, 1), dtype=bool), [4], [4])
    members = group_members(np.zeros(4, np.int64), np.array([0, 0, 1, 1]), 1)
    window = np.zeros(1, np.int64)
    for known, expected in ((1, {2}), (2, {1, 2}), (3, {1})):
        found = {
            left_after(graph, place(graph), members, window, known, 2, seed).behind_row for seed in range(20)
        }
        assert found == expected


def test_the_report_tells_what_is_left(tmp_path: Path) -> None:
    """Asked for, as a figure and no failure; else it is not there."""
    given_run = people().write(tmp_path)
    asked, plain = audit(*given_run, known=2), audit(*given_run)
    assert asked.passed
    assert (asked.figures.known, plain.figures.known, plain.figures.known_rows) == (2, None, None)
    assert asked.figures.known_rows is not None
    assert asked.figures.known_rows < 2


def test_the_last_rows_count() -> None:
    """Three rows and records of three people in one group: one match more is known, until none is left."""
    graph = graph_of(np.array([[True]]), [3], [3])
    members = group_members(np.zeros(3, np.int64), np.arange(3), 1)
    window = np.zeros(1, np.int64)
    told = [left_after(graph, place(graph), members, window, known, k=2) for known in range(5)]
    assert told == [
        Left(3, 3, 0.0), Left(2, 2, 0.0), Left(1, 1, 1.0), Left(0, 0, 0.0), Left(0, 0, 0.0),
    ]  # fmt: skip
    # One of two people has two records: whoever is drawn, nobody is lost before the last of them.
    members = group_members(np.zeros(3, np.int64), np.array([0, 0, 1]), 1)
    told = [left_after(graph, place(graph), members, window, 1, k=2, seed=seed) for seed in range(20)]
    assert {each.behind_row for each in told} == {1, 2}
