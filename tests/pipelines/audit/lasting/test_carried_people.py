"""What a run leaves against what it began with and who entered, without the secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kanonflow.pipelines.audit.lasting.carried_people import judge_carried
from kanonflow.pipelines.audit.read.carried_state import Carried, CarriedPartition
from kanonflow.pipelines.audit.read.chain_record import ChainRecord
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment

Roster = tuple[str, int, int, int]
NONE: Roster = ("", 0, 0, 0)


def left_of(
    roster: Roster | None, pool: tuple[int, ...] = (), *, rows: int = 1, told: int = 1
) -> CarriedPartition:
    """One partition's state."""
    return CarriedPartition(
        "p", "e", 1, 0, np.zeros((rows, 2), np.int32), told, np.array(pool, np.uint64),
        np.zeros((len(pool), 1), np.int32), np.full(len(pool), -1), roster,
    )  # fmt: skip


def segment_of(people: tuple[int, ...]) -> EnteredSegment:
    """The first segment of a roster."""
    head = SimpleNamespace(segments=0)
    told = SimpleNamespace(
        partition="p", head=head, after=("c1", len(people), 1), people=np.array(people, np.uint64)
    )
    return cast(EnteredSegment, told)


def said(
    left: CarriedPartition, segments: list[EnteredSegment], *, came: CarriedPartition | None = None
) -> list[str]:
    """What is found of a run at place 1."""
    findings = Findings()
    began = {} if came is None else {"p": came}
    judge_carried(
        Carried(began, {"p": left}), segments, ChainRecord(1, True, "e", True), 3, frozenset(), findings
    )
    return list(findings.messages())


OTHER = "the carried states of 1 partitions are of other cohorts than lie there"


@pytest.mark.parametrize("roster", [None, NONE])
def test_before_anybody_entered_there_is_no_roster(roster: Roster | None) -> None:
    """Or one of nobody; with a segment there is one, and it is that of the last segment."""
    segment = segment_of((7, 8))
    assert said(left_of(roster), []) == []
    assert said(left_of(roster), [segment]) == [OTHER]
    assert said(left_of(("c1", 1, 2, 1)), [segment]) == []
    for wrong in (("c2", 1, 2, 1), ("c1", 2, 2, 1), ("c1", 1, 3, 1), ("c1", 1, 2, 2)):
        assert said(left_of(wrong), [segment]) == [OTHER]
    for wrong in (("", 1, 0, 0), ("", 0, 1, 0), ("", 0, 0, 1), ("c", 0, 0, 0)):
        assert said(left_of(wrong), []) == [OTHER]


def test_people_of_the_pool_wait_or_have_entered() -> None:
    """And not both."""
    segment, roster = segment_of((7, 8)), ("c1", 1, 2, 1)
    began = left_of(None, (7, 9))
    began = CarriedPartition(**{**vars(began), "place": 0})
    assert said(left_of(roster, (9,)), [segment], came=began) == []
    assert said(left_of(roster), [segment], came=began) == [
        "1 people of the pool that the run began with neither entered nor wait any more"
    ]
    assert said(left_of(roster, (8, 9)), [segment], came=began) == [
        "1 people wait in the pool who are in a cohort"
    ]


def test_states_are_of_the_run() -> None:
    """What it leaves of its own place, what came of the one before; and of as many rows as it says."""
    assert said(left_of(None, rows=1, told=2), []) == [
        "a carried state tells another number of rows than it holds"
    ]
    before = CarriedPartition(**{**vars(left_of(None)), "place": 0})
    assert said(left_of(None), [], came=before) == []
    assert said(left_of(None), [], came=left_of(None)) == [
        "1 carried states of another run of the chain, or of another epoch"
    ]
