"""The bytes of a partition's state that grow with its people: what docs/operations.md says a person takes."""

from __future__ import annotations

import re
from pathlib import Path

from kanonflow.schemas.policy import Policy
from tests.driven_partitions import Cells, DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, row

SIZING = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
FEW, MANY = 300, 900


def told(what: str) -> int:
    """The figure of a line of the table of sizes."""
    found = re.search(rf"\| {what}[^|]*\| ([\d,]+) ", SIZING)
    assert found, what
    return int(found[1].replace(",", ""))


def state_of(people: int, policy: Policy) -> Cells:
    """A partition after the window in which so many people came with a row each."""
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send([row(who, who, 0.5, age=str(who % 90)) for who in range(people)])
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    return cells


def grows(policy: Policy, cell: str) -> float:
    """Bytes of a cell for each further person."""
    few, many = (state_of(people, policy) for people in (FEW, MANY))
    sizes = [
        sum(map(len, each.roster.values)) if cell == "roster" else sum(each.sizes()) for each in (few, many)
    ]
    return (sizes[1] - sizes[0]) / (MANY - FEW)


def lasting(intake: int, **head: object) -> Policy:
    """Cohorts that last. intake: below the people, so that they enter; or above, so that they wait."""
    return feed_policy(cohort="lasting", intake=intake, max_delay="2h", **head)


def test_a_person_in_the_roster_takes_what_the_guide_says() -> None:
    """No more, nor much less: this feed's fields are short. And it does not stand in the second block as well."""
    assert 0.6 < grows(lasting(10), "roster") / told("`cohort: lasting`, the roster") <= 1
    assert grows(lasting(10), "warm") < 20


def test_a_newcomer_who_waits_takes_what_the_guide_says() -> None:
    """With the one row that waits, short as it is here; in no roster yet."""
    policy = lasting(100_000)
    assert grows(policy, "roster") == 0
    assert 0.6 < grows(policy, "warm") / told("`cohort: lasting`, newcomers who wait for an intake") <= 1


def test_an_event_id_takes_what_the_guide_says() -> None:
    """Eight bytes each, beside what there is without them."""
    more = grows(lasting(10, events=True), "warm") - grows(lasting(10), "warm")
    assert abs(more - told("`event_id`")) < 0.5
