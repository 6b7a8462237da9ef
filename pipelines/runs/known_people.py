"""Who was in which partition before this run began: of the cohorts that its output holds."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.typehints.decorators import no_annotations

from kanonflow.pipelines.flink.begin_once import BeginOnce
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.lineage.committed_rosters import PEOPLE, cohorts_directory
from kanonflow.transforms.roster.cohort_files import people_of_file


class KnownPeople(beam.PTransform):
    """PBegin -> (partition key, digests, uint64 little-endian), for each segment of the rosters of an output.

    Of a run that continues another these are the people whom it began with; of one that goes on, and whose state knows
    nothing of this step yet, all who entered. output: as its workers see it.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    @no_annotations
    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        read = beam.ParDo(_ReadPeople(self._output)).with_output_types(tuple[bytes, bytes])
        return begin | "Once" >> BeginOnce(b"known") | "Read" >> read


class _ReadPeople(beam.DoFn):
    def __init__(self, output: str) -> None:
        self._output = output

    def process(self, element: bytes) -> Iterator[tuple[bytes, bytes]]:
        pattern = FileSystems.join(cohorts_directory(self._output), "*", f"*{PEOPLE}")
        for match in FileSystems.match([pattern])[0].metadata_list:
            folder = FileSystems.split(FileSystems.split(match.path)[0])[1]
            people = people_of_file(read_whole(match.path))
            yield bytes.fromhex(folder), people.astype("<u8").tobytes()
