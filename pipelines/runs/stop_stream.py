"""Ending a stream in order: ``kanonflow stop OUT``.

The request is a file that the stream's source looks for, ``OUT/restricted/stop``. Once it is there, the feed ends with
what it holds then: the topic where each partition ends now, the directory when every file in it is read. From there on
it is the end of any feed: every window closes, what cannot be released any more is rejected, nothing waits, and
``OUT/restricted/ended`` appears (feed_end.py). The request stays. A job that fails meanwhile, and goes on from its last
checkpoint, ends at the same place, for the ends of a topic's partitions are part of its position.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from kanonflow.pipelines.flink.jobs import cancel_jobs, is_alive
from kanonflow.pipelines.run_records.refused_state import RefusedState
from kanonflow.pipelines.run_records.run_directory import RunDirectoryError, lock_directory
from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.pipelines.runs.anonymize_files import RunFailedError
from kanonflow.pipelines.runs.feed_end import end_file, stop_file
from kanonflow.pipelines.runs.stream import StreamSummary, summarize_stream
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.files.storage import is_local

POLL_SECONDS = 0.5
UNREACHABLE_SECONDS = 60.0
"""How long the job's cluster may give no answer."""


def stop_stream(
    output: str, *, timeout_s: float | None = None, clock: Callable[[], float] = time.monotonic
) -> StreamSummary | None:
    """Ask the stream of a directory to end, and wait until everything it held is released or rejected.

    output: its ``--output``, or ``--restricted`` when releases go into a topic. timeout_s: None waits for ever.
    None is returned for a job on Dataflow (a remote output and no cluster), which ends later, by itself.
    Raises:
        RunDirectoryError: no stream began there, or no job of it runs that could end.
        RunFailedError: the job ended without its feed, or not in time; the request stays.
        OlderStateError: the state that the job went on from was refused.
        GoneFeedError: the job ended because its feed cannot be read on.
        LostInputError: the job ended because its input does not fit.
    """
    record = read_record(restricted_directory(output))
    job = (record or {}).get("job")
    if not isinstance(job, dict):
        raise RunDirectoryError(f"{output} holds no stream (no job in restricted/run.json); nothing to stop")
    RefusedState(output).raise_it()
    if not storage.exists(end_file(output)):
        if not _may_run(job, output):
            raise RunDirectoryError(
                f"{output}: its job {job.get('name')} does not run, so it cannot end in order; go on from its last"
                " checkpoint or savepoint (--resume --savepoint_path=...), and stop that"
            )
        create_if_absent(stop_file(output), b"", private=True)
        if "cluster" not in job and not is_local(output):
            return None
        _wait(job, output, timeout_s, clock)
    _cancel(job)
    return summarize_stream(output)


def _wait(job: Mapping[str, Any], output: str, timeout_s: float | None, clock: Callable[[], float]) -> None:
    begun = seen = clock()
    while not storage.exists(end_file(output)):
        RefusedState(output).raise_it()
        now = clock()
        runs = _runs(job, output)
        if runs:
            seen = now
        # The file may have come between the two looks.
        elif not storage.exists(end_file(output)) and (runs is False or now - seen > UNREACHABLE_SECONDS):
            why = "is gone" if runs is False else f"gave no answer for {UNREACHABLE_SECONDS:.0f} s"
            raise RunFailedError(
                f"{output}: the job {job.get('name')} {why}, and its feed has not ended; the request stays: go on from"
                " its last checkpoint (--resume --savepoint_path=...) and it ends there"
            )
        if timeout_s is not None and now - begun > timeout_s:
            raise RunFailedError(
                f"{output}: the feed has not ended within {timeout_s:.0f} s; the request stays, and the job ends"
                " when it gets there"
            )
        time.sleep(POLL_SECONDS)


def _may_run(job: Mapping[str, Any], output: str) -> bool:
    return _runs(job, output) is not False


def _runs(job: Mapping[str, Any], output: str) -> bool | None:
    """Whether the job runs; None when its cluster does not answer.

    A job without a cluster runs as long as its command, which holds the lock of a local directory.
    """
    if "cluster" in job:
        try:
            return is_alive(job["cluster"], job["name"])
        except OSError:
            return None
    if not is_local(output):
        return None
    try:
        with lock_directory(restricted_directory(output)):
            return False
    except RunDirectoryError:
        return True


def _cancel(job: Mapping[str, Any]) -> None:
    """A Flink job whose feed has ended stays, until it is told to go (feed_end.py)."""
    if "cluster" in job:
        with contextlib.suppress(OSError):
            cancel_jobs(job["cluster"], job["name"])
