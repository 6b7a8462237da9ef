"""A run says that it compiles when numba's cache holds nothing of its solver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pathlib import Path
from kanonflow.pipelines.runs.kernel_cache import compiles_first
from kanonflow.solvers.class_search.moves import class_descend
from kanonflow.solvers.search.two_opt import descend
from tests.small_feeds import feed_policy
kernels = {"moves": class_descend, "two_opt": descend}
for module in sys.argv[1:]:
    folder = Path(kernels[module].stats.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.kernel-1.py311.nbi").touch()
print(compiles_first(feed_policy()), compiles_first(feed_policy(people=False)))
"""


@pytest.mark.parametrize(
    ("cached", "said"),
    [((), "True True"), (("moves",), "False True"), (("two_opt",), "True False")],
    ids=["nothing", "people", "rows"],
)
def test_a_cache_is_that_of_a_shape(tmp_path: Path, cached: tuple[str, ...], said: str) -> None:
    """Whether a policy of people, and one of rows, would compile; kernels of the one say nothing of the other."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *cached],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == said
