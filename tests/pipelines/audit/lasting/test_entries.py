"""Does the input explain who entered? By hand: two or three people, a release each day, cohorts of two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kanonflow.pipelines.audit.lasting.entries import INHERITED_MS, InputRows, judge_entries, people_of_rows
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy

POLICY = parse_policy(
    {
        "version": 1,
        "k": 2,
        "window": "1s",
        "max_delay": "2s",
        "cohort": "lasting",
        "cohort_size": 2,
        "intake": 3,
        "fields": {
            "who": {"role": "individual"},
            "when": {"role": "time"},
            "x": {"role": "quasi", "type": "numeric"},
        },
    },
    "test",
    "test",
)
SECOND = 1000
Row = tuple[int, int, int, bool]
"""Whose, end of its window in seconds, value, whether it can be read."""
UNSEEN, STRANGE = "entered before any row of theirs", "a frozen value that no row of theirs had"
EARLY, LEFT_OUT, PUT_OFF = "intakes before as many", "left out people", "that was due was put off"


def people_of(rows: list[Row], entered: dict[int, tuple[int, int]]) -> tuple[InputRows, Rosters]:
    """entered: of each person the release and the frozen value."""
    digest, end, value, readable = (np.array(column) for column in zip(*rows, strict=True))
    people = len(entered)
    input_rows = InputRows(
        digest.astype(np.uint64),
        np.zeros(len(rows), np.int32),
        end.astype(np.int64) * SECOND,
        value[:, None].astype(np.int32),
        readable,
    )
    rosters = Rosters(
        np.array(list(entered), np.uint64),
        np.zeros(people, np.int32),
        np.zeros(people, np.int64),
        np.array([release for release, _ in entered.values()], np.int32),
        np.zeros(people, bool),
        np.array([[value] for _, value in entered.values()], np.int32).reshape(-1, 1),
        *(np.zeros(0, np.int64) for _ in range(4)),
    )
    return input_rows, rosters


def said(
    rows: list[Row],
    entered: dict[int, tuple[int, int]],
    releases: int = 3,
    *,
    closing: tuple[int, ...] = (),
    bounded: bool = True,
    ends: dict[int, int] | None = None,
    partition: int = 0,
    policy: Policy = POLICY,
) -> list[str]:
    """What is found, with a release at the end of each second from the first on."""
    heads = [
        ReleaseHead(
            f"r{place}", None, (ends or {}).get(place, (place + 1) * SECOND), (), closing=place in closing
        )
        for place in range(releases)
    ]
    input_rows, rosters = people_of(rows, entered)
    findings = Findings()
    person = people_of_rows(input_rows, rosters)
    judge_entries(
        input_rows, person, rosters, heads, [partition] * releases, policy, ["x"], findings, bounded=bounded
    )
    return list(findings.messages())


def test_people_are_found_again_where_they_entered_first() -> None:
    """Nobody else is; who entered twice counts the first time."""
    rows, rosters = people_of([(7, 1, 0, True), (9, 1, 0, True), (8, 1, 0, True)], {9: (0, 0), 7: (0, 0)})
    assert people_of_rows(rows, rosters).tolist() == [1, 0, -1]
    twice = Rosters(**{**vars(rosters), "person": np.array([7, 7], np.uint64)})
    assert people_of_rows(rows, twice).tolist() == [0, -1, -1]
    none = InputRows(**{name: values[:0] for name, values in vars(rows).items()})
    nobody = Rosters(**{name: values[:0] for name, values in vars(rosters).items()})
    assert people_of_rows(none, nobody).tolist() == []


THREE: list[Row] = [(1, 1, 4, True), (2, 1, 5, True), (3, 1, 0, True)]
TOGETHER = {1: (0, 4), 2: (0, 5), 3: (0, 0)}


def test_three_newcomers_are_an_intake() -> None:
    """As many as the policy asks for, in the first release after their windows."""
    assert said(THREE, TOGETHER) == []
    assert said([(each, end + 1, value, ok) for each, end, value, ok in THREE], TOGETHER)[0].startswith(
        f"3 people {UNSEEN}"
    )


def test_a_person_must_have_been_there() -> None:
    """By a readable row whose window had ended; on that of the release's end it had."""
    for row, fine in (((1, 1, 4, True), True), ((1, 2, 4, True), False), ((1, 1, 4, False), False)):
        told = said([row, *THREE[1:]], TOGETHER, bounded=False)
        assert (told == []) == fine, row
        assert fine or told[0].startswith(f"1 people {UNSEEN}")


