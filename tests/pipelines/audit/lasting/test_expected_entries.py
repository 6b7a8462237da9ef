"""Who was known from the start, as the audit sees it: values, cohorts of their own, the first release, the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kanonflow.pipelines.audit.lasting.carried_people import judge_expected
from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, SEEN_BEFORE_MS, WAITED_MS, InputRows
from kanonflow.pipelines.audit.lasting.expected_entries import (
    are_expected,
    count_for_nothing,
    entered_as_expected,
    judge_expected_entries,
    places_of,
)
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.carried_state import MOST_PLACES, Carried, CarriedPartition
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


def judged(
    of: Rosters, named: InputRows, person: np.ndarray = NAMED, heads: list[ReleaseHead] = HEADS
) -> tuple[str, ...]:
    """What is found, in releases of partition 0, 0 and 1."""
    findings = Findings()
    judge_expected_entries(named, person, of, heads, [0, 0, 1], ["age"], findings)
    return findings.messages()


def counts(named: InputRows, person: np.ndarray, heads: list[ReleaseHead] = HEADS) -> list[bool]:
    """Which of these rows give somebody a kind, where a cohort is three people."""
    of = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    policy = mixed_bound(cohort_size=3).policy
    return [*(~count_for_nothing(named, person, named.partition, of, heads, policy)).tolist()]


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
    """Nor is somebody who entered with a run of the chain before the one that expected him."""
    ends = [SEEN_BEFORE_MS, EXPECTED_MS, EXPECTED_MS + 1, WAITED_MS, WAITED_MS + MOST_PLACES, HOUR]
    assert EXPECTED_MS == SEEN_BEFORE_MS + 1
    assert WAITED_MS == EXPECTED_MS + MOST_PLACES
    assert MOST_PLACES == 1_048_576
    assert are_expected(rows(ends, [0] * 6)).tolist() == [False, True, True, True, False, False]
    assert places_of(rows(ends[1:4], [0] * 3)).tolist() == [0, 1, 0]
    named = rows(ends[:3], [0, 1, 2])
    of = rosters([0, 0, 0, 1, 1, 1], [0] * 6)
    assert entered_as_expected(named, NAMED, of, HEADS).tolist() == [False, True, False]
    later = [replace(head, place=1) for head in HEADS]
    assert entered_as_expected(named, NAMED, of, later).tolist() == [False, True, True]


def test_fewer_than_a_cohort_of_them_count_for_nothing() -> None:
    """By partition and run; who entered before is none of them."""
    three = rows([EXPECTED_MS] * 3, [0, 1, 2])
    assert counts(three, NAMED) == [True] * 3
    assert counts(three, NAMED, [replace(HEADS[0], place=-1), *HEADS[1:]]) == [False] * 3
    assert counts(rows([EXPECTED_MS] * 2, [0, 1]), NAMED[:2]) == [False] * 2
    assert counts(rows([HOUR] * 2, [0, 1]), NAMED[:2]) == [True] * 2
    assert counts(rows([], []), NAMED[:0]) == []


def test_the_first_run_that_names_somebody_gives_him_his_kind() -> None:
    """Later ones do not; fewer than a cohort whom one names first have none of it, unless a later one names more; who
    waits since a run that is not judged has his from there."""
    later = [replace(head, place=7) for head in HEADS]

    def named(ends: list[int], who: list[int]) -> InputRows:
        return replace(rows(ends, who), digest=np.array(who, np.uint64))

    def told(ends: list[int], who: list[int]) -> list[bool]:
        return counts(named(ends, who), np.array(who), later)

    first, second, waited = [EXPECTED_MS] * 3, [EXPECTED_MS + 1] * 6, [WAITED_MS] * 3
    assert told(first + second, [0, 1, 2, *range(6)]) == [True] * 3 + [False] * 3 + [True] * 3
    assert told(second + first, [*range(6), 0, 1, 2]) == [False] * 3 + [True] * 6
    assert told(first + second[:5], [0, 1, 2, *range(5)]) == [True] * 3 + [False] * 5
    assert told(first[:2] + second, [0, 1, *range(6)]) == [False] * 2 + [True] * 6
    assert told(waited + second, [0, 1, 2, *range(6)]) == [True] * 3 + [False] * 3 + [True] * 3
    assert told(waited[:2] + second, [0, 1, *range(6)]) == [False] * 2 + [True] * 6
    # Those who entered before a run was on are not new to it.
    assert counts(named([EXPECTED_MS + 8] * 3, [0, 1, 2]), NAMED, later) == [False] * 3


def test_of_a_part_of_a_shard_too_few_count_for_nothing() -> None:
    """Three were named of a shard; two of them went to another part than the third."""
    of, policy = rosters([0, 0, 0, 1, 1, 1], [0] * 6), mixed_bound(cohort_size=3).policy
    named = replace(rows([EXPECTED_MS] * 3, [0, 1, 2]), partition=np.array([4, 4, 5], np.int32))
    lies = np.full(3, 3)
    assert count_for_nothing(named, NAMED, lies, of, HEADS, policy).all()
    together = replace(named, partition=np.full(3, 4, np.int32))
    assert not count_for_nothing(together, NAMED, lies, of, HEADS, policy).any()
    # A later file names these two again, with one more.
    again = rows([EXPECTED_MS] * 3 + [EXPECTED_MS + 1] * 3, [0, 1, 2, 0, 1, 3])
    again = replace(again, digest=np.array([0, 1, 2, 0, 1, 3], np.uint64))
    again = replace(again, partition=np.array([4, 4, 5, 4, 4, 4], np.int32))
    later = [replace(head, place=1) for head in HEADS]
    nothing = count_for_nothing(again, np.array([0, 1, 2, 0, 1, 3]), np.full(6, 3), of, later, policy)
    assert nothing.tolist() == [True] * 3 + [False] * 3


def test_kinds_enter_apart_and_each_with_the_first_release_behind_its_run() -> None:
    """Three since one run, three since the next: two cohorts pass, a shared one does not, nor a release between."""
    ends, everybody = [EXPECTED_MS] * 3 + [EXPECTED_MS + 1] * 3, np.arange(6)
    named = rows(ends, [*range(6)])
    heads = [HEADS[0], replace(HEADS[1], place=1), HEADS[2]]
    good = rosters([0, 0, 0, 1, 1, 1], [1] * 6)
    alone = [replace(HEADS[0], end=-(2**60)), *heads[1:]]
    assert judged(good, named, everybody, alone) == ()
    assert judged(rosters([0, 0, 0, 1, 1, 1], [0] * 3 + [1] * 3), named, everybody, heads) == ()
    (told,) = judged(rosters([0, 0, 1, 1, 1, 0], [1] * 6), named, everybody, alone)
    assert "2 cohorts have people whom files of different runs were the first to name" in told
    (told,) = judged(good, named, everybody, heads)
    assert "3 people who were known from the start did not enter with the first release" in told
    # An earlier run's release may be later by its window.
    turned = [replace(HEADS[0], end=9 * HOUR), *heads[1:]]
    assert judged(rosters([0, 0, 0, 1, 1, 1], [0] * 3 + [1] * 3), named, everybody, turned) == ()
    waits = replace(named, end=np.where(named.end == EXPECTED_MS, WAITED_MS, named.end))
    assert judged(good, waits, everybody, alone) == ()


def held(values: list[int], pool: list[int], numbered: int = 0) -> tuple[str, ...]:
    """What is found where the file names 0 to 2 with codes 1, 0 and 2, and the run kept others."""
    kept = np.array(values, np.int32)[:, None]
    none = np.zeros((0, 1), np.int32)
    own = CarriedPartition("ab", "", 0, None, none, 0, np.array(pool, np.uint64), kept, np.zeros(3), None)
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
