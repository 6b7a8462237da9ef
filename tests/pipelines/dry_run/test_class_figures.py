"""Measures of a dry run against released rows that are counted one by one, and on tables whose figures are known."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.dry_run.class_figures import ClassFigures, class_figures, misfits_of_class_field
from kanonflow.pipelines.dry_run.dry_run import DryRun, dry_run
from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.dry_run.stretch import Budget, stretch_of
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify

pytestmark = pytest.mark.thorough

FIELDS: dict[str, Any] = {
    "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 100], "grid": "exact"},
    "job": {"role": "quasi", "type": "categorical"},
    "zip": {"role": "quasi", "type": "prefix", "of": "text", "size": 4, "lengths": [1, 3]},
    "ill": {"role": "sensitive"},
}
TREE = {
    "role": "quasi",
    "type": "hierarchy",
    "hierarchy": {"widths": [5, 50], "domain": [0, 99]},
    "as": "int",
}
HEIGHT = 3


def rows_of(ages: list[int], ills: list[str], seed: int = 1) -> pa.Table:
    """People of these ages; jobs and places are drawn."""
    draw = np.random.default_rng(seed)
    columns = {
        "age": [str(age) for age in ages],
        "job": draw.choice(["baker", "clerk", "nurse"], len(ages)).tolist(),
        "zip": [f"{number:04d}" for number in draw.integers(0, 3000, len(ages))],
        "ill": ills,
    }
    return pa.table(columns)


def play(
    table: pa.Table, fields: dict[str, Any], class_field: str | None = "ill", **head: Any
) -> tuple[DryRun, ClassFigures]:
    """A dry run over all of it, and its figures."""
    own = {"version": 1, "k": 3, "solver": {"evaluations_per_row": 100, "threads": 1, "seed": 1}, **head}
    policy = parse_policy({**own, "fields": fields, "others": "drop"}, "", "small")
    bound = bind(policy, table.schema, text=True, source="test")
    rows = classify(table, bound).rows
    feed = feed_of(rows, bound)
    stretch = stretch_of(feed, policy, Budget(10**9, 10**9))
    run = dry_run(feed, bound, stretch, matching_records=class_field is not None)
    return run, class_figures(run, rows, class_field)


@pytest.fixture(scope="module")
def old_are_ill() -> pa.Table:
    """300 people; who is 50 or more is mostly ill."""
    draw = np.random.default_rng(3)
    ages = draw.integers(0, 100, 300)
    ills = np.where(draw.random(300) < np.where(ages >= 50, 0.9, 0.1), "gout", "none")
    return rows_of(ages.tolist(), ills.tolist())


def test_the_total_loss_is_that_of_rows_counted_one_by_one(old_are_ill: pa.Table) -> None:
    """Width over domain, several jobs or one, length of a prefix by its place among the lengths."""
    run, figures = play(old_are_ill, FIELDS, None)
    lost = []
    for row in run.released.to_pylist():
        kept = len(row["zip"].rstrip("*"))
        step = {4: 0, 3: 1, 1: 2, 0: 3}[kept]
        width = row["age"]["max"] - row["age"]["min"]
        lost += [width / 100, float(len(row["job"]) > 1), step / 3]
    assert figures.total_loss == pytest.approx(100 * float(np.mean(lost)))
    assert 5 < figures.total_loss < 95
    assert (figures.c_avg, figures.dm, figures.by_class) == (None, None, None)


@pytest.mark.parametrize("suppression", [0.0, 0.4])
def test_levels_are_counted_by_their_labels(old_are_ill: pa.Table, suppression: float) -> None:
    """At levels rows of equal labels are the classes: sizes, majorities, and what is suppressed."""
    fields = {"age": TREE, "job": {**TREE, "hierarchy": [["baker", "*"], ["clerk", "*"], ["nurse", "*"]]}}
    del fields["job"]["as"]
    run, figures = play(
        old_are_ill, {**fields, "ill": FIELDS["ill"]}, solver={"method": "ola", "suppression": suppression}
    )
    rows = run.released.to_pylist()
    classes: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        classes.setdefault((row["age"], row["job"]), Counter())[row["ill"]] += 1
    out = 300 - len(rows)
    assert (out > 0) == (suppression > 0)
    sizes = [each.total() for each in classes.values()]
    assert figures.c_avg == pytest.approx(len(rows) / len(classes) / 3)
    assert figures.dm == sum(size**2 for size in sizes) + out * 300
    wrong = sum(each.total() - max(each.values()) for each in classes.values())
    assert figures.by_class is not None
    assert figures.by_class.metric == pytest.approx((wrong + out) / 300)
    (metrics,) = (each.metrics for each in run.releases)
    assert (
        figures.log
        == metrics["log"]
        == pytest.approx((metrics["levels"]["age"] / HEIGHT + metrics["levels"]["job"]) / 2)
    )
    assert figures.los == pytest.approx(out / 300)
    # A level loses the same of every row; a single value at level 0 nothing.
    assert figures.total_loss == pytest.approx(100 * ((1 - out / 300) * metrics["log"] + out / 300))


def test_a_slot_of_everybody_has_everybodys_majority() -> None:
    """Six rows at k = 6 are one graph with six candidates a slot: two of six are in the minority."""
    table = rows_of([1, 20, 40, 60, 80, 99], ["gout", "gout", "none", "none", "none", "none"])
    fields = {"age": FIELDS["age"], "ill": FIELDS["ill"]}
    _, figures = play(table, fields, k=6, protect="row")
    assert figures.by_class is not None
    assert figures.by_class.metric == pytest.approx(2 / 6)
    assert figures.c_avg is None


def test_a_model_of_wide_boxes_knows_the_most_frequent_value(old_are_ill: pa.Table) -> None:
    """With small boxes it guesses as well as one of the input, nine of ten; with one box for all it knows what is most
    frequent, and no better."""
    fields = {"age": FIELDS["age"], "ill": FIELDS["ill"]}
    _, near = play(old_are_ill, fields)
    _, far = play(old_are_ill, fields, k=150)
    assert near.by_class is not None
    assert far.by_class is not None
    assert near.by_class.exact == far.by_class.exact > 0.85
    assert near.by_class.accuracy > near.by_class.exact - 0.03
    assert near.by_class.metric < far.by_class.metric
    shuffled = old_are_ill.set_column(
        3, "ill", pa.array(np.random.default_rng(1).permutation(old_are_ill.column("ill").to_pylist()))
    )
    _, blind = play(shuffled, fields)
    assert blind.by_class is not None
    assert blind.by_class.accuracy < blind.by_class.most + 0.06
    assert blind.by_class.most == near.by_class.most < 0.6


def test_what_releases_nothing_loses_everything() -> None:
    """Two people at k = 3: GenTotal-IL is 100, and of classes nothing is said."""
    _, figures = play(rows_of([1, 2], ["gout", "none"]), FIELDS)
    assert figures == ClassFigures(100.0, None, None, None, None, None)


def test_class_fields_that_cannot_be_are_refused(old_are_ill: pa.Table) -> None:
    """By name and mend; no value is told."""
    fields = FIELDS | {"paid": {"role": "insensitive", "as": "int", "round": 10}}
    policy = parse_policy({"version": 1, "k": 3, "fields": fields}, "", "small")
    assert [*misfits_of_class_field(policy, "ill")] == []
    for name, words in (("il", "not a field"), ("age", "role: quasi"), ("paid", "leave out round")):
        (only,) = misfits_of_class_field(policy, name)
        assert only.startswith(f"--class-field: {name}")
        assert words in only
    for ills, words in (([*"abcdefghijklmn"], "14 different"), (["x"] * 14, "1 different")):
        with pytest.raises(InputError, match=words):
            play(rows_of([*range(14)], ills), FIELDS)
