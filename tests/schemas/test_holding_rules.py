"""What a policy may ask of selective holding."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping
from tests.schemas.test_policy_file import feed, mistakes_of, with_field


@pytest.mark.parametrize(
    ("head", "start"),
    [
        ({"hold_share": 0.6}, "hold_share: must be a number from 0 to 0.5"),
        ({"hold_share": -0.1}, "hold_share: must be a number from 0 to 1"),
        ({"hold_share": "much"}, "hold_share: must be a number from 0 to 1"),
        ({"hold_share": 0.1, "protect": "row"}, "hold_share: needs closed classes"),
        ({"hold_share": 0.1, "shape": "graph"}, "hold_share: needs closed classes"),
        ({"hold_share": 0.1, "max_delay": "1h"}, "hold_share: needs a window and a max_delay"),
        ({"hold_share": 0.1, "cohort": "keep"}, "hold_share: has no use with cohort: keep"),
        ({"hold_share": 0.1, "cohort": "strict"}, "hold_share: has no use with cohort: strict"),
    ],
)
def test_what_does_not_fit_is_refused(head: dict[str, Any], start: str) -> None:
    """One mistake each, which names the key and what to do."""
    (mistake,) = mistakes_of(feed(**{"max_delay": "2d", **head}))
    assert mistake.startswith(start)


def test_closeness_is_refused() -> None:
    """It compares each class with the whole release, which holding changes after the classes were found."""
    shop = {"role": "sensitive", "closeness": {"distance": "equal", "t": 0.2}}
    mapping = with_field("shop", shop, max_delay="2d", hold_share=0.1)
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith("hold_share: cannot be had together with closeness")


@pytest.mark.parametrize("kind", ["entropy", "frequency"])
def test_rules_that_held_classes_may_miss_later_are_refused(kind: str) -> None:
    """Among other rows the same class may break the rule, and its rows would be rejected; distinct values stay."""
    shop = {"role": "sensitive", "diversity": {"kind": kind, "l": 2}}
    (mistake,) = mistakes_of(with_field("shop", shop, max_delay="2d", hold_share=0.1))
    assert mistake.startswith(
        "hold_share: cannot be had together with diversity of kind entropy or frequency"
    )
    shop["diversity"] = {"kind": "distinct", "l": 2}
    assert (
        parse_policy(with_field("shop", shop, max_delay="2d", hold_share=0.1), "", "feed").hold_share == 0.1
    )


def test_the_share_is_part_of_the_policy() -> None:
    """It is read, written and tells policies apart; left out, policies are what they were without the key."""
    held = parse_policy(feed(max_delay="2d", hold_share=0.25), "", "feed")
    plain = parse_policy(feed(max_delay="2d"), "", "feed")
    assert (held.hold_share, plain.hold_share) == (0.25, 0.0)
    assert policy_digest(held) != policy_digest(plain)
    assert "hold_share" not in to_mapping(plain)
    assert parse_policy(to_mapping(held), "", "feed") == held
