"""Elements to begin a feed with, in a graph that Flink knows again at every parallelism.

Flink finds the state of a savepoint by ids that it derives from the graph, and an operator's id depends on which others
run in the same task. Beam's source of an impulse has parallelism 1: with a job of parallelism 1 Flink would put the
step behind it into its task, with any other it would not. A native reshuffle in between keeps them apart always, and
so the ids are the same (docs/decisions/042).
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.portability import common_urns
from apache_beam.typehints.decorators import no_annotations

_FLINK = "FlinkRunner"


class BeginOnce(beam.PTransform):
    """PBegin -> PCollection[bytes] of these elements, no two of which are equal."""

    def __init__(self, *elements: bytes) -> None:
        super().__init__()
        self._elements = elements

    @no_annotations
    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        impulse = begin | beam.Impulse()
        if type(begin.pipeline.runner).__name__ == _FLINK:
            impulse = impulse | "Apart" >> _Apart()
        elements = self._elements
        return impulse | "Element" >> beam.FlatMap(lambda _: elements).with_output_types(bytes)


class _Apart(beam.PTransform):
    """A reshuffle by its name, which Flink's runner replaces by its own: that asks for no keys.

    Beam's ``Reshuffle`` has a step in front that adds them, which would itself stand in the impulse's task.
    """

    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements | "Same" >> beam.Map(_same).with_output_types(bytes)

    def to_runner_api_parameter(self, context: Any) -> tuple[str, None]:
        """The name that a runner knows it by."""
        return common_urns.composites.RESHUFFLE.urn, None


def _same(element: bytes) -> bytes:
    return element
