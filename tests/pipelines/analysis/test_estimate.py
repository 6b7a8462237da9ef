"""Bounds against every assignment there is, on tiny releases; and against the truth, on releases of every type."""

import datetime as dt
import random
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, ReleaseForm
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.box_spread import around_people
from kanonflow.pipelines.estimates.certain_bounds import Values, least_quantile, least_ratio, variance_bounds
from kanonflow.pipelines.estimates.coverage import Interval, RangeColumn
from kanonflow.pipelines.estimates.estimate import Estimate, WideBoundsWarning
from tests.made_releases import FIRST_MS, JOBS, Made, made

pytestmark = pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")

AGE = pa.struct([("min", pa.int64()), ("max", pa.int64()), ("nulls", pa.bool_())])
Row = dict[str, Any]
LEAST = float("-inf")


def tiny(seed: int, rows: int, nulls: bool, k: int = 2) -> tuple[ReleasedTable, list[Row]]:
    """A release of a few rows with narrow boxes, and the same as plain rows."""
    draw = random.Random(seed)
    cells = []
    for _ in range(rows):
        low = draw.randrange(0, 4)
        missing = nulls and draw.random() < 0.3
        age = {"min": low, "max": low + draw.randrange(0, 3), "nulls": missing}
        if missing and draw.random() < 0.3:
            age = {"min": None, "max": None, "nulls": True}
        choices = ["f", "m", None] if nulls else ["f", "m"]
        gender = draw.sample(choices, draw.randrange(1, len(choices) + 1))
        pay = None if nulls and draw.random() < 0.2 else draw.randrange(-4, 6)
        cells.append({"age": age, "gender": gender, "pay": pay})
    arrow = pa.schema([("age", AGE), ("gender", pa.list_(pa.string())), ("pay", pa.int64())])
    fields = (
        ReleasedField("age", Kind.RANGE, pa.int64()),
        ReleasedField("gender", Kind.SET, pa.string()),
        ReleasedField("pay", Kind.EXACT, pa.int64()),
    )
    table = pa.Table.from_pylist(cells, arrow)
    return ReleasedTable(table, ReleaseForm(arrow, fields, k, "tiny")), cells


def assignments(rows: Sequence[Row]) -> Iterator[tuple[tuple[int | None, str | None, int | None], ...]]:
    """Every input that these rows can come from: an age, a gender and the payload a row."""
    choices = []
    for row in rows:
        age = row["age"]
        ages = [] if age["min"] is None else list(range(age["min"], age["max"] + 1))
        ages += [None] if age["nulls"] else []
        choices.append([(value, gender, row["pay"]) for value in ages for gender in row["gender"]])
    return product(*choices)


def said_of(inputs: Iterator[Any], query: Any, column: int) -> dict[str, list[Fraction]]:
    """What a count, sum and mean of a column over the rows of a query are for each of some inputs."""
    found: dict[str, list[Fraction]] = {"count": [], "sum": [], "mean": []}
    for rows in inputs:
        inside = [row for row in rows if query(row)]
        values = [Fraction(row[column]) for row in inside if row[column] is not None]
        found["count"].append(Fraction(len(inside)))
        found["sum"].append(sum(values, Fraction(0)))
        if values:
            found["mean"].append(sum(values, Fraction(0)) / len(values))
    return found


