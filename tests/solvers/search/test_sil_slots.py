"""The state of the search for SIL: its losses are those of the definition, its bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search import sil_slots
from kanonflow.solvers.search.sil_slots import SilSlots, build_sil_slots, sil_units, weighted_for_sil
from kanonflow.solvers.search.slot_loss import swap
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from tests.mixed_tables import mixed_table, scrambled_members, tables, unit_rows
from tests.naive_paper_search import slot_loss

pytestmark = pytest.mark.thorough

quick = settings(derandomize=True, max_examples=60)
arguments = given(tables(k=4, least=5, most=14), st.integers(2, 4), st.integers(0, 2**20))


def prepare(table: Table, k: int, seed: int) -> tuple[Units, SilSlots]:
    """A random legal graph as the search sees it."""
    units = group_rows(table)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
    searched = sil_units(table, units, k)
    return searched, build_sil_slots(searched, members)


@quick
@arguments
def test_losses_and_bounds_are_those_of_the_definition(table: Table, k: int, seed: int) -> None:
    """Of slots, of every replacement by every unit; none saves more than spare, nor adds less than least_added."""
    units, slots = prepare(table, k, seed)
    rows, measure = unit_rows(units), slot_loss(table, "sil")
    for slot in range(0, table.records, 2):
        members = [rows[unit] for unit in slots.members[slot]]
        assert slots.loss[slot] == pytest.approx(measure(slot, members), abs=1e-12)
        for position in range(k):
            for unit, row in enumerate(rows):
                after = sil_slots.replaced_loss(units.features, slots, slot, position, unit)
                expected = measure(slot, [row if p == position else own for p, own in enumerate(members)])
                assert after == pytest.approx(expected, abs=1e-12)
                least = sil_slots.least_added(units.features, slots, slot, unit)
                assert after >= slots.loss[slot] - slots.spare[slot, position] + least - 1e-12


@quick
@arguments
def test_a_swap_is_its_own_inverse(table: Table, k: int, seed: int) -> None:
    """Bit for bit, and the change of loss is that of the definition."""
    units, slots = prepare(table, k, seed)
    before = [array.copy() for array in slots]
    total = slots.loss.sum()
    rng = np.random.default_rng(seed)
    b, d = rng.choice(table.records, 2, replace=False)
    p, q = rng.integers(0, k, 2)
    change = swap(units.features, slots, b, p, d, q)
    assert slots.loss.sum() - total == pytest.approx(change, abs=1e-12)
    swap(units.features, slots, b, p, d, q)
    for old, new in zip(before, slots, strict=True):
        assert np.array_equal(old, new, equal_nan=old.dtype.kind == "f")


@settings(derandomize=True, max_examples=25)
@arguments
def test_the_search_lowers_sil(table: Table, k: int, seed: int) -> None:
    """The solution's loss is the definition's, at most the start's, and the graph is legal."""
    solution = solve_graph(Task(table, k, budget=Budget(300.0), seed=seed, loss="sil"), untie=False)
    solution.graph.check(table.individuals)
    assert solution.loss == pytest.approx(sil(table, solution.graph), abs=1e-12)
    assert solution.loss <= solution.start_loss + 1e-9
    assert solution.trace[-1][1] == pytest.approx(solution.loss, abs=1e-9)


def test_who_searches_sil_finds_less_of_it() -> None:
    """Than who searches NCP, and there is no bound to boast of."""
    table = mixed_table(4, 120)
    by_loss = {
        loss: solve(Task(table, 3, loss=loss, budget=Budget(2000.0), seed=1)) for loss in ("ncp", "sil")
    }
    assert by_loss["sil"].loss < 0.95 * sil(table, by_loss["ncp"].graph)
    assert by_loss["sil"].lower_bound == 0.0 < by_loss["ncp"].lower_bound


def test_weights_for_sil_price_a_deviation_like_a_mismatch() -> None:
    """Pair losses under the weights are L1 distances in standard deviations and mismatches, up to one factor."""
    table = mixed_table(6, 40, nulls=0.0)
    weighted = weighted_for_sil(table)
    sigma = table.numeric.std(axis=0)
    for j in range(2):
        assert weighted.weights[j] * sigma[j] == pytest.approx(1.0)
    assert (weighted.weights[2:] / (table.cardinality - 1)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": "entropy"},
        {"loss": "entropy", "shape": "classes"},
        {"loss": "sil", "method": "pass-through"},
        {"loss": "sil", "method": "pass-through", "shape": "classes"},
    ],
)
def test_what_cannot_be_searched_is_refused(wrong: dict[str, str]) -> None:
    """Unknown losses, and SIL where only NCP is kept."""
    method = wrong.get("method", "auto")
    asked = {name: value for name, value in wrong.items() if name != "method"}
    with pytest.raises(BudgetError, match=r"loss"):
        solve(Task(mixed_table(1, 20), 3, seed=1, **asked), method)  # type: ignore[arg-type]
