"""The benchmark of explain's sentences: changes are carried out, and what came out is judged as its page says."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.explain_sentences import Came, tried, with_change

BEFORE = Came({"age": 0.2, "job": 0.4}, {"age": 20.0, "job": 4.0}, 0.1)


def recommendation(gain: float, kind: str = "window", **measured: Any) -> dict[str, Any]:
    return {"sentence": "s", "kind": kind, "gain": gain, "measured": measured}


def came(age: float, job: float, width: float, rejected: float = 0.1) -> Came:
    return Came({"age": age, "job": job}, {"age": width, "job": 4.0}, rejected)


def test_a_rejected_row_costs_all() -> None:
    """Of both fields, and of one of them."""
    assert BEFORE.cost({"age", "job"}) == pytest.approx(0.3 * 0.9 + 0.1)
    assert BEFORE.cost({"age"}) == pytest.approx(0.2 * 0.9 + 0.1)


def test_a_gain_holds_if_half_of_it_came_and_the_field_is_narrower() -> None:
    """Half of 50% is 25%; a width that did not shrink is no narrower one."""
    said = recommendation(0.5, cost=[0.37, 0.185], field="age", before=20.0, after=10.0)
    assert tried(said, BEFORE, came(0.05, 0.1, 10.0))[-1] is True
    assert tried(said, BEFORE, came(0.19, 0.39, 10.0))[-1] is False
    assert tried(said, BEFORE, came(0.05, 0.1, 20.0))[-1] is False
    row = tried(said, BEFORE, came(0.05, 0.1, 8.0))
    assert row[3:7] == (20.0, 20.0, 10.0, 8.0)
    assert row[7] == pytest.approx(0.25)


def test_what_costs_nothing_may_cost_two_percent() -> None:
    """And larger cohorts cost what was said, within 15%."""
    free = recommendation(0.0, "k", cost=[0.37, 0.36])
    assert tried(free, BEFORE, came(0.2, 0.41, 20.0))[-1] is True
    assert tried(free, BEFORE, came(0.3, 0.4, 20.0))[-1] is False
    dear = recommendation(0.0, "cohort_size", cost=[0.37, 0.42])
    assert tried(dear, BEFORE, came(0.25, 0.45, 20.0))[-1] is True
    assert tried(dear, BEFORE, came(0.4, 0.6, 20.0))[-1] is False


def test_a_field_less_is_judged_by_the_others() -> None:
    """What is left out has no share in either cost."""
    said = recommendation(0.4, "field", others=[0.2, 0.12])
    row = tried(said, BEFORE, Came({"age": 0.1}, {"age": 12.0}, 0.1))
    assert row[2] == pytest.approx(1 - 0.19 / 0.28)
    assert row[-1] is True


def test_changes_are_carried_out() -> None:
    """Keys are set, fields replaced, and None takes a key out."""
    policy = {"k": 5, "max_delay": "2d", "fields": {"age": {"role": "quasi"}, "job": {"role": "quasi"}}}
    change = {"k": 10, "max_delay": None, "fields": {"age": {"role": "identifier"}}}
    assert with_change(policy, change) == {
        "k": 10,
        "fields": {"age": {"role": "identifier"}, "job": {"role": "quasi"}},
    }
    assert policy["k"] == 5
