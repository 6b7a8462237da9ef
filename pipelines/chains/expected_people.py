"""What a run keeps of the people who are known from the start: a pool a partition, before the first row comes.

OUT/restricted/cohorts/PARTITION/expected.state
"""

from __future__ import annotations

from collections.abc import Mapping

from apache_beam.io.filesystems import FileSystems

from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.lineage.committed_rosters import EXPECTED, cohorts_directory, partition_cohorts
from kanonflow.transforms.windows.chain import CarriedState

PEOPLE_FILE = "people_file"
"""In run.json: what the file of people held."""


def write_expected(output: str, states: Mapping[bytes, CarriedState]) -> None:
    """Lay them beside the cohorts of their partitions, in the place of what a run left that came no further."""
    pattern = FileSystems.join(cohorts_directory(output), "*", EXPECTED)
    if before := [each.path for each in FileSystems.match([pattern])[0].metadata_list]:
        FileSystems.delete(before)
    for key, state in states.items():
        folder = partition_cohorts(output, key)
        make_directory(folder, private=True)
        create_if_absent(FileSystems.join(folder, EXPECTED), state.to_bytes(), private=True)
