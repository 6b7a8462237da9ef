"""Telling that a feed has ended and that everything it held is written.

Flink keeps a job whose source has ended, for a checkpoint needs it. So the job says itself when nothing more will
come: behind every sink stands one timer at the end of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints.decorators import no_annotations

from kanonflow.transforms.create_if_absent import create_if_absent
from kanonflow.transforms.sinks import restricted_directory

_KEY = b"feed"


def end_file(output: str) -> str:
    """The file that appears when a feed has ended and all of it is written."""
    return FileSystems.join(restricted_directory(output), "ended")


class TellEnd(beam.PTransform):
    """Whatever the sinks hand on -> ``OUT/restricted/ended``, once the watermark behind all of them is at its end.

    boundary: makes a durable boundary, as the sinks have one in front of them. A sink that waits for a checkpoint lets
    the watermark pass once the checkpoint is taken, before it is complete and the sink writes; and what a restart finds
    in the checkpoint holds no watermark back at all. Two boundaries, one after the other, make the end wait for two
    checkpoints that are complete, which is after everything that any sink held when time ended.
    """

    def __init__(self, output: str, boundary: Callable[[], beam.PTransform]) -> None:
        super().__init__()
        self._output = output
        self._boundary = boundary

    @no_annotations
    def expand(self, written: tuple[beam.PCollection, ...]) -> beam.PCollection:
        pipeline = written[0].pipeline
        begin = pipeline | "Begin" >> beam.Create([_KEY])
        # Only what they say about time counts.
        silent = tuple(
            sink
            | f"Silent {index}" >> beam.WindowInto(GlobalWindows())
            | f"None {index}" >> beam.ParDo(_Nothing())
            for index, sink in enumerate(written)
        )
        return (
            (begin, *silent)
            | beam.Flatten()
            | "Keyed" >> beam.Map(_keyed).with_output_types(tuple[bytes, bytes])
            | "End" >> beam.ParDo(_TimeEnds()).with_output_types(bytes)
            | "Once" >> self._boundary()
            | "Twice" >> self._boundary()
            | "Write" >> beam.ParDo(_WriteEnd(self._output))
        )


def _keyed(element: bytes) -> tuple[bytes, bytes]:
    return _KEY, element


class _Nothing(beam.DoFn):
    def process(self, element: Any) -> Iterator[bytes]:
        yield from ()


class _TimeEnds(beam.DoFn):
    END = TimerSpec("kanonflow_feed_end", TimeDomain.WATERMARK)

    def process(self, element: tuple[bytes, bytes], end: Any = beam.DoFn.TimerParam(END)) -> None:
        end.set(GlobalWindow().max_timestamp())

    @on_timer(END)
    def ended(self) -> Iterator[bytes]:
        yield _KEY


class _WriteEnd(beam.DoFn):
    def __init__(self, output: str) -> None:
        self._path = end_file(output)

    def process(self, element: bytes) -> None:
        create_if_absent(self._path, b"")
