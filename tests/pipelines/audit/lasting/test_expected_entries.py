"""Who was known from the start, as the audit sees it: values, cohorts of their own, the first release, the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kanonflow.pipelines.audit.lasting.carried_people import judge_expected
from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, SEEN_BEFORE_MS, InputRows
from kanonflow.pipelines.audit.lasting.expected_entries import (
    MOST_PLACES,
    are_expected,
    are_too_few,
    entered_as_expected,
    judge_expected_entries,
)
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.carried_state import Carried, CarriedPartition
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from tests.mixed_people import mixed_bound

HOUR = 3_600_000
HEADS = [ReleaseHead(f"r{number}", None, (number + 1) * HOUR, (), "", 0) for number in range(3)]
NAMED = np.arange(3)
"""People 0 to 2 are named; 3 to 5 were seen."""


def rosters(cohort: list[int], entered: list[int]) -> Rosters:
    """Six people of one partition, with one field whose code is their number."""
    people, cohorts = np.arange(6, dtype=np.uint64), np.array(cohort)
    members = np.bincount(cohorts)
    released = np.array([entered[int(np.flatnonzero(cohorts == each)[0])] for each in range(len(members))])
    none, values = np.zeros(6, bool), np.arange(6, dtype=np.int32)[:, None]
    corners, starts = np.zeros((len(members), 1), np.int32), np.arange(len(members) + 1)
    of = (np.zeros(6, np.int32), cohorts, np.array(entered, np.int32), none, values)
    return Rosters(people, *of, members, released, corners, starts)


def rows(ends: list[int], values: list[int], partition: int = 0) -> InputRows:
    """One row for each of the named, long before all others."""
    count = len(ends)
    codes = np.array(values, np.int32)[:, None]
    where = np.full(count, partition, np.int32)
    return InputRows(np.arange(count, dtype=np.uint64), where, np.array(ends), codes, np.ones(count, bool))


def judged(of: Rosters, named: InputRows, person: np.ndarray = NAMED) -> tuple[str, ...]:
    """What is found, in releases of partition 0, 0 and 1."""
    findings = Findings()
    judge_expected_entries(named, person, of, HEADS, [0, 0, 1], ["age"], findings)
    return findings.messages()


def test_people_who_entered_as_expected_pass() -> None:
    """The first of them, too; of a partition without releases nobody is late; a null is a value like others."""
    assert judged(rosters([0, 0, 0, 1, 1, 1], [0] * 6), rows([EXPECTED_MS] * 3, [0, 1, 2])) == ()
    nobody = np.full(3, -1)
    of = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    assert judged(of, rows([EXPECTED_MS] * 3, [0, 1, 2], partition=7), nobody) == ()
    forgotten = replace(of, forgotten=np.array([True] + [False] * 5))
    assert judged(forgotten, rows([EXPECTED_MS] * 3, [5, 1, 2])) == ()


def test_what_is_wrong_with_them_is_told() -> None:
    """A value, a null in its place, a cohort with somebody who was seen, a later release, none at all."""
    good = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    for wrong in (4, -1):
        (told,) = judged(good, rows([EXPECTED_MS] * 3, [wrong, 1, 2]))
        assert "field age: 1 people have another frozen value" in told
    (told,) = judged(rosters([0, 0, 1, 1, 1, 0], [0] * 6), rows([EXPECTED_MS] * 3, [0, 1, 2]))
    assert "2 cohorts have people who were seen and people who were known from the start" in told
    (told,) = judged(rosters([0, 0, 0, 1, 1, 1], [1] * 3 + [0] * 3), rows([EXPECTED_MS] * 3, [0, 1, 2]))
    assert "3 people who were known from the start did not enter with the first release" in told
    (told,) = judged(good, rows([EXPECTED_MS] * 3, [0, 1, 2]), np.full(3, -1))
    assert "3 people who were known from the start did not enter" in told


def test_who_waited_in_a_pool_is_not_expected_and_places_are_told_apart() -> None:
    """Nor is somebody who entered with another run of the chain than the one that expected him."""
    ends = [SEEN_BEFORE_MS, EXPECTED_MS, EXPECTED_MS + 1, EXPECTED_MS + MOST_PLACES, HOUR]
    assert EXPECTED_MS == SEEN_BEFORE_MS + 1
    assert MOST_PLACES == 1_048_576
    assert are_expected(rows(ends, [0] * 5)).tolist() == [False, True, True, False, False]
    named = rows(ends[:3], [0, 1, 2])
    of = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    assert entered_as_expected(named, NAMED, of, HEADS).tolist() == [False, True, False]
    later = [replace(head, place=1) for head in HEADS]
    assert entered_as_expected(named, NAMED, of, later).tolist() == [False, False, True]


def test_fewer_than_a_cohort_of_them_count_for_nothing() -> None:
    """By partition and run; who entered before is none of them."""
    policy = mixed_bound(cohort_size=3).policy
    of = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    three = rows([EXPECTED_MS] * 3, [0, 1, 2])
    assert not are_too_few(three, NAMED, of, HEADS, policy).any()
    other = [replace(HEADS[0], place=5), *HEADS[1:]]
    assert are_too_few(three, NAMED, of, other, policy).all()
    assert are_too_few(rows([EXPECTED_MS] * 2, [0, 1]), NAMED[:2], of, HEADS, policy).all()
    assert not are_too_few(rows([HOUR] * 2, [0, 1]), NAMED[:2], of, HEADS, policy).any()


def held(values: list[int], pool: list[int], numbered: int = 0) -> tuple[str, ...]:
    """What is found where the file names 0 to 2 with codes 1, 0 and 2, and the run kept others."""
    kept = np.array(values, np.int32)[:, None]
    none = np.zeros((0, 1), np.int32)
    own = CarriedPartition("ab", "", 0, None, none, 0, np.array(pool, np.uint64), kept, None)
    findings = Findings()
    file = (np.arange(3, dtype=np.uint64), np.array([[1], [0], [2]], np.int32), np.zeros(3, np.int32))
    judge_expected(Carried({}, None, (own,)), *file, {"ab": numbered}, findings)
    return findings.messages()


def test_what_the_run_kept_is_held_against_the_file() -> None:
    """Other people, other values, another partition; of who is forgotten no value is there."""
    assert held([1, 0, 2], [0, 1, 2]) == ()
    assert held([2, 1, 0], [2, 0, 1]) == ()
    assert held([-1, 0, 2], [0, 1, 2]) == ()
    for wrong in ([0, 0, 2], [1, 0, 0], [1, 1, 2]):
        assert "1 people were known from the start with other values" in held(wrong, [0, 1, 2])[0]
    assert (
        "1 people from the start whom the file of people does not name, and 1 not"
        in held([1, 0, 2], [0, 1, 9])[0]
    )
    assert "stands twice among those" in held([1, 0, 2, 2], [0, 1, 2, 2])[0]
    assert "3 people were expected in another partition" in held([1, 0, 2], [0, 1, 2], numbered=4)[0]
