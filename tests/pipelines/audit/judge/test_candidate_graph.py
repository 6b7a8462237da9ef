"""The audit's graph, flow and components against enumeration of everything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.judge import candidate_graph as judged
from kanonflow.pipelines.audit.judge.candidate_graph import (
    CandidateGraph,
    RowGroups,
    candidate_graph,
    group_records,
)
from kanonflow.pipelines.audit.judge.concealment import conceal, group_members
from kanonflow.pipelines.audit.judge.matching import place
from kanonflow.pipelines.audit.read.boxes import BoxSets
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.schemas.errors import InputError
from tests import naive

MOST_UNITS = 6


def graph_of(fits: np.ndarray, row_size: list[int], record_size: list[int]) -> CandidateGraph:
    """A graph of groups from a candidate matrix (row groups, record groups)."""
    return CandidateGraph(
        indptr=np.concatenate([[0], np.cumsum(fits.sum(axis=1))]).astype(np.int64),
        columns=np.nonzero(fits)[1].astype(np.int32),
        row_size=np.array(row_size, np.int64),
        record_size=np.array(record_size, np.int64),
        row_turn=np.zeros(len(row_size), np.int64),
        record_turn=np.zeros(len(record_size), np.int64),
    )


@st.composite
def group_graphs(draw: st.DrawFn, *, balanced: bool) -> tuple[np.ndarray, list[int], list[int]]:
    """Candidate matrix, row sizes, record sizes; at most MOST_UNITS rows and records."""

    def sizes() -> list[int]:
        drawn = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
        while sum(drawn) > MOST_UNITS:
            drawn.pop()
        return drawn

    row_size, record_size = sizes(), sizes()
    if balanced:
        gap = sum(row_size) - sum(record_size)
        (record_size if gap > 0 else row_size).extend([1] * abs(gap))
    bits = st.lists(st.booleans(), min_size=len(record_size), max_size=len(record_size))
    fits = draw(st.lists(bits, min_size=len(row_size), max_size=len(row_size)))
    return np.array(fits, dtype=bool), row_size, record_size


def expand(fits: np.ndarray, row_size: list[int], record_size: list[int]) -> tuple[list, list, list]:
    """The graph of single rows and records, and the group of each row and record."""
    rows = np.repeat(np.arange(len(row_size)), row_size)
    records = np.repeat(np.arange(len(record_size)), record_size)
    return fits[np.ix_(rows, records)].tolist(), rows.tolist(), records.tolist()


@pytest.mark.thorough
@given(group_graphs(balanced=False))
@settings(max_examples=300, derandomize=True)
def test_flow_places_as_many_rows_as_any_assignment(case: tuple) -> None:
    """The flow between groups is as large as the largest matching of single rows and records, and is one."""
    fits, row_size, record_size = case
    placement = place(graph_of(fits, row_size, record_size))
    singles, _, _ = expand(fits, row_size, record_size)
    assert placement.placed == naive.most_placed(singles)
    assert fits[placement.flow_row, placement.flow_record].all()
    assert (placement.flow > 0).all()
    by_row = np.bincount(placement.flow_row, weights=placement.flow, minlength=len(row_size))
    by_record = np.bincount(placement.flow_record, weights=placement.flow, minlength=len(record_size))
    assert (by_row + placement.row_left == row_size).all()
    assert (by_record + placement.record_left == record_size).all()


@pytest.mark.thorough
@given(group_graphs(balanced=True), st.lists(st.integers(0, 2), min_size=10, max_size=10))
@settings(max_examples=400, derandomize=True)
def test_components_of_groups_are_the_union_of_all_perfect_matchings(case: tuple, people: list[int]) -> None:
    """Components of groups give the allowed rows, records and individuals that enumerating every perfect
    matching of single rows and records gives."""
    fits, row_size, record_size = case
    fits = fits | np.eye(*fits.shape, dtype=bool)
    graph = graph_of(fits, row_size, record_size)
    placement = place(graph)
    singles, row_group, record_group = expand(fits, row_size, record_size)
    matchings = naive.complete_placements(singles)
    assert placement.perfect == bool(matchings)
    individual = np.array(people[: len(record_group)])
    members = group_members(np.array(record_group), individual, len(record_size))
    window = np.arange(len(record_size), dtype=np.int64)
    if not matchings:
        with pytest.raises(ValueError, match="perfect"):
            conceal(graph, placement, members, window)
        return
    concealment = conceal(graph, placement, members, window)
    allowed = {pair for matching in matchings for pair in enumerate(matching)}
    for record, group in enumerate(record_group):
        assert concealment.rows_of_record[group] == sum(pair[1] == record for pair in allowed)
    for row, group in enumerate(row_group):
        behind = [record for other, record in allowed if other == row]
        assert concealment.records_of_row[group] == len(behind)
        assert concealment.individuals_of_row[group] == len({individual[record] for record in behind})
        assert concealment.oldest_window[group] == min(record_group[record] for record in behind)


def test_degree_is_not_enough() -> None:
    """Records a, b and rows {a}, {a, b}: a has two candidate rows, but one matching exists, so one
    allowed."""
    graph = graph_of(np.array([[True, False], [True, True]]), [1, 1], [1, 1])
    members = group_members(np.arange(2), np.arange(2), 2)
    concealment = conceal(graph, place(graph), members, np.zeros(2, np.int64))
    assert concealment.rows_of_record.tolist() == [1, 1]
    assert concealment.components == 2


def test_more_pairs_than_can_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records in two boxes are four pairs: so many may be held, and no fewer."""
    codes = np.array([[0], [1]], np.int32)
    records = group_records(codes, np.zeros(2, np.int32), np.zeros(2, np.int64))
    rows = RowGroups(
        low=np.zeros((2, 1), np.int32), high=np.ones((2, 1), np.int32), nulls=np.zeros((2, 1), bool),
        set_of=np.full((2, 1), -1, np.int32), sets=BoxSets(np.zeros(1, np.int64), np.zeros(0, np.int32)),
        partition=np.zeros(2, np.int32), first_window=np.zeros(2, np.int64), last_window=np.zeros(2, np.int64),
        release=np.zeros(2, np.int32), size=np.ones(2, np.int64), group_of=np.arange(2, dtype=np.int32),
    )  # fmt: skip
    monkeypatch.setattr(judged, "MOST_PAIRS", 4)
    assert candidate_graph(records, rows).pairs == 4
    monkeypatch.setattr(judged, "MOST_PAIRS", 3)
    with pytest.raises(InputError, match="4 candidate pairs, more than 3"):
        candidate_graph(records, rows)


