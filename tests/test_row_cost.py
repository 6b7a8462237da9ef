"""The comparison with an earlier commit runs each tree's own code, and says when it cannot."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks import row_mode_cost
from benchmarks.row_cost import ROOMS, STAGES, STAGES_PROGRAM, ChildFailedError, Tree, tree_of

HERE = Path(__file__).parent.parent


def test_a_tree_runs_its_own_code(tmp_path: Path) -> None:
    """Of two trees with a schema of their own each program sees its own, whatever is installed."""
    for name in ("one", "other"):
        for room in ROOMS:
            (tmp_path / name / room).mkdir(parents=True)
        (tmp_path / name / "schemas" / "said.py").write_text(f"NAME = {name!r}\n")
        tree = Tree(name, tree_of(str(tmp_path / name), tmp_path), tmp_path)
        told, cpu = tree.run("from kanonflow.schemas.said import NAME\nprint(NAME, *sys.argv[1:])", "x", 1)
        assert told.split() == [name, "x", "1"]
        assert cpu > 0
    assert tree_of(str(HERE), tmp_path) == HERE


def test_a_program_that_fails_is_no_measurement() -> None:
    """The error names the tree and shows the end of what was printed."""
    tree = Tree("after", HERE, None)
    with pytest.raises(ChildFailedError, match=r"after: .*no number"):
        tree.run("raise SystemExit('no number')")


def test_every_stage_is_there() -> None:
    """A function that was renamed would be left out without a word: that is for trees of before."""
    for module, name, _ in (*STAGES, *row_mode_cost.PLACES):
        assert callable(getattr(importlib.import_module(f"kanonflow.{module}"), name))


def test_stages_sum_up_to_the_whole() -> None:
    """What stands within another stage counts once; what no tree has is left out."""
    body = STAGES_PROGRAM.replace("from kanonflow.pipelines.cli import main", "main = command")
    made = """
import types
def command(arguments):
    tried.outer()
    return 0
tried = types.ModuleType("kanonflow.tried")
tried.inner = lambda: sum(range(10**6))
tried.outer = lambda: tried.inner() + sum(range(10**6))
sys.modules["kanonflow.tried"] = tried
"""
    places = [("tried", "inner", "in"), ("tried", "outer", "out"), ("tried", "gone", "x"), ("gone", "f", "x")]
    told, whole = Tree("after", HERE, None).run(made + body, json.dumps(places))
    spent = json.loads(told.splitlines()[-1])
    assert spent.keys() == {"imports", "in", "out", "between"}
    assert min(spent["in"], spent["out"]) > 0.005
    assert spent["out"] < 3 * spent["in"]
    assert sum(spent.values()) <= whole
