"""Solvers with limits: refused with the policy where they can be, and never a lost row or a blocked feed after that."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS
from kanonflow.solvers.catalogue import solver_named, solver_names, start_names
from kanonflow.solvers.problem.task import SHAPES
from kanonflow.solvers.rivals import certify
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.transforms.solver_check import check_solver
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly

pytestmark = pytest.mark.thorough

SOLVERS = {name: solver_named(name) for name in solver_names()}
STARTS = {shape: start_names(shape) for shape in SHAPES}
BUILT_STARTS = {name: SOLVERS[name] for name in STARTS["row_graph"] if name not in ("auto", *LEVEL_STARTS)}
LARGEST_ROWS = {
    name: start.limits.rows for name, start in BUILT_STARTS.items() if start.limits.rows is not None
}
NUMERIC_ONLY = {name for name, start in BUILT_STARTS.items() if start.limits.numeric_only}
SMALL_WINDOWS = {"max_window_rows": 1000}


def graph_policy(**head: Any) -> Any:
    """Row mode, where every start of the graph search is a solver."""
    return feed_policy(people=False, **head)


@pytest.mark.parametrize("name", sorted(set(BUILT_STARTS) - NUMERIC_ONLY))
@pytest.mark.parametrize("key", ["method", "start"])
def test_every_start_serves_a_feed_by_name(name: str, key: str) -> None:
    """Two windows, every row released once, by the start of that name; by any scale of widths."""
    solver = {key: name, "evaluations_per_row": 20, "threads": 1}
    scale = {"scale": "rank", "quantiles": [20, 20, 40, 60]} if key == "start" else {}
    policy = graph_policy(solver=solver, age=scale, **SMALL_WINDOWS)
    check_solver(policy)
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(2, 12, 9))
    step.finish()
    released = [metrics for metrics in step.metrics if metrics["released"]]
    assert [metrics["start"] for metrics in released] == [name, name]
    assert sum(metrics["rows_released"] for metrics in released) == 24


@pytest.mark.parametrize("name", sorted(LARGEST_ROWS))
@pytest.mark.parametrize("key", ["method", "start"])
def test_windows_that_a_solver_cannot_take_are_refused_with_the_policy(name: str, key: str) -> None:
    """The message says which key to set, and to what; with it the policy is good."""
    most = LARGEST_ROWS[name]
    with pytest.raises(
        PolicyError, match=rf"max_window_rows: must be at most {most} \(solver.{key} {name} takes no more"
    ):
        check_solver(graph_policy(solver={key: name}, max_window_rows=most + 1))
    if name not in NUMERIC_ONLY:
        check_solver(graph_policy(solver={key: name}, max_window_rows=most))


def test_what_split_and_carry_does_not_know_is_refused_with_the_policy() -> None:
    """Categorical quasi-identifiers by name, and a large k; all at once."""
    with pytest.raises(PolicyError) as refused:
        check_solver(graph_policy(solver={"method": "split-and-carry"}, k=21))
    assert "solver.method: split-and-carry takes numbers and dates only, not job" in str(refused.value)
    assert "k: solver.method split-and-carry takes at most 5" in str(refused.value)
    assert "max_window_rows" in str(refused.value)


@pytest.mark.parametrize("key", ["method", "start"])
def test_a_window_that_a_solver_does_not_take_is_released_all_the_same(key: str) -> None:
    """A part may outgrow what the policy was checked for. No row is lost, and the metrics say what was done instead.

    Split & Carry over a categorical field stands for it: past the check of the policy, it refuses every window.
    """
    policy = graph_policy(solver={key: "split-and-carry", "evaluations_per_row": 20, "threads": 1})
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(2, 12, 9))
    step.finish()
    assert [metrics["rows_released"] for metrics in step.metrics] == [12, 12]
    (used,) = {metrics["start"] for metrics in step.metrics}
    assert used in set(BUILT_STARTS) - NUMERIC_ONLY
    assert {metrics["solver"] for metrics in step.metrics} == {policy.solver.method}


def test_certify_takes_windows_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger ones are refused with the policy, and a part that outgrows the limit is released by ``auto``."""
    with pytest.raises(PolicyError, match=r"max_window_rows: must be at most 20000 \(solver.method certify"):
        check_solver(graph_policy(solver="certify"))
    solver = {"method": "certify", "evaluations_per_row": 20, "threads": 1}
    policy = graph_policy(solver=solver, **SMALL_WINDOWS)
    check_solver(policy)
    monkeypatch.setattr(certify, "LARGEST_ROWS", 10)
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(1, 12, 9))
    step.finish()
    (metrics,) = step.metrics
    assert (metrics["rows_released"], metrics["solver"]) == (12, "certify")


LASTING = {"cohort": "lasting", "cohort_size": 4}
NOT_FOUNDING = {*LATTICE_METHODS, "pass-through"}
FOUNDERS = sorted(
    name for name, solver in SOLVERS.items() if "classes" in solver.ways and name not in NOT_FOUNDING
)


@pytest.mark.parametrize("name", FOUNDERS)
def test_lasting_cohorts_are_founded_by_any_method_of_classes(name: str) -> None:
    """Every method that makes classes of individuals, as it would make those of a window; the default among them."""
    check_solver(feed_policy(solver=name, **SMALL_WINDOWS, **LASTING))


@pytest.mark.parametrize("name", STARTS["classes"])
def test_lasting_cohorts_are_founded_from_any_start_of_classes(name: str) -> None:
    """But for those that need levels of hierarchies, which this feed does not have."""
    if name in LATTICE_METHODS:
        with pytest.raises(PolicyError, match="needs levels of hierarchies"):
            check_solver(feed_policy(solver={"start": name}, **SMALL_WINDOWS, **LASTING))
    else:
        check_solver(feed_policy(solver={"start": name}, **SMALL_WINDOWS, **LASTING))


def test_a_graph_founds_no_cohort() -> None:
    """A method of rows alone is refused, with those that there are."""
    with pytest.raises(PolicyError, match=r"solver.method: with protect: individual it must be one of auto"):
        check_solver(feed_policy(solver="certify", **LASTING))
