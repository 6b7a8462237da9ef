"""A live line on the terminal while a pipeline runs: rows, windows, current loss.

The runner says nothing until it ends, but every window leaves a metrics file when it is released, so a side
thread follows the folder.
"""

import contextlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

import fastavro

POLL_SECONDS = 0.2


class MetricsFollower:
    """Reads the metrics files of a folder, each once, as they appear. ``poll`` from one thread only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def poll(self) -> list[Mapping[str, Any]]:
        """The records of the files that are new since the last call; complete ones, as files appear whole."""
        found = []
        for path in sorted(self._folder.glob("*.avro")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                found.extend(read_metrics(path.read_bytes()))
        return found


def read_metrics(data: bytes) -> list[Mapping[str, Any]]:
    """The records of one metrics file."""
    return [record for record in fastavro.reader(BytesIO(data)) if isinstance(record, dict)]


def watched_live(terminal: TextIO) -> bool:
    """Whether ``progress`` shows anything there."""
    return terminal.isatty() and importlib.util.find_spec("rich") is not None


@contextlib.contextmanager
def progress(folder: Path, terminal: TextIO, *, quiet: bool = False) -> Iterator[None]:
    """Show the progress of the run whose metrics appear in ``folder``, as long as the context lasts.

    Silent when ``quiet``, when ``terminal`` is none (a pipe, a file), or without rich.
    """
    if quiet or not terminal.isatty():
        yield
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        yield
        return
    follower = MetricsFollower(folder)
    follower.poll()  # of a resumed run, only what is new counts
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[windows]:,} windows"),
        TextColumn("GCP {task.fields[loss]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
        task = bar.add_task("", total=None, rows=0, windows=0, loss="-")
        stop = threading.Event()

        def follow() -> None:
            rows = windows = 0
            while not stop.wait(POLL_SECONDS):
                for record in follower.poll():
                    rows += record["rows_released"]
                    windows += record["released"]
                    loss = "-" if record["gcp"] is None else f"{record['gcp']:.4f}"
                    bar.update(task, rows=rows, windows=windows, loss=loss)

        thread = threading.Thread(target=follow, name="kanonflow-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
