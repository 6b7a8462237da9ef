"""A job that goes on from an older state beside what it has published: no row stands in two releases.

The attack: the older state has rows waiting, or in open windows, that the first line of states has published since. It
meets the rest of the feed in another order (what came late does not come late now), perhaps under a new secret, and
publishes them at another place. Equal names collide; other names did not.
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases, OlderStateError, Remake
from kanonflow.transforms.lineage.published_slots import PublishedSlots, refusal_file
from kanonflow.transforms.rows.elements import Release, from_ipc
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.sinks.sinks import ReleaseSlots
from tests.driven_partitions import Cells, DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, references, row
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough

ROTATED = Secret(b"the second secret of this feed, longer").after([SECRET], 2)
SHAPES: dict[str, dict[str, Any]] = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
State = tuple[int, dict[bytes, Cells], int | None]
"""Which batch comes next, the state of each key, the watermark."""
FEEDS = 20
HOURS = 6


class World:
    """What can be seen: releases by name. judged: whether the sink looks at what releases were built on."""

    def __init__(self, output: Path, bound: BoundPolicy, judged: bool = True) -> None:
        self.output = str(output)
        self.bound = bound
        self.slots = ReleaseSlots(self.output, bound.policy) if judged else None
        self.seen: dict[str, list[str]] = {}
        self.withheld: list[Release] = []

    def commit(self, release: Release) -> None:
        """What a sink does with a release."""
        rows = references(from_ipc(release.ipc))
        admitted = self.slots is None or self.slots.admit(release)
        if not admitted or self.seen.setdefault(release.release_id, rows) != rows:
            self.withheld.append(release)

    def commit_all(self, step: DrivenPartitions) -> None:
        """Every release that has left the step since, in its order."""
        for release in step.released:
            self.commit(release)
        step.released.clear()

    def rewound(self) -> EarlierReleases | None:
        """What a job that may go back is given."""
        if self.slots is None:
            return None
        return EarlierReleases(PublishedSlots(self.output, self.bound.policy), Remake.REWIND)

    def twice(self) -> list[str]:
        """Rows in more than one release."""
        counts = Counter(name for rows in self.seen.values() for name in rows)
        return sorted(name for name, count in counts.items() if count > 1)


def late_feed(rng: np.random.Generator, rows: tuple[int, int], people: int) -> list[list[Row]]:
    """A batch an hour, some rows of it an hour or two late. rows: of an hour, at least and below."""
    batches: list[list[Row]] = [[] for _ in range(HOURS + 2)]
    number = 0
    for hour in range(HOURS):
        for _ in range(int(rng.integers(*rows))):
            late = int(rng.choice([0, 0, 0, 1, 2]))
            who = int(rng.integers(people))
            batches[hour + late].append(row(number, who, hour + 0.9 * float(rng.random())))
            number += 1
    return batches


def play(
    step: DrivenPartitions, batches: list[list[Row]], first: int, world: World, rng: np.random.Generator
) -> list[State]:
    """The feed from batch ``first`` on; each release is committed at once. States on the way, with where to go on.

    Batches come one by one or up to three at once: then what was late before is not.
    """
    states: list[State] = []
    number = first
    while number < len(batches):
        states.append((number, copy.deepcopy(step.cells), step.watermark))
        together = int(rng.integers(1, 4))
        for batch in batches[number : number + together]:
            if batch:
                step.send(batch)
        number = min(number + together, len(batches))
        step.advance(START + number * HOUR)
        world.commit_all(step)
    step.finish()
    world.commit_all(step)
    return states


def attacked(feed: int, shape: str, output: Path, judged: bool) -> World:
    """One feed, and three jobs that go on from a random older state, half of them under a new secret."""
    rng = np.random.default_rng(feed)
    head: dict[str, Any] = {"max_delay": f"{int(rng.integers(1, 4))}h"}
    few: tuple[tuple[int, int], int] = ((2, 9), 8)  # so that some wait
    parts: tuple[tuple[int, int], int] = ((25, 50), 40)
    if feed % 10 == 0:
        head["max_window_rows"] = 30
    bound = bound_feed(feed_policy(**SHAPES[shape], **head))
    world = World(output, bound, judged)
    batches = late_feed(rng, *(parts if feed % 10 == 0 else few))
    states = play(DrivenPartitions(bound, SECRET), batches, 0, world, rng)
    secret = SECRET
    for _ in range(3):
        number, cells, watermark = states[int(rng.integers(len(states)))]
        secret = ROTATED if rng.random() < 0.5 else secret
        step = DrivenPartitions(bound, secret, world.rewound())
        step.cells, step.watermark = copy.deepcopy(cells), watermark
        play(step, batches, number, world, rng)
    return world


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_row_is_in_two_releases_after_restarts_from_older_states(tmp_path: Path, shape: str) -> None:
    """20 feeds a shape, three restarts each, with and without rotation: 0 rows twice."""
    withheld = 0
    for feed in range(FEEDS):
        world = attacked(feed, shape, tmp_path / str(feed), judged=True)
        assert world.twice() == [], feed
        withheld += len(world.withheld)
    assert withheld > FEEDS / 2, "the attack must come to other releases, or this shows nothing"


@pytest.mark.timeout(1200)
def test_without_the_judgement_rows_are_in_two_releases(tmp_path: Path) -> None:
    """The control: names alone, as sinks had it, let rows out twice in some of the same feeds."""
    doubles = (len(attacked(feed, "rows", tmp_path, judged=False).twice()) for feed in range(FEEDS))
    assert any(doubles)


def two_windows(deadline: str = "2h") -> tuple[BoundPolicy, list[Row], list[Row]]:
    """Hour 0: enough people, and two rows of a fourth kind later; hour 1: enough people again."""
    bound = bound_feed(feed_policy(people=True, max_delay=deadline))
    first = [row(number, number, 0.5) for number in range(4)]
    second = [row(10 + number, 10 + number, 1.5) for number in range(4)]
    return bound, first, second


def test_after_a_conflict_the_next_release_of_the_same_bundle_is_not_published(tmp_path: Path) -> None:
    """Window t conflicts, t+1 stands in the same bundle: t+1 is withheld too, and so is all that follows."""
    bound, first, second = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send(first)
    step.advance(START + HOUR)
    world.commit_all(step)
    assert len(world.seen) == 1
    # Another line of states: it has not seen one of the rows, which comes late, and takes it along with hour 1.
    other = DrivenPartitions(bound, SECRET)
    other.send(first[:3])
    other.advance(START + HOUR)
    other.send(first[3:])
    other.send(second)
    other.send([row(20 + number, 20 + number, 2.5) for number in range(4)])
    other.finish()
    assert [release.window_end for release in other.released] == [START + hour * HOUR for hour in (1, 2, 3)]
    assert "r3" in references(from_ipc(other.released[1].ipc))
    bundle = list(other.released)
    world.commit_all(other)
    assert world.withheld == bundle
    assert world.twice() == []


def test_without_a_release_at_t_the_next_one_is_not_published_either(tmp_path: Path) -> None:
    """The second line makes nothing at t, as all rows wait: nothing collides by name, and t+1 must not go out."""
    bound, first, second = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send(first)
    step.advance(START + HOUR)
    world.commit_all(step)
    other = DrivenPartitions(bound, SECRET)
    other.send(first[:2])
    other.advance(START + HOUR)
    assert other.waiting() == 2
    other.send(second)
    other.finish()
    (release,) = other.released
    assert {"r0", "r1"} <= set(references(from_ipc(release.ipc)))
    world.commit(release)
    assert world.withheld == [release]


def test_releases_of_one_line_may_be_committed_the_other_way_round(tmp_path: Path) -> None:
    """Two workers write two windows: t+1 first is no conflict, nor is t after it; both again change nothing."""
    bound, first, second = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send([*first, *second])
    step.finish()
    early, late = step.released
    for release in (late, early, late, early):
        world.commit(release)
    assert set(world.seen) == {early.release_id, late.release_id}
    assert world.withheld == []


def test_a_rewound_window_is_made_again_under_the_secret_of_its_release(tmp_path: Path) -> None:
    """The older state has not begun the window; under the new secret alone it would come out otherwise."""
    bound, _, _ = two_windows()
    rows = [row(100 + number, number % 17, 1.5) for number in range(40)]
    world = World(tmp_path, bound)
    older = DrivenPartitions(bound, SECRET)
    older.advance(START + HOUR)
    first = older.copy()
    first.send(rows)
    first.finish()
    world.commit_all(first)
    plain = older.copy(ROTATED)
    plain.send(rows)
    plain.finish()
    again = older.copy(ROTATED, world.rewound())
    again.send(rows)
    again.finish()
    (made,) = again.released
    assert made != plain.released[0]
    world.commit_all(again)
    assert world.withheld == []


def test_an_older_state_is_refused_before_anything_is_solved(tmp_path: Path) -> None:
    """Without --rewind: by name, with what to do; the refusal stands in the output; nothing left the step."""
    bound, first, second = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send(first)
    older = step.copy()
    step.send(second)
    step.finish()
    world.commit_all(step)
    refusing = EarlierReleases(PublishedSlots(str(tmp_path), bound.policy), Remake.REFUSE)
    late = older.copy(SECRET, refusing)
    late.send(second)
    with pytest.raises(OlderStateError, match=r"older than what it has published.*--rewind"):
        late.finish()
    assert (late.released, late.metrics, late.rejected) == ([], [], [])
    assert "older" in Path(refusal_file(str(tmp_path))).read_text()


def test_a_state_that_lacks_the_partition_is_refused(tmp_path: Path) -> None:
    """Its first row came after the older checkpoint."""
    bound, first, _ = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send(first)
    step.finish()
    world.commit_all(step)
    refusing = EarlierReleases(PublishedSlots(str(tmp_path), bound.policy), Remake.REFUSE)
    empty = DrivenPartitions(bound, SECRET, refusing)
    empty.send(first)
    with pytest.raises(OlderStateError):
        empty.finish()


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_ordinary_recovery_is_not_refused(tmp_path: Path, committed: int) -> None:
    """The state of the checkpoint that holds the releases, whether the sink had written them or not."""
    bound, first, second = two_windows()
    world = World(tmp_path, bound)
    step = DrivenPartitions(bound, SECRET)
    step.send([*first, *second])
    step.advance(START + 2 * HOUR)
    for release in step.released[:committed]:
        world.commit(release)
    refusing = EarlierReleases(PublishedSlots(str(tmp_path), bound.policy), Remake.REFUSE)
    recovered = step.copy(SECRET, refusing)
    world.commit_all(step)  # the boundary hands them on again
    recovered.send([row(20 + number, 20 + number, 2.5) for number in range(4)])
    recovered.finish()
    world.commit_all(recovered)
    assert len(world.seen) == 3
    assert world.withheld == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rewound_window_under_another_clock_is_the_release_that_is_there(
    tmp_path: Path, shape: str
) -> None:
    """A deadline struck; made again on a machine of another speed, each release is the recorded one, byte for byte."""
    policy = feed_policy(
        **SHAPES[shape],
        max_delay="2h",
        solver={"evaluations_per_row": 3000, "threads": 1, "deadline": "20ms"},
    )
    bound = bound_feed(policy)
    rng = np.random.default_rng(5)
    feed = [
        row(number, int(rng.integers(60)), 3 * float(rng.random()), age=str(int(rng.integers(18, 90))))
        for number in range(240)
    ]
    world = World(tmp_path, bound)
    older = DrivenPartitions(bound, SECRET, clock=Ticking(0.004))
    step = older.copy(clock=Ticking(0.004))
    step.send(feed)
    step.finish()
    made = list(step.released)
    assert any(each["deadline_struck"] for each in step.metrics)
    world.commit_all(step)
    other = older.copy(clock=Ticking(0.011))
    other.send(feed)
    other.finish()
    assert [each.ipc for each in other.released] != [each.ipc for each in made], "the clock must matter"
    again = older.copy(SECRET, world.rewound(), Ticking(0.011))
    again.send(feed)
    again.finish()
    assert again.released == made
    world.commit_all(again)
    assert world.withheld == []
