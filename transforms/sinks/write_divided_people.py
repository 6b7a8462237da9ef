"""The sink of divided people: what ``divided_people`` reads is written here."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.files.output_directories import PROMISE, restricted_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.sinks.divided_people import TOLD, divided_directory, told_count
from kanonflow.transforms.windows.divided_people import Divided


class WriteDividedPeople(beam.PTransform):
    """PCollection[Divided] -> PCollection[path]."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, divided: beam.PCollection[Divided]) -> beam.PCollection[str]:
        return divided | "Write" >> beam.ParDo(_Write(self._output)).with_output_types(str)


class _Write(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, divided: Divided) -> Iterator[str]:
        count = told_count(divided.people)
        if count <= told_count(divided.people - divided.new):
            return
        folder, restricted = divided_directory(self._output), restricted_directory(self._output)
        make_directory(restricted, private=True)
        make_directory(folder, private=True)
        workspace = restricted if is_local(restricted) else None
        # The public word first: a crash between the two leaves the promise away, not in place.
        create_if_absent(storage.join(self._output, PROMISE), TOLD, workspace=workspace)
        path = storage.join(folder, f"{divided.bucket:04}-{count}")
        create_if_absent(path, b"", private=True, workspace=workspace)
        yield path
