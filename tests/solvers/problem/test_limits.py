"""What a solver does not take, all at once."""

from __future__ import annotations

import pytest

from kanonflow.solvers.problem.limits import ANY_LEVELS, ANYTHING, Attribute, Demand, Limits, Refusal

AGE, TOWN, TREE = Attribute("age", True), Attribute("town", False), Attribute("tree", False, 3)
FEED = Demand(1000, 5, (AGE, TOWN, TREE))


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (ANYTHING, []),
        (Limits(rows=1000, k=5), []),
        (Limits(rows=999, k=4), [Refusal("rows", 999, 1000), Refusal("k", 4, 5)]),
        (Limits(numeric_only=True), [Refusal("categories", names=("town", "tree"))]),
        (Limits(hierarchies=False), [Refusal("hierarchies", names=("tree",))]),
        (ANY_LEVELS, [Refusal("levels", names=("age", "town"))]),
        (Limits(nodes=4), []),
        (Limits(nodes=4, of_subsets=True), [Refusal("nodes", 4, 5)]),
    ],
)
def test_everything_that_is_not_taken_is_named(limits: Limits, refused: list[Refusal]) -> None:
    """The limit, what was asked instead, and the attributes in the way; nothing at the limit itself."""
    assert limits.refusals(FEED) == refused


def test_a_lattice_has_a_node_for_every_choice_of_levels() -> None:
    """Heights 3 and 1: 4 x 2 nodes, 5 x 3 with those of all subsets."""
    feed = Demand(1, 2, (TREE, Attribute("zip", False, 1)))
    assert Limits(nodes=7).refusals(feed) == [Refusal("nodes", 7, 8)]
    assert Limits(nodes=14, of_subsets=True).refusals(feed) == [Refusal("nodes", 14, 15)]
