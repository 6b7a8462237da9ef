"""S0's local search: move by move what its definition says, with and without what it keeps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.errors import BudgetError, UnservedError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals import paper_moves
from kanonflow.solvers.rivals import paper_search as paper
from kanonflow.solvers.rivals.paper_search import PaperSearch, paper_state, with_own_records
from kanonflow.solvers.rivals.paper_values import occurring_values
from kanonflow.solvers.structures.graph import GeneralizationGraph
from tests import naive_paper_search as naive
from tests.mixed_tables import mixed_table, scrambled_graph, tables

pytestmark = pytest.mark.thorough

SMALL = tables(trees=True, k=3, least=4, most=7)
parameters = st.builds(
    PaperSearch,
    improvement=st.sampled_from(paper.IMPROVEMENTS),
    loss=st.sampled_from(paper.LOSSES),
    strict=st.booleans(),
    incremental=st.booleans(),
    perturbation=st.integers(1, 3),
)
arguments = given(SMALL, st.integers(2, 3), st.integers(0, 2**64 - 1), parameters)
quick = settings(derandomize=True, max_examples=40)


def owners(table: Table) -> list[int]:
    """Whose each row is."""
    return list(range(table.records)) if table.individuals is None else table.individuals.tolist()


def measured(table: Table, chosen: PaperSearch) -> Table:
    """SIL knows a hierarchy as a categorical attribute of its leaves."""
    return table if chosen.loss == "ncp" else table.by_leaves()


@quick
@arguments
def test_a_scan_finds_the_move_of_its_twin(table: Table, k: int, seed: int, chosen: PaperSearch) -> None:
    """The same move of every slot, by what is kept and by scans of the members, and the gain that it says."""
    state = paper_state(table, scrambled_graph(table, k, seed % 2**32), chosen)
    run = paper._Run(state, table.individuals, chosen, seed, None, lambda: 0.0, None)
    loss, first = naive.slot_loss(measured(table, chosen), chosen.loss), chosen.improvement == "first"
    slots = state.members.tolist()
    for b in range(table.records):
        gain = paper_moves.scan(state, run._who, run._work, b, first, chosen.strict)
        move = naive.move_of(owners(table), slots, loss, b, first=first, strict=chosen.strict)
        assert (gain > 0) == (move is not None)
        if move is not None:
            assert tuple(run._work.move.tolist()) == move
            p, d, q = move
            before = loss(b, slots[b]) + loss(d, slots[d])
            slots[b][p], slots[d][q] = slots[d][q], slots[b][p]
            paper_moves.exchange(state, b, p, d, q)
            assert gain == pytest.approx(before - loss(b, slots[b]) - loss(d, slots[d]), abs=1e-12)


@quick
@arguments
def test_a_search_ends_where_its_twin_ends(table: Table, k: int, seed: int, chosen: PaperSearch) -> None:
    """All moves of a local search and of two perturbations: equal slots, place by place, and equal losses."""
    state = paper_state(table, scrambled_graph(table, k, seed % 2**32), chosen)
    slots, losses = naive.iterated(
        owners(table),
        state.members.tolist(),
        naive.slot_loss(measured(table, chosen), chosen.loss),
        seed,
        restarts=2,
        swaps=chosen.perturbation,
        tries=paper_moves.DRAWS,
        first=chosen.improvement == "first",
        strict=chosen.strict,
    )
    run = paper._Run(state, table.individuals, chosen, seed, None, lambda: 0.0, None)
    run.descend(paper.NO_LIMIT)
    assert float(state.loss.mean()) == pytest.approx(losses[0], abs=1e-12)
    best = [state.members.copy(), float(state.loss.mean())]
    for expected in losses[1:]:
        paper._perturb_and_search(run, best, paper.NO_LIMIT)
        assert best[1] == pytest.approx(expected, abs=1e-12)
    assert state.members.tolist() == slots


@quick
@arguments
def test_the_state_says_the_loss_that_is_reported(
    table: Table, k: int, seed: int, chosen: PaperSearch
) -> None:
    """Mean of the slots' losses: GCP, SIL; and the graph stays legal, with its own records when strict."""
    state = paper_state(table, scrambled_graph(table, k, seed % 2**32), chosen)
    before = float(state.loss.mean())
    result = paper.paper_search(state, table.individuals, chosen, iterated=True, evaluations=None, seed=seed)
    graph = GeneralizationGraph(state.members)
    graph.check(table.individuals)
    assert float(state.loss.mean()) <= before + 1e-12
    assert result.trace[-1][1] == pytest.approx(float(state.loss.mean()), abs=1e-12)
    if chosen.loss != "sil-own":
        reported = gcp(table, graph) if chosen.loss == "ncp" else sil(table, graph)
        assert float(state.loss.mean()) == pytest.approx(reported, abs=1e-9)
    if chosen.strict:
        assert (state.members == np.arange(table.records)[:, None]).any(axis=1).all()


