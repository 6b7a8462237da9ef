"""The sink of matching records: OUT/restricted/matching_records/<release_id>.avro, created once, never changed.

They come by the same boundary as the releases. A retry makes the same bytes and finds its file; one of other content is
the trace of a release that lost its slot, and is counted, not written.
"""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
from apache_beam.metrics import Metrics

from kanonflow.transforms.columns.avro_encoding import same_records
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent, make_directory
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.rows.elements import MatchingRecord


def matching_records_directory(output: str) -> str:
    """Where matching records are."""
    return storage.join(restricted_directory(output), "matching_records")


class WriteMatchingRecords(beam.PTransform):
    """PCollection[MatchingRecord] -> PCollection[path].

    Counters: ``matching_records``, ``matching_record_conflict``.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, matching_records: beam.PCollection[MatchingRecord]) -> beam.PCollection[str]:
        write = beam.ParDo(_WriteMatchingRecord(self._output)).with_output_types(str)
        return matching_records | "Write" >> write


class _WriteMatchingRecord(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output
        self._directory = matching_records_directory(output)
        self._written = Metrics.counter(NAMESPACE, "matching_records")
        self._conflicts = Metrics.counter(NAMESPACE, "matching_record_conflict")

    def setup(self) -> None:
        make_directory(restricted_directory(self._output), private=True)
        make_directory(self._directory, private=True)

    def process(self, matching_record: MatchingRecord) -> Iterable[str]:
        path = storage.join(self._directory, f"{matching_record.release_id}.avro")
        outcome = create_if_absent(path, matching_record.avro, private=True, same=same_records)
        if outcome is Outcome.DIFFERENT:
            self._conflicts.inc()
            return
        self._written.inc()
        yield path
