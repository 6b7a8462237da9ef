"""pandas is for those who read releases with it: nothing else needs it, and an installation does not bring it."""

import os
import subprocess
import sys
from pathlib import Path

_RUN = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoPandas())
from kanonflow.pipelines.cli import main
sys.exit(main(["demo", "--rows", "2000", "--days", "3", "--quiet", "--evaluations", "2", "--output", sys.argv[1]]))
"""


def test_the_demo_runs_without_pandas(tmp_path: Path) -> None:
    """A feed of all types is read, released and written in an installation that has no pandas."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path / "out")],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out" / "release").glob("*.avro"))
