"""What ``policy check`` says a policy covers, and what it leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kanonflow.pipelines.policy_commands import check_policy
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
        ({"shape": "graph"}, ["exactly 1/k", "the candidates of somebody who returns melt away"]),
        ({"stability": 0.2}, ["stability: 0.2", "promises nothing over several windows"]),
        ({"cohort": "strict", "cohort_windows": 7}, ["Over any 7 released windows", "across partitions"]),
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
        ({"cohort": "strict", "solver": {"method": "pass-through"}}, "pass-through remembers no classes"),
        ({"cohort": "strict", "k": 200, "max_window_rows": 2000}, "k: the solver takes at most 127"),
        ({"shape": "graph", "k": 256, "max_window_rows": 2560}, "k: the solver takes at most 255"),
        ({"shape": "graph", "solver": {"start": "one-class"}}, "with shape: graph it must be one of auto"),
    ],
)
def test_a_solver_that_cannot_serve_is_refused(head: dict, message: str, tmp_path: Path) -> None:
    """Before the first window, not in mid-feed."""
    with pytest.raises(PolicyError, match=message):
        told(tmp_path, **head)
