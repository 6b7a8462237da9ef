"""Solvers of packages: found by name through entry points, loaded when asked for, refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kanonflow.solvers.kernels.units import known_units
from kanonflow.solvers.registered import GROUP
from kanonflow.solvers.rivals.by_name import RIVALS

ROOT = Path(__file__).parents[2]
SOLVER = '''
    """Classes in the order of the rows: no search, no kernels."""
    import numpy as np
    from kanonflow.solvers.catalogue import start_alone
    from kanonflow.solvers.shapes.class_starts import StartedClasses

    def in_order(problem):
        u = problem.people.rows.size
        return StartedClasses(np.minimum(np.arange(u) // problem.k, u // problem.k - 1).astype(np.int32))

    def solver_named(name):
        return start_alone(name, class_start=in_order)
'''


def package(folder: Path, name: str, entries: dict[str, str]) -> None:
    """What an installed package looks like: a module with a solver, and its metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(textwrap.dedent(SOLVER))
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


def told(code: str, *folders: Path) -> str:
    """What a process prints that has some packages beside ours."""
    path = os.pathsep.join(map(str, (*folders, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_rival_is_registered_under_its_name() -> None:
    """What setup.py lists is what the room brings. After a change of setup.py the package is installed anew."""
    ours = {entry.name for entry in entry_points(group=GROUP) if "kanonflow.solvers.rivals" in entry.value}
    assert ours == set(RIVALS)
    assert all(name == solver.name for name, solver in RIVALS.items())


def test_no_list_of_the_product_names_a_rivals_kernel() -> None:
    """What the wheel carries and what is compiled ahead are kernels that ``auto`` calls."""
    assert not [unit.kernel for unit in known_units().units if unit.kernel.startswith("rivals.")]


def test_a_run_with_the_default_solver_loads_no_rival() -> None:
    """Neither the command with the demo, nor a policy's check, nor rows founded, merged and released."""
    loaded = told(
        """
        import sys
        import pyarrow as pa
        import kanonflow
        import kanonflow.pipelines.cli
        import kanonflow.pipelines.commands.demo_feed
        import kanonflow.pipelines.runs.anonymize_files
        import kanonflow.pipelines.commands.policy
        from kanonflow.transforms.solver_check import check_solver
        from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly
        from tests.driven_partitions import DrivenPartitions

        policy = feed_policy(cohort="lasting", cohort_size=4)
        check_solver(policy)
        step = DrivenPartitions(bound_feed(policy), SECRET)
        step.send(hourly(2, 12, 9))
        step.finish()
        assert sum(metrics["rows_released"] for metrics in step.metrics)
        print([name for name in sys.modules if "solvers.rivals" in name])
        """
    )
    assert loaded.splitlines()[-1] == "[]"


def test_a_solver_of_another_package_is_found_by_name(tmp_path: Path) -> None:
    """As a method and as a start, of ``solve`` and of a policy; its module is imported when it is asked for."""
    package(tmp_path, "strangers", {"in-order": "strangers:solver_named"})
    said = json.loads(
        told(
            """
            import json, sys
            import numpy as np
            from kanonflow.solvers import Budget, Task, solve
            from kanonflow.solvers.catalogue import solver_names
            from kanonflow.transforms.solver_check import check_solver
            from tests.mixed_tables import mixed_table
            from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly
            from tests.driven_partitions import DrivenPartitions

            known = "in-order" in solver_names() and "strangers" not in sys.modules
            task = Task(mixed_table(1, 30), 3, shape="classes", budget=Budget(50.0), seed=1)
            alone, started = solve(task, "in-order"), solve(task, "auto")
            policy = feed_policy(solver="in-order", cohort="window", max_window_rows=1000)
            check_solver(policy)
            step = DrivenPartitions(bound_feed(policy), SECRET)
            step.send(hourly(2, 12, 9))
            step.finish()
            print(json.dumps({
                "known": known, "start": alone.start, "evaluations": alone.evaluations,
                "loaded": "strangers" in sys.modules,
                "starts": sorted({each["start"] for each in step.metrics}),
                "rows": sum(each["rows_released"] for each in step.metrics) > 0,
            }))
            """,
            tmp_path,
        ).splitlines()[-1]
    )
    assert said == {
        "known": True, "start": "in-order", "evaluations": 0, "loaded": True, "starts": ["in-order"], "rows": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"in-order": "nowhere:solver_named"}, "cannot be loaded"),
        ({"in-order": "strangers:missing"}, "cannot be loaded"),
        ({"in-order": "json:loads"}, "cannot be loaded"),
        ({"k-member": "strangers:solver_named"}, "two packages bring"),
    ],
)
def test_what_a_package_cannot_give_is_refused_by_name(
    tmp_path: Path, entries: dict[str, str], words: str
) -> None:
    """With the policy, before the first window; a policy that names nothing of it is none the worse."""
    package(tmp_path, "strangers", entries)
    (name,) = entries
    said = told(
        f"""
        from kanonflow.schemas.errors import PolicyError
        from kanonflow.transforms.solver_check import check_solver
        from tests.small_feeds import feed_policy

        check_solver(feed_policy())
        try:
            check_solver(feed_policy(solver={name!r}, cohort="window", max_window_rows=1000))
        except PolicyError as refused:
            print(refused)
        """,
        tmp_path,
    )
    assert words in said
    assert name in said
