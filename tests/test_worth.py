"""What releases are worth: the arithmetic of ``benchmarks/worth_releases.py``, and a small run of it."""

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import publishers, worth_releases
from benchmarks.data_sets import ADULT, DAY_MS, SPARKOV, VARIABLE, WEEK_MS, example_policy
from benchmarks.publishers import Source, left_out, released_hulls, source_of
from benchmarks.worth_risk import together
from benchmarks.worth_uses import Asked, uses_of, with_noise
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.rates import Excess, Rate

pytestmark = pytest.mark.thorough

TRUE = np.array([[40.0, 10.0], [20.0, 20.0], [0.0, 10.0]])
ASKED = Asked({"field": [frozenset(["a"])] * 3}, 0, 1, 2, frozenset(), {})


def test_uses_are_counted_as_they_are_defined() -> None:
    """Rows in wrong bands by half of the differences; of trends a flat line has 1, whoever tells the truth 0."""
    random = np.random.default_rng(1)
    truth = {"field": TRUE}
    assert uses_of(ASKED, truth, truth, truth, random) == (0.0, 0.0, None)
    told = {"field": np.array([[30.0, 0.0], [40.0, 10.0], [10.0, 10.0]])}
    flat = {"field": TRUE.sum(axis=1, keepdims=True) * [0.6, 0.4]}
    misplaced, trends, _ = uses_of(ASKED, told, flat, truth, random)
    # 50, 40, 10 rows are told as 30, 50, 20.
    assert misplaced == pytest.approx(50 * 40 / 100)
    assert trends == pytest.approx(1.0)


def test_a_top_list_misses_what_is_none_of_the_largest() -> None:
    """Of eight categories the five largest are asked for; equal counts are as good as each other."""
    asked = ASKED._replace(lists=frozenset(["field"]), periods=1)
    true = {"field": np.array([[9.0], [8.0], [7.0], [6.0], [5.0], [5.0], [1.0], [0.0]])}
    for order, missed in (([9, 8, 7, 6, 0, 5, 1, 0], 0.0), ([9, 8, 0, 6, 0, 5, 7, 0], 20.0)):
        told = {"field": np.array(order, float)[:, None]}
        assert uses_of(asked, told, told, true, np.random.default_rng(1)).missed == missed


def test_noise_is_shared_out_over_all_tables() -> None:
    """Laplace of scale ``most`` times the tables over epsilon, half of them by periods; sums are the true ones."""
    counts = {name: np.full((400, 2), 1e6) for name in ("one", "other")}
    dashboards, trends = with_noise(ASKED, counts, 3.0, 1000, 0.5, np.random.default_rng(1))
    for told, there in ((dashboards, 2e6), (trends, 1e6)):
        for each in told.values():
            assert each.sum() == pytest.approx(1000)
            scale = np.abs(each / each.mean() - 1).mean() * there
            assert scale == pytest.approx(3.0 * 4 / 0.5, rel=0.15)
    alone, _ = with_noise(ASKED._replace(periods=1), counts, 3.0, 1000, 0.5, np.random.default_rng(1))
    assert (
        np.abs(alone["one"] / alone["one"].mean() - 1).mean() * 1e6
        < np.abs(trends["one"] / trends["one"].mean() - 1).mean() * 1e6
    )


def test_splits_that_share_people_are_worth_one() -> None:
    """The mean rate, with the interval of a single split."""
    one = Excess(Rate(100.0, 400.0), Rate(40.0, 400.0))
    other = Excess(Rate(140.0, 400.0), Rate(80.0, 400.0))
    both = together([one, other])
    assert (both.rate.share, both.rate.trials, both.control.share) == pytest.approx((0.3, 400.0, 0.15))
    assert together([one, one]).interval == one.interval


def test_a_row_that_waited_is_shared_by_the_periods_it_may_be_of() -> None:
    """Two windows are a period: rows of windows 4, 4 to 5, 4 to 7, 6 to 11; what is beyond the last one is in it."""
    policy = example_policy("sparkov")
    begin = [policy.window_offset_ms + number * DAY_MS for number in (4, 4, 4, 6)]
    end = [policy.window_offset_ms + number * DAY_MS for number in (5, 6, 8, 12)]
    kind = pa.timestamp("ms", "UTC")
    rows = pa.table({"window_start": pa.array(begin, kind), "window_end": pa.array(end, kind)})
    form: Any = SimpleNamespace(k=5)
    released = ReleasedTable(rows, form)
    asked = ASKED._replace(first=4, windows=2, periods=2)
    assert asked.of_release(policy, released).tolist() == [[1, 0], [1, 0], [0.5, 0.5], [0, 1]]
    assert asked.of_windows(np.array([4, 5, 6, 11])).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


