"""After the warm-up no window of the default solvers waits for a kernel."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from kanonflow.solvers.matching.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.warm_up import tied_graph

pytestmark = pytest.mark.thorough

SOLVES = """
    import gc
    import sys
    from dataclasses import replace
    import numpy as np
    from numba.core.dispatcher import Dispatcher
    from kanonflow.solvers.problem.budget import Budget
    from kanonflow.solvers.problem.task import Task
    from kanonflow.solvers.dispatch import solve
    from kanonflow.solvers.problem.last_window import WarmGraph
    from kanonflow.solvers.warm_up import warm_up
    from tests.mixed_tables import mixed_table

    asked = sys.argv[1] if len(sys.argv) > 1 else None
    loss = sys.argv[2] if len(sys.argv) > 2 else "ncp"
    warm_up(asked, loss=loss)
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    loaded = {id(kernel): len(kernel.signatures) for kernel in kernels}
    table = mixed_table(1, 400)
    pairs = replace(table, individuals=np.arange(400) // 2)
    everybody = replace(table, individuals=np.arange(400))
    for shape, rows in (
        ("row_graph", table), ("row_graph", pairs), ("row_graph", everybody),
        ("classes", pairs), ("classes", everybody),
    ):
        if asked not in (None, shape):
            continue
        found = solve(Task(rows, 5, shape=shape, loss=loss, budget=Budget(300.0), seed=1))
        if shape == "row_graph" and rows is everybody:
            old = found.graph.members[3:].astype(np.int64)
            before = WarmGraph(np.where(old % 50 == 7, -1, old))
            solve(Task(rows, 5, loss=loss, budget=Budget(300.0), seed=1, warm=before))
            solve(Task(rows, 2, loss=loss, budget=Budget(300.0), seed=1))
            solve(Task(rows, 3, loss=loss, budget=Budget(5000.0), seed=1))
            solve(Task(rows, 5, loss=loss, budget=Budget(13_000.0), seed=1))
    print([kernel.py_func.__qualname__ for kernel in kernels if len(kernel.signatures) > loaded[id(kernel)]])
"""


@pytest.mark.parametrize(
    "asked", [(), ("row_graph",), ("classes",), ("row_graph", "sil"), ("classes", "sil")]
)
def test_the_default_solvers_find_their_kernels_loaded(asked: tuple[str, ...]) -> None:
    """A process of its own, where nothing was called before: each shape, with one row a person and with several.

    Of graphs also k = 2, searches that are merged, the window after another one, and the other loss.
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SOLVES), *asked],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert told.stdout.strip() == "[]"


MERGES = """
    import gc
    import sys
    from dataclasses import replace
    import numpy as np
    from numba.core.dispatcher import Dispatcher
    from kanonflow.solvers.merging.merging import merge_cohorts
    from kanonflow.solvers.warm_up import warm_up_merging
    from tests.naive_merging import merge_task

    trees = int(sys.argv[1])
    warm_up_merging(hierarchies=trees > 0)
    kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    loaded = {id(kernel): len(kernel.signatures) for kernel in kernels}
    task = merge_task(1, 60, 5, trees=trees)
    merge_cohorts(replace(task, warm=np.arange(60) // 3))
    print([kernel.py_func.__qualname__ for kernel in kernels if len(kernel.signatures) > loaded[id(kernel)]])
"""


@pytest.mark.parametrize("trees", [0, 1])
def test_merging_finds_its_kernels_loaded(trees: int) -> None:
    """Numbers and sets, and with a hierarchy; greedy and after another window."""
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MERGES), str(trees)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert told.stdout.strip() == "[]"


LISTED = """
    import sys
    from kanonflow.solvers.kernels.units import known_units
    from deploy.wheel.record_kernels import loaded_kernels
    from kanonflow.solvers.warm_up import warm_up_set

    units = known_units()
    names = sys.argv[1:] or list(units.sets)
    for name in names:
        warm_up_set(name)
    ahead = {(units.units[place].kernel, units.units[place].arguments) for place in units.of(names)}
    print([name for name, arguments in loaded_kernels() if (name, arguments) not in ahead])
"""


def test_what_is_warmed_up_is_compiled_ahead() -> None:
    """By processes, from the list of kernels. Where it lacks one: ``make kernel-list``."""
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LISTED)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert told.stdout.strip() == "[]"


def test_the_tied_graph_has_a_tie() -> None:
    """Else the exchange of cuts would not be loaded."""
    changed, left = without_two_edge_cuts(tied_graph(), None)
    assert left == 0
    assert not (changed == tied_graph()).all()
