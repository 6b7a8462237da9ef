"""What a run over files says at its end of who could have waited for the next one, and of who does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kanonflow.pipelines.terminal.lasting_lines import lasting_figures
from kanonflow.pipelines.terminal.summary import RunSummary
from kanonflow.transforms.files.output_directories import carried_directory
from kanonflow.transforms.windows.chain import Chain

_WAITED = ("awaits_intake", "intake_too_large", "too_few_peers")
"""Why rows of a policy with cohorts that last are rejected that others could have been released with."""


def run_end_notes(
    chain: Chain | None, records: Iterable[Mapping[str, Any]], summary: RunSummary, output: str
) -> tuple[str, ...]:
    """A sentence about rows that were rejected and one about what waits; none where nothing is to be said.

    chain: None: nothing can wait for another run.

    records: the run's metrics.
    """
    if chain is None:
        return ()
    steps = list(records)
    pool = 0 if (figures := lasting_figures(steps)) is None else sum(people for _, people in figures.pool)
    if chain.carry and not summary.rows_waiting:
        return ()
    if chain.carry:
        return (
            f"{summary.rows_waiting:,} rows wait in {carried_directory(output)} for the run that continues this one"
            " (--continue); nothing else will release them.",
        )
    notes = []
    waited = sum(summary.rejected.get(reason, 0) for reason in _WAITED)
    if waited:
        could = could_have_waited(steps)
        more = (
            f" {could:,} of them could have waited for a run that continues this one (--carry)."
            if could
            else ""
        )
        notes.append(
            f"{waited:,} rows waited for other people until they had to leave, at the latest at this run's end, and"
            f" were rejected.{more}"
        )
    if pool:
        who = "1 person who was" if pool == 1 else f"{pool:,} people who were"
        notes.append(f"A run that continues this one remembers {who} seen and did not enter.")
    return tuple(notes)


def could_have_waited(records: Iterable[Mapping[str, Any]]) -> int:
    """How many rows were rejected at a time that lies beyond all windows that had rows.

    It was reached only because the input ended there.
    """
    steps = [each for each in records if each["window_end"] is not None]
    latest = max((_number(each["window_end"]) for each in steps if each["rows_new"]), default=None)
    if latest is None:
        return 0
    return sum(
        each["rows_rejected"].get(reason, 0)
        for each in steps
        if _number(each["window_end"]) > latest
        for reason in _WAITED
    )


def _number(end: Any) -> float:
    return float(end.timestamp() * 1000) if hasattr(end, "timestamp") else float(end)
