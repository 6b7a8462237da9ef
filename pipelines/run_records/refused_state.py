"""A stream that must not go on: it is told once, and its job ends for good.

Its state was refused, as older than what it has published; its feed is gone; or its input does not fit any more, and it
was told to end then (--end-on-rejected).

The step that finds out writes ``OUT/restricted/refused.json``. Of an older state it raises too; Flink restarts a job
that fails, and each attempt would fail again. So the source looks for that file: when it is there, nothing more is
read, time stands still, no window closes, and the job is cancelled on the cluster that run.json names. A cluster that
gives workers no answer keeps the job, idle, until somebody cancels it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from kanonflow.pipelines.flink.jobs import cancel_jobs
from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory, read_whole
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.lineage.earlier_releases import OlderStateError
from kanonflow.transforms.lineage.published_slots import refusal_file

LOST_INPUT = "lost_input"
"""The kind of a refusal that lies in the input."""


FEED_GONE = "feed_gone"
"""The kind of a refusal of a feed that nobody can read on."""


class GoneFeedError(Exception):
    """A stream's feed cannot be read on; the message says why and what to do."""

    exit_code = 3


class LostInputError(Exception):
    """Too much of a stream's input does not fit; the message names reasons and fields."""

    exit_code = 3


_KINDS = {LOST_INPUT: LostInputError, FEED_GONE: GoneFeedError}


@dataclass(frozen=True)
class RefusedState:
    """output: where the stream writes, as workers see it."""

    output: str

    def stands(self) -> bool:
        """Whether the stream must not go on."""
        return bool(storage.exists(refusal_file(self.output)))

    def raise_it(self) -> None:
        """Raise what was said: GoneFeedError, LostInputError or OlderStateError; nothing of nothing."""
        if self.stands():
            refusal = json.loads(read_whole(refusal_file(self.output)))
            raise _KINDS.get(refusal.get("kind"), OlderStateError)(refusal["reason"])

    def refuse(self, kind: str, reason: str) -> None:
        """Leave the word that the stream must not go on; the first one stays."""
        path = refusal_file(self.output)
        make_directory(storage.split(path)[0], private=True)
        create_if_absent(path, json.dumps({"reason": reason, "kind": kind}, indent=1).encode(), private=True)

    def end_job(self) -> None:
        """Cancel the job, as far as its cluster answers; none once a new start has taken the refusal away."""
        with contextlib.suppress(OSError):
            if not self.stands():
                return
            job = (read_record(restricted_directory(self.output)) or {}).get("job")
            if isinstance(job, dict) and "cluster" in job:
                cancel_jobs(job["cluster"], job["name"])
