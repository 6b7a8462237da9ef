"""What an output says of divided people (``first_partitions``): how many, for those inside; for others that there are.

    OUT/restricted/divided/BUCKET-COUNT   empty: a bucket had so many of them, at least; the highest count counts
    OUT/promise.json                      public: the promise over releases is not made

Files are created once and never changed. A bucket writes its count down as it grows, and above 15 not every one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from kanonflow.transforms.files.create_if_absent import create_if_absent, is_local, make_directory
from kanonflow.transforms.sinks.sinks import restricted_directory
from kanonflow.transforms.windows.divided_people import Divided

PROMISE = "promise.json"
_TOLD = json.dumps(
    {"over_releases": False, "because": "people have rows in more than one partition"}
).encode()
_NAME = re.compile(r"(\d{4})-(\d+)")
_EXACT_BITS = 4


def divided_directory(output: str) -> str:
    """Where buckets write down how many they had."""
    return FileSystems.join(restricted_directory(output), "divided")


def divided_people(output: str) -> int:
    """How many people the run below an output knows to be divided; where a bucket has more than 15, at least."""
    most: dict[str, int] = {}
    for path in _counts(output):
        if match := _NAME.fullmatch(FileSystems.split(path)[1]):
            most[match[1]] = max(most.get(match[1], 0), int(match[2]))
    return sum(most.values())


def promise_is_made(output: str) -> bool:
    """Whether nothing public below an output says that its promise over releases is not made."""
    return not FileSystems.exists(FileSystems.join(output, PROMISE))


def forget_divided_people(output: str) -> None:
    """Remove what a run that published nothing has written down here: the one that begins is another."""
    paths = [*_counts(output), *([] if promise_is_made(output) else [FileSystems.join(output, PROMISE)])]
    if paths:
        FileSystems.delete(paths)


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
        count = _told(divided.people)
        if count <= _told(divided.people - divided.new):
            return
        folder, restricted = divided_directory(self._output), restricted_directory(self._output)
        make_directory(restricted, private=True)
        make_directory(folder, private=True)
        workspace = restricted if is_local(restricted) else None
        # The public word first: a crash between the two leaves the promise away, not in place.
        create_if_absent(FileSystems.join(self._output, PROMISE), _TOLD, workspace=workspace)
        path = FileSystems.join(folder, f"{divided.bucket:04}-{count}")
        create_if_absent(path, b"", private=True, workspace=workspace)
        yield path


def _told(people: int) -> int:
    """The count that is written down: its highest bits, so that a bucket writes few files."""
    less = max(people.bit_length() - _EXACT_BITS, 0)
    return people >> less << less


def _counts(output: str) -> list[str]:
    folder = divided_directory(output)
    if is_local(folder) and not FileSystems.exists(folder):
        return []
    return [each.path for each in FileSystems.match([FileSystems.join(folder, "*")])[0].metadata_list]