@pytest.mark.parametrize("frozen", [-1, 0, 3, 5, 6])
def test_a_frozen_value_is_of_a_row(frozen: int) -> None:
    """Of the person's own, by then; least and greatest codes and null are no exception."""
    rows = [*THREE, (1, 1, frozen, True)]
    assert said(rows, {**TOGETHER, 1: (0, frozen)}) == []
    told = said([*THREE, (1, 2, frozen, True)], {**TOGETHER, 1: (0, frozen)}, bounded=False)
    assert any(STRANGE in each for each in told)
    other = said([*THREE, (2, 1, frozen, True)], {**TOGETHER, 1: (0, frozen)}, bounded=False)
    assert any(STRANGE in each for each in other)


def test_fewer_enter_only_when_one_had_to_leave() -> None:
    """Two of the three that are asked for: found, but where a row's time is over with that release."""
    two = {1: (2, 4), 2: (2, 5)}
    assert [EARLY in each for each in said([(1, 3, 4, True), (2, 3, 5, True)], two)] == [True]
    assert said([(1, 1, 4, True), (2, 3, 5, True)], two) == []
    assert [EARLY in each for each in said([(1, 2, 4, True), (2, 3, 5, True)], two)] == [True]
    # A row that cannot be read makes its person wait, too.
    assert said([(1, 1, 4, False), (1, 3, 4, True), (2, 3, 5, True)], two) == []
    # A closing release takes what was due before it.
    before = [(1, 0, 4, True), (2, 3, 5, True)]
    assert EARLY in said(before, two, bounded=False)[0]
    assert said(before, two, closing=(2,), bounded=False) == []
    # A row whose time nobody knows is due at no release.
    never = [(1, -(2**62) // SECOND, 4, False), (1, 3, 4, True), (2, 3, 5, True)]
    assert EARLY in said(never, two, closing=(2,), bounded=False)[0]


def test_an_intake_is_a_share_of_those_who_had_entered() -> None:
    """Three and three quarters of them: two more are too few, three are enough, and may not be put off."""
    growing = replace(POLICY, intake=2, intake_share=0.75)
    two, three = [(4, 2, 4, True), (5, 2, 5, True)], [(4, 2, 4, True), (5, 2, 5, True), (6, 2, 6, True)]
    with_second: dict[int, tuple[int, int]] = {4: (1, 4), 5: (1, 5)}
    with_third: dict[int, tuple[int, int]] = {4: (2, 4), 5: (2, 5)}
    assert [EARLY in each for each in said([*THREE, *two], TOGETHER | with_second, policy=growing)] == [True]
    assert said([*THREE, *two], TOGETHER | with_third, 4, ends={2: 4 * SECOND}, policy=growing) == []
    assert said([*THREE, *three], TOGETHER | with_second | {6: (1, 6)}, policy=growing) == []
    late = TOGETHER | with_third | {6: (2, 6)}
    assert [PUT_OFF in each for each in said([*THREE, *three], late, policy=growing)] == [True]


def test_of_a_run_before_this_one_nothing_is_asked() -> None:
    """Neither rows nor how many they were."""
    assert said([(3, 1, 4, True)], {1: (0, 4), 2: (0, 5)}, 1, ends={0: INHERITED_MS + 1}, bounded=False) == []


def test_nobody_is_left_out_of_an_intake() -> None:
    """Of a run over files: who had been seen by then enters with the others."""
    rows = [*THREE, (4, 1, 3, True)]
    assert [LEFT_OUT in each for each in said(rows, TOGETHER)] == [True]
    assert said(rows, TOGETHER, bounded=False) == []
    assert said([*THREE, (4, 2, 3, True)], TOGETHER) == []
    assert said([*THREE, (4, 1, 3, False)], TOGETHER) == []
    # The first of all is nobody special.
    assert said([(4, 1, 3, True), *THREE[1:]], {4: (0, 3), 2: (0, 5), 3: (0, 0)}) == []


def test_an_intake_that_is_due_is_not_put_off() -> None:
    """Three wait at the first release and enter with the second; two may wait, till one of them must leave."""
    later = {each: (1, value) for each, (_, value) in TOGETHER.items()}
    assert [PUT_OFF in each for each in said(THREE, later)] == [True]
    two: list[Row] = [(1, 1, 4, True), (2, 2, 5, True)]
    assert said(two, {1: (2, 4), 2: (2, 5)}) == []
    assert said(two[:1], {}, releases=4) == []
    assert [PUT_OFF in each for each in said(two, {}, releases=3)] == [True]
    assert said(two, {}, releases=3, closing=(2,)) == []
    assert said(two, {}, releases=2) == []
    # In a partition where nobody has been seen nothing is put off.
    assert said(two, {}, partition=1) == []
