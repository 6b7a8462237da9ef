"""A stream whose state was refused, as older than what it has published: it is told once, and its job ends for good.

The step that finds out writes ``OUT/restricted/refused.json`` and raises; Flink restarts a job that fails, and each
attempt would fail again. So the source looks for that file: when it is there, nothing more is read, time stands still,
no window closes, and the job is cancelled on the cluster that run.json names. A cluster that gives workers no answer
keeps the job, idle, until somebody cancels it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from apache_beam.io.filesystems import FileSystems

from kanonflow.pipelines.flink.jobs import cancel_jobs
from kanonflow.pipelines.run_records.run_directory import read_record
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.lineage.earlier_releases import OlderStateError
from kanonflow.transforms.lineage.published_slots import refusal_file
from kanonflow.transforms.sinks.sinks import restricted_directory


@dataclass(frozen=True)
class RefusedState:
    """output: where the stream writes, as workers see it."""

    output: str

    def stands(self) -> bool:
        """Whether the state that the stream goes on from was refused."""
        return bool(FileSystems.exists(refusal_file(self.output)))

    def raise_it(self) -> None:
        """Raise OlderStateError, with what was said, if the state was refused."""
        if self.stands():
            raise OlderStateError(json.loads(read_whole(refusal_file(self.output)))["reason"])

    def end_job(self) -> None:
        """Cancel the job, as far as its cluster answers; none once a new start has taken the refusal away."""
        with contextlib.suppress(OSError):
            if not self.stands():
                return
            job = (read_record(restricted_directory(self.output)) or {}).get("job")
            if isinstance(job, dict) and "cluster" in job:
                cancel_jobs(job["cluster"], job["name"])