@pytest.mark.parametrize("loss", paper.LOSSES)
@pytest.mark.parametrize("improvement", paper.IMPROVEMENTS)
def test_a_local_optimum_has_no_improving_move(loss: str, improvement: str) -> None:
    """By an exhaustive look at every pair of places of a graph larger than the twin takes."""
    table = mixed_table(3, 30, people=15, k=3)
    chosen = PaperSearch(loss=loss, improvement=improvement)
    state = paper_state(table, scrambled_graph(table, 3, 1), chosen)
    start = state.loss.mean()
    paper.paper_search(state, table.individuals, chosen, iterated=False, evaluations=None, seed=1)
    assert state.loss.mean() < start
    slots, who = state.members.tolist(), owners(table)
    measure = naive.slot_loss(table, loss)
    assert all(naive.move_of(who, slots, measure, b, first=True, strict=False) is None for b in range(30))


@pytest.mark.parametrize("loss", paper.LOSSES)
def test_both_evaluations_make_the_same_moves(loss: str) -> None:
    """Incremental or not: the same slots and the same number of evaluations."""
    table = mixed_table(5, 60)
    ends = []
    for incremental in (True, False):
        chosen = PaperSearch(loss=loss, incremental=incremental)
        state = paper_state(table, scrambled_graph(table, 4, 2), chosen)
        result = paper.paper_search(state, None, chosen, iterated=True, evaluations=60_000, seed=7)
        ends.append((state.members.tolist(), result.evaluations))
    assert ends[0] == ends[1]


def test_a_search_stops_at_its_budget_and_at_its_deadline() -> None:
    """Within one scan of the evaluations; at once when the time is over."""
    table = mixed_table(1, 80)
    members, chosen = scrambled_graph(table, 3, 1), PaperSearch()
    state = paper_state(table, members, chosen)
    spent = paper.paper_search(state, None, chosen, iterated=True, evaluations=9_000, seed=1).evaluations
    assert 9_000 <= spent <= 9_000 + 2 * 80 * 9
    ticks = itertools.count()
    state = paper_state(table, members, chosen)
    late = paper.paper_search(
        state, None, chosen, iterated=True, evaluations=None, seed=1, deadline=0.0, clock=lambda: next(ticks)
    )
    assert late.deadline_struck
    assert late.evaluations == 0


def test_a_graph_without_legal_moves_ends_the_search() -> None:
    """n = k: every slot holds everybody."""
    table = mixed_table(1, 3)
    chosen = PaperSearch(perturbation=0)
    state = paper_state(table, np.tile(np.arange(3, dtype=np.int32), (3, 1)), chosen)
    result = paper.paper_search(state, None, chosen, iterated=True, evaluations=50, seed=1)
    assert result.evaluations >= 50


@quick
@given(SMALL, st.integers(2, 3), st.integers(0, 2**20))
def test_slots_are_named_after_a_record_they_hold(table: Table, k: int, seed: int) -> None:
    """The same slots in another order, slot i with record i."""
    members = scrambled_graph(table, k, seed)
    renamed = with_own_records(members)
    assert all(i in slot for i, slot in enumerate(renamed.tolist()))
    assert sorted(renamed.tolist()) == sorted(members.tolist())


def test_mistakes_are_named_at_once() -> None:
    """All parameters that are wrong, in one message."""
    with pytest.raises(BudgetError, match=r"improvement.*loss.*perturbation"):
        PaperSearch(improvement="worst", loss="gcp", perturbation=-1)


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the limit and an alternative."""
    monkeypatch.setattr("kanonflow.solvers.rivals.paper_values.MOST_COUNTERS", 20)
    with pytest.raises(UnservedError, match=r"at most 20.*iterated-local-search"):
        occurring_values(mixed_table(1, 12))
