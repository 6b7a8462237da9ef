"""The rule by which releases stand beside committed cohorts, case by case, and for lines of states as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanonflow.transforms.lineage.release_lineage import RosterMark, Slot
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment, judge_roster

EPOCH = 7


def slot(end: int, segments: int, chain: str, before: str | None = None, epoch: int = EPOCH) -> Slot:
    """A release at ``end``; people entered with it where ``before`` is given."""
    mark = RosterMark(epoch, segments, chain, before is not None, chain if before is None else before)
    return Slot(bytes(16), end, 0, f"r{end}", f"d{end}", 1, (), mark)


def segment(number: int, before: str, chain: str, end: int, epoch: int = EPOCH) -> CommittedSegment:
    """A segment that came with the release at ``end``."""
    return CommittedSegment(number, epoch, before, chain, f"r{end}", end, 0)


ZERO = segment(0, "", "a", 10)
ONE = segment(1, "a", "ab", 20)
CASES = {
    "the first of an epoch": (slot(10, 1, "a", ""), [], None),
    "a retry of the first": (slot(10, 1, "a", ""), [ZERO], None),
    "a retry of the first, after the second": (slot(10, 1, "a", ""), [ZERO, ONE], None),
    "the second": (slot(20, 2, "ab", "a"), [ZERO], None),
    "the second, before the first is there": (slot(20, 2, "ab", "a"), [], None),
    "nobody entered": (slot(15, 1, "a"), [ZERO], None),
    "nobody entered, before the segment is there": (slot(15, 1, "a"), [], None),
    "nobody entered, after a later one was committed": (slot(15, 1, "a"), [ZERO, ONE], None),
    "nobody entered since the second": (slot(30, 2, "ab"), [ZERO, ONE], None),
    "another chain in its place: state was lost": (slot(30, 1, "x", ""), [ZERO], ZERO),
    "the same people under another release": (slot(30, 1, "a", ""), [ZERO], ZERO),
    "an older state took in others": (slot(20, 2, "ay", "a"), [ZERO, ONE], ONE),
    "the segment before is another": (slot(20, 2, "xb", "x"), [ZERO], ZERO),
    "made with another roster": (slot(15, 1, "x"), [ZERO], ZERO),
    "made with another second segment": (slot(25, 2, "ay"), [ZERO, ONE], ONE),
    "does not know who entered before it": (slot(25, 1, "a"), [ZERO, ONE], ONE),
    "does not know who entered with its window": (slot(20, 1, "a"), [ZERO, ONE], ONE),
    "a later segment follows another roster": (slot(15, 1, "x"), [ONE], ONE),
    "a later segment that it cannot have led to": (slot(15, 1, "x", ""), [ONE], ONE),
    "another epoch": (slot(10, 1, "a", "", epoch=8), [ZERO], ZERO),
    "another epoch, far behind": (slot(90, 5, "q", epoch=8), [ZERO], ZERO),
    "of an earlier run that had later windows": (slot(5, 2, "ab"), [ZERO, ONE], None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rule(case: str) -> None:
    """Each way in which a release and committed segments can meet."""
    own, committed, other = CASES[case]
    assert judge_roster(own, committed) == other
    assert judge_roster(own, committed[::-1]) == other


def test_a_release_without_cohorts_is_not_judged() -> None:
    """Other policies name no roster."""
    assert judge_roster(slot(10, 1, "a", "")._replace(roster=None), [segment(0, "", "x", 5)]) is None


def line(name: str, entries: list[bool], shared: int = 0) -> list[tuple[Slot, CommittedSegment | None]]:
    """The releases of a line of states; at each, whether people enter. Up to ``shared`` all lines are one."""
    made = []
    chain, segments = "", 0
    for end, enters in enumerate(entries):
        if segments == 0 and not enters:
            continue
        before = chain if enters else None
        if enters:
            chain, segments = f"{chain}/{'' if end < shared else name}{end}", segments + 1
        own = slot(end, segments, chain, before)
        its = segment(segments - 1, before, chain, end) if before is not None else None
        made.append((own, its))
    return made


ENTRIES = st.lists(st.booleans(), min_size=1, max_size=7)


@given(ENTRIES, st.randoms(use_true_random=False))
def test_one_line_is_never_in_its_own_way(entries: list[bool], random: object) -> None:
    """Committed in any order, and again: every release of one line is published."""
    queue = line("a", entries) * 2
    random.shuffle(queue)  # type: ignore[attr-defined]
    committed: dict[int, CommittedSegment] = {}
    for own, its in queue:
        assert judge_roster(own, committed.values()) is None
        if its is not None:
            committed[its.number] = its


@given(ENTRIES, ENTRIES, st.integers(0, 4), st.randoms(use_true_random=False))
def test_of_two_lines_nobody_enters_twice(
    one: list[bool], two: list[bool], shared: int, random: object
) -> None:
    """In any interleaving of two lines, each in its order, until the first conflict parks the partition: the segments
    that get committed are one chain, and no release is published that does not know who entered before it."""
    two = [*one[:shared], *two[shared:]]
    lines = [line("a", one, shared), line("b", two, shared)]
    committed: dict[int, CommittedSegment] = {}
    while any(lines):
        own, its = random.choice([each for each in lines if each]).pop(0)  # type: ignore[attr-defined]
        if judge_roster(own, committed.values()) is not None:
            break
        if its is not None:
            assert committed.setdefault(its.number, its) == its
        assert own.roster is not None
        for each in committed.values():
            assert each.number < own.roster.segments or each.place > own.place
    chain = ""
    for number in sorted(committed):
        assert committed[number].before == chain
        chain = committed[number].chain
