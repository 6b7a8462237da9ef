"""Processes compile what no cache holds, each kernel once; then nothing is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

CODE = """
    import json
    import sys
    from pathlib import Path
    from kanonflow.solvers.kernels import compile_ahead as ahead
    from kanonflow.solvers.kernels.units import Unit, Units, known_units

    names = [unit.kernel for unit in known_units().units]
    # Small ones, of one kernel that calls another.
    caller = next(
        place for place, unit in enumerate(known_units().units)
        if unit.kernel == "units.row_counts._shared"
    )
    units = Units(known_units().units, {"few": (caller,)})
    ahead.known_units = lambda: units
    assert units.units[caller].needs
    told = []
    first = ahead.missing_units(["few"])
    made = ahead.compile_ahead(["few"], lambda *given: told.append(given), processes=2)
    again = ahead.compile_ahead(["few"], lambda *given: told.append(given))
    print(json.dumps({
        "first": first == [caller], "made": made, "again": again, "told": told,
        "units": len(units.of(["few"])), "left": ahead.missing_units(["few"]),
    }))
"""


def test_what_is_missing_is_compiled_by_processes(tmp_path: Path) -> None:
    """A kernel and what it calls, of which a test can wait for: both are in the cache then, one file each."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert told["first"]
    assert told["made"] == told["units"] > 1
    assert (told["again"], told["left"]) == (0, [])
    assert [ready for ready, _, _ in told["told"]] == list(range(1, told["units"] + 1))
    assert told["told"][-1][2] == pytest.approx(1.0)
    assert len(list(tmp_path.rglob("*.nbc"))) == told["units"]