QUERIES: list[tuple[dict[str, Any], Any]] = [
    ({}, lambda row: True),
    ({"age": (1, 4)}, lambda row: row[0] is not None and 1 <= row[0] < 4),
    ({"age": (0, 2), "gender": "f"}, lambda row: row[0] is not None and 0 <= row[0] < 2 and row[1] == "f"),
    ({"gender": ["f", None]}, lambda row: row[1] != "m"),
    ({"age": None}, lambda row: row[0] is None),
    (
        {"pay": (0, 3), "age": (2, 9)},
        lambda r: r[2] is not None and 0 <= r[2] < 3 and r[0] is not None and r[0] >= 2,
    ),
]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_those_of_all_assignments(seed: int, nulls: bool) -> None:
    """Of counts, and of sums and means of payload and of what is released as ranges: no input leaves them, and some
    input reaches each of them."""
    release, cells = tiny(seed, 1 + seed % 4, nulls)
    for where, query in QUERIES:
        for column, name in ((2, "pay"), (0, "age")):
            expected = said_of(assignments(cells), query, column)
            for what in ("count", "sum", "mean"):
                of = None if what == "count" else name
                (row,) = release.estimate(what, of, where=where).rows()
                if not expected[what]:
                    assert (row["value"], row["lower"], row["upper"]) == (None, None, None)
                    continue
                told = (seed, where, what, name)
                assert row["lower"] == pytest.approx(float(min(expected[what])), abs=1e-9), told
                assert row["upper"] == pytest.approx(float(max(expected[what])), abs=1e-9), told
                assert row["lower"] <= float(min(expected[what])), told
                assert row["upper"] >= float(max(expected[what])), told
                assert row["lower"] - 1e-9 <= row["value"] <= row["upper"] + 1e-9, told


def spread_around_people(cells: Sequence[Row], k: int) -> list[dict[str, dict[Any, Fraction]]]:
    """What each value weighs in each row's box, value by value: the definition in ``coverage.py``."""
    ages = [row["age"] for row in cells]
    different = {(age["min"], age["max"]) for age in ages if age["min"] is not None}
    often: dict[Any, Fraction] = {}
    for row in cells:
        for value in row["gender"]:
            often[value] = often.get(value, Fraction(0)) + Fraction(1, len(row["gender"]))

    def together(value: int) -> Fraction:
        return sum((Fraction(1, b - a + 1) for a, b in different if a <= value <= b), Fraction(0))

    def around(sure: set[Any], others: dict[Any, Fraction]) -> dict[Any, Fraction]:
        m = max(k, len(sure))
        rest, all_of_it = Fraction(m - len(sure), m), sum(others.values(), Fraction(0))
        found = {value: Fraction(1, m) for value in sure}
        for value, weight in others.items():
            found[value] = found.get(value, Fraction(0)) + rest * weight / all_of_it
        return found

    spread = []
    for row, age in zip(cells, ages, strict=True):
        missing = {None} if age["nulls"] else set()
        if age["min"] is None:
            weights: dict[Any, Fraction] = {None: Fraction(1)}
        else:
            between = {value: together(value) for value in range(age["min"] + 1, age["max"])}
            ends = {age["min"], age["max"]}
            weights = around(ends | missing, between or dict.fromkeys(ends, Fraction(1)))
        spread.append(
            {"age": weights, "gender": around(set(row["gender"]), {v: often[v] for v in row["gender"]})}
        )
    return spread


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_the_value_is_what_a_spread_around_people_gives(seed: int, k: int, nulls: bool) -> None:
    """Of counts, and sums of payload: the mean over all that each row can be, as likely as its values weigh."""
    release, cells = tiny(seed, 2 + seed % 4, nulls, k)
    spread = spread_around_people(cells, k)
    assert all(sum(weights.values()) == 1 for row in spread for weights in row.values())
    for where, query in QUERIES:
        count = total = Fraction(0)
        for row, weights in zip(cells, spread, strict=True):
            share = sum(
                (
                    weight * other
                    for (age, weight), (gender, other) in product(
                        weights["age"].items(), weights["gender"].items()
                    )
                    if query((age, gender, row["pay"]))
                ),
                Fraction(0),
            )
            count, total = count + share, total + share * (row["pay"] or 0)
        for what, of, expected in (("count", None, count), ("sum", "pay", total)):
            (found,) = release.estimate(what, of, where=where).rows()
            assert found["value"] == pytest.approx(float(expected), abs=1e-9), (where, what)


