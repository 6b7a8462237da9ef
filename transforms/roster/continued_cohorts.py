"""Who is known before the first row comes: the cohorts of an earlier run, read from the files that it left.

    ContinuedCohorts(output, bound).of(key) -> Continued(segments, last), or None

The files are in the output of the run that continues (``pipelines/run_records/continued_run`` copied them there), and
``continued.json`` beside them says which of them it began with: what the run adds is not read. A partition is read
when its first window is due, by the worker that has it, and is from then on part of its state.
"""

from __future__ import annotations

import json

from apache_beam.io.filesystems import FileSystems

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    CONTINUED,
    PEOPLE,
    partition_cohorts,
    segment_file,
)
from kanonflow.transforms.roster.cohort_files import groups_of_file, segment_of_files
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.window_groups import no_groups


class ContinuedCohorts:
    """The cohorts that a run began with. Can be pickled.

    output: of the run, as its workers see it. bound: its policy, bound to its feed.
    """

    def __init__(self, output: str, bound: BoundPolicy) -> None:
        self._output = output
        self._bound = bound

    def of(self, key: bytes) -> Continued | None:
        """What a partition begins with; None: the earlier run knew nobody in it. Raises StateError: damaged files."""
        folder = partition_cohorts(self._output, key)
        path = FileSystems.join(folder, CONTINUED)
        if not FileSystems.exists(path):
            return None
        began = json.loads(read_whole(path))
        return read_continued(folder, began["segments"], began["groups"], self._bound)


def read_continued(folder: str, segments: int, groups: str | None, bound: BoundPolicy) -> Continued:
    """The first segments of a partition's folder, and a file of groups in it; None: begin without.

    Raises StateError: a file is damaged, or they do not follow each other.
    """
    read = []
    for number in range(segments):
        people, boxes = (
            read_whole(FileSystems.join(folder, segment_file(number, kind))) for kind in (PEOPLE, BOXES)
        )
        read.append(segment_of_files(people, boxes, bound))
        if read[-1].head.segments != number:
            raise damaged("roster", "a segment's file has another's name")
    last = no_groups() if groups is None else groups_of_file(read_whole(FileSystems.join(folder, groups)))
    return Continued(tuple(read), last)
