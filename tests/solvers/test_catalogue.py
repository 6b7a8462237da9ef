"""The catalogue says what ``solve`` does: shapes, losses and starts of every solver."""

from __future__ import annotations

import re

import pytest

from kanonflow.solvers.catalogue import solver_named, solver_names, start_names
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.task import SHAPES, Task
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from tests.mixed_tables import mixed_table

SOLVERS = {name: solver_named(name) for name in solver_names()}
STARTS = {shape: start_names(shape) for shape in SHAPES}
TABLE = mixed_table(1, 12)


def test_names_and_shapes_are_of_the_catalogue() -> None:
    """A solver stands under its own name, answers in known shapes, and takes NCP in each."""
    assert all(name == solver.name for name, solver in SOLVERS.items())
    assert set(STARTS) == set(SHAPES)
    for solver in SOLVERS.values():
        assert set(solver.ways) <= set(SHAPES)
        assert all("ncp" in way.losses for way in solver.ways.values())


def test_every_start_is_a_solver_of_its_own() -> None:
    """But ``auto``, which chooses, and ``one-class``, which is called pass-through."""
    named = {*STARTS["row_graph"], *STARTS["classes"]} - {"auto", "one-class"}
    assert named == {solver.start for solver in SOLVERS.values()} - {None, "one-class"}
    assert set(LEVEL_STARTS) <= named


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_losses_that_are_not_listed_are_refused(method: str, shape: str) -> None:
    """With the name of the method and what it takes instead."""
    ways = SOLVERS[method].ways
    if shape not in ways:
        with pytest.raises(
            BudgetError, match=re.escape(f"method {method} needs shape {' or '.join(ways)}, not")
        ):
            solve(Task(TABLE, 3, seed=1, shape=shape), method)
    elif "sil" not in ways[shape].losses:
        with pytest.raises(
            BudgetError, match=re.escape(f"method {method} in shape {shape} takes loss ncp, not sil")
        ):
            solve(Task(TABLE, 3, seed=1, shape=shape, loss="sil"), method)