def test_fractions_are_spread_as_whole_numbers_are() -> None:
    """Of many narrow units a double has what a whole number has; the widest ranges count, beside narrow ones, too."""
    draw = random.Random(1)
    low = np.array([draw.randrange(0, 50) for _ in range(40)]) * 1_000_000
    high = low + np.array([draw.choice([0, 1, 3, 20]) for _ in range(40)]) * 1_000_000
    here, none = np.ones(40, bool), np.zeros(40, bool)
    whole = RangeColumn(low, high, here, none, 5, around_people(low, high))
    ends = low.astype(float), high.astype(float)
    fractions = RangeColumn(*ends, here, none, 5, around_people(*ends))
    for first, last in ((0, 9_500_000), (12_000_000, 13_000_000), (7_300_000, 41_000_000)):
        one, other = (
            whole.cover(Interval(first, last - 1, True)),
            fractions.cover(Interval(first, last, False)),
        )
        assert one.rows.tolist() == other.rows.tolist()
        assert np.allclose(one.share, other.share, atol=1e-5)
    most = np.finfo(np.float64).max
    widest = np.array([-most, -1.0, 0.0]), np.array([most, 1.0, most])
    huge = RangeColumn(*widest, here[:3], none[:3], 5, around_people(*widest))
    halves = [huge.cover(Interval(*part, False)).share for part in ((-np.inf, 0.0), (0.0, np.inf))]
    assert halves[0].tolist() == pytest.approx([0.4, 0.5])
    assert halves[1].tolist() == pytest.approx([0.6, 0.5, 1.0])


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_the_queries_one_by_one(seed: int) -> None:
    """``by`` with edges and categories gives what ``where`` gives for each part, in every combination."""
    release, _ = tiny(seed, 4, nulls=True)
    parts = {"age": [(0, 2), (2, 6), None], "gender": ["f", "m", None]}
    for what, of in (("count", None), ("sum", "age"), ("mean", "age"), ("mean", "pay"), ("sum", "pay")):
        rows = release.estimate(what, of, by={"age": [0, 2, 6, None], "gender": ["f", "m", None]}).rows()
        assert len(rows) == 9
        for row, (age, gender) in zip(rows, product(*parts.values()), strict=True):
            (alone,) = release.estimate(what, of, where={"age": age, "gender": gender}).rows()
            assert {name: row[name] for name in alone} == pytest.approx(alone)
            assert (row["age_from"], row["age_to"], row["gender"]) == (*(age or (None, None)), gender)


# On releases of every type: the truth is computed from the rows that the release was made of.


def trees() -> dict[str, Any]:
    """The leaves below each label."""
    below: dict[str | None, set[Any]] = {None: {None}}
    for leaf, branch, root in JOBS:
        for label in (leaf, branch, root):
            below.setdefault(label, set()).add(leaf)
    return below


def wanted(name: str, asked: Any, value: Any) -> bool:
    """Whether a value is in what was asked for."""
    if isinstance(asked, tuple):
        return value is not None and asked[0] <= value < asked[1]
    if name == "job":
        return any(value in trees()[label] for label in (asked if isinstance(asked, list) else [asked]))
    return value in asked if isinstance(asked, list) else value == asked


def drawn_query(draw: random.Random, rows: list[Row]) -> dict[str, Any]:
    """One to three fields, and a part of each."""
    where: dict[str, Any] = {}
    names = ["age", "height", "weight", "income", "born", "seen", "gender", "kids", "smoker", "job", "window"]
    for name in draw.sample([*names, "count", "flag", "day"], draw.randrange(1, 4)):
        values = [row["when" if name == "window" else name] for row in rows]
        known = sorted({value for value in values if value is not None})
        if draw.random() < 0.15 and name not in ("window", "flag"):
            where[name] = None
        elif name == "job":
            where[name] = draw.choice(["craft", "office", "*", "clerk", ["baker", "office"], ["smith", None]])
        elif name in ("gender", "kids", "smoker", "flag"):
            where[name] = draw.sample(known, draw.randrange(1, len(known) + 1))
        else:
            first, end = sorted(draw.choices(known, k=2))
            where[name] = (first, end) if first < end else (first, _after(first))
    return where


