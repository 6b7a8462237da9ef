"""The method certify: a legal graph, a bound with its proof, the same each time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.bounds.bound_proof import check_bound
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals import certify
from kanonflow.solvers.rivals.certify import CertifyLimits, certify_graph
from kanonflow.solvers.rivals.column_generation import PricingLimits
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive_bounds
from tests.mixed_tables import mixed_table, tables
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough

SHORT = CertifyLimits(searches=2, roundings=3, pricing=PricingLimits(exact=4, heuristic=4))


@settings(derandomize=True, max_examples=20)
@given(tables(k=4, most=30), st.integers(2, 4), st.booleans())
def test_the_graph_is_legal_and_not_below_its_bound(table: Table, k: int, untie: bool) -> None:
    """With and without individuals: a true loss, and a bound that the checker proves again."""
    found = certify_graph(Task(table, k, budget=Budget(100.0), seed=3), limits=SHORT, untie=untie)
    found.graph.check(table.individuals)
    assert found.proof is not None
    assert found.loss == pytest.approx(gcp(table, found.graph), abs=1e-12)
    assert found.loss >= found.lower_bound - 1e-12
    assert found.lower_bound == found.proof.bound == check_bound(table, found.proof)
    assert (found.tied_edges is None) == (not untie)


def test_it_closes_the_gap_that_a_search_leaves() -> None:
    """60 rows: nearer to the bound than one search, within 3% of it, and the same graph each time."""
    table = mixed_table(7, 60, nulls=0.05)
    plain = solve_graph(Task(table, 3, budget=Budget(300.0), seed=3), untie=False)
    found = certify_graph(Task(table, 3, budget=Budget(300.0), seed=3), untie=False)
    again = certify_graph(Task(table, 3, budget=Budget(300.0), seed=3), untie=False)
    assert found.loss <= plain.loss
    assert found.gap < 0.03
    assert plain.lower_bound <= found.lower_bound
    assert np.array_equal(found.graph.members, again.graph.members)
    assert found.lower_bound == again.lower_bound
    assert found.trace == again.trace
    assert "proven bound" in found.summary()
    assert f"{found.gap:.1%}" in found.summary()


@settings(derandomize=True, max_examples=15)
@given(tables(k=4, least=8, most=12), st.integers(2, 3))
def test_large_slots_are_bounded_by_small_ones(table: Table, priced: int) -> None:
    """k = 4 proved by slots of 2 or 3: checked as such, at least LB1, not above the program of k = 4."""
    limits = replace(SHORT, largest_priced=priced)
    found = certify_graph(Task(table, 4, budget=Budget(100.0), seed=3), limits=limits, untie=False)
    plain = solve_graph(Task(table, 4, budget=Budget(1.0), seed=3), untie=False)
    assert found.proof is not None
    assert found.proof.k in (priced, 4)
    assert found.lower_bound == check_bound(table, found.proof)
    assert plain.lower_bound - 1e-8 <= found.lower_bound
    assert found.lower_bound <= naive_bounds.least_lp_loss(table, group_rows(table), 4) + 1e-9


def test_a_deadline_leaves_a_valid_bound() -> None:
    """A clock that runs out in any of the phases."""
    table = mixed_table(8, 40)
    for step, priced in itertools.product((0.4, 0.1, 0.05, 0.02), (2, 3)):
        limits = replace(SHORT, largest_priced=priced)
        found = certify_graph(
            Task(table, 3, budget=Budget(500.0, 1000.0), seed=1, clock=Ticking(step)), limits=limits
        )
        found.graph.check(table.individuals)
        assert found.deadline_struck
        assert found.proof is not None
        assert check_bound(table, found.proof) <= found.loss


def test_what_it_cannot_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes, too many rows, no search at all: named, with what to do instead."""
    table = replace(mixed_table(9, 12), individuals=np.arange(12))
    with pytest.raises(BudgetError, match="needs shape row_graph"):
        solve(Task(table, 3, shape="classes", seed=1), "certify")
    with pytest.raises(BudgetError, match="searches"):
        certify_graph(Task(table, 3, budget=Budget(10.0), seed=1), limits=CertifyLimits(searches=0))
    monkeypatch.setattr(certify, "LARGEST_ROWS", 11)
    with pytest.raises(BudgetError, match="at most 11 rows: use method auto"):
        certify_graph(Task(table, 3, budget=Budget(10.0), seed=1))
