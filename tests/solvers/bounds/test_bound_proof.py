"""A proof is believed when it is true, and refused when anything in it was changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.bounds.bound_proof import SLACK, BoundProof, check_bound, proven_bound
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive_bounds
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


def stated(table: Table, k: int, dual: np.ndarray, shift: np.ndarray) -> BoundProof:
    """A proof that states the bound its duals would give."""
    return BoundProof(k, dual, shift, proven_bound(group_rows(table).weight, k, dual - shift))


@settings(derandomize=True, max_examples=60)
@given(tables(k=4, least=6, most=9), st.integers(2, 4), st.integers(0, 2**20), st.floats(0.0, 1.0))
def test_it_is_believed_exactly_when_no_slot_is_violated(
    table: Table, k: int, seed: int, share: float
) -> None:
    """Random duals, lowered by more or less than the worst violation, against a look at every slot."""
    units = group_rows(table)
    dual = np.random.default_rng(seed).random(units.weight.size) / 3
    worst = max(0.0, -naive_bounds.least_reduced_cost(table, units, k, dual))
    shift = np.full(dual.size, 2 * share * worst / k)
    least = naive_bounds.least_reduced_cost(table, units, k, dual - shift)
    proof = stated(table, k, dual, shift)
    if least > -SLACK / 2:
        assert check_bound(table, proof) == proof.bound
    elif least < -2 * SLACK:
        with pytest.raises(StructureError, match="refused"):
            check_bound(table, proof)


@pytest.mark.parametrize("people", [None, 8])
def test_tampering_is_noticed(people: int | None) -> None:
    """A better bound than the duals give, one raised dual, a dual too few, not a number."""
    table = mixed_table(4, 12, people=people, k=3)
    units = group_rows(table)
    dual = np.full(units.weight.size, 0.2)
    spare = naive_bounds.least_reduced_cost(table, units, 3, dual)
    true = stated(table, 3, dual + spare / 3, np.zeros(dual.size))
    assert check_bound(table, true) == true.bound
    with pytest.raises(StructureError, match="do not give its bound"):
        check_bound(table, replace(true, bound=true.bound + 1e-6))
    raised = true.dual + 1e-6
    with pytest.raises(StructureError, match="refused"):
        check_bound(table, stated(table, 3, raised, true.shift))
    with pytest.raises(StructureError, match="other records"):
        check_bound(table, replace(true, dual=true.dual[1:]))
    with pytest.raises(StructureError, match="do not give its bound"):
        check_bound(table, replace(true, dual=true.dual * np.nan, bound=np.nan))


@settings(derandomize=True, max_examples=40)
@given(tables(k=4, least=6, most=9), st.integers(2, 3), st.integers(1, 2))
def test_a_proof_for_small_slots_holds_for_larger_ones(table: Table, size: int, more: int) -> None:
    """The program over small slots is not above that over larger ones, of all slots there are."""
    units = group_rows(table)
    k = min(size + more, 4)
    assert (
        naive_bounds.least_lp_loss(table, units, size) <= naive_bounds.least_lp_loss(table, units, k) + 1e-9
    )