def _after(value: Any) -> Any:
    return value + (dt.timedelta(1) if isinstance(value, dt.date) else 1)


def truth_of(release: Made, where: dict[str, Any], of: str | None) -> list[Any]:
    """The values of a column in the rows of a query; None among them."""
    rows = release.rows.to_pylist()
    inside = [
        row
        for row in rows
        if all(
            wanted(name, asked, row["when" if name == "window" else name]) for name, asked in where.items()
        )
    ]
    return [None if of is None else row[of] for row in inside]


@pytest.mark.parametrize("seed", range(40))
def test_the_truth_is_within_the_bounds(seed: int) -> None:
    """Of random queries over every type of field: counts, and sums and means of payload and of ranges. The payloads
    have changed places within their groups."""
    draw = random.Random(seed)
    release = made(seed, draw.choice([9, 30, 60]), nulls=draw.choice([0.0, 0.2, 0.5]))
    table = ReleasedTable.of(release.released, release.bound)
    rows = release.rows.to_pylist()
    for _ in range(12):
        where = drawn_query(draw, rows)
        values = truth_of(release, where, None)
        (count,) = table.estimate("count", where=where).rows()
        assert count["lower"] <= len(values) <= count["upper"], where
        for of in ("amount", "score", "count", "age", "height", "weight", "income", "born", "seen", "moment"):
            present = [value for value in truth_of(release, where, of) if value is not None]
            if of not in ("born", "seen", "moment"):
                (total,) = table.estimate("sum", of, where=where).rows()
                assert total["lower"] <= float(sum(map(Fraction, present))) <= total["upper"], (where, of)
            (mean,) = table.estimate("mean", of, where=where).rows()
            if not present:
                continue
            if of in ("born", "seen", "moment"):
                low, high = (_instant(mean[end]) for end in ("lower", "upper"))
                true: Any = sum(map(_instant, present)) / len(present)
                assert low - 1e-3 <= true <= high + 1e-3, (where, of)
            else:
                true = float(sum(map(Fraction, present)) / len(present))
                assert mean["lower"] <= true <= mean["upper"], (where, of)


