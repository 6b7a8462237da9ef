"""What ``policy check`` says a policy covers, and what it leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kanonflow.pipelines.commands.policy import check_policy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_file import to_mapping
from tests.small_feeds import feed_policy


def told(folder: Path, **head: object) -> str:
    """The report on a policy with these keys."""
    path = folder / "policy.yaml"
    mapping = to_mapping(feed_policy(**{key: value for key, value in head.items() if key != "solver"}))
    path.write_text(yaml.safe_dump(mapping | {key: value for key, value in head.items() if key == "solver"}))
    return check_policy(str(path), None).text


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({}, ["protect: individual. Any set of rows", "whose class changes between them"]),
        ({"protect": "row"}, ["does not cover several rows of one individual", "linked_candidates"]),
    ],
)
def test_every_shape_says_what_it_leaves_open(head: dict, words: list[str], tmp_path: Path) -> None:
    """Promise and limit of each."""
    report = told(tmp_path, **head)
    assert all(word in report for word in words), report


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"k": 256, "max_window_rows": 2560}, "k: the solver takes at most 255"),
        ({"protect": "row", "k": 256, "max_window_rows": 2560}, "k: the solver takes at most 255"),
        ({"protect": "row", "solver": {"start": "one-class"}}, "with protect: row it must be one of auto"),
    ],
)
def test_a_solver_that_cannot_serve_is_refused(head: dict, message: str, tmp_path: Path) -> None:
    """Before the first window, not in mid-feed."""
    with pytest.raises(PolicyError, match=message):
        told(tmp_path, **head)
