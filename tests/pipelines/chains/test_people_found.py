"""Whom a run finds in its input: when they cannot be the same people, and ids that are known in another spelling."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.chains.other_spellings import known_otherwise, spellings
from kanonflow.pipelines.chains.people_found import PeopleFound, people_of_record
from kanonflow.transforms.release.cohorts import person_digests

KEY = bytes(range(32))
UUID = "550e8400-e29b-41d4-a716-446655440000"


@pytest.mark.parametrize(
    ("known", "here", "new", "refused"),
    [
        (50, 0, 50, True),
        (50, 0, 51, False),  # more people than the roster has
        (49, 0, 49, False),  # too small a roster
        (1000, 0, 20, True),
        (1000, 0, 19, False),  # a twentieth is less than one person
        (1000, 1, 19, False),  # a twentieth, and not fewer
        (1000, 4, 96, True),
        (1000, 5, 95, False),
        (1000, 0, 0, False),
    ],
)
def test_hardly_anybody_known_is_refused(known: int, here: int, new: int, refused: bool) -> None:
    """Fewer than 5% of 20 people or more, by a roster of 50 or more that has as many as the input."""
    assert (PeopleFound(known, here, new).refusal("DIR", "who") is not None) is refused


@pytest.mark.parametrize(
    ("spelled", "tried", "refused"), [(4, 4, True), (5, 100, False), (6, 100, True), (0, 0, False)]
)
def test_new_people_who_are_known_in_another_spelling_are_refused(
    spelled: int, tried: int, refused: bool
) -> None:
    """More than a twentieth of the new ones; how many are known besides does not count."""
    found = PeopleFound(1000, 900, tried, {"leading zeros": spelled} if spelled else {}, tried)
    assert (found.refusal("DIR", "who") is not None) is refused


@pytest.mark.parametrize(
    ("there", "here", "difference"),
    [
        ("00007919", "7919", "leading zeros"),
        ("7919", "00007919", "leading zeros"),
        ("123", "123.0", "a fraction"),
        ("123.0", "123", "a fraction"),
        ("0123", "123.0", "leading zeros"),
        ("4683853", "4.683853E6", "a fraction"),
        ("-7", "-007", "leading zeros"),
        ("ab-7", "AB-7", "case"),
        (UUID, UUID.upper(), "hyphens or case"),
        (UUID, UUID.replace("-", ""), "hyphens or case"),
        (UUID.replace("-", ""), f"{{{UUID.upper()}}}", "hyphens or case"),
        ("x7", " x7 ", "blanks"),
    ],
)
def test_an_id_in_another_spelling_is_known(there: str, here: str, difference: str) -> None:
    """By the digest of the spelling that the roster has, and said by the difference."""
    known = np.sort(person_digests([there, "someone", "else"], KEY))
    assert known_otherwise([here, "nobody"], known, KEY) == {difference: 1}


@pytest.mark.parametrize("name", ["7919", "p7", "a b", "", "1e400", "é"])
def test_other_people_are_not_taken_for_known(name: str) -> None:
    """Ids that differ in more than spelling; ends of the number formats break nothing."""
    known = np.sort(person_digests(["7918", "p8", "79190", "a-b"], KEY))
    assert not known_otherwise([name], known, KEY)
    assert len(list(spellings(name))) < 40


def test_the_line_and_the_record_have_the_same_counts() -> None:
    """As a person reads them, and as run.json keeps them for a run that resumes."""
    found = PeopleFound(880, 812, 4)
    assert found.line() == "Of 880 known people 812 were here, 68 not, 4 new."
    assert people_of_record(found.record()) == found
    assert people_of_record(None) is None
