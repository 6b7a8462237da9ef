"""Rules for sensitive values with cohorts that last: each group of each release meets them, or nothing goes out.

And what a release shows for it is nothing that exchanging trails would change; what is counted over the epoch is
counted anew here, from the rows that are out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.transforms.protections import lasting
from kanonflow.transforms.protections.sensitive_values import sensitive_fields
from kanonflow.transforms.rows.elements import from_ipc
from tests import naive_diversity as naive
from tests.privacy.test_swap import (
    OF_CELLS,
    disturbed_and_exchanged_shows_the_same,
    exchanged_shows_the_same,
    pair_of_a_generation,
    shuffled_generations,
)
from tests.swapped_feeds import Course, TrailFeed, facts, generated_feed, rows_in, run, run_chain, split_feed

RULES: list[dict[str, Any]] = [
    {"diversity": {"kind": "distinct", "l": 2, "per": "release"}},
    {"diversity": {"kind": "frequency", "l": 2, "per": "release"}},
    {"diversity": {"kind": "entropy", "l": 1.9, "per": "release"}},
    {"closeness": {"distance": "ordered", "t": 0.1, "per": "release"}},
    {
        "diversity": {"kind": "distinct", "l": 2, "per": "release"},
        "closeness": {"distance": "equal", "t": 0.2, "per": "release"},
    },
]
NUMBERS = pytest.mark.parametrize("number", range(len(RULES)))


def feed_of(seed: int, rules: dict[str, Any], make: Any = generated_feed, **head: Any) -> TrailFeed:
    """A generated feed with a rule for amounts of few different values, so that some groups do not meet it."""
    feed: TrailFeed = make(seed, **({"k": 2, "cohort_size": 4, "intake": 4} | head))
    plain = to_mapping(feed.policy)
    plain["fields"]["amount"] |= {"round": 50, "top": 100} | rules
    return replace(feed, policy=parse_policy(plain, "test", "test"))


def groups_of(course: Course) -> Iterator[tuple[list[list[float]], list[float]]]:
    """Of each release the amounts of its groups, and all of them."""
    for _, _, result in course.results:
        if result.release is not None:
            rows = from_ipc(result.release.ipc)
            found: dict[int, list[float]] = defaultdict(list)
            for group, amount in zip(
                *(rows.column(n).to_pylist() for n in ("class_id", "amount")), strict=True
            ):
                found[group].append(amount)
            yield list(found.values()), rows.column("amount").to_pylist()


def breaks(rules: dict[str, Any], values: list[float], whole: list[float]) -> bool:
    """Whether a group of these values breaks a rule, counted by lists."""
    diversity, closeness = rules.get("diversity"), rules.get("closeness")
    few = diversity is not None and naive.shown(values, diversity["kind"]) < diversity["l"] - naive.SLACK
    far = closeness is not None and (
        naive.distance(values, whole, closeness["distance"]) > closeness["t"] + naive.SLACK
    )
    return few or far


def broken(course: Course, rules: dict[str, Any]) -> int:
    """How many groups of a course break a rule."""
    return sum(breaks(rules, values, whole) for groups, whole in groups_of(course) for values in groups)


def reasons(course: Course) -> Counter[str]:
    """Rejected rows by reason."""
    return Counter(record["reason"] for _, _, result in course.results for record in result.rejected)


@NUMBERS
def test_every_group_of_every_release_meets_the_rule(number: int) -> None:
    """And the books close; without the rule many groups break it; rows wait for it and are rejected in the end."""
    rules, plain, released, waited = RULES[number], 0, 0, 0
    for seed in range(6):
        feed = feed_of(seed, rules)
        course = run(feed)
        assert broken(course, rules) == 0, f"feed {seed}"
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once, and nothing waits at the end"
        released += sum(result.metrics["rows_released"] for _, _, result in course.results)
        waited += sum("not_diverse" in result.metrics["waiting_reasons"] for _, _, result in course.results)
        waited += reasons(course)["not_diverse"]
        plain += broken(run(feed_of(seed, {})), rules)
    assert plain > 5
    assert released > 100
    # All rows together are as far from themselves as can be asked.
    assert bool(waited) == (number in (1, 2)) or number in (0, 4)


def test_of_an_epoch_nothing_is_enforced_and_all_is_counted() -> None:
    """The same releases as without a rule; cohorts and people whose rows that are out break it, counted anew."""
    rule = {"diversity": {"kind": "frequency", "l": 2, "per": "epoch"}}
    failing = 0
    for seed in range(6):
        course, plain = run(feed_of(seed, rule)), run(feed_of(seed, {}))
        assert list(groups_of(course)) == list(groups_of(plain)), f"feed {seed}"
        failing += told_of_the_epoch(course, rule)
    assert failing > 5


def told_of_the_epoch(course: Course, rules: dict[str, Any]) -> int:
    """Compare what is told of the epoch after each step with rows counted anew; failing cohorts, summed."""
    owner = {row.tag: int(who) for row, who in zip(course.feed.rows, course.feed.owners, strict=True)}
    out: dict[tuple[Any, int], list[float]] = defaultdict(list)
    failing = 0
    for key, _, result in course.results:
        if result.release is not None:
            rows = from_ipc(result.release.ipc)
            # A tag is released in a group that its cohort is in; repeats have one owner's cohort.
            for tag, amount in zip(
                *(rows.column(name).to_pylist() for name in ("tag", "amount")), strict=True
            ):
                out[key, course.entered[owner[tag]].cohort].append(amount)
        own = {cohort: values for (partition, cohort), values in out.items() if partition == key}
        whole = [value for values in own.values() for value in values]
        found = [cohort for cohort, values in own.items() if breaks(rules, values, whole)]
        sizes = Counter(entry.cohort for entry in course.entered.values() if entry.partition == key)
        for told in result.metrics["epoch_diversity"].values():
            assert told == {
                "cohorts": len(found),
                "people": sum(sizes[cohort] for cohort in found),
                "people_counted": sum(sizes[cohort] for cohort in own),
            }
        assert bool(own) == bool(result.metrics["epoch_diversity"])
        failing += len(found)
    return failing


def test_a_floor_for_releases_leaves_cohorts_that_fail_over_the_epoch() -> None:
    """Which is why it is no promise: a reader who links takes the groups apart."""
    assert sum(told_of_the_epoch(run(feed_of(seed, RULES[1])), RULES[1]) for seed in range(6)) > 5


@pytest.mark.thorough
@NUMBERS
def test_exchanging_trails_shows_nothing_under_rules(number: int) -> None:
    """(S), whatever rows say of people who are known; what is told of the epoch included."""
    for seed in range(20, 26):
        course = run(feed_of(seed, RULES[number]))
        for choose in (pair_of_a_generation, shuffled_generations):
            assert disturbed_and_exchanged_shows_the_same(course, choose, seed), f"feed {seed}"


@pytest.mark.thorough
def test_exchanging_trails_shows_nothing_in_parts_and_chains_under_rules() -> None:
    """Each part of a window has groups of its own; runs that continue each other count on."""
    rules, against = RULES[1], {"known_windows": {"count": 2, "drop": True}}
    for seed in range(30, 35):
        feed = feed_of(seed, rules, split_feed)
        assert exchanged_shows_the_same(feed, pair_of_a_generation, seed), f"feed {seed}"
        assert broken(run(feed), rules) == 0
        feed = feed_of(seed, rules, against=against, cohort_size=8, intake=8)
        ends, carries = (2, 4), (bool(seed % 2), True)
        course = run_chain(feed, ends, carries)
        assert broken(course, rules) == 0, f"feed {seed}"
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        exchanged = run_chain(feed.exchanged(changes), ends, carries)
        assert facts(exchanged, OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"


def test_rows_are_dropped_before_values_are_looked_at() -> None:
    """The rule is for what goes out: of the rows that ``against`` leaves each group meets it."""
    against, dropped = {"known_windows": {"count": 2, "drop": True}}, 0
    for seed in range(4):
        course = run(feed_of(seed, RULES[0], against=against, cohort_size=6, intake=6))
        assert broken(course, RULES[0]) == 0
        dropped += reasons(course)["known_otherwise"]
    assert dropped > 0


def of_one_person(rows: pa.Table, bound: BoundPolicy) -> tuple[Sensitive, ...]:
    """What somebody might well have written: each person's value counts by who it is, as the first of a list does."""
    names = rows.column("who").to_pylist()
    first = {name: place for place, name in enumerate(sorted(set(names)))}
    odd = np.array([first[name] % 2 for name in names])
    return tuple(replace(each, codes=np.where(odd, 0, each.codes)) for each in sensitive_fields(rows, bound))


@pytest.mark.thorough
def test_a_rule_that_looks_at_a_person_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the rows of some people count, those of others do not, and exchanging the two shows."""
    monkeypatch.setattr(lasting, "sensitive_fields", of_one_person)
    assert not all(
        exchanged_shows_the_same(feed_of(seed, RULES[number]), pair_of_a_generation, seed)
        for seed in range(20, 30)
        for number in (1, 3)
    )
