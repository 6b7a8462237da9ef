"""How does a run begin in its output: anew, from another run, from what it released itself, or from its state?

The one place where rows could go out twice. ``Found`` holds all that decides; ``beginning`` is the table, asked from
above:

    there is output, or a run that began      without --resume                      OTHERS
    (its run.json is enough for --resume)     a stream: without its state           STATELESS
                                              its job still runs                    RUNNING
                                              without run.json                      UNRECORDED
                                              a stream                              FROM_STATE
                                              a run over files                      RESUME
    nothing is there                          --continue                            CONTINUE
                                              --previous-secret                     NO_SECRETS
                                              else                                  NEW
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any


class RunDirectoryError(Exception):
    """The output directory cannot be used for this run; the message says why and what to do."""

    exit_code = 2


@dataclass(frozen=True)
class StreamStart:
    """How a stream begins.

    sink: where its releases go: ``files``, or the name of a topic. job: its name and cluster.
    from_state: whether it goes on from a checkpoint or savepoint, or takes over a running job. how: the flag that
    would say so on its runner. goes_on: whether a job, as an earlier start recorded it, still runs. rewinds: whether it
    goes on from an older state on purpose. chosen: whether its source's address says where to begin.
    """

    sink: str
    job: Mapping[str, str]
    from_state: bool
    how: str
    goes_on: Callable[[Mapping[str, str]], bool]
    rewinds: bool = False
    chosen: bool = False


class NotBegunError(Exception):
    """A stream's job is not there, and wrote nothing but into the directory. reason: why."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Beginning(Enum):
    """How a run begins."""

    NEW = auto()
    CONTINUE = auto()
    RESUME = auto()
    FROM_STATE = auto()

    @property
    def used(self) -> bool:
        """Whether it began before, in this output."""
        return self in (Beginning.RESUME, Beginning.FROM_STATE)


class Refusal(Enum):
    """Why it does not; what the user is told."""

    OTHERS = (
        "holds the output of another run, or another stream has begun there, or a run that may go on elsewhere. Choose"
        " another --output, or continue that run with --resume: rows must not be published twice. (anonymize"
        " --second-release does it all the same, and says what it costs.)"
    )
    STATELESS = (
        "holds a stream that has begun, and this one would read the feed from its beginning: without its state a stream"
        " makes other releases of the same rows, and both would be out. Go on from its last checkpoint or savepoint"
        " with {how}, or choose another --output for rows that no release holds"
    )
    RUNNING = "the job {name} that writes there still runs; stop it with a savepoint and go on from that"
    UNRECORDED = (
        "holds releases but no restricted/run.json, so the run cannot be continued; choose another --output"
    )
    NO_SECRETS = "--previous-secret: for a run that goes on with --resume, and none began here"


_AFTER_THE_NAME = (Refusal.OTHERS, Refusal.STATELESS, Refusal.UNRECORDED)


@dataclass(frozen=True)
class Found:
    """What lies in the output. recorded: run.json; taken: by a stream, or a run that may go on elsewhere, as run.json
    says; published: releases, metrics or rejected rows.

    And what is asked. resume: --resume; stream: it is one; from_state: as of ``StreamStart``; continues:
    --continue; previous: --previous-secret. runs: whether the job on record still runs.
    """

    recorded: bool
    taken: bool
    published: bool
    resume: bool
    stream: bool
    from_state: bool
    continues: bool
    previous: bool
    runs: bool = False

    @property
    def used(self) -> bool:
        """Whether a run has begun there. A stream's state may hold rows before anything was released. A run over files
        that released nothing may begin anew, and goes on when that is asked: as what it is on record, a night of a
        chain that carries over."""
        return self.published or (self.recorded and (self.stream or self.taken or self.resume))


def beginning(state: Found) -> Beginning | Refusal:
    """The table above."""
    return _again(state) if state.used else _first(state)


def _first(state: Found) -> Beginning | Refusal:
    if state.continues:
        return Beginning.CONTINUE
    return Refusal.NO_SECRETS if state.previous else Beginning.NEW


def _again(state: Found) -> Beginning | Refusal:
    if not state.resume:
        return Refusal.OTHERS
    refused = _stream_again(state) if state.stream else None
    if refused is not None:
        return refused
    if not state.recorded:
        return Refusal.UNRECORDED
    return Beginning.FROM_STATE if state.stream else Beginning.RESUME


def _stream_again(state: Found) -> Refusal | None:
    if not state.from_state:
        return Refusal.STATELESS
    return Refusal.RUNNING if state.runs else None


def decided(
    output: str, state: Found, record: Mapping[str, Any] | None, stream: StreamStart | None
) -> Beginning:
    """How the run begins. The job on record is asked for only where that decides. Raises RunDirectoryError."""
    job = (record or {}).get("job")
    begins = beginning(state)
    if isinstance(job, dict) and stream is not None:
        running = beginning(replace(state, runs=True))
        if running is not begins and stream.goes_on(job):
            begins = running
    if isinstance(begins, Beginning):
        return begins
    message = begins.value.format(
        how="" if stream is None else stream.how, name=job.get("name") if isinstance(job, dict) else None
    )
    if begins is Refusal.NO_SECRETS:
        raise RunDirectoryError(message)
    raise RunDirectoryError(f"{output} {message}" if begins in _AFTER_THE_NAME else f"{output}: {message}")
