"""However reading a CSV file ends, its reader thread ends first: no process is aborted, and none waits for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = '''
import sys, time
from kanonflow.pipelines.feeds import csv_files
from kanonflow.schemas.errors import InputError

class Slow:
    """A stream that takes a while to answer, as storage elsewhere does."""
    def __init__(self, stream): self.stream = stream
    def read(self, size=-1):
        time.sleep(0.02)
        return self.stream.read(min(size, 1 << 16))
    def readline(self, size=-1): return self.stream.readline(size)
    def __enter__(self): return self
    def __exit__(self, *raised): self.stream.close()

opened = csv_files.open_text
csv_files.open_text = lambda *given, **named: Slow(opened(*given, **named))
rows = csv_files.read_csv(sys.argv[1], ["id", "name"])
try:
    if sys.argv[2] == "all":
        for batch in rows: pass
    else:
        next(rows)
    if sys.argv[2] == "close":
        rows.close()
except InputError as error:
    sys.exit(f"{error}")
'''


def written(path: Path, before: int, after: int) -> Path:
    """Rows, one with a quoted value that does not end, and more rows."""
    lines = ["id,name", *(f"p{n},n{n} {'x' * 60}" for n in range(before)), 'p1,"open']
    path.write_text("\n".join([*lines, *(f"p{n},n{n} {'x' * 60}" for n in range(after))]) + "\n")
    return path


@pytest.mark.parametrize(("before", "after"), [(100, 40_000), (20_000, 40_000), (20_000, 3)])
@pytest.mark.parametrize("how", ["all", "close", "leave"])
def test_a_process_ends_in_order_however_reading_ends(
    tmp_path: Path, how: str, before: int, after: int
) -> None:
    """All rows until the open quote is found, some and closed, some and left for the interpreter's end: never a signal.

    The stream is slow, so that its thread is at work when the process wants to end.
    """
    path = written(tmp_path / "open.csv", before, after)
    ended = subprocess.run(
        [sys.executable, "-c", SLOW, str(path), how], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert "terminate" not in ended.stderr
    if how == "all":
        assert ended.returncode == 1
        assert "quoted value does not end" in ended.stderr
