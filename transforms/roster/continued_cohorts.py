"""Who is known before the first row comes: the cohorts of an earlier run, read from the files that it left.

    ContinuedCohorts(output, bound, epoch).of(key) -> Continued(epoch, segments, last, carried), or None

The files are in the output of the run that continues (``pipelines/run_records/continued_run`` copied them there), and
``continued.json`` beside them says which of them it began with: what the run adds is not read. A partition is read by
the worker that has it, when the first row comes or, of a run that carried nothing over, when the first window is due;
from then on it is part of its state.
"""

from __future__ import annotations

import json

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    CARRIED,
    CONTINUED,
    EXPECTED,
    PEOPLE,
    cohorts_directory,
    partition_cohorts,
    segment_file,
)
from kanonflow.transforms.roster.cohort_files import groups_of_file, segment_of_files
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.window_groups import no_groups


class ContinuedCohorts:
    """The cohorts that a run began with. Can be pickled.

    output: of the run, as its workers see it. bound: its policy, bound to its feed. epoch: of both runs.
    expects: whether a file of people said whom to expect (``write_expected``).
    """

    def __init__(self, output: str, bound: BoundPolicy, epoch: int, *, expects: bool = False) -> None:
        self._output = output
        self._bound = bound
        self._epoch = epoch
        self._expects = expects

    def keys(self) -> list[bytes]:
        """The partitions of which something was carried over, or in which people are expected, in their order.

        Of the latter, too: whom a file names is of one run's kind (``Pool.kind``), whether a row of his partition came.
        """
        wanted = (CARRIED, EXPECTED) if self._expects else (CARRIED,)
        folder = cohorts_directory(self._output)
        found = [path for name in wanted for path in storage.paths_below(folder, "*", name)]
        names = {storage.split(storage.split(path)[0])[1] for path in found}
        return sorted(map(bytes.fromhex, names))

    def of(self, key: bytes) -> Continued | None:
        """What a partition begins with; None: nobody is known in it, nor expected. Raises StateError: damaged files."""
        folder = partition_cohorts(self._output, key)
        expected = self._expected(folder)
        path = storage.join(folder, CONTINUED)
        if not storage.exists(path):
            return None if expected is None else Continued(self._epoch, (), no_groups(), None, expected)
        began = json.loads(read_whole(path))
        carried = storage.join(folder, CARRIED) if began.get("carried") else None
        read = read_continued(folder, began["segments"], began["groups"], carried, self._bound, self._epoch)
        return read._replace(expected=expected)

    def _expected(self, folder: str) -> bytes | None:
        path = storage.join(folder, EXPECTED)
        return read_whole(path) if self._expects and storage.exists(path) else None


def read_continued(
    folder: str, segments: int, groups: str | None, carried: str | None, bound: BoundPolicy, epoch: int
) -> Continued:
    """The first segments of a partition's folder, a file of groups in it and a file of what was carried over; None:
    begin without.

    Raises StateError: a file is damaged, or they do not follow each other.
    """
    read = []
    for number in range(segments):
        people, boxes = (
            read_whole(storage.join(folder, segment_file(number, kind))) for kind in (PEOPLE, BOXES)
        )
        read.append(segment_of_files(people, boxes, bound))
        if read[-1].head.segments != number:
            raise damaged("roster", "a segment's file has another's name")
    last = no_groups() if groups is None else groups_of_file(read_whole(storage.join(folder, groups)))
    return Continued(epoch, tuple(read), last, None if carried is None else read_whole(carried))
