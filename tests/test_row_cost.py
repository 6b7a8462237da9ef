"""The comparison with an earlier commit runs each tree's own code, and says when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.row_cost import ROOMS, ChildFailedError, Tree, tree_of

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
