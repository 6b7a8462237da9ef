"""What a killed run left in the temporary folder is cleaned by the next one, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kanonflow.pipelines.flink.temporary_folder import private_temporary_folder, remove_left_folders

RUN = """
import sys, time
from kanonflow.pipelines.flink.temporary_folder import private_temporary_folder
with private_temporary_folder([]) as flags:
    print(flags[0].partition("tmpdir=")[2], flush=True)
    time.sleep(600)
"""


def begun(above: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has such a folder, and the folder."""
    environment = {**os.environ, "TMPDIR": str(above)}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_folders_of_processes_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a killed process goes when the next run begins. One of a process that lives stays, and so do folders
    without a mark, with another machine's, and links."""
    killed, left = begun(tmp_path)
    alive, used = begun(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.is_dir()
        (left / "more").write_text("x")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        mark = (left / ".of-process").read_text()
        (elsewhere / ".of-process").write_text(mark)
        (tmp_path / "kanonflow-link").symlink_to(elsewhere)
        (tmp_path / "kanonflow-trace").mkdir()
        (tmp_path / "kanonflow-other").mkdir()
        boot, rest = mark.split(" ", 1)
        (tmp_path / "kanonflow-other" / ".of-process").write_text(f"{boot[::-1]} {rest}")
        (tmp_path / "others").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with private_temporary_folder([]):
            assert not left.exists()
            assert used.is_dir()
            assert remove_left_folders(str(tmp_path)) == 0
        for name in (
            "elsewhere/.of-process",
            "kanonflow-link",
            "kanonflow-trace",
            "kanonflow-other",
            "others",
        ):
            assert (tmp_path / name).exists()
    finally:
        alive.kill()
        alive.wait()
