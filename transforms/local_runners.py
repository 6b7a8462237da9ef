"""Which of Beam's local runners may run the transforms: Prism may not, whoever hands it the pipeline."""

from __future__ import annotations

import ctypes
import sys
import warnings
from typing import Any

import apache_beam as beam
from apache_beam.portability import common_urns, python_urns
from apache_beam.runners.pipeline_context import PipelineContext

PRISM = "PrismRunner"
_SWITCHES = ("DirectRunner", "SwitchingDirectRunner")
_IN_PROCESS = ("FnApiRunner", "BundleBasedDirectRunner", *_SWITCHES)

_WORKERS_IN_PROCESS = (
    common_urns.environments.DEFAULT.urn,  # the graph goes nowhere yet
    python_urns.EMBEDDED_PYTHON,
    python_urns.EMBEDDED_PYTHON_GRPC,
    python_urns.SUBPROCESS_SDK,
)
_URN = "kanonflow:transform:built_for:v1"


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


def in_process(pipeline: beam.Pipeline) -> bool:
    """Whether the pipeline was built for a runner of this process, between whose steps elements cross no network."""
    return type(pipeline.runner).__name__ in _IN_PROCESS


def return_freed_memory() -> None:
    """Give the system back what the process has freed and keeps for later, where its C library can (glibc).

    Beam's local runner frees what a step of a bounded feed has read in pieces between which something lives on: of ten
    million rows half a gigabyte would stay until the process ends.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@beam.PTransform.register_urn(_URN, bytes)  # type: ignore[misc]
def _translated(proto: Any, payload: bytes, context: PipelineContext) -> BuiltFor:
    again = BuiltFor()
    again.built_for = payload.decode()
    return again


class BuiltFor(beam.PTransform):
    """A transform that remembers the runner its pipeline was built for, also where Beam makes a graph of the pipeline
    and a pipeline of that again. built_for: the runner's name; "": not applied yet.

    A graph is made for workers. Those of a runner in this process are in it, or its children. A graph of such a
    pipeline for other workers is on its way to another runner: to Prism, if Beam's switch decides so, or to one whose
    ``run_pipeline`` somebody calls. ``RunnerError`` ends that before the job is submitted (Beam wraps it into an error
    of its own).
    """

    built_for = ""

    def to_runner_api_parameter(self, context: PipelineContext) -> tuple[str, bytes]:
        """As Beam asks of a transform. Raises RunnerError."""
        workers = context.environments.get_proto_from_id(context.default_environment_id()).urn
        if self.built_for in _IN_PROCESS and workers not in _WORKERS_IN_PROCESS:
            raise RunnerError(
                f"the pipeline was built for {self.built_for}, and is handed to a runner whose workers are elsewhere"
                f" ({PRISM}, if Beam chose it, which is refused for its open faults with timers); name the runner where"
                ' the pipeline is made, runner="FnApiRunner" on this machine'
            )
        return _URN, self.built_for.encode()
