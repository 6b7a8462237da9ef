"""A task refuses what contradicts itself, and counts its deadline from when it is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.task import Task
from tests.mixed_tables import mixed_table

TABLE = mixed_table(1, 12)
GRAPH = WarmGraph(np.zeros((12, 3), dtype=np.int64))
CLASSES = WarmClasses(np.zeros(12, dtype=np.int64))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"shape": "ring"}, "unknown shape 'ring': choose one of row_graph, classes"),
        ({"warm": CLASSES}, "shape row_graph takes a WarmGraph as warm start"),
        ({"warm": GRAPH, "shape": "classes"}, "shape classes takes a WarmClasses as warm start"),
        (
            {"sensitive": (Sensitive(np.zeros(12, dtype=np.int64)),)},
            "rules for sensitive values need shape classes",
        ),
    ],
)
def test_what_does_not_fit_the_shape_is_refused(wrong: dict[str, Any], told: str) -> None:
    """The message says what would fit."""
    with pytest.raises(BudgetError, match=told):
        Task(TABLE, 3, seed=1, **wrong)


def test_the_deadline_is_counted_from_now() -> None:
    """In seconds of the task's own clock; a budget without one asks no clock."""
    assert Task(TABLE, 3, seed=1, budget=Budget(deadline_ms=250.0), clock=lambda: 10.0).deadline() == 10.25
    assert Task(TABLE, 3, seed=1, clock=lambda: 1 / 0).deadline() is None
