"""What the documents say to run of deploy/ can be run, as they say it, before a cluster or broker is needed."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = "\n".join(
    path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
)


def test_commands_of_the_documents_start() -> None:
    """Each prints its help in the project's folder, which is all that is on the path."""
    modules = sorted(set(re.findall(r"python -m (deploy\.[\w.]+)", DOCUMENTS)))
    assert {"deploy.flink.session", "deploy.kafka.broker"} <= set(modules)
    for module in modules:
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_no_document_runs_a_file_of_deploy() -> None:
    """A file run by its path sees its own folder only, and nothing that it shares with others."""
    assert re.findall(r"python deploy/\S+", DOCUMENTS) == []
