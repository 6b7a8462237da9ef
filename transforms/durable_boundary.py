"""What stands between the making of releases and the sinks that write them."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.typehints.decorators import no_annotations


def durable_boundary(runner: str) -> beam.PTransform:
    """A step after which a retry of the sink sees the same elements again, as far as the runner has one.

    runner: its name, with or without a module.

    Dataflow: Reshuffle, whose output is stored before the next stage reads it. Local runners: nothing, for a bundle
    that fails fails the run, and a run that starts again makes the same releases. Portable runners, Flink's among
    them: nothing yet. A replay from a checkpoint that gathers other rows for a release then meets the first file of
    that release: the sinks never replace it, count a conflict and keep the rows as rejected ones.
    """
    name = runner.rsplit(".", 1)[-1].lower()
    return _Stored() if name in ("dataflowrunner", "dataflow") else _Nothing()


class _Stored(beam.PTransform):
    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements | beam.Reshuffle()


class _Nothing(beam.PTransform):
    @no_annotations
    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        return elements
