"""``against`` in a policy: what it says, what it must not, and in which words it is told."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.schemas.readers import KnownWindows, Reader, standard_readers
from kanonflow.transforms.rows.element_rows import text_schema


def policy(against: Any, **head: Any) -> Policy:
    plain = {
        "version": 1,
        "k": 5,
        "window": "1d",
        "fields": {
            "who": "individual",
            "when": "time",
            "age": {"role": "quasi", "type": "numeric"},
            "town": "insensitive",
            "amount": "sensitive",
        },
    }
    return parse_policy(plain | {"against": against} | head, "test", "test")


def mistakes(against: Any, **head: Any) -> list[str]:
    with pytest.raises(PolicyError) as error:
        policy(against, **head)
    return list(error.value.mistakes)


def test_it_is_read_and_written() -> None:
    """As it was said; cohorts are of k and the people who are known, unless the policy says more."""
    said = {
        "known_people": 1,
        "known_windows": {"count": 2, "drop": True},
        "known_purchases": {"count": 1, "of": ["amount"]},
    }
    made = policy(said)
    assert to_mapping(made)["against"] == said
    assert parse_policy(to_mapping(made), "test", "test") == made
    assert (made.cohort_size, policy(said, cohort_size=9).cohort_size, policy(None).cohort_size) == (6, 9, 5)
    assert made.against is not None
    assert (made.against.windows, made.against.purchases, made.against.left(5)) == (2, 0, 6)


def test_mistakes_name_the_key_and_the_mend() -> None:
    """All at once."""
    assert mistakes({"known_people": 2}, cohort_size=6) == [
        "cohort_size: must be at least k + against.known_people = 7, and is 6; raise it, or lower known_people"
    ]
    assert mistakes({}) == [
        "against: names no reader; say known_people, known_windows, known_purchases or known_absences, or leave it out"
    ]
    (unknown,) = mistakes({"known_people": 1, "known_weeks": {"count": 1}})
    assert unknown.startswith("against.known_weeks")
    assert mistakes({"known_windows": {"count": 0, "drop": "maybe"}}) == [
        "against.known_windows.count: must be a whole number of at least 1",
        "against.known_windows.drop: must be true or false",
    ]
    assert mistakes(
        {"known_purchases": {"of": ["age", "town"]}, "max_dropped": 0.5}, partition_by=["town"]
    ) == [
        "against.max_dropped: nothing is dropped; give a clause drop: true, or leave it out",
        "against.known_purchases.of: age is not published as it is; name fields with role: sensitive or insensitive",
        "against.known_purchases.of: town is in partition_by and known of every row; leave it out",
    ]
    (missing,) = mistakes({"known_purchases": {"count": 1, "drop": True}})
    assert missing.startswith("against.known_purchases.of: missing; name the published fields")
    (most,) = mistakes({"known_windows": {"count": 5, "drop": True}})
    assert most.startswith("against: drop goes up to 4 known windows and purchases together, and here are 5")


def test_it_belongs_to_cohorts_that_last() -> None:
    """A reader who knows activity is within no other promise."""
    for head in ({"cohort": "window"}, {"protect": "row"}):
        assert mistakes({"known_people": 1}, **head) == [
            "against: belongs to cohort: lasting; leave it out, or say cohort: lasting"
        ]


def test_each_class_is_told_in_words() -> None:
    """What is guaranteed, of which rows, and what is measured only."""
    said = {
        "known_people": 1,
        "known_windows": {"count": 3, "drop": True},
        "known_purchases": {"count": 1, "of": ["amount"]},
    }
    told = policy(said).against
    assert told is not None
    guaranteed, measured = told.words(5)
    assert guaranteed.startswith(
        "against, guaranteed: who also knows 3 windows with rows, 1 other person's rows is left with 5 people or more"
        " (1/5 each). That is of rows that are out"
    )
    assert "of what somebody knows of those nothing is promised" in guaranteed
    assert measured.startswith(
        "against, measured only: who also knows 3 windows with rows, 1 row by its window and amount, 1 other person's"
    )
    alone = policy({"known_people": 1}).against
    assert alone is not None
    assert alone.words(5) == (
        "against, guaranteed: who also knows 1 other person's rows is left with 5 people or more (1/5 each).",
    )
    made = policy(said)
    assert set(told.words(5)) <= set(made.promise.covered(made))
    schema = release_avro_schema(bind(made, text_schema(made), text=True, source="test"), epoch=1)
    assert schema["kanonflow"]["against"] == " ".join(told.words(5))
    without = policy(None)
    bound = bind(without, text_schema(without), text=True, source="test")
    assert "against" not in release_avro_schema(bound, epoch=1)["kanonflow"]


def test_absences_are_measured_and_never_dropped_for() -> None:
    """One reader with all clauses; he is among those of whom check and assess tell, once."""
    made = policy({"known_windows": {"count": 1, "drop": True}, "known_absences": {"count": 3}})
    assert made.against is not None
    assert made.against.measured == Reader(KnownWindows(1, 3))
    guaranteed, measured = made.against.words(5)
    assert "1 window with rows" in guaranteed
    assert "1 window with rows, 3 windows in a row without rows" in measured
    readers = standard_readers(bind(made, text_schema(made), text=True, source="test"))
    assert [each.name for each in readers].count("1 window with rows, 3 windows in a row without rows") == 1
    own = policy({"known_absences": {"count": 3}})
    assert len(standard_readers(bind(own, text_schema(own), text=True, source="test"))) == len(readers) - 1
    (refused,) = mistakes({"known_absences": {"count": 3, "drop": True}})
    assert refused.startswith("against.known_absences")


def test_what_is_wanted_is_of_a_measured_clause() -> None:
    """It is written as it was said, and told in words; of two clauses the larger share counts, for they are one."""
    said = {
        "known_windows": {"count": 3, "wanted": 0.99},
        "known_purchases": {"count": 1, "of": ["amount"], "wanted": 0.5},
    }
    made = policy(said)
    assert to_mapping(made)["against"] == said
    assert made.against is not None
    assert made.against.wanted == 0.99
    (measured,) = made.against.words(5)
    assert measured.endswith(
        "Wanted: 0.99 of the people are left with 5 or more to who knows any 3 windows with rows, 1 row by its window"
        " and amount, counted over the epoch (epoch_against)."
    )
    only = policy({"known_windows": {"drop": True}, "known_absences": {"count": 2}}).against
    assert only is not None
    assert (only.counted, only.wanted) == (None, None)
    (both,) = mistakes({"known_windows": {"count": 1, "drop": True, "wanted": 0.9}})
    assert both.startswith("against.known_windows.wanted: belongs to a clause that is measured")
    (absent,) = mistakes({"known_absences": {"count": 3, "wanted": 0.9}})
    assert absent.startswith("against.known_absences.wanted")
    (much,) = mistakes({"known_windows": {"count": 1, "wanted": 99}})
    assert much == "against.known_windows.wanted: must be a share of people, from 0 to 1"
