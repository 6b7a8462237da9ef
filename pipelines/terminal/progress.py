"""A live line on the terminal while a pipeline runs: rows, windows, current loss.

The runner says nothing until it ends. A side thread follows what the steps of this process have done, and the folder,
in which every window leaves a metrics file when it is released, wherever that was.
"""

import contextlib
import importlib.util
import threading
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

import fastavro

from kanonflow.transforms.release.done_here import DONE_HERE, Done

POLL_SECONDS = 0.2


class MetricsFollower:
    """Reads the metrics files of a folder, each once, as they appear. ``poll`` from one thread only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def poll(self) -> list[Mapping[str, Any]]:
        """The records of the files that are new since the last call; complete ones, as files appear whole."""
        records = []
        for path in sorted(self._folder.glob("*.avro")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                records.extend(read_metrics(path.read_bytes()))
        return records


def read_metrics(data: bytes) -> list[Mapping[str, Any]]:
    """The records of one metrics file."""
    return [record for record in fastavro.reader(BytesIO(data)) if isinstance(record, dict)]


def people_shown(latest: Iterable[Mapping[str, Any]]) -> str:
    """Who is known and who waits under ``cohort: lasting``, by the last record of each partition; else nothing."""
    records = [record for record in latest if record.get("epoch") is not None]
    if not records:
        return ""
    inside, waits = (sum(record[name] or 0 for record in records) for name in ("people_known", "pool"))
    return f"{inside:,} people in, {waits:,} wait"


def work_words(here: Done, written: Done, loss: str, people: str) -> str:
    """What a run has done so far. here: by this process; written: that metrics files tell of, from wherever."""
    parts = [f"{here.rows_read:,} rows read"] if here.rows_read else []
    done = max(here, written, key=lambda each: each.windows)
    if done.windows:
        parts += [f"{done.rows_solved:,} rows in {done.windows:,} releases"]
    parts += [f"GCP {loss}"] if loss else []
    return "  ".join([*parts, people]).rstrip() or "begins"


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
    before = DONE_HERE.so_far
    follower = MetricsFollower(folder)
    follower.poll()  # of a resumed run, only what is new counts
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[work]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=terminal), transient=True) as bar:
        task = bar.add_task("", total=None, work=work_words(Done(), Done(), "", ""))
        stop = threading.Event()

        def follow() -> None:
            written, loss = Done(), ""
            last: dict[str, Mapping[str, Any]] = {}
            while not stop.wait(POLL_SECONDS):
                for record in follower.poll():
                    written = Done(
                        0, written.windows + record["released"], written.rows_solved + record["rows_released"]
                    )
                    loss = loss if record["gcp"] is None else f"{record['gcp']:.4f}"
                    last[record["partition"]] = record
                here = DONE_HERE.so_far.since(before)
                bar.update(task, work=work_words(here, written, loss, people_shown(last.values())))

        thread = threading.Thread(target=follow, name="kanonflow-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