@pytest.fixture
def adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with people like those of Adult, 390 of them: who is older earns more."""
    random = np.random.default_rng(3)
    path = tmp_path / "data" / ADULT.file
    path.parent.mkdir(parents=True)
    names = [field.name for field in example_policy("adult").fields]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(names)
        for _ in range(390):
            age = int(random.integers(18, 80))
            values: dict[str, Any] = {
                "age": age, "salary-class": ">50K" if age + random.normal(0, 15) > 50 else "<=50K",
                "education": f"e{random.integers(0, 12)}", "sex": "FM"[int(random.integers(0, 2))],
            }  # fmt: skip
            writer.writerow([values.get(name, f"{name}{random.integers(0, 3)}") for name in names])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    return path


def test_a_small_run(adult: Path, tmp_path: Path) -> None:
    """Rows as they are lose nothing; every release has a line; where middles are better is what the means say."""
    assert adult.is_file()
    results = tmp_path / "results"
    assert worth_releases.main(["--data", "adult", "--splits", "2", "--results", str(results)]) == 0
    record = json.loads((results / "worth_releases_adult.json").read_text())
    tables = {table["title"].split(",")[0]: table["rows"] for table in record["tables"]}
    worth = tables["What each release is worth"]
    raw = worth[0]
    assert (raw["release"], raw["misplaced, %"], raw["missed, %"]) == ("raw", "0.0 [0.0, 0.0]", "0 [0, 0]")
    assert raw["AUC gap"] == "0.0000 [0.0000, 0.0000]"
    assert [(row["release"], row["k"]) for row in worth[1:]] == [
        *((name, k) for k in (3, 5, 10) for name in ("row", "Mondrian", "dropped fields")),
        ("DP, a person", None),
    ]
    for row in tables["As estimate and impute read a release"]:
        worse = [
            name
            for name, other in (
                ("misplaced, %", "middles"),
                ("missed, %", "middles  "),
                ("AUC gap", "middles   "),
            )
            if mean_of(row[name]) > mean_of(row[other])
        ]
        told = (
            row["middles are better in"].replace("misplaced", "misplaced, %").replace("missed", "missed, %")
        )
        # What is equal as shown may differ.
        assert set(worse) <= set(re.findall(r"misplaced, %|missed, %|AUC gap", told)), row


def mean_of(cell: str) -> float:
    """Of a cell with its interval."""
    return float(cell.split(" ")[0])


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Twelve card holders with twenty rows each, who differ by latitude and gender."""
    path = tmp_path / SPARKOV.file.removesuffix(".gz")
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        names = [field.name for field in example_policy("sparkov").fields]
        writer = csv.DictWriter(file, names, restval="x")
        writer.writeheader()
        for row in range(240):
            who, when = row % 12, f"2020-01-{2 + row // 120:02d} {row % 24:02d}:00:00"
            home = {"lat": 30 + who, "long": -80, "city_pop": 100, "job": "a", "dob": "1960-05-01"}
            own = {"cc_num": who, "gender": ("F", "")[who % 2], "trans_date_trans_time": when}
            writer.writerow({**home, **own, "amt": 1, "is_fraud": 0})
    monkeypatch.setattr(publishers, "data_path", lambda data: path)
    return source_of(SPARKOV, 1, WEEK_MS)


def test_fields_are_dropped_until_people_and_not_rows_are_k(cards: Source) -> None:
    """A card holder has many rows of one combination, which is nobody's protection."""
    own = np.arange(cards.feed.rows.num_rows)
    label, dropped = left_out(cards, own, 5)
    assert dropped == {"lat"}
    assert (label >= 0).all()
    for each in np.unique(label):
        assert np.unique(cards.feed.who[label == each]).size == 6
    assert left_out(cards, own, 7)[1] == {"lat", "gender"}


def test_hulls_of_rows_by_themselves_are_the_rows(cards: Source) -> None:
    """Missing values, too; and of all rows together every value, in an order that tells nothing."""
    own = np.arange(cards.feed.rows.num_rows)
    read = released_hulls(cards, own, own, 5)
    genders = cards.feed.rows.column("gender").to_pylist()
    assert read.arrow().column("gender").to_pylist() == [[gender] for gender in genders]
    assert None in genders
    assert [cell["min"] for cell in read.arrow().column("lat").to_pylist()] == cards.feed.rows.column(
        "lat"
    ).to_pylist()
    one = released_hulls(cards, own, np.zeros(own.size, np.int64), 5).arrow()
    assert one.column("gender").to_pylist() == [["F", None]] * own.size
