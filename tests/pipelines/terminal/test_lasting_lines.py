"""What the closing table and the live line tell of cohorts that last."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections.abc import Mapping
from typing import Any

import pytest

from kanonflow.pipelines.terminal.lasting_lines import lasting_figures, lasting_lines
from kanonflow.pipelines.terminal.progress import people_shown
from kanonflow.pipelines.terminal.summary import summarize
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from tests.pass_through import metrics_record

DAY = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
NOT_OUT: dict[str, Any] = {"released": False, "gcp": None}


def policy(**head: Any) -> Policy:
    """A policy of days in which rows wait for two."""
    fields = {
        "who": "individual",
        "when": "time",
        "age": {"role": "quasi", "type": "numeric"},
        "pay": "sensitive",
    }
    mapping = {"version": 1, "k": 5, "window": "1d", "max_delay": "2d", "cohort": "lasting", "fields": fields}
    return parse_policy(mapping | head, "", "t")


def step(day: int, pool: int, known: int = 0, **changes: Any) -> Mapping[str, Any]:
    """The record of a window that ended so many days after the first of January."""
    told = {"epoch": "00", "people_known": known, "cohorts": known // 5, "pool": pool, "rows_released": 100}
    return metrics_record(f"r{day}", window_end=DAY + dt.timedelta(day), release_no=day, **(told | changes))


def entered(day: int, people: int, pool: int = 0, **changes: Any) -> Mapping[str, Any]:
    """The record of an intake."""
    more = {"people_entered": people, "gcp_newcomers": 0.2, "epoch_candidates": {"minimum": 5, "mean": 6.0}}
    return step(day, pool, people, **(more | changes))


def lines(records: list[Mapping[str, Any]], **head: Any) -> str:
    """The lines under a policy, the records in no order."""
    chosen = policy(**head)
    mixed = random.Random(3).sample(records, len(records))
    figures = lasting_figures(mixed, chosen.waiting_ms)
    assert figures is not None
    return "\n".join(lasting_lines(figures, chosen))


def test_who_waits_for_the_first_intake_and_for_what() -> None:
    """Seen first in the window that ends on the first, two days to wait: until the third."""
    told = lines([step(0, 40, **NOT_OUT), step(1, 69, **NOT_OUT)])
    assert "69 people wait for the first intake: 1,000 people, or until 3 Jan 00:00" in told
    assert "0 people known in 0 cohorts" in told
    assert "groups" not in told


def test_after_an_intake_the_clock_begins_anew() -> None:
    """Who came on the fourth may wait until the sixth; in one window nobody waited."""
    records = [step(0, 40, **NOT_OUT), entered(2, 60), step(3, 1, 60), step(4, 1, 60)]
    assert "1 person waits for the next intake: 1,000 people, or until 6 Jan 00:00" in lines(records)
    assert "wait" not in lines(records[:2])


def test_when_their_rows_are_gone_who_was_seen_waits_for_company() -> None:
    """Three people, fewer than a cohort, are still there after their deadline."""
    told = lines([step(0, 3, **NOT_OUT), step(5, 3, **NOT_OUT)])
    assert (
        "3 people wait for the first intake: 1,000 people, or a row that must leave while 5 or more wait"
        in told
    )


def test_groups_candidates_and_newcomers_are_sums_minima_and_means() -> None:
    """Over the releases; what each partition knows is added up."""
    records = [
        entered(0, 30, classes=6, groups_merged=2, groups_kept=None),
        entered(1, 10, classes=8, groups_merged=1, groups_kept=4, gcp_newcomers=0.4, people_known=40),
        entered(0, 20, classes=1, partition="01", epoch_candidates={"minimum": 7, "mean": 7.0}, gcp_newcomers=0.2),
    ]  # fmt: skip
    told = lines(records)
    assert "60 people known in 6 cohorts, candidates over the epoch 5 or more" in told
    assert "groups: 15, of which 3 merged cohorts and 4 were kept from the release before" in told
    assert "newcomers lose 0.2333" in told


def test_intakes_of_few_people_are_told_with_the_remedy() -> None:
    """Half of the people came in twenties where five make a cohort; not where most came at once, nor in small feeds."""
    trickle = [entered(day, 20, people_known=20 * day + 20) for day in range(6)]
    assert "half of the people entered in intakes of 20 or fewer" in lines(trickle)
    assert "A longer max_delay lets more people enter together" in lines(trickle)
    assert "intakes of" not in lines([entered(0, 130, people_known=130), *trickle])
    assert "intakes of" not in lines([entered(0, 20, people_known=20)])


@pytest.mark.parametrize(("rows", "due"), [(2, False), (3, True)])
def test_outdated_values_are_told_above_max_outdated(rows: int, due: bool) -> None:
    """At 2 of 100 rows nothing, at 3 the field and what is due."""
    told = lines([entered(0, 30), step(1, 0, 30, outdated_values={"age": rows, "town": 0})])
    assert ("age (3.0%); new values are due (people:, --continue, --renew)" in told) is due
    assert "town" not in told


def test_other_policies_have_no_such_lines() -> None:
    """Neither in the table nor in the live line."""
    record = metrics_record("a")
    assert lasting_figures([record]) is None
    assert summarize({}, [record], 1.0, dataclasses.replace(policy())).lasting == ()
    assert people_shown([record]) == ""


def test_the_table_and_the_live_line_have_them() -> None:
    """Also where no policy is at hand, but then not what is waited for."""
    records = [entered(0, 30), step(1, 4, 30)]
    assert "30 people known" in summarize({}, records, 1.0, policy()).render()
    told = summarize({}, records, 1.0).render()
    assert told.endswith("4 people wait for the next intake")
    assert people_shown([records[-1], step(1, 6, 10, partition="01")]) == "40 people in, 10 wait"


def ruled(**rule: Any) -> dict[str, Any]:
    """Keys of a policy with a rule for what is paid."""
    fields = {
        "who": "individual",
        "when": "time",
        "age": {"role": "quasi", "type": "numeric"},
        "pay": {"role": "sensitive", "diversity": {"kind": "distinct", "l": 2} | rule},
    }
    return {"fields": fields}


def counted(people: int) -> dict[str, Any]:
    """What a record tells of the rule."""
    return {"epoch_diversity": {"pay.distinct": {"cohorts": 1, "people": people, "people_counted": 40}}}


def test_whom_a_rule_leaves_over_the_epoch_is_told_and_too_many_are_no_success() -> None:
    """The last of each partition counts; it is measured, and ends a run only where the policy says how many may be."""
    records = [
        entered(0, 40, loss_end=0.1, **counted(30)),
        step(1, 0, 40, loss_end=0.3, loss_without_rules=0.1, **counted(8)),
        entered(1, 40, partition="other", loss_end=0.1, **counted(2)),
    ]
    told = lines(records, **ruled(per="release"))
    assert "10 of 80 people released (12.5%) are in cohorts that do not meet pay.distinct; measured" in told
    assert "and lose" in told
    for most, failed in ((0.12, True), (0.13, False), (None, False)):
        more = {} if most is None else {"max_failing": most}
        told_of = summarize(
            {"rows_read": 9, "rows_released": 9}, records, 1.0, policy(**ruled(per="epoch", **more))
        )
        assert bool(told_of.problems()) == failed
        assert not failed or "10 of 80 people released (12.5%)" in told_of.problems()[0]
    assert "rules for sensitive values" not in lines([entered(0, 40)], **ruled(per="release"))


def left(below: int, people: int = 500, *, at_least: bool = False) -> dict[str, Any]:
    """What a record tells of a measured clause."""
    reader = "3 windows with rows"
    return {
        "epoch_against": {"reader": reader, "below_k": below, "people": people, "at_least": at_least},
    }


def test_whom_a_measured_clause_leaves_is_told_and_fewer_than_wanted_are_no_success() -> None:
    """Summed over the last of each partition; 98.6% where 99% are wanted ends a run, and no share is rounded up."""
    records = [
        entered(0, 500, **left(300)),
        step(1, 0, 500, **left(6)),
        entered(1, 500, partition="other", **left(8)),
        entered(1, 9, partition="nobody yet", **left(0, 0)),
    ]
    for wanted, failed in ((0.99, True), (0.9861, True), (0.986, False), (None, False)):
        clause = {"count": 3} | ({} if wanted is None else {"wanted": wanted})
        chosen = policy(against={"known_windows": clause})
        told_of = summarize({"rows_read": 9, "rows_released": 9}, records, 1.0, chosen)
        told = "98.6% of 1,000 people released are left with k or more by who knows any 3 windows with rows"
        assert f"against, over the epoch: {told}" in "\n".join(told_of.lasting)
        assert bool(told_of.problems()) == failed
        assert (
            not failed or f"against: wanted {100 * (wanted or 0):.4g}%, and {told}" in told_of.problems()[0]
        )
    assert "at most 99.9% of 3,000" in lines([entered(0, 9, **left(1, 3000, at_least=True))])
    assert "against" not in lines([entered(0, 40)])
