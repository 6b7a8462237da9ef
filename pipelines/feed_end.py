"""Telling that a feed has ended and that everything it held is written.

Flink keeps a job whose source has ended, for a checkpoint needs it. So the job says itself when nothing more will
come: behind every sink stands one timer at the end of time.
"""

from __future__ import annotations

from collections.abc import Iterator
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

    A sink behind a durable boundary holds its watermark back as long as anything waits there, so the file is the last
    one of all.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

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
            | "End" >> beam.ParDo(_WriteEnd(self._output))
        )


def _keyed(element: bytes) -> tuple[bytes, bytes]:
    return _KEY, element


class _Nothing(beam.DoFn):
    def process(self, element: Any) -> Iterator[bytes]:
        yield from ()


class _WriteEnd(beam.DoFn):
    END = TimerSpec("kanonflow_feed_end", TimeDomain.WATERMARK)

    def __init__(self, output: str) -> None:
        self._path = end_file(output)

    def process(self, element: tuple[bytes, bytes], end: Any = beam.DoFn.TimerParam(END)) -> None:
        end.set(GlobalWindow().max_timestamp())

    @on_timer(END)
    def ended(self) -> None:
        create_if_absent(self._path, b"")
