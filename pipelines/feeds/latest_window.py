"""Where the rows of files end in time: one look at their time column."""

from __future__ import annotations

from collections.abc import Sequence

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.event_times import event_times


def latest_window_end(files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm) -> int | None:
    """The end of the window of the latest row, in ms; None: no row has a time, or there are no windows.

    Rows that are rejected for other fields count: only the time is read. O(rows).
    Raises InputError: a file is damaged.
    """
    policy = bound.policy
    if policy.time is None or policy.window_ms is None:
        return None
    column = bound.column(policy.time.name).name
    latest: int | None = None
    for file in files:
        for batch in read_batches(file, (column,), form):
            rows = from_ipc(batch.ipc)
            if rows.num_rows and (times := event_times(rows, bound, source=file.name)).size:
                latest = max(int(times.max()), latest if latest is not None else int(times.max()))
    if latest is None:
        return None
    number = (latest - policy.window_offset_ms) // policy.window_ms
    return (number + 1) * policy.window_ms + policy.window_offset_ms