sets_of_codes = st.fixed_dictionaries({"nulls": st.booleans(), "set": st.sets(st.integers(0, 6), max_size=3)})
ranges = st.fixed_dictionaries(
    {"nulls": st.booleans(), "range": st.tuples(st.integers(0, 5), st.integers(-1, 5))}
)


@pytest.mark.thorough
@given(
    records=st.lists(
        st.tuples(st.integers(0, 1), st.integers(-2, 2), *[st.integers(-1, 4)] * 3), min_size=1, max_size=12
    ),
    rows=st.lists(
        st.tuples(st.integers(-1, 1), st.integers(-3, 2), st.integers(0, 2), ranges, sets_of_codes, ranges),
        min_size=1,
        max_size=8,
    ),
)
@settings(max_examples=300, derandomize=True)
def test_candidates_are_the_records_that_lie_in_the_box(records: list, rows: list) -> None:
    """The pairs found by sorting and bisection are those of testing every record against every box, with
    equal partition, a window in the release's range, closed ranges, sets and nulls."""
    table = np.array(records)
    groups = group_records(table[:, 2:].astype(np.int32), table[:, 0], table[:, 1])
    sets = [sorted(row[4]["set"]) for row in rows]
    count = len(rows)
    row_groups = RowGroups(
        low=np.array([[row[3]["range"][0], 0, row[5]["range"][0]] for row in rows], np.int32),
        high=np.array([[row[3]["range"][1], -1, row[5]["range"][1]] for row in rows], np.int32),
        nulls=np.array([[row[place]["nulls"] for place in (3, 4, 5)] for row in rows]),
        set_of=np.array([[-1, number, -1] for number in range(count)], np.int32),
        sets=BoxSets(
            np.concatenate([[0], np.cumsum([len(codes) for codes in sets])]).astype(np.int64),
            np.array([code for codes in sets for code in codes], np.int32),
        ),
        partition=np.array([row[0] for row in rows], np.int32),
        first_window=np.array([row[1] for row in rows], np.int64),
        last_window=np.array([row[1] + row[2] for row in rows], np.int64),
        release=np.zeros(count, np.int32),
        size=np.ones(count, np.int64),
        group_of=np.arange(count, dtype=np.int32),
    )
    graph = candidate_graph(groups, row_groups)
    for number, (partition, first, extra, *box) in enumerate(rows):
        expected = {
            int(groups.group_of[place])
            for place, (own, window, *codes) in enumerate(records)
            if own == partition and first <= window <= first + extra and naive.lies_in(codes, box)
        }
        found = graph.columns[graph.indptr[number] : graph.indptr[number + 1]].tolist()
        assert sorted(found) == sorted(expected)


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-9, 9)), max_size=20))
@settings(derandomize=True)
def test_rows_group_by_equality(keys: list[tuple[int, int]]) -> None:
    """Rows share a group exactly when they are equal, and groups come in the order of their keys."""
    first, group_of, size = group_rows(np.array(keys, np.int64).reshape(-1, 2))
    distinct = sorted(set(keys))
    assert [keys[row] for row in first] == distinct
    assert [distinct[group] for group in group_of] == keys
    assert size.tolist() == [keys.count(key) for key in distinct]


ENDS = [-(2**63), -(2**62), -1, 0, 1, 2**40, 2**62, 2**63 - 1]


@given(st.integers(1, 5), st.lists(st.lists(st.sampled_from(ENDS), min_size=5, max_size=5), max_size=12))
@settings(derandomize=True)
def test_rows_of_any_numbers_group_as_tuples_do(columns: int, rows: list[list[int]]) -> None:
    """Also where columns do not fit into one number together, or one of them spans all numbers."""
    keys = [tuple(row[:columns]) for row in rows]
    first, group_of, size = group_rows(np.array(keys, np.int64).reshape(-1, columns))
    distinct = sorted(set(keys))
    assert first.tolist() == [keys.index(key) for key in distinct]
    assert [distinct[group] for group in group_of] == keys
    assert size.tolist() == [keys.count(key) for key in distinct]
