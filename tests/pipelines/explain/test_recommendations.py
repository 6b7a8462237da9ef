"""Sentences from figures that are written down: which change is named, in which order, with which numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kanonflow.pipelines.dry_run.field_width import FieldWidth
from kanonflow.pipelines.dry_run.measures import Measures
from kanonflow.pipelines.explain.alone import Alone
from kanonflow.pipelines.explain.dependencies import Dependency
from kanonflow.pipelines.explain.people_in_windows import LENGTHS_MS, PeopleInWindows
from kanonflow.pipelines.explain.plain_statistics import PlainStatistics, Share
from kanonflow.pipelines.explain.recommendations import Recommendation, recommendations
from kanonflow.pipelines.explain.solved import Solved, Tried
from kanonflow.pipelines.explain.variants import Group, Variant, variants
from kanonflow.schemas.bound_policy import BoundPolicy
from tests.pipelines.explain.planted_feed import HONEST, canonical, honest_rows

HOUR, DAY, WEEK, FOUR = LENGTHS_MS
YEAR = 365.25
POLICY = HONEST.replace("window: 1w", "window: 1d").replace("max_delay: 2w", "max_delay: 2d")


@pytest.fixture(scope="module")
def bound() -> BoundPolicy:
    """k = 5, windows of a day, quasi-identifiers district and job."""
    return canonical(honest_rows(60, 20), POLICY)[1]


def measures(loss: float, district: float = 4.0, job: float = 6.0, **given: Any) -> Measures:
    """Widths in values; the loss is shared by both fields."""
    fields = (
        FieldWidth("district", "values", district, loss),
        FieldWidth("job", "days", job * YEAR, loss),
    )
    rejected, at_once = given.pop("rejected", 0.0), given.pop("at_once", 0.9)
    return Measures(3, 1_000, loss, at_once, rejected, None, None, given.pop("fields", fields), **given)


def plain(**given: Any) -> PlainStatistics:
    """A feed without anything to say of it."""
    own = PeopleInWindows(DAY, 30, 100.0, 80.0, 0.0, 0.0)
    nothing: dict[str, Any] = dict.fromkeys(
        ("windows", "alone", "nulls", "follows", "names", "tells", "rises"), ()
    )
    windows = (own, PeopleInWindows(WEEK, 5, 300.0, 250.0, 0.0, 0.0))
    parts = nothing | {"windows": windows, "own": own} | given
    return PlainStatistics(rows=1_000, people=200, k=5, **parts)


def solved(
    bound: BoundPolicy,
    own: Measures,
    others: Mapping[tuple[Group, str], Measures],
    follows: tuple[str, ...] = (),
) -> Solved:
    """Every variant measures what the policy itself does, but for some."""
    asked, refused = variants(bound, [WEEK, FOUR], follows)
    left = dict(others)
    tried = [_tried(each, own, left) for each in asked]
    assert not left, "no such variant"
    return Solved(own, tuple(tried), refused, ("windows of 1d",), 1_000, 0)


def _tried(variant: Variant, own: Measures, left: dict[tuple[Group, str], Measures]) -> Tried:
    default = own
    if variant.change.get("k", 5) > 5 or "cohort_size" in variant.change:
        default = replace(own, loss=2 * (own.loss or 0.0))
    if variant.group is Group.WITHOUT:
        gone = set(variant.change["fields"])
        default = replace(own, fields=tuple(each for each in own.fields if each.field not in gone))
    return Tried(variant, left.pop((variant.group, variant.name), default))


def told(found: tuple[Recommendation, ...]) -> list[str]:
    return [each.kind for each in found]


def test_a_longer_window_is_told_by_the_field_that_gains(bound: BoundPolicy) -> None:
    """A week brings most of what four weeks do, so it is named, with the field whose boxes shrink most."""
    others = {
        (Group.GRID, "k 5, window 1w"): measures(0.10, district=4.0, job=2.4),
        (Group.GRID, "k 5, window 4w"): measures(0.08, district=3.0, job=2.0),
    }
    (found,) = recommendations(plain(), solved(bound, measures(0.2, job=15.0), others), bound)
    assert found.sentence == "A window of a week would publish job as 2.4 years instead of 15 (window: 1w)."
    assert found.change == {"window": "1w"}
    assert found.gain == pytest.approx(0.5)
    assert found.measured["before"] == 15 * YEAR
    assert found.measured["after"] == pytest.approx(2.4 * YEAR)
    assert found.measured["cost"] == [0.2, 0.1]


def test_a_little_gain_is_no_sentence(bound: BoundPolicy) -> None:
    """4% may be the sample."""
    others = {
        (Group.GRID, "k 5, window 1w"): measures(0.193),
        (Group.GRID, "k 5, window 4w"): measures(0.192),
    }
    assert recommendations(plain(), solved(bound, measures(0.2), others), bound) == ()


def test_rejected_rows_are_lost_and_told(bound: BoundPolicy) -> None:
    """The boxes are as they were; a fifth of the rows is not rejected any more. And counts say why."""
    others = {
        (Group.GRID, "k 5, window 1w"): measures(0.2),
        (Group.GRID, "k 5, window 4w"): measures(0.2),
    }
    days = PeopleInWindows(DAY, 30, 4.0, 2.0, 0.6, 0.3)
    windows = (days, PeopleInWindows(WEEK, 5, 30.0, 20.0, 0.0, 0.0))
    (found,) = recommendations(
        plain(windows=windows, own=days), solved(bound, measures(0.2, rejected=0.2), others), bound
    )
    assert found.sentence == (
        "A window of 1d has fewer than k = 5 people in 60% of all windows. A window of a week would lose 44% less and"
        " reject 0.0% of the rows instead of 20.0% (window: 1w)."
    )
    assert found.measured["rejected"] == [0.2, 0.0]
    assert found.measured["small"] == [0.6, 0.0]


def test_the_greatest_gain_comes_first_and_bare_fields_last(bound: BoundPolicy) -> None:
    """Waiting gains .4, a week .3; without job district would gain .6, but nothing says that nobody needs it."""
    district = (FieldWidth("district", "values", 2.0, 0.08),)
    others = {
        (Group.GRID, "k 5, window 1w"): measures(0.14),
        (Group.GRID, "k 5, window 4w"): measures(0.14),
        (Group.WITHOUT, "job"): measures(0.08, fields=district),
    }
    short = canonical(honest_rows(60, 20), POLICY.replace("max_delay: 2d", "max_delay: 0"))[1]
    others_short = others | {(Group.DELAY, "2d"): measures(0.12)}
    found = recommendations(plain(), solved(short, measures(0.2), others_short), short)
    assert told(found) == ["max_delay", "window", "field"]
    assert "district is published as 2 values instead of 4 then" in found[2].sentence
    # A field that is hardly ever there is another matter.
    missing = recommendations(
        plain(nulls=(Share("job", 0.8),)), solved(short, measures(0.2), others_short), short
    )
    assert told(missing) == ["field", "max_delay", "window"]
    assert "job is missing in 80% of the rows" in missing[0].sentence


def test_what_follows_is_left_out_together_and_measured(bound: BoundPolicy) -> None:
    """Where nothing is gained the sentence says so."""
    follows = (Dependency(("district",), "job", 1.0),)
    gained = {(Group.WITHOUT, "job"): measures(0.1, fields=(FieldWidth("district", "values", 2.0, 0.1),))}
    (found,) = recommendations(plain(follows=follows), solved(bound, measures(0.2), gained, ("job",)), bound)
    assert found.sentence == (
        "job follows from district (100%). Leave job out (role: identifier), or make it a level in a hierarchy of"
        " district: district is published as 2 values instead of 4 then."
    )
    assert found.change == {"fields": {"job": {"role": "identifier"}}}
    (nothing,) = recommendations(plain(follows=follows), solved(bound, measures(0.2), {}, ("job",)), bound)
    assert nothing.sentence.endswith("district: the others lose no more without.")


def test_payload_comes_before_all_gains(bound: BoundPolicy) -> None:
    """One sentence a kind, whatever number of fields; accepted risks are no news."""
    names = (Share("amount", 0.9), Share("device", 0.8))
    longer = {
        (Group.GRID, "k 5, window 1w"): measures(0.02),
        (Group.GRID, "k 5, window 4w"): measures(0.02),
    }
    both = plain(names=names, rises=(Share("number", -0.99),))
    found = recommendations(both, solved(bound, measures(0.2), longer), bound)
    assert told(found) == ["names", "rises", "window"]
    assert found[0].sentence.startswith("amount and device name their person: in 90% and 80% of the rows")
    assert found[1].sentence.startswith("number falls with time and tells when a row came.")
    quick = recommendations(both, None, bound)
    assert told(quick) == ["names", "rises"]


def test_what_costs_little_fills_up(bound: BoundPolicy) -> None:
    """k = 10 in a week loses no more than k = 5 in a day; no waiting loses nothing; cohorts of 10 cost a tenth."""
    others = {
        (Group.GRID, "k 10, window 1w"): measures(0.19),
        (Group.DELAY, "0"): measures(0.2, at_once=1.0),
        (Group.PROTECTION, "cohorts of 10"): measures(0.22),
    }
    found = recommendations(plain(), solved(bound, measures(0.2), others), bound)
    assert told(found) == ["k", "max_delay", "cohort_size"]
    assert found[0].change == {"k": 10, "window": "1w"}
    assert found[1].change == {"max_delay": 0}
    assert found[2].change == {"cohort_size": 10}
    assert all(each.gain == 0.0 for each in found)


def test_categories_that_single_out_are_told(bound: BoundPolicy) -> None:
    """In the quick look nothing is measured; solved, the share stands beside what it brings."""
    lonely = plain(alone=(Alone(("job",), 0.5),))
    (quick,) = recommendations(lonely, None, bound)
    assert quick.sentence.startswith("job alone singles out 50% of the people")


def test_cohorts_that_last_are_named_where_they_lose_less() -> None:
    """To a policy that puts people together afresh."""
    afresh = canonical(honest_rows(60, 20), POLICY + "cohort: window\n")[1]
    others = {(Group.PROTECTION, "cohorts of 5"): measures(0.1)}
    (found,) = recommendations(plain(), solved(afresh, measures(0.2), others), afresh)
    assert found.sentence.startswith("cohort: lasting would lose 50% less")
    assert found.change == {"protect": None, "cohort": "lasting"}


def test_no_sentence_advises_a_smaller_k(bound: BoundPolicy) -> None:
    """Neither where it would lose next to nothing, nor where no window has people enough."""
    others = {(Group.GRID, f"k 3, window {length}"): measures(0.001) for length in ("1d", "1w", "4w")}
    own = PeopleInWindows(DAY, 30, 3.0, 1.0, 0.9, 0.9)
    thin = plain(own=own, windows=(own, PeopleInWindows(FOUR, 2, 4.0, 3.0, 0.9, 0.9)))
    for feed in (plain(), thin):
        for found in recommendations(feed, solved(bound, measures(0.2), others), bound):
            assert found.change.get("k", 5) >= 5
            assert "smaller k" not in found.sentence
    (said,) = (each for each in recommendations(thin, None, bound) if each.kind == "window")
    assert "one single window" in said.sentence


def test_where_nothing_is_released_nothing_costs_little(bound: BoundPolicy) -> None:
    """Everything costs as much as losing every row."""
    assert recommendations(plain(), solved(bound, measures(1.0, rejected=1.0), {}), bound) == ()
