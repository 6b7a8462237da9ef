"""What Flink says of a failure, in words that may be shown: class names and messages of our own, no record's value.

A stack trace of Flink holds the traceback of a Python worker, and that whatever a message was made of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OURS = re.compile(r"\bkanonflow\.[\w.]+Error: ([^\n]+)")
_STEP = re.compile(r" \[while running '.*")
_CAUSE = re.compile(r"^Caused by: ([\w.$]+)", re.MULTILINE)
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt))\b", re.MULTILINE)

_REFUSALS = (
    (
        re.compile(r"No receiver found for timer"),
        "it holds timers of a step that this job has under another name, or not at all: another version took it. Go on"
        " with that version, or end the feed under it with kanonflow stop and begin another stream with --continue",
    ),
    (
        re.compile(r"Cannot map checkpoint/savepoint state for operator"),
        "the savepoint holds state of a step that this job has not: another version, policy, sink or set of flags took"
        " it. Go on with the same ones",
    ),
    (
        re.compile(r"max(?:imum)? parallelism", re.IGNORECASE),
        "the savepoint was taken with another maximum of parallelism: give Flink the pipeline.max-parallelism of"
        " before, and no more --parallelism than that",
    ),
    (
        re.compile(
            r"Cannot find (?:meta data file|checkpoint or savepoint)|_metadata'? .*not|not a valid checkpoint pointer"
            r"|Could not (?:find|resolve) (?:any )?(?:checkpoint|savepoint)"
            r"|file/directory .* (?:for|of) (?:checkpoint|savepoint)",
            re.IGNORECASE,
        ),
        "there is no savepoint at --savepoint_path that the cluster can read: name the folder that holds _metadata, on"
        " storage that the JobManager reaches",
    ),
    (
        re.compile(r"StateMigrationException|state serializer", re.IGNORECASE),
        "the savepoint was written by another Beam job server, whose state this one cannot read: use that one",
    ),
)


def cause_of(entry: Mapping[str, Any]) -> str:
    """Why a job failed: an entry of ``/jobs/<id>/exceptions``, or any mapping with ``stacktrace``."""
    trace = str(entry.get("stacktrace") or "")
    if (ours := _OURS.search(trace)) is not None:
        return _STEP.sub("", ours.group(1)).strip()
    causes = _CAUSE.findall(trace)
    name = (causes[-1] if causes else str(entry.get("exceptionName") or "unknown")).rsplit(".", 1)[-1]
    python = _PYTHON.findall(trace)
    return f"{name} ({python[-1]} in a worker)" if python and python[-1] != name else name


def restore_refusal(text: str) -> str | None:
    """Why Flink does not begin from a savepoint, in our words; None when the text tells of something else."""
    return next((words for pattern, words in _REFUSALS if pattern.search(text)), None)
