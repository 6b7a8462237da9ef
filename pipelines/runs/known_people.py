"""Who was in which partition before this run began: of its output's cohorts, and of what was carried over."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.typehints.decorators import no_annotations

from kanonflow.pipelines.chains.people_of_output import carried, entered, expected
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.begin_once import BeginOnce
from kanonflow.transforms.secret.seeds import SecretSource, people_key


def known_people(output: str, policy: Policy, secret: SecretSource) -> KnownPeople | None:
    """Of an output whose policy asks for it (``can_divide``); else None."""
    return KnownPeople(output, policy, secret) if policy.can_divide else None


class KnownPeople(beam.PTransform):
    """PBegin -> (key of a partition or shard, digests, uint64 little-endian), for each segment of the rosters of an
    output.

    Of a run that continues another these are the people whom it began with, and who waited for an intake there or had
    rows in a window that was not over; of one with a file of people those whom that names; of one that goes on, and
    whose state knows nothing of this step yet, all who entered. output: as its workers see it. secret: of the run.
    """

    def __init__(self, output: str, policy: Policy, secret: SecretSource) -> None:
        super().__init__()
        self._read = _ReadPeople(output), _ReadCarried(output, policy, secret)

    @no_annotations
    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        once = begin | "Once" >> BeginOnce(b"known")
        entered, carried = (beam.ParDo(read).with_output_types(tuple[bytes, bytes]) for read in self._read)
        return (once | "Entered" >> entered, once | "Carried" >> carried) | beam.Flatten()


class _ReadPeople(beam.DoFn):
    def __init__(self, output: str) -> None:
        self._output = output

    def process(self, element: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, people in entered(self._output):
            yield key, people.astype("<u8").tobytes()


class _ReadCarried(beam.DoFn):
    _key: bytes

    def __init__(self, output: str, policy: Policy, secret: SecretSource) -> None:
        self._output = output
        self._field = policy.cohorts.individual.name
        self._source = secret

    def setup(self) -> None:
        self._key = people_key(self._source.resolve())

    def process(self, element: bytes) -> Iterator[tuple[bytes, bytes]]:
        asked = self._output, self._field, self._key
        for key, people in (*carried(*asked), *expected(*asked)):
            yield key, people.astype("<u8").tobytes()
