"""The simulator: what it plays holds, it plays what can happen, and it finds each fault of old."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.invariants import out_of, shown
from tests.simulation.old_faults import FAULTS, Fault
from tests.simulation.play import play
from tests.simulation.simulate import judged, shrunk
from tests.simulation.store import Store, serving
from tests.simulation.worlds import ANYBODY, CLAUSES, PLAIN, WHOLE, Kind, Mode, drawn, feed_of


@pytest.mark.parametrize("seed", [900, 3000, 4000])
def test_a_schedule_holds(seed: int) -> None:
    """A few schedules, with twin, quiet run and audit; ``make simulate`` plays as many as there is time for."""
    assert judged(drawn(seed)).found == ()


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", [*range(1000, 1060, 30), *range(3000, 3060, 30), 4001])
def test_schedules_hold(first: int) -> None:
    """150 schedules, some of people who are named, in shards, of windows that are split, against who knows more."""
    assert [str(each) for seed in range(first, first + 30) if (each := judged(drawn(seed))).found] == []


@pytest.mark.parametrize("seed", [42, 59, 70])
def test_what_the_simulator_found_stays_mended(seed: int) -> None:
    """An audit failed where a night's file had rows of the next day, and where a row lacked its event id."""
    assert judged(drawn(seed)).found == ()


@pytest.mark.parametrize(("seed", "splits"), [(3558, 2)])
def test_shards_are_split_between_nights(seed: int, splits: int) -> None:
    """Once, and of three nights twice: what holds elsewhere holds there."""
    with serving(Store()) as store:
        played = play(drawn(seed), feed_of(drawn(seed)), store)
    assert played.plan is not None
    assert len(played.plan.splits) == splits
    assert judged(drawn(seed)).found == ()


def test_a_seed_replays() -> None:
    """The same seed leaves the same bytes."""
    left = []
    for _ in range(2):
        with serving(Store()) as store:
            played = play(drawn(9), feed_of(drawn(9)), store)
            left.append({path: data for path, data in store.objects.items() if "/metrics/" not in path})
            assert shown(played, out_of(played))
    assert left[0] == left[1]


def test_everything_happens() -> None:
    """Among the first schedules is each kind of disturbance, each protection and mode, and each way of a night."""
    first = [drawn(seed) for seed in range(300)]
    kinds = Counter(each.kind for schedule in first for each in schedule.disturbances)
    assert set(kinds) == set(Kind)
    assert {schedule.protection for schedule in first} == {"lasting", "window", "row"}
    assert {schedule.mode for schedule in first} == set(Mode)
    assert {carry for schedule in first for carry in schedule.carries} == {True, False}
    people = [drawn(seed).people for seed in range(PLAIN, PLAIN + 300)]
    assert {each.named for each in people} == {each.split for each in people} == {True, False}
    assert {each.shards for each in people} == {0, 2, 3}
    assert any(drawn(seed).people.parts for seed in range(WHOLE, WHOLE + 100))
    clauses = {drawn(seed).people.against for seed in range(ANYBODY, ANYBODY + 100)}
    assert clauses == {None, *range(len(CLAUSES))}


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_of_old_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """In less than two thousand schedules, and the one that finds it holds without it."""
    assert any(first <= fault.seed < first + 2000 for first in (0, PLAIN, ANYBODY))
    schedule = drawn(fault.seed)
    assert judged(schedule).found == ()
    fault.put_back(monkeypatch)
    assert judged(schedule).found


@pytest.mark.thorough
def test_a_schedule_is_shrunk_to_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left still fails, and without any of it nothing does."""
    fault = next(each for each in FAULTS if each.name.startswith("a stream goes on"))
    fault.put_back(monkeypatch)
    schedule = drawn(fault.seed)
    found = judged(schedule).found
    small = shrunk(schedule, found)
    assert judged(small).found
    assert len(small.disturbances) <= len(schedule.disturbances)
    assert not judged(replace(small, disturbances=())).found
