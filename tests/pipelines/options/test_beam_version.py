"""Which Beam is needed: that of the locks on clusters, the range of setup.py elsewhere."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from kanonflow.pipelines.options import beam_version
from kanonflow.pipelines.options.beam_version import TESTED, BeamVersionError, need_tested_beam
from kanonflow.pipelines.options.options import parse, run_options
from kanonflow.pipelines.runs import worker_pool

ROOT = Path(__file__).parents[3]


def test_the_tested_beam_is_that_of_the_locks() -> None:
    """A lock that moves on takes the constant with it, and with it the tests of clusters."""
    for lock in ("run", "dataflow", "test"):
        text = (ROOT / "locks" / f"{lock}.lock").read_text()
        pinned = re.search(r"^apache-beam(?:\[[a-z,-]+\])?==([0-9.]+)", text, re.MULTILINE)
        assert pinned is not None
        assert pinned[1].startswith(f"{TESTED}.")


def test_another_beam_is_refused_with_what_to_install() -> None:
    """By what comes before the second point: a 2.7 is no 2.77."""
    need_tested_beam("x", f"{TESTED}.0")
    need_tested_beam("x", f"{TESTED}.1rc1")
    for other in ("2.72.0", "2.7.7", "2.770.0", "3.77.0"):
        with pytest.raises(
            BeamVersionError, match=rf"x needs apache-beam {TESTED}, .* {other} is installed"
        ) as refused:
            need_tested_beam("x", other)
        assert refused.value.exit_code == 2


def _arguments(command: str, runner: str) -> tuple[argparse.Namespace, tuple[str, ...]]:
    feed = "--source" if command == "stream" else "--input"
    return parse([command, "--policy", "p.yaml", feed, "f", "--output", "out", "--runner", runner])


@pytest.mark.parametrize(
    ("command", "runner"),
    [("stream", "FlinkRunner"), ("stream", "DataflowRunner"), ("anonymize", "FlinkRunner")],
)
def test_jobs_on_clusters_need_it(command: str, runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written or sent; a local run takes another Beam."""
    monkeypatch.setattr(beam_version, "version", lambda name: "2.72.0")
    with pytest.raises(BeamVersionError, match=f"--runner {runner} needs apache-beam {TESTED}"):
        run_options(*_arguments(command, runner))
    assert run_options(*_arguments("anonymize", "FnApiRunner")).runner == "FnApiRunner"
    with pytest.raises(BeamVersionError, match="this pool of workers needs"):
        worker_pool.main(["--service_port=0"])
