"""Cohorts in files: what the commit of a release leaves, and what it refuses."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kanonflow.transforms.files import create_if_absent as files
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    PEOPLE,
    partition_cohorts,
    segment_file,
    segment_told,
)
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment
from kanonflow.transforms.lineage.segment_header import told_of
from kanonflow.transforms.rows.elements import Release
from tests.lasting_feeds import EPOCH, KEY, growing_feed, lasting_policy, releases_of
from tests.small_feeds import row

POLICY = lasting_policy()
FEED = growing_feed(4)


@pytest.fixture(scope="module")
def made() -> list[Release]:
    releases = releases_of(FEED, POLICY)
    assert len(releases) == 4
    assert all(release.entered for release in releases)
    return releases


def take(output: Path, release: Release) -> Slot | CommittedSegment | None:
    """Commit a release, by a worker that knows nothing of the others."""
    assert release.slot is not None
    return PublishedSlots(str(output), POLICY).take(release.slot, release.entered, release.groups)


def its(release: Release) -> CommittedSegment:
    """The segment that came with a release."""
    assert release.entered is not None
    return segment_told(told_of(release.entered.boxes))


def names(output: Path) -> list[str]:
    return sorted(os.listdir(partition_cohorts(str(output), KEY)))


def test_a_commit_leaves_people_boxes_and_groups(tmp_path: Path, made: list[Release]) -> None:
    """Private files, named by the segment and by the window, with what the release brought along."""
    assert [take(tmp_path, release) for release in made] == [None] * 4
    ends = [f"{release.window_end}.groups.arrow" for release in made]
    segments = [segment_file(number, kind) for number in range(4) for kind in (BOXES, PEOPLE)]
    assert names(tmp_path) == sorted([*segments, *ends])
    folder = Path(partition_cohorts(str(tmp_path), KEY))
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)} == {0o700}
    assert made[2].entered is not None
    assert (folder / "000002.people.avro").read_bytes() == made[2].entered.people
    told = its(made[2])
    assert (told.number, told.epoch, told.window_end) == (2, EPOCH, made[2].window_end)


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 0, 3, 2], [0, 2, 1, 3], [2, 0, 3, 1]])
def test_releases_of_one_line_are_committed_in_any_order(
    tmp_path: Path, made: list[Release], order: list[int]
) -> None:
    """And again, as retries do."""
    assert [take(tmp_path, made[number]) for number in [*order, *order]] == [None] * 8


def test_a_second_job_that_begins_with_nobody_is_refused(tmp_path: Path, made: list[Release]) -> None:
    """State was lost: what it takes in first stands in the place of segment 0, windows later."""
    for release in made[:2]:
        assert take(tmp_path, release) is None
    begun_again = releases_of([each for each in FEED if int((each["who"] or "")[1:]) > 1], POLICY)
    assert take(tmp_path, begun_again[2]) == its(made[1])
    later = releases_of([row(number, number, 3.5) for number in range(8)], POLICY)
    assert take(tmp_path, later[0]) == its(made[0])
    assert names(tmp_path) == sorted(
        [
            *(segment_file(number, kind) for number in range(2) for kind in (BOXES, PEOPLE)),
            *(f"{release.window_end}.groups.arrow" for release in made[:2]),
        ]
    )


def test_an_older_state_that_takes_in_others_is_refused(tmp_path: Path, made: list[Release]) -> None:
    """The line is the same up to the second window, and then other people come."""
    for release in made[:3]:
        assert take(tmp_path, release) is None
    other = [row(1000 + number, 500 + number, 3.5) for number in range(5)]
    forked = releases_of([*growing_feed(2), *other], POLICY)
    assert [release.entered for release in forked[:2]] == [release.entered for release in made[:2]]
    assert [take(tmp_path, release) for release in forked] == [None, None, its(made[2])]


def test_a_release_that_does_not_know_who_entered_is_refused(tmp_path: Path, made: list[Release]) -> None:
    """An older state again, and nobody new: the last hour without those of the third."""
    for release in made[:3]:
        assert take(tmp_path, release) is None
    known = [each for each in FEED if int((each["who"] or "")[1:]) < 13]
    forked = releases_of(known, POLICY)
    assert forked[3].entered is None
    assert take(tmp_path, forked[3]) == its(made[2])


def test_a_directory_of_another_epoch_is_refused(tmp_path: Path, made: list[Release]) -> None:
    """Whoever it takes in, and though no window is the same."""
    assert take(tmp_path, made[0]) is None
    other = releases_of(FEED, POLICY, epoch=EPOCH + 1)
    assert [take(tmp_path, release) for release in other[1:]] == [its(made[0])] * 3


def test_a_crash_between_people_and_boxes_commits_nothing_and_a_retry_does(
    tmp_path: Path, made: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The people's file alone is no segment; it is taken over by the same, and by no other release."""

    def crash(*arguments: object) -> bool:
        path = str(arguments[1])
        if path.endswith(BOXES):
            raise OSError("the disk is full")
        return link(*arguments)  # type: ignore[arg-type]

    link = files._link
    monkeypatch.setattr(files, "_link", crash)
    with pytest.raises(OSError, match="full"):
        take(tmp_path, made[0])
    monkeypatch.undo()
    assert names(tmp_path) == ["000000.people.avro"]
    later = releases_of([row(number, number, 3.5) for number in range(8)], POLICY)
    assert take(tmp_path, later[0]) == its(made[0])
    assert [take(tmp_path, release) for release in made] == [None] * 4
