"""What is lost of an input: judged by its share, told with what was expected."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanonflow.pipelines.terminal.lost_input import lost_lines, lost_rows
from kanonflow.pipelines.terminal.summary import RunSummary, summarize
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy


def bound(**changes: object) -> BoundPolicy:
    """A policy of dates and amounts over text."""
    fields = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "born": {"role": "quasi", "type": "date"},
        "amount": {"role": "sensitive", "as": "decimal(9,2)"},
    }
    policy = parse_policy({"version": 1, "k": 2, "window": "1d", "fields": fields} | changes, "test", "test")
    columns = pa.schema([(name, pa.string()) for name in fields])
    return bind(policy, columns, text=True, source="in.csv")


def summary(counters: dict[str, int], **changes: object) -> RunSummary:
    """The summary of a run with these counters."""
    policy = bound(**changes)
    return summarize(counters, [], 1.0, policy.policy, policy.columns)


BORN, AMOUNT = ("bad_value", "born"), ("bad_value", "amount")


def test_all_reasons_together_decide() -> None:
    """Two fields of 4% each are above 5%; each is named, most rows first."""
    assert lost_rows({BORN: 4}, 100, 0.05, bound().columns) == ()
    found = lost_rows({BORN: 3, AMOUNT: 4}, 100, 0.05, bound().columns)
    assert [(each.field, each.rows, each.share) for each in found] == [("amount", 4, 0.04), ("born", 3, 0.03)]


def test_who_is_above_alone_is_named_alone() -> None:
    """A field with one bad row is not what broke the run."""
    (found,) = lost_rows({BORN: 60, AMOUNT: 1}, 100, 0.05, bound().columns)
    assert found.field == "born"


@pytest.mark.parametrize(("rows", "limit"), [(29, 0.29), (5, 0.05), (100, 1.0), (0, 0.0)])
def test_the_limit_itself_passes(rows: int, limit: float) -> None:
    """Above it means above it, whatever binary fractions make of the share."""
    unfit = {BORN: rows} if rows else {}
    assert lost_rows(unfit, 100, limit, bound().columns) == ()
    if rows < 100:
        assert lost_rows({BORN: rows + 1}, 100, limit, bound().columns)


def test_a_line_says_reason_field_rows_share_expected_and_proposed() -> None:
    """One line each; none of them holds a value."""
    unfit = {
        BORN: 4000,
        ("unparseable", None): 1000,
        ("missing_value", "who"): 700,
        ("outside_domain", "born"): 600,
    }
    found = lost_rows(unfit, 10_000, 0.05, bound().columns, {"born": 'format: "%d.%m.%Y"'})
    assert [each.render() for each in found] == [
        'bad_value in born: 4,000 rows (40.0%); expected a date as YYYY-MM-DD; would fit: format: "%d.%m.%Y"',
        "unparseable: 1,000 rows (10.0%); expected as many values as the header names, in UTF-8; of a message, one JSON"
        " object of plain values",
        "missing_value in who: 700 rows (7.0%); expected text in every row, for role: individual needs it",
        "outside_domain in born: 600 rows (6.0%); expected a value of its declared domain (outside: code takes numbers"
        ' and dates beyond it as its end); would fit: format: "%d.%m.%Y"',
    ]
    told = lost_lines(found, 6300, 10_000, 0.05)
    assert told[0].startswith("6,300 of 10,000 rows read (63.0%) were rejected because they do not fit")
    assert "max_rejected is 0.05" in told[0]
    assert lost_lines((), 1, 100, 0.05) == ()


def test_a_run_that_lost_too_much_is_no_success() -> None:
    """By default above 5%; the policy may say another share."""
    counters = {
        "rows_read": 100,
        "rows_released": 90,
        "rows_rejected_bad_value": 10,
        "rows_unfit_bad_value_amount": 10,
    }
    problems = summary(counters).problems()
    assert len(problems) == 2
    assert "10 of 100 rows read (10.0%)" in problems[0]
    assert "bad_value in amount: 10 rows (10.0%); expected a number with up to 2 decimals" in problems[1]
    assert summary(counters, max_rejected=0.1).problems() == ()


def test_rows_that_other_people_keep_back_are_not_lost_input() -> None:
    """Late and lonely rows say nothing about the input's form."""
    counters = {"rows_read": 100, "rows_released": 50, "rows_rejected_too_few_peers": 50}
    assert summary(counters).problems() == ()


def test_dropping_more_than_the_policy_lets_pass_is_no_success() -> None:
    """It says for whom, how much, and what would help; without ``against`` nothing is asked."""
    counters = {"rows_read": 1000, "rows_released": 940, "rows_rejected_known_otherwise": 60}
    against = {"known_windows": {"count": 3, "drop": True}}
    (problem,) = summary(counters, against=against).problems()
    assert problem.startswith(
        "60 of 1,000 rows read (6.0%) were rejected for good (known_otherwise), so that 3 windows with rows leaves"
        " enough people, and max_dropped is 0.05. What was released stays."
    )
    assert "cohort_size" in problem
    assert summary(counters, against=against | {"max_dropped": 0.06}).problems() == ()
    assert summary(counters).problems() == ()


def test_rows_in_and_none_out_is_no_success_and_says_why() -> None:
    """Also where everybody waited for others until the end."""
    counters = {"rows_read": 100, "rows_rejected_awaits_intake": 99, "rows_rejected_late": 1}
    (problem,) = summary(counters).problems()
    assert problem == (
        "none of the 100 rows read was released: awaits_intake 99, late 1 (too few people who had not been seen before"
        " came within max_delay to form a cohort with)"
    )


def test_no_rows_in_is_a_success_with_a_line() -> None:
    """A night without rows is none that failed."""
    empty = summary({"rows_read": 0})
    assert empty.problems() == ()
    assert empty.notes() == ("the input holds no rows, so nothing was released; that is no failure",)
    assert summary({"rows_read": 1, "rows_released": 1}).notes() == ()
