"""The cohorts of an output: who entered with which release, in files that are created once.

    OUT/restricted/cohorts/PARTITION/NUMBER.people.avro   who entered: digest, cohort, frozen values
    OUT/restricted/cohorts/PARTITION/NUMBER.boxes.avro    the cohorts' boxes; the segment is committed once it is there
    OUT/restricted/cohorts/PARTITION/END.groups.arrow     which cohorts a release put together, for the next search;
                                                          END-PLACE of a run that continues another
    OUT/restricted/cohorts/PARTITION/continued.json       of a run that continues another: what it began with
    OUT/restricted/cohorts/PARTITION/carried.state        of such a run: what the other one carried over
    OUT/restricted/cohorts/PARTITION/expected.state       of a policy with a file of people: whom it names
    OUT/restricted/cohorts/PARTITION/together.avro        of an epoch that a renewal began: who shared every cohort

PARTITION is the partition's key in hex, NUMBER the segment's in six digits, END the window's end in ms, PLACE the run's
in its chain (``restricted/run.json``). The first two say in their header what they are
(``roster_lineage.CommittedSegment``); no file of them is ever replaced but by ``kanonflow forget``, which leaves the
header as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.schemas.slot_kinds import REGULAR
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import (
    Outcome,
    create_if_absent,
    make_directory,
    read_whole,
)
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment, judge_roster
from kanonflow.transforms.lineage.segment_header import told_of

PEOPLE = ".people.avro"
BOXES = ".boxes.avro"
GROUPS = ".groups.arrow"
CONTINUED = "continued.json"
CARRIED = "carried.state"
EXPECTED = "expected.state"
TOGETHER = "together.avro"
_MOST_REMEMBERED = 50_000


def cohorts_directory(output: str) -> str:
    """Where the cohorts of all partitions are."""
    return storage.join(output, "restricted", "cohorts")


def partition_cohorts(output: str, partition: bytes) -> str:
    """Where those of one partition are."""
    return storage.join(cohorts_directory(output), partition.hex())


def segment_file(number: int, kind: str) -> str:
    """The name of a segment's file. kind: PEOPLE or BOXES."""
    return f"{number:06}{kind}"


def segment_told(told: Mapping[str, Any]) -> CommittedSegment:
    """The segment that a header tells of. Raises ValueError: it tells of none."""
    try:
        return CommittedSegment(
            told["segment"],
            int(told["epoch"], 16),
            told["before"],
            told["chain"],
            told["release_id"],
            told["window_end"],
            told["part"],
            told.get("kind", REGULAR),
            told.get("chain_place", 0),
        )
    except (KeyError, TypeError):
        raise ValueError("the header of a segment's file lacks values") from None


class CommittedRosters:
    """The cohorts below one output. Can be pickled; serves one thread."""

    def __init__(self, output: str) -> None:
        self.output = output
        self._seen: dict[str, CommittedSegment] = {}

    def __getstate__(self) -> dict[str, object]:
        """Without what was read: another worker reads for itself."""
        return self.__dict__ | {"_seen": {}}

    def in_the_way(self, slot: Slot) -> CommittedSegment | None:
        """The committed segment that a release must not stand beside; None: there is none."""
        mark = slot.roster
        if mark is None:
            return None
        last = mark.segments - 1
        found = {
            number: self._segment(slot.partition, number, BOXES) for number in {0, last - 1, last, last + 1}
        }
        if mark.entered and found[last] is None:
            # Not committed yet, but its people are: a place that another segment cannot have any more.
            found[last] = self._segment(slot.partition, last, PEOPLE)
        return judge_roster(slot, [segment for segment in found.values() if segment is not None])

    def commit(self, slot: Slot, people: bytes, boxes: bytes) -> CommittedSegment | None:
        """Create the files of the segment that came with a release; the segment that stands in its place, None: none.

        People first: a crash between the two leaves no segment, and the replay finds the first and makes the second.
        Two that are on their way at once create the same name: one of them sees the other.
        Precondition: the release's slot is taken. Its roster says that people entered.
        """
        assert slot.roster is not None
        folder = partition_cohorts(self.output, slot.partition)
        for each in (cohorts_directory(self.output), folder):
            make_directory(each, private=True)
        for kind, data in ((PEOPLE, people), (BOXES, boxes)):
            path = storage.join(folder, segment_file(slot.roster.segments - 1, kind))
            if self._create(path, data, same=_same_segment) is Outcome.DIFFERENT:
                return segment_told(told_of(read_whole(path)))
        return None

    def keep_groups(self, slot: Slot, groups: bytes) -> None:
        """Write down which cohorts a release put together; the first word counts, and nothing rests on it.

        The name has the run's place: what was copied from the run before may be of the same end.
        """
        folder = partition_cohorts(self.output, slot.partition)
        for each in (cohorts_directory(self.output), folder):
            make_directory(each, private=True)
        place = f"-{slot.chain_place}" if slot.chain_place else ""
        self._create(storage.join(folder, f"{slot.window_end}{place}{GROUPS}"), groups, same=_any)

    def _segment(self, partition: bytes, number: int, kind: str) -> CommittedSegment | None:
        if number < 0:
            return None
        path = storage.join(partition_cohorts(self.output, partition), segment_file(number, kind))
        if path not in self._seen:
            if not storage.exists(path):
                return None
            if len(self._seen) > _MOST_REMEMBERED:
                self._seen.clear()
            self._seen[path] = segment_told(told_of(read_whole(path)))
        return self._seen[path]

    def _create(self, path: str, data: bytes, same: Any) -> Outcome:
        restricted = storage.join(self.output, "restricted")
        workspace = restricted if is_local(restricted) else None
        return create_if_absent(path, data, private=True, same=same, workspace=workspace)


def _same_segment(one: bytes, other: bytes) -> bool:
    """Whether two files are of one segment: by what they say of themselves, for somebody may have been forgotten."""
    return told_of(one) == told_of(other)


def _any(one: bytes, other: bytes) -> bool:
    return True
