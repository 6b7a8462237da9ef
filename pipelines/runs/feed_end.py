"""Telling that a feed has ended and that everything it held is written.

Flink keeps a job whose source has ended, for a checkpoint needs it. So the job says itself when nothing more will
come: a timer at the end of time, and then as many checkpoints as the sinks need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints.decorators import no_annotations

from kanonflow.pipelines.kafka.progress import joined
from kanonflow.transforms.begin_once import BeginOnce
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent
from kanonflow.transforms.files.output_directories import restricted_directory

_KEY = b"feed"


def end_file(output: str) -> str:
    """The file that appears when a feed has ended and all of it is written; it holds the position that it ended at."""
    return storage.join(restricted_directory(output), "ended")


def stop_file(output: str) -> str:
    """The file that asks a stream's source to end its feed (stop_stream.py)."""
    return storage.join(restricted_directory(output), "stop")


class Silence(beam.PTransform):
    """What steps make -> nothing, and the time that they have reached; and one element, to begin with.

    ends: PCollection[bytes], where the feed's readers ended, once they have; handed on. None: nobody wants to know.

    Behind steps whose other outputs go through a step that Flink fuses with them too, it is fused with them. Else all
    that they make would go to a Python worker once more, to be dropped there.
    """

    def __init__(self, ends: beam.PCollection | None = None) -> None:
        super().__init__()
        self._ends = ends

    @no_annotations
    def expand(self, made: tuple[beam.PCollection, ...]) -> beam.PCollection:
        begin = made[0].pipeline | "Begin" >> BeginOnce(_KEY)
        # Only what they say about time counts.
        silent = tuple(
            some
            | f"Silent {index}" >> beam.WindowInto(GlobalWindows())
            | f"None {index}" >> beam.ParDo(_Nothing())
            for index, some in enumerate(made)
        )
        return (
            (begin, *silent, *(() if self._ends is None else (self._ends,)))
            | beam.Flatten()
            | "Keyed" >> beam.Map(_keyed).with_output_types(tuple[bytes, bytes])
        )


class TellEnd(beam.PTransform):
    """The ``Silence`` of what the sinks are given -> ``OUT/restricted/ended``, once all of it is written.

    boundary: makes a durable boundary, as each sink has one in front of it.

    The timer fires when every step that makes releases has said that it makes no more. So the first checkpoint that
    holds the word of it, in the first boundary, holds all that the sinks have yet to write; they write when it is
    complete, and before their part of the next one, which the second boundary waits for. The third is for a sink that
    was not told of the first one: it writes with the second.

    Why not behind the sinks: Flink's step that keeps its input for a checkpoint forgets the watermark that arrives
    within the same bundle as elements. A later one makes up for that, but after the end of time none comes.
    """

    def __init__(self, output: str, boundary: Callable[[], beam.PTransform]) -> None:
        super().__init__()
        self._output = output
        self._boundary = boundary

    @no_annotations
    def expand(self, silence: beam.PCollection) -> beam.PCollection:
        return (
            silence
            | "End" >> beam.ParDo(_TimeEnds()).with_output_types(bytes)
            | "Once" >> self._boundary()
            | "Twice" >> self._boundary()
            | "Thrice" >> self._boundary()
            | "Write" >> beam.ParDo(_WriteEnd(self._output))
        )


def _keyed(element: bytes) -> tuple[bytes, bytes]:
    return _KEY, element


class _Nothing(beam.DoFn):
    def process(self, element: Any) -> Iterator[bytes]:
        yield from ()


class _TimeEnds(beam.DoFn):
    """position: the cell of where the feed ended, of the readers that have said it; all have when their time has ended.
    A job that an older build began may end without."""

    END = TimerSpec("kanonflow_feed_end", TimeDomain.WATERMARK)
    POSITION = ReadModifyWriteStateSpec("position", BytesCoder())

    def process(
        self,
        element: tuple[bytes, bytes],
        end: Any = beam.DoFn.TimerParam(END),
        position: Any = beam.DoFn.StateParam(POSITION),
    ) -> None:
        if element[1] != _KEY:
            position.write(joined(position.read() or b"", element[1]))
        end.set(GlobalWindow().max_timestamp())

    @on_timer(END)
    def ended(self, position: Any = beam.DoFn.StateParam(POSITION)) -> Iterator[bytes]:
        yield position.read() or b""


class _WriteEnd(beam.DoFn):
    def __init__(self, output: str) -> None:
        self._path = end_file(output)

    def process(self, element: bytes) -> None:
        create_if_absent(self._path, element, private=True)
