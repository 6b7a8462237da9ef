"""Which of Beam's local runners may run the transforms: Prism may not."""

from __future__ import annotations

import warnings

import apache_beam as beam

PRISM = "PrismRunner"
_SWITCHES = ("DirectRunner", "SwitchingDirectRunner")


class RunnerError(Exception):
    """A runner that must not run the transforms; the message says which to name."""

    exit_code = 2


class RunnerWarning(UserWarning):
    """A runner that may hand the pipeline to one that must not run it."""


def check_local_runner(pipeline: beam.Pipeline) -> None:
    """Raise RunnerError if the pipeline's runner is Prism; warn (RunnerWarning) if it is Beam's default, which may be.

    Why: Prism has open faults with timers of bundles that were split, and a window is released by a timer.
    """
    name = type(pipeline.runner).__name__
    if name == PRISM:
        raise RunnerError(
            f"{PRISM} is refused: it has open faults with timers, by which windows are released; say"
            ' runner="FnApiRunner"'
        )
    if name in _SWITCHES:
        warnings.warn(
            "the pipeline names no runner, or DirectRunner: since 2.68 Beam then chooses among three by what the"
            f' pipeline holds, {PRISM} with its open faults with timers among them; say runner="FnApiRunner"',
            RunnerWarning,
            stacklevel=4,
        )
