"""Lattice solvers against checking every node by dictionaries."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.lattice.kgen import KGenParameters
from kanonflow.solvers.lattice.node_checks import KnownNodes, NodeChecks
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.solvers.shapes.lattices import (
    LatticeSolution,
    LatticeTask,
    lattice_solver,
    node_order,
    solve_lattice,
    suppression_limit,
)
from tests.lattice_levels import check_levels
from tests.naive_lattice import naive_gcp, naive_log, naive_minimal, naive_suppressed
from tests.solvers.lattice.small_lattices import lattices, random_lattice, random_table

pytestmark = pytest.mark.thorough

EXACT = [name for name in LEVEL_STARTS if lattice_solver(name).exact]


def _as_set(solution: LatticeSolution) -> set[tuple[int, ...]]:
    return {tuple(int(level) for level in node) for node in solution.nodes}


@settings(max_examples=60)
@given(lattices(), st.integers(1, 5), st.sampled_from([0.0, 0.1, 0.5]), st.booleans())
def test_exact_solvers_find_every_minimal_node(
    shape: dict[str, Any], k: int, suppression: float, even_share: bool
) -> None:
    """Exhaustive, OLA and Incognito return what a dictionary a node says, with suppression and individuals."""
    lattice = random_lattice(**shape)
    limit = suppression_limit(suppression, lattice.records)
    wanted = naive_minimal(lattice, k, limit, even_share=even_share)
    for method in EXACT:
        if not wanted:
            with pytest.raises(InfeasibleError):
                solve_lattice(LatticeTask(lattice, k, suppression=suppression, even_share=even_share), method)
            continue
        found = solve_lattice(LatticeTask(lattice, k, suppression=suppression, even_share=even_share), method)
        assert _as_set(found) == wanted
        best = found.best
        check_levels(best, lattice, k, even_share=even_share)
        assert set(np.flatnonzero(best.suppressed)) == naive_suppressed(
            lattice, best.levels, k, even_share=even_share
        )
        assert naive_log(lattice, best.levels) == min(naive_log(lattice, node) for node in wanted)


@settings(max_examples=40)
@given(lattices(), st.integers(1, 4), st.sampled_from([0.0, 0.2]))
def test_other_solvers_return_k_anonymous_nodes(shape: dict[str, Any], k: int, suppression: float) -> None:
    """Samarati's nodes are the minimal ones of least height; the others' are k-anonymous and never better."""
    lattice = random_lattice(**shape)
    limit = suppression_limit(suppression, lattice.records)
    wanted = naive_minimal(lattice, k, limit)
    if not wanted:
        return
    least = min(sum(node) for node in wanted)
    samarati = solve_lattice(LatticeTask(lattice, k, suppression=suppression), "samarati")
    assert _as_set(samarati) == {node for node in wanted if sum(node) == least}
    optimum = min(naive_log(lattice, node) for node in wanted)
    for method in ("datafly", "random-search", "kgen"):
        found = solve_lattice(
            LatticeTask(lattice, k, suppression=suppression, evaluations=60, seed=3), method
        )
        for node in _as_set(found):
            assert len(naive_suppressed(lattice, node, k)) <= limit
        assert naive_log(lattice, found.best.levels) >= optimum


def test_kgen_and_random_search_find_all_of_a_small_lattice() -> None:
    """With evaluations enough for every node both end with the minimal nodes that OLA proves."""
    lattice = random_lattice(5, 60, 4, individuals=None)
    wanted = _as_set(solve_lattice(LatticeTask(lattice, 3), "ola"))
    for method in ("kgen", "random-search"):
        assert _as_set(solve_lattice(LatticeTask(lattice, 3, seed=1), method)) == wanted


@given(lattices(), st.integers(1, 4))
@settings(max_examples=30)
def test_ola_pruned_by_loss_still_has_the_optimum(shape: dict[str, Any], k: int) -> None:
    """only_best finds the least LOG, whatever it leaves undecided."""
    lattice = random_lattice(**shape)
    wanted = naive_minimal(lattice, k, 0)
    if not wanted:
        return
    found = solve_lattice(LatticeTask(lattice, k, only_best=True), "ola")
    optimum = min(naive_log(lattice, node) for node in wanted)
    assert naive_log(lattice, found.best.levels) == optimum


def test_equal_seeds_give_equal_answers_and_starts_save_checks() -> None:
    """KGen repeats itself; from the border of the last run OLA checks less and finds the same."""
    lattice = random_lattice(11, 200, 4, individuals=60, leaves=12, height=4)
    runs = [solve_lattice(LatticeTask(lattice, 4, seed=9, evaluations=300), "kgen") for _ in range(2)]
    assert np.array_equal(runs[0].nodes, runs[1].nodes)
    cold = solve_lattice(LatticeTask(lattice, 4), "ola")
    warm = solve_lattice(LatticeTask(lattice, 4, known=cold.known), "ola")
    assert np.array_equal(cold.nodes, warm.nodes)
    assert warm.counts.checked < cold.counts.checked
    pruned = solve_lattice(LatticeTask(lattice, 4, known=cold.known, only_best=True), "ola")
    assert pruned.losses[0] == cold.losses[0]
    assert pruned.counts.checked < warm.counts.checked
    # A border of some other lattice only costs time.
    strange = np.array([[99, 0, 2, 1], [0, 0, 0, 0]], dtype=np.int32)
    wrong = KnownNodes(strange, cold.nodes)
    other = solve_lattice(LatticeTask(lattice, 4, known=wrong), "ola")
    assert np.array_equal(cold.nodes, other.nodes)
    seeded = solve_lattice(LatticeTask(lattice, 4, seed=9, evaluations=10, known=cold.known), "kgen")
    assert seeded.losses[0] == cold.losses[0]
    with pytest.raises(BudgetError):
        solve_lattice(LatticeTask(lattice, 4, known=KnownNodes(strange[:, :2], strange)), "ola")


@given(lattices())
@settings(max_examples=30)
def test_orders_are_those_of_the_exact_losses(shape: dict[str, Any]) -> None:
    """Least LOG first, or least GCP without suppression first, as fractions order them."""
    lattice = random_lattice(**shape)
    nodes = np.array(sorted(naive_minimal(lattice, 1, 0) | {lattice.top}), dtype=np.int32)
    for loss in ("log", "gcp"):
        order, values = node_order(nodes, lattice, loss)
        exact = [
            naive_log(lattice, tuple(node)) if loss == "log" else naive_gcp(lattice, tuple(node), set())
            for node in nodes.tolist()
        ]
        assert values == pytest.approx([float(value) for value in exact])
        assert [exact[place] for place in order] == sorted(exact)


def test_methods_that_a_lattice_is_too_big_for_say_so() -> None:
    """The message names the limit and what to take instead."""
    generator = np.random.default_rng(0)
    tables = tuple(random_table(generator, 16, 4) for _ in range(30))
    values = generator.integers(0, 16, size=(20, 30)).astype(np.int32)
    lattice = Lattice(tables, values)
    for method in ("exhaustive", "incognito", "ola", "samarati"):
        with pytest.raises(BudgetError, match=rf"{method}: .* nodes .*use "):
            solve_lattice(LatticeTask(lattice, 1), method)
    for method in ("datafly", "random-search", "kgen"):
        assert len(solve_lattice(LatticeTask(lattice, 5, evaluations=200), method).nodes) >= 1


def test_refusals() -> None:
    """Unknown names and shares out of range are refused."""
    lattice = random_lattice(1, 10, 2, individuals=None)
    for given_ in ({"loss": "x"}, {"suppression": 1.0}, {"suppression": -0.1}):
        with pytest.raises(BudgetError):
            solve_lattice(LatticeTask(lattice, 2, **given_))  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="unknown lattice method"):
        solve_lattice(LatticeTask(lattice, 2), "x")
    with pytest.raises(BudgetError):
        KGenParameters(population=1)
    with pytest.raises(BudgetError):
        KGenParameters(mutation=1.5)
    with pytest.raises(InfeasibleError):
        solve_lattice(LatticeTask(lattice, 11))


def test_an_empty_lattice_is_published_as_it_is() -> None:
    """No records: the bottom, with no class."""
    lattice = random_lattice(1, 10, 2, individuals=None)
    empty = Lattice(lattice.tables, lattice.values[:0])
    for method in LEVEL_STARTS:
        found = solve_lattice(LatticeTask(empty, 3, evaluations=5_000), method)
        assert found.best.labels.size == 0
        assert found.best.levels == empty.bottom


@given(
    lattices(),
    lattices(),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["all", "none", "odd"]),
)
@settings(max_examples=60)
def test_ola_pruned_by_gcp_has_the_same_order_of_nodes(
    shape: dict[str, Any], other: dict[str, Any], k: int, suppression: float, taken: str
) -> None:
    """Cold, or warm from any other lattice's border: the first node that is acceptable is that of all minimal ones."""
    lattice = random_lattice(**shape)
    if not naive_minimal(lattice, k, suppression_limit(suppression, lattice.records)):
        return

    def acceptable(levels: tuple[int, ...]) -> bool:
        return taken == "all" or (taken == "odd" and sum(levels) % 2 == 1)

    earlier = random_lattice(**{**other, "attributes": shape["attributes"]})
    nodes = np.array([earlier.top, earlier.bottom], dtype=np.int32)
    whole = solve_lattice(LatticeTask(lattice, k, suppression=suppression, loss="gcp"))
    for known in (None, whole.known, KnownNodes(nodes, nodes[::-1])):
        found = solve_lattice(
            LatticeTask(
                lattice,
                k,
                suppression=suppression,
                loss="gcp",
                only_best=True,
                acceptable=acceptable,
                known=known,
            )
        )
        assert np.array_equal(found.nodes[0], whole.nodes[0])
        first = [next((n for n in s.nodes.tolist() if acceptable(tuple(n))), None) for s in (found, whole)]
        assert first[0] == first[1]
        ties = np.abs(whole.losses - whole.losses[0]) < 1e-13
        if taken == "none":
            assert _as_set(found) == _as_set(whole)
        else:
            assert {tuple(node) for node in whole.nodes[ties].tolist()} <= _as_set(found)


