"""Plausible intervals lie within the bounds, are drawn by seed alone, and hold about as often as they say."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, ReleaseForm
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.drawn_rows import DrawnRows, PersonUnits, units_match
from kanonflow.pipelines.estimates.query_parts import interval
from kanonflow.pipelines.estimates.questions import QUESTIONS, Asked, DrawnGroups, Options
from kanonflow.schemas.errors import InputError
from tests.made_releases import made

pytestmark = pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")
ASKED: tuple[dict[str, Any], ...] = (
    {"what": ["count", "sum", "mean", "variance"], "of": "amount", "by": {"age": [0, 30, 60, 99, None]}},
    {"what": ["median", "quantile"], "of": "age", "q": 0.9, "by": {"gender": "each"}},
    {"what": "share", "by": {"gender": "each", "job": "each"}},
    {"what": "ratio", "part": {"age": (20, 50)}, "by": {"window": "1d"}},
    {"what": "top", "of": "amount", "n": 2, "by": {"job": "each"}},
    {"what": "count", "where": [{"age": (20, 40)}, {"gender": "f"}], "by": {"flag": "each"}},
)


def plain(k: int, x: np.ndarray, group: np.ndarray, *, single_rows: bool) -> ReleasedTable:
    """A release of numbers: of each group the range of its x."""
    low, high = (np.array([edge(x[group == each]) for each in group]) for edge in (np.min, np.max))
    box = pa.StructArray.from_arrays(
        [pa.array(low), pa.array(high), pa.array(np.zeros(x.size, bool))], names=["min", "max", "nulls"]
    )
    table = pa.table({"x": box, "y": pa.array(np.arange(x.size) % 7)})
    fields = (ReleasedField("x", Kind.RANGE, pa.float64()), ReleasedField("y", Kind.EXACT, pa.int64()))
    return ReleasedTable(
        table, ReleaseForm(table.schema, fields, k, "made", single_rows=single_rows), hierarchies=None
    )


def test_intervals_lie_within_the_bounds_and_go_by_the_seed_and_not_by_the_order_of_rows() -> None:
    """Of every question, of all types; another seed draws others; without draws there are none."""
    one = made(3, 90)
    table = ReleasedTable.of(one.released, one.bound)
    order = np.random.default_rng(1).permutation(len(table))
    mixed = ReleasedTable.of(one.released.take(pa.array(order)), one.bound)
    narrower = others = 0
    for asked in ASKED:
        found, again, swapped, other, none = (
            of.estimate(**asked, draws=draws, seed=seed).rows()
            for of, draws, seed in (
                (table, 8, 1), (table, 8, 1), (mixed, 8, 1), (table, 8, 2), (table, 0, 1),
            )
        )  # fmt: skip
        assert found == again
        others += found != other
        for row, same, bare in zip(found, swapped, none, strict=True):
            for name in [name for name in row if name.endswith("plausible_low")]:
                title = name.removesuffix("plausible_low")
                low, high = row[name], row[f"{title}plausible_high"]
                lower, upper = row[f"{title}lower"], row[f"{title}upper"]
                assert {key for key in row if "plausible" not in key} == bare.keys()
                if low is None:
                    assert lower is None
                    continue
                assert lower <= low <= high <= upper, (asked, row)
                assert same[name] == pytest.approx(low, rel=1e-9), asked
                assert same[f"{title}plausible_high"] == pytest.approx(high, rel=1e-9)
                narrower += high - low < upper - lower
    assert narrower > 20
    assert others == len(ASKED)


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"draws": -1}, {"seed": -1}])
def test_what_cannot_be_drawn_is_refused(wrong: dict[str, Any]) -> None:
    """By name."""
    one = made(3, 60)
    with pytest.raises(InputError, match=f"estimate: {next(iter(wrong))}"):
        ReleasedTable.of(one.released, one.bound).estimate("count", **wrong)


def test_questions_of_drawn_rows_are_those_of_the_rows_one_by_one() -> None:
    """Groups, entries of several rows and missing values, against a slow twin."""
    random = np.random.default_rng(5)
    size, shape = 60, (3, 2)
    parts = {"a": random.integers(-1, 3, size), "b": random.integers(-1, 2, size)}
    x = np.where(random.random(size) < 0.2, np.nan, random.integers(0, 9, size).astype(float))
    drawn = DrawnGroups(
        random.integers(1, 4, size).astype(float), parts, shape, (x, x + 1), random.random(size) < 0.5
    )
    asked = Asked(None, None, Options(q=Fraction(1, 4)))  # type: ignore[arg-type]
    told = {
        name: QUESTIONS[name].of_drawn(drawn if name != "ratio" else drawn._replace(in_part=None), asked)
        for name in ("count", "sum", "mean", "quantile", "variance", "ratio")
    }
    part = QUESTIONS["ratio"].of_drawn(drawn, asked)
    for group in range(6):
        inside = (parts["a"] == group // 2) & (parts["b"] == group % 2)
        rows = np.repeat(np.flatnonzero(inside), drawn.rows[inside].astype(int))
        own = np.sort(x[rows][~np.isnan(x[rows])])
        expected = {
            "count": rows.size,
            "sum": own.sum(),
            "mean": own.mean(),
            "quantile": np.quantile(own, 0.25, method="averaged_inverted_cdf"),
            "variance": own.var(ddof=1),
            "ratio": own.sum() / (own + 1).sum(),
        }
        assert {name: values[group] for name, values in told.items()} == pytest.approx(expected)
        assert drawn.in_part is not None
        assert part[group] == pytest.approx(drawn.in_part[rows].mean())


def test_rows_are_dealt_as_a_slow_twin_does() -> None:
    """Of one box: k people, one at each end, the rest evenly between; rows by shares of a Dirichlet, one by one."""
    random = np.random.default_rng(2)
    x = np.array([0.0, 1.0] * 12)
    release = plain(4, x, np.zeros(24, int), single_rows=False)
    rows = DrawnRows.of(release._people, {("x", True): PersonUnits("x")})
    below = units_match([interval(0.0, 0.4, whole=False)])
    fast, slow = [], []
    for seed in range(400):
        entries, fields = rows.drawn(np.random.default_rng(seed))
        assert entries.rows.sum() == 24
        fast.append(int(entries.rows[below(fields["x", True]) >= 0].sum()))
        people = np.array([0.0, 1.0, *random.random(2)])
        dealt = random.choice(4, 24, p=random.dirichlet(np.ones(4)))
        slow.append(int((people[dealt] < 0.4).sum()))
    assert np.mean(fast) == pytest.approx(np.mean(slow), abs=1.5)
    assert np.std(fast) == pytest.approx(np.std(slow), rel=0.15)


@pytest.mark.parametrize("single_rows", [True, False])
def test_intervals_hold_about_as_often_as_they_say(single_rows: bool) -> None:
    """Of 80 counts of a made feed whose truth is known; narrower than the bounds, and not as narrow as nothing."""
    random = np.random.default_rng(7)
    within = wide = certain = asked = 0.0
    for _ in range(4):
        people = np.sort(random.normal(size=200)) + 0.2 * random.normal(size=200)
        each = np.ones(200, int) if single_rows else random.poisson(6 * random.standard_exponential(200)) + 1
        group = np.repeat(np.arange(200) // 5, each)
        x = np.repeat(people, each)
        edges = np.quantile(x, np.linspace(0.02, 0.98, 21)) + 1e-6
        release = plain(5, x, group, single_rows=single_rows)
        for row in release.estimate("count", by={"x": edges.tolist()}, draws=60).rows():
            truth = int(((x >= row["x_from"]) & (x < row["x_to"])).sum())
            within += row["plausible_low"] <= truth <= row["plausible_high"]
            wide += row["plausible_high"] - row["plausible_low"]
            certain += row["upper"] - row["lower"]
            asked += 1
    assert within / asked >= 0.88
    assert 0.05 < wide / certain < 0.6
