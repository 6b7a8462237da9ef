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
from kanonflow.solvers.merging.moves import best_move
from kanonflow.solvers.search.two_opt import descend
from tests.small_feeds import feed_policy
kernels = {"people": class_descend, "rows": descend, "merging": best_move}
for name in sys.argv[1:]:
    folder = Path(kernels[name].stats.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{Path(kernels[name].py_func.__code__.co_filename).stem}.kernel-1.py311.nbi").touch()
asked = feed_policy(), feed_policy(people=False), feed_policy(cohort="lasting")
print(*map(compiles_first, asked))
"""


@pytest.mark.parametrize(
    ("cached", "said"),
    [
        ((), "True True True"),
        (("people",), "False True True"),
        (("rows",), "True False True"),
        (("merging",), "True True True"),
        (("people", "merging"), "False True False"),
    ],
    ids=["nothing", "people", "rows", "merging", "lasting"],
)
def test_a_cache_is_that_of_a_shape(tmp_path: Path, cached: tuple[str, ...], said: str) -> None:
    """Whether policies of people, of rows, and of people who last would compile.

    Kernels of the one say nothing of the other; people who last need those of two kinds.
    """
    done = subprocess.run(
        [sys.executable, "-c", CODE, *cached],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == said