def _instant(value: Any) -> float:
    """Seconds since 1970."""
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    return float((value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds())


def test_wide_bounds_are_marked_and_warned_of() -> None:
    """Once an estimate, with how many; and not where they are narrow."""
    release = made(3, 60)
    table = ReleasedTable.of(release.released, release.bound)
    with pytest.warns(WideBoundsWarning, match=r"the bounds of \d+ of 4 groups are wide"):
        found = table.estimate("count", by={"gender": ["F", "M"], "smoker": [True, False]})
    assert all(row["wide"] for row in found.rows())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (total,) = table.estimate("count").rows()
        assert not total["wide"]
        assert total["value"] == total["lower"] == total["upper"] == 60
    assert not table.estimate("count", by={"gender": ["F", "M"]}, wide=1e9).rows()[0]["wide"]


def test_coded_ends_are_warned_of() -> None:
    """Where values beyond the declared domain may stand at its ends: asked for or added up."""
    release = made(3, 60)
    table = ReleasedTable.of(release.released, release.bound)
    told = "age: values beyond the domain that the policy declares"
    assert any(told in each for each in table.estimate("mean", "age").warnings)
    assert any(told in each for each in table.estimate("count", by={"age": [0, 50]}).warnings)
    assert not any(told in each for each in table.estimate("mean", "amount").warnings)


def test_the_first_hour_is_in_its_window() -> None:
    """A window from midnight to midnight: its last millisecond is in, the next one is not."""
    release = made(3, 30)
    table = ReleasedTable.of(release.released, release.bound)
    days = table.estimate("count", by={"window": "1d"}).rows()
    assert days[0]["window_from"] == dt.datetime.fromtimestamp(FIRST_MS / 1000, dt.UTC)
    assert len(days) == 4
    assert sum(row["value"] for row in days) == pytest.approx(30)
    (before,) = table.estimate("count", where={"window": ("2024-02-01", "2024-03-01")}).rows()
    assert before["upper"] == 0


def test_an_estimate_prints_itself() -> None:
    """Without polars or pandas: a head, and a line a group."""
    shown = Estimate(pa.table({"town": ["Bonn", None], "value": [1234.5678901, 2.0], "rows_sure": [3, 14]}))
    assert str(shown).splitlines() == [
        "town     value  rows_sure",
        "Bonn  1,234.57          3",
        "   -         2         14",
    ]


# The other questions, of every input that a tiny release can come from.


def plain_quantile(values: Sequence[Fraction], q: Fraction) -> Fraction | None:
    """Of n values in order the ceil(q n)-th; where q n is whole, half way to the next."""
    if not values:
        return None
    ordered, place = sorted(values), q * len(values)
    at = max(-(-place.numerator // place.denominator), 1)
    after = at + 1 if place == at and at < len(values) else at
    return (ordered[at - 1] + ordered[after - 1]) / 2


def plain_variance(values: Sequence[Fraction]) -> Fraction | None:
    """Of two values or more."""
    if len(values) < 2:
        return None
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / (len(values) - 1)


def plain_ratio(top: Any, bottom: Any) -> Fraction | None:
    """None of nothing."""
    return Fraction(top) / Fraction(bottom) if bottom else None


def asked_of(rows: Sequence[Any], query: Any, column: int) -> dict[Any, Fraction | None]:
    """What the questions beside counts, sums and means are of one input."""
    inside = [row for row in rows if query(row)]
    values = [Fraction(row[column]) for row in inside if row[column] is not None]
    squares = [Fraction(row[2]) ** 2 for row in inside if row[2] is not None]
    ages = [Fraction(row[0]) for row in inside if row[0] is not None]
    women = [row for row in inside if row[1] == "f"]
    return {
        "median": plain_quantile(values, Fraction(1, 2)),
        ("quantile", 0.2): plain_quantile(values, Fraction(1, 5)),
        ("quantile", 1): plain_quantile(values, Fraction(1)),
        "variance": plain_variance(values),
        ("ratio", ("age", "square")): plain_ratio(sum(ages), sum(squares)),
        ("ratio", ("square", "age")): plain_ratio(sum(squares), sum(ages)),
        ("ratio", "part"): plain_ratio(len(women), len(inside)),
        ("share", None): plain_ratio(len(women), len(inside)),
        ("share", "square"): plain_ratio(
            sum(row[2] ** 2 for row in women if row[2] is not None), sum(squares)
        ),
    }


def squared(release: ReleasedTable) -> ReleasedTable:
    """With the square of the payload, which is not below 0."""
    table = release.arrow()
    table = table.append_column("square", pc.multiply(table["pay"], table["pay"]))
    field = ReleasedField("square", Kind.EXACT, pa.int64())
    form = ReleaseForm(table.schema, (*release.form.fields, field), 2, "tiny")
    return ReleasedTable(table, form)


EITHER = [{"age": (1, 3)}, {"age": (3, 4), "gender": "f"}, {"age": (2, 5), "pay": (0, 9)}]


def in_either(row: Any) -> bool:
    """What EITHER asks for."""
    age, gender, pay = row
    known = pay is not None and 0 <= pay < 9
    return age is not None and (1 <= age < 3 or (3 <= age < 4 and gender == "f") or (2 <= age < 5 and known))


QUESTIONED: list[tuple[Any, Any]] = [
    *((query, of) for query, of in QUERIES[:2]),
    (EITHER, in_either),
]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_question_keeps_to_all_assignments(seed: int, nulls: bool) -> None:
    """No input leaves the bounds of a question, and of all but variances some input reaches them; where nothing is in
    doubt they are the answer. Of a union of regions a box may lie within several together and within none."""
    tiny_release, cells = tiny(seed, 1 + seed % 4, nulls)
    release = squared(tiny_release)
    inputs = list(assignments(cells))
    for where, query in QUESTIONED:
        (row,) = release.estimate("count", where=where).rows()
        counts = [sum(map(query, rows)) for rows in inputs]
        assert (row["lower"], row["upper"]) == (min(counts), max(counts)), where
        assert row["lower"] <= row["value"] <= row["upper"]
        by_age = any("age" in region for region in (where if isinstance(where, list) else [where]))
        for column, name in ((2, "pay"), (0, "age")):
            found = [asked_of(rows, query, column) for rows in inputs]
            for question in found[0]:
                values = [each[question] for each in found if each[question] is not None]
                what, given = question if isinstance(question, tuple) else (question, None)
                options: dict[str, Any] = {"of": name, "where": where}
                if what == "quantile":
                    options["q"] = given
                elif what == "share" or given == "part":
                    if isinstance(where, list):
                        continue
                    options["of"] = given if what == "share" else None
                    options |= {"by": {"gender": ["f"]}} if what == "share" else {"part": {"gender": "f"}}
                elif what == "ratio":
                    options["of"] = given
                (row,) = release.estimate(what, **options).rows()
                told = (seed, where, question, name, row)
                if not values:
                    assert row["lower"] is None or what == "ratio", told
                    continue
                least, most = float(min(values)), float(max(values))
                assert row["lower"] <= least + 1e-9, told
                assert row["upper"] >= most - 1e-9, told
                assert row["lower"] <= row["value"] <= row["upper"], told
                loose = (
                    what == "variance"
                    or (what == "ratio" and given != "part")
                    or (what == "share" and given and nulls)
                    or isinstance(where, list)
                )
                if not loose or (least == most == float(found[0][question] or 0) and len(inputs) == 1):
                    assert row["lower"] == pytest.approx(least, abs=1e-9), told
                    assert row["upper"] == pytest.approx(most, abs=1e-9), told
                if what == "variance" and not by_age and column == 2:
                    assert row["upper"] - row["lower"] <= 4 * (most - least) + 1e-6, told


@pytest.mark.parametrize("seed", range(6))
def test_who_is_surely_at_the_top_is_in_every_assignment(seed: int) -> None:
    """And nobody who is not told to be possibly there ever is; ranks are kept by every input."""
    release, cells = tiny(seed, 4, nulls=True)
    edges = [(0, 2), (2, 3), (3, 4), (4, 6)]
    for n in (1, 2):
        top = release.estimate("top", n=n, by={"age": [0, 2, 3, 4, 6]}).rows()
        assert len(top) == n
        whole = {
            row["age_from"]: row for row in release.estimate("top", n=4, by={"age": [0, 2, 3, 4, 6]}).rows()
        }
        for rows in assignments(cells):
            counts = {
                first: sum(row[0] is not None and first <= row[0] < end for row in rows)
                for first, end in edges
            }
            for row in top:
                above = sum(count > counts[row["age_from"]] for count in counts.values())
                assert not row["surely"] or above < n
            for first, row in whole.items():
                above = sum(count > counts[first] for count in counts.values())
                assert row["rank_best"] <= 1 + above <= row["rank_worst"]


def test_five_fields_are_one_product_and_several_questions_one_table() -> None:
    """Groups of five fields are the queries one by one; each question of a list is as if it were asked alone, its
    columns called after it."""
    release = made(3, 60, nulls=0.2)
    table = ReleasedTable.of(release.released, release.bound)
    by = {
        "age": [0, 30, 60, 121],
        "gender": ["F", "M"],
        "smoker": [True, False],
        "kids": "each",
        "window": "each",
    }
    rows = table.estimate("count", by=by).rows()
    assert len(rows) > 30
    for row in random.Random(1).sample(rows, 12):
        where = {
            name: (row[f"{name}_from"], row[f"{name}_to"]) if f"{name}_from" in row else row[name]
            for name in by
        }
        (alone,) = table.estimate("count", where=where).rows()
        assert {name: row[name] for name in alone} == pytest.approx(alone)
    asked = table.estimate(
        ["count", "mean", "quantile"], ["amount", "score"], q=[0.25, 0.5], by={"age": [0, 50]}
    )
    (row,) = asked.rows()
    (mean,) = table.estimate("mean", "amount", by={"age": [0, 50]}).rows()
    assert (row["mean_amount"], row["mean_amount_upper"]) == (mean["value"], mean["upper"])
    (median,) = table.estimate("median", "score", by={"age": [0, 50]}).rows()
    assert row["quantile_0.5_score"] == median["value"]
    assert (
        row["count_rows_possible"]
        == table.estimate("count", where={"age": (0, 50)}).rows()[0]["rows_possible"]
    )


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_a_parent_are_those_of_all_assignments(seed: int) -> None:
    """Of a group in its parent, and of a part in a group: both bounds are reached, also by rows that are in the group
    if they are in the parent at all."""
    release, cells = tiny(seed, 4, nulls=seed % 2 == 1)
    found = []
    for rows in assignments(cells):
        inside = [row for row in rows if row[0] is not None and 2 <= row[0] < 4]
        if inside:
            found.append(Fraction(sum(row[1] == "f" for row in inside), len(inside)))
    for options in (
        {"what": "share", "by": {"age": [2, 4], "gender": ["f"]}},
        {"what": "share", "by": {"gender": ["f"]}, "where": {"age": (2, 4)}},
        {"what": "ratio", "part": {"gender": "f"}, "where": {"age": (2, 4)}},
    ):
        (row,) = release.estimate(**options).rows()  # type: ignore[arg-type]
        assert (row["lower"], row["upper"]) == (
            (float(min(found)), float(max(found))) if found else (None, None)
        ), options


@pytest.mark.parametrize("seed", range(60))
def test_least_and_most_are_those_of_all_choices(seed: int) -> None:
    """Quantiles and ratios are reached; variances hold, and are the variance where nothing is in doubt."""
    draw = random.Random(seed)
    count = draw.randrange(1, 5)
    low = [draw.randrange(-6, 7) for _ in range(count)]
    high = [value + draw.choice([0, 0, 1, 3]) for value in low]
    sure = [draw.random() < 0.5 for _ in range(count)]
    rows = [draw.choice([1, 1, 2]) for _ in range(count)]
    below = [draw.randrange(1, 5) for _ in range(count)]
    values = Values(
        np.array(sure), np.array(low, float), np.array(high, float), np.ones(count), np.array(rows, np.int64)
    )
    per = values._replace(low=np.array(below, float), high=np.array(below, float))
    each = [at for at in range(count) for _ in range(rows[at])]
    choices = []
    for at in each:
        ends = [(at, Fraction(low[at])), (at, Fraction(high[at]))]
        choices.append(ends if sure[at] else [*ends, None])
    worlds = [[row for row in world if row is not None] for world in product(*choices)]
    for q in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)):
        quantiles = [plain_quantile([value for _, value in world], q) for world in worlds if world]
        assert least_quantile(values, q) == min(quantiles)
        assert -least_quantile(values.mirrored, 1 - q) == max(quantiles)
    ratios = [
        sum(value for _, value in world) / sum(below[at] for at, _ in world) for world in worlds if world
    ]
    assert least_ratio(values, per) == pytest.approx(float(min(ratios)))
    variances = [plain_variance([value for _, value in world]) for world in worlds if len(world) > 1]
    if variances:
        least, most = variance_bounds(values)
        assert least <= float(min(variances)) + 1e-9
        assert most >= float(max(variances)) - 1e-9
        if all(sure) and low == high:
            assert (least, most) == pytest.approx((float(variances[0]),) * 2)
        assert most <= 2 * float(max(variances)) + 1e-6
