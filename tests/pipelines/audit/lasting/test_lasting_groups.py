"""Faults of single rows, on groups by hand: how far a row is looked for, and what follows from where its cohort is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kanonflow.pipelines.audit.lasting import lasting_groups as judged
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead

Unit = tuple[int, int, list[int]]
"""Its group, how many rows it has, and the cohorts of whom they may be: of each another person."""


def settled(units: list[Unit], groups: int, releases: int = 1) -> tuple[list[str], list[int]]:
    """What is said of these groups, as many in each release, and which units are left without their rows' people."""
    cohort = np.array([each for _, _, own in units for each in own], np.int64)
    release = np.repeat(np.arange(releases, dtype=np.int32), groups // releases)
    ground: Any = SimpleNamespace(
        groups=SimpleNamespace(release=release),
        rosters=SimpleNamespace(members=np.full(int(cohort.max(initial=-1)) + 1, 3), cohort=cohort),
        person=np.arange(len(cohort)),
        heads=[ReleaseHead(f"r{number}", None, None, ()) for number in range(releases)],
    )
    count = len(units)
    pairs = judged._Candidates(
        np.repeat(np.arange(count), [len(own) for _, _, own in units]),
        np.arange(len(cohort)),
        np.array([group for group, _, _ in units], np.int64),
        np.array([wanted for _, wanted, _ in units], np.int64),
        np.zeros(count, bool),
    )
    findings = Findings()

    def note(failed: np.ndarray, message: str) -> None:
        if failed.any():
            findings.add(message)

    judged._settle(cast(LastingGround, ground), pairs, findings, note)
    return list(findings.messages()), np.flatnonzero(pairs.failed).tolist()


ELSEWHERE = "carry the payload of people whose cohort stands in another group"
TORN = "rows of one cohort stand in two groups of a release (release r0)"


def test_rows_of_a_cohort_stand_together() -> None:
    """A row that may be of two cohorts is of the one that stands there: honest groups pass, whoever is last."""
    assert settled([(0, 1, [0]), (0, 1, [0, 1]), (1, 1, [1])], groups=2) == ([], [])
    assert settled([(0, 1, [0]), (1, 1, [1, 2])], groups=2) == ([], [])
    assert settled([(0, 1, [1, 2]), (1, 1, [0, 2])], groups=2) == ([], [])
    # In another release it may stand with others.
    assert settled([(0, 1, [0]), (1, 1, [0])], groups=2, releases=2) == ([], [])


def test_a_row_whose_people_all_stand_elsewhere_is_found() -> None:
    """Of two cohorts that brought its payload one stands in one group, one in another, and the row in a third."""
    units: list[Unit] = [(0, 1, [0]), (1, 1, [1]), (2, 1, [0, 1])]
    assert settled(units, groups=3) == ([ELSEWHERE], [2])


def test_a_cohort_that_is_torn_apart_is_told_as_that() -> None:
    """And not as rows of nobody: both of its places stay what they are."""
    units: list[Unit] = [(0, 1, [0]), (1, 1, [0]), (2, 1, [0, 1])]
    assert settled(units, groups=3) == ([TORN], [])


@pytest.mark.parametrize("steps", range(1, 10))
def test_what_follows_from_what_follows_is_found(steps: int) -> None:
    """Each row tells where the next one's cohort is; the last group has one row more than people. Eight steps are
    followed, so that work is linear in the rows: whole groups are followed otherwise."""
    chain: list[Unit] = [(0, 1, [0]), *((step, 1, [step - 1, step]) for step in range(1, steps))]
    told = settled([*chain, (steps, 2, [steps - 1, steps])], groups=steps + 1)
    assert told == (([ELSEWHERE], [steps]) if steps <= 8 else ([], []))


DAY = 10
Looked = tuple[list[int], list[int], list[bool]]


def looked_for(
    ends: list[int], *, start: int = 0, end: int = 30, made: int = 30, closing: bool = False
) -> Looked:
    """Which records of one payload, each with its window's end, a row of a group may be; how many rows are wanted then,
    and whether its group counts as looked for. Windows of ten, rows may wait for twenty."""
    ground = SimpleNamespace(
        policy=SimpleNamespace(cohorts=SimpleNamespace(window_ms=DAY), waiting_ms=2 * DAY),
        groups=SimpleNamespace(
            release=np.zeros(1, np.int32),
            start=np.array([start]),
            end=np.array([end]),
            of_row=np.zeros(1, np.int32),
        ),
        release_ends=np.array([made]),
        closing=np.array([closing]),
        end=np.array(ends, np.int64),
    )
    count = len(ends)
    payloads = Payloads(np.arange(count), np.zeros(count, np.int64), np.zeros(1, np.int64))
    pairs, followed = judged._candidates(cast(LastingGround, ground), payloads)
    return sorted(pairs.record.tolist()), pairs.wanted.tolist(), followed.tolist()


def test_a_row_is_looked_for_among_sixteen() -> None:
    """A fault of a row whose payload so many records have is still told by name; of more, none is looked for and none
    is missed."""
    assert looked_for([10] * 16) == (list(range(16)), [1], [True])
    assert looked_for([10] * 17) == ([], [0], [False])


def test_a_row_is_of_its_groups_window() -> None:
    """Of none before its start or after its end, and none that has waited longer than it may, but in a closing
    release."""
    assert looked_for([0, 10, 20, 30, 40])[0] == [1, 2, 3]
    assert looked_for([0, 10, 20, 30, 40], start=10, end=20)[0] == [2]
    assert looked_for([0, 10, 20, 30, 40], made=40)[0] == [2, 3]
    assert looked_for([0, 10, 20, 30, 40], made=40, closing=True)[0] == [1, 2, 3]
    assert looked_for([40]) == ([], [1], [True])
