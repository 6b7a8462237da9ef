"""``kanonflow stream --end-on-rejected``: a stream whose input does not fit any more ends, and says what was expected.

The step that reads finds it out and leaves the reason where a refused state leaves its own (``refused_state``): nothing
more is read, no window closes, the job is cancelled. What was released stays; what was not goes on from the last
checkpoint or savepoint, by another job under a policy that reads the input.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from kanonflow.pipelines.run_records.refused_state import LOST_INPUT
from kanonflow.pipelines.terminal.lost_input import lost_lines, lost_rows
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.lineage.published_slots import refusal_file
from kanonflow.transforms.rows.unfit import LastRows


@dataclass(frozen=True)
class EndOnRejected:
    """output: where the stream writes, as workers see it.     bound: its policy."""

    output: str
    bound: BoundPolicy

    def __call__(self, last: LastRows) -> None:
        """Leave the reason, once: the first worker that finds one is heard."""
        limit = self.bound.policy.rejected_limit
        lost = lost_rows(last.unfit, last.rows, limit, self.bound.columns)
        read_once = bool(self.bound.policy.read_once)
        lines = lost_lines(lost, last.unfit.total(), last.rows, limit, the="the last ", known=read_once)
        path = refusal_file(self.output)
        make_directory(storage.split(path)[0], private=True)
        refusal = {"kind": LOST_INPUT, "reason": "\n".join(lines)}
        create_if_absent(path, json.dumps(refusal, indent=1).encode(), private=True)
