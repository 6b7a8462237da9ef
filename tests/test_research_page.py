"""docs/research.md runs: its Python, its package, its policy and its command, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[1] / "docs" / "research.md"


def test_the_page_for_researchers_runs(tmp_path: Path) -> None:
    """A table of a frame and of arrays, solvers, a proof, a solver of one's own, files compared."""
    page = PAGE.read_text()
    code, commands = "", []
    for block in re.finditer(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        language, text = block.groups()
        paragraph = page[: block.start()].rstrip().rsplit("\n\n", 1)[-1]
        if name := re.search(r"`([\w/-]+\.(?:py|toml|yaml))`", paragraph):
            (tmp_path / name[1]).parent.mkdir(exist_ok=True)
            (tmp_path / name[1]).write_text(text)
        elif language == "python":
            code += text
        else:
            commands.append(text)
    (tmp_path / "page.py").write_text(code)
    there = tmp_path / "installed"
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    # Beside the environment of the tests, with what that has.
    options = {
        "PIP_TARGET": str(there),
        "PIP_NO_BUILD_ISOLATION": "no",
        "PIP_NO_DEPS": "yes",
        "PIP_NO_INDEX": "yes",
    }
    environment = {**os.environ, **options, "PATH": path, "PYTHONPATH": str(there)}

    def ran(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    install, compare = commands
    ran("bash", "-euc", install)
    said = ran(sys.executable, "page.py")
    assert "300 records of 2 attributes" in said
    bound = re.search(r"^([\d.]+)% above a proven bound$", said, re.MULTILINE)
    assert bound is not None
    assert float(bound[1]) < 30
    both = re.search(r"^in-order ([\d.]+) and searched from there ([\d.]+)$", said, re.MULTILINE)
    assert both is not None
    assert float(both[2]) < float(both[1])
    losses = dict(re.findall(r"^([a-z-]+) ([\d.]+)$", said, re.MULTILINE))
    assert set(losses) == {"l-greedy", "hungarian", "paper-local-search", "mondrian"}
    table = ran("bash", "-euc", compare)
    assert len(re.findall(r"\b(?:auto|in-order|mondrian|kab)\b", table)) >= 8