@given(lattices(), st.integers(1, 4), st.sampled_from([0.0, 0.1]))
@settings(max_examples=40)
def test_seeds_settle_what_their_checks_decide(shape: dict[str, Any], k: int, suppression: float) -> None:
    """From its own border all nodes above the raised minimum; from one node those above or below it; cold none."""
    lattice = random_lattice(**shape)
    limit = suppression_limit(suppression, lattice.records)
    if not naive_minimal(lattice, k, limit):
        return
    cold = solve_lattice(LatticeTask(lattice, k, suppression=suppression))
    assert cold.counts.seeded == 0
    floor = NodeChecks(lattice, k, limit).floor
    inside = list(product(*(range(low, high + 1) for low, high in zip(floor, lattice.top, strict=True))))
    warm = solve_lattice(LatticeTask(lattice, k, suppression=suppression, known=cold.known))
    assert warm.counts.seeded == len(inside)
    seed = np.array(
        [[(low + high) // 2 for low, high in zip(floor, lattice.top, strict=True)]], dtype=np.int32
    )
    one = solve_lattice(LatticeTask(lattice, k, suppression=suppression, known=KnownNodes(seed, seed[:0])))
    sign = 1 if len(naive_suppressed(lattice, tuple(seed[0].tolist()), k)) <= limit else -1
    decided = [node for node in inside if np.all(sign * (np.array(node) - seed[0]) >= 0)]
    assert one.counts.seeded == len(decided)
