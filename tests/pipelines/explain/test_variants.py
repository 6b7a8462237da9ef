"""Which policies stand beside one: each is that of the file with its change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from kanonflow.pipelines.explain.variants import EVALUATIONS_PER_ROW, Group, variants
from kanonflow.schemas.policy_file import parse_policy
from tests.pipelines.explain.planted_feed import HONEST, POLICY, canonical, honest_rows, planted_rows

DAY, WEEK, FOUR = (days * 86_400_000 for days in (1, 7, 28))
AFRESH = HONEST + "cohort: window\n"
ROWS = HONEST + "protect: row\n"


def with_change(text: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """A policy file's mapping with a change carried out: None takes a key out."""
    made = yaml.safe_load(text)
    made["fields"] |= change.get("fields", {})
    made |= {key: value for key, value in change.items() if key != "fields"}
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize(
    "text",
    [
        HONEST,
        AFRESH,
        ROWS,
        HONEST + "cohort_size: 8\n",
        HONEST + "window_offset: 4d\n",
        HONEST + "against: {known_windows: {count: 2, drop: true}, known_people: 2}\n",
        HONEST + "intake: 8\nagainst: {known_people: 1}\n",
        HONEST + "intake: 77\n",
        HONEST + "intake_share: 0.1\n",
        HONEST.replace("sensitive", "insensitive") + "split_by: [amount]\n",
    ],
)
def test_a_change_is_that_of_the_file(text: str) -> None:
    """Whoever writes the change into the file has the policy that was tried, but for the length of the search."""
    _, bound = canonical(honest_rows(60, 20), text)
    found, refused = variants(bound, [DAY, FOUR], [])
    assert not refused
    assert ("split_by" in text) == any(each.name == "not split" for each in found)
    for each in found:
        written = parse_policy(with_change(text, each.change), "planted", "planted")
        tried = each.policy
        for name in (
            "k",
            "window_ms",
            "window_offset_ms",
            "max_delay_ms",
            "cohort",
            "cohort_size",
            "intake",
            "intake_share",
            "protect",
            "split_by",
            "against",
            "state_ttl_ms",
        ):
            assert getattr(tried, name) == getattr(written, name), (each.name, name)
        assert [field.name for field in tried.quasis] == [field.name for field in written.quasis]
        assert [column.name for column in each.bound.quasis] == [field.name for field in written.quasis]
        assert tried.solver.evaluations_per_row == (None if tried.lasting else EVALUATIONS_PER_ROW)


def test_every_k_in_every_window_and_every_field() -> None:
    """The grid, each field once and redundant ones together, delays, intakes, protections; the policy in each."""
    _, bound = canonical(planted_rows(60, 20), POLICY)
    found, _ = variants(bound, [DAY, WEEK], ["region", "tariff"])
    names = {group: [each.name for each in found if each.group is group] for group in Group}
    assert len(names[Group.GRID]) == 4 * 2
    assert names[Group.WITHOUT] == [
        "birth",
        "district",
        "region",
        "job",
        "sector",
        "tariff",
        "region and tariff",
    ]
    assert names[Group.DELAY] == ["0", "2d"]
    assert names[Group.PROTECTION] == ["cohorts of 5", "cohorts of 10", "window", "row"]
    assert names[Group.AGAINST] == [
        "nobody who knows more",
        "1 window with rows",
        "3 windows with rows",
        "3 windows with rows, 1 other person's rows",
        "3 windows with rows, cohorts of 10",
    ]
    assert names[Group.INTAKE] == ["at once", "1,000", "when a row must leave"]
    assert sum(not each.change for each in found) == 5
    assert all(each.promise for each in found if each.group is Group.PROTECTION)


def test_what_is_no_policy_is_refused_by_its_own_rules() -> None:
    """A rule for a sensitive field goes with no cohorts that last; cohorts that last need windows."""
    text = AFRESH.replace(
        "amount: {role: sensitive, as: double}",
        "amount: {role: sensitive, as: double, diversity: {kind: distinct, l: 2}}",
    )
    _, bound = canonical(honest_rows(60, 20), text)
    found, refused = variants(bound, [], [])
    assert {each.group for each in refused} == {Group.PROTECTION}
    assert all(each.why for each in refused)
    assert [each.name for each in found if each.group is Group.PROTECTION]
    still = yaml.safe_dump(
        with_change(AFRESH, {"window": None, "max_delay": None, "fields": {"when": {"role": "identifier"}}})
    )
    _, bound = canonical(honest_rows(60, 20), still)
    alone, _ = variants(bound, [], [])
    assert [each.name for each in alone if each.group is Group.PROTECTION] == ["window", "row"]
    assert not [each for each in alone if each.group is Group.DELAY]
