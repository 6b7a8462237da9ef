"""What stands between the making of releases and the sinks that write them.

A release must be stable before anybody sees it: once a file is visible, a replay must not make another version of
the same release. What that takes depends on how a runner goes back after a failure.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.decorators import no_annotations

STABLE_INPUT = "beam:requirement:pardo:stable_input:v1"

_STORED = frozenset({"dataflowrunner", "dataflow"})
_CHECKPOINTED = frozenset({"flinkrunner"})


def durable_boundary(runner: str, *, streaming: bool = False) -> beam.PTransform:
    """A step after which a retry of the sink sees the same elements again, as far as the runner has one.

    runner: its name, with or without a module. streaming: whether the runner goes back to a checkpoint.

    Dataflow: Reshuffle, whose output is stored before the next stage reads it. Flink, streaming: Reshuffle, then a
    step that requires stable input: Flink keeps what arrives in its state, and hands it on once the checkpoint that
    holds it (and the state of the solving step after it) is complete. A crash before that point takes the release
    back together with the state it came from; a crash after it finds the release in the checkpoint and writes it
    again, which changes nothing. So a release appears one checkpoint later, and a run without checkpoints is refused
    (pipelines/options/options.py). Local runners and bounded runs: nothing, for a bundle that fails fails the run, and
    a run that starts again makes the same releases.
    """
    if _name(runner) in _STORED:
        return _Stored()
    if is_checkpointed(runner, streaming=streaming):
        return _Checkpointed()
    return _Nothing()


def is_checkpointed(runner: str, *, streaming: bool) -> bool:
    """Whether a retry goes back to a checkpoint, as far as ``durable_boundary`` knows."""
    return _name(runner) in _CHECKPOINTED and streaming


def _name(runner: str) -> str:
    return runner.rsplit(".", 1)[-1].lower()


class TakeApart(beam.PTransform):
    """What was ``Marked`` and put together -> a PCollection of each kind, by its number."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self._tags = [str(kind) for kind in range(kinds)]

    @no_annotations
    def expand(self, marked: beam.PCollection) -> tuple[beam.PCollection, ...]:
        kinds = marked | beam.ParDo(_ToKinds()).with_outputs(*self._tags)
        return tuple(kinds[tag] for tag in self._tags)


class Marked(beam.PTransform):
    """Elements of one of several kinds -> (its number, element), in the global window, to be put together.

    One boundary for all kinds is a stage, with its bundles, for what would be a stage each.
    """

    def __init__(self, kind: int) -> None:
        super().__init__()
        self._kind = kind

    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        kind = self._kind
        return (
            elements
            | beam.WindowInto(GlobalWindows())
            | beam.Map(lambda element: (kind, element)).with_output_types(Any)
        )


class _ToKinds(beam.DoFn):
    def process(self, element: Any) -> Any:
        kind, one = element
        yield beam.pvalue.TaggedOutput(str(kind), one)


class _Stored(beam.PTransform):
    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements | beam.Reshuffle()


class _Checkpointed(beam.PTransform):
    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        # Without the Reshuffle the runner would fuse the sink with the solving step, which must not be held back.
        return elements | beam.Reshuffle() | "Checkpointed" >> RequiresStableInput(_Same())


class _Nothing(beam.PTransform):
    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements


class _Same(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element


class RequiresStableInput(beam.ParDo):
    """A ParDo whose stage, which is all that a runner fuses with it, sees only input that a checkpoint holds.

    Beam's model has the flag; its Python SDK has no way to set it.
    """

    def to_runner_api_parameter(self, context: Any, **extra: Any) -> Any:
        """The step's payload with the flag set."""
        urn, payload = super().to_runner_api_parameter(context, **extra)
        assert isinstance(payload, beam_runner_api_pb2.ParDoPayload)
        payload.requires_stable_input = True
        context.add_requirement(STABLE_INPUT)
        return urn, payload
