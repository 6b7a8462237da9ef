"""The demo feed: made of a seed, and alive."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kanonflow.pipelines.commands.demo_feed import FORMATS, FeedError, FeedShape, demo_feed, write_feed
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.avro_schema import transaction_schema
from kanonflow.transforms.rows.elements import from_ipc

SHAPE = FeedShape(rows=6_000, days=14, seed=5)


@pytest.fixture(scope="module")
def feed() -> pa.Table:
    return demo_feed(SHAPE)


@pytest.mark.parametrize("format", FORMATS)
def test_a_seed_makes_one_feed(tmp_path: Path, format: str) -> None:
    """Equal shapes are equal files, byte for byte; another seed is another feed."""
    shape, other = FeedShape(500, 3, 5), FeedShape(500, 3, 6)
    paths = [write_feed(each, tmp_path / str(n), format) for n, each in enumerate((shape, shape, other))]
    first, again, different = (path.read_bytes() for path in paths)
    assert first == again != different


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_has_every_row(tmp_path: Path, format: str) -> None:
    """What the sources read back has all rows (in CSV one of them is too short) under the same names."""
    files = find_inputs([str(write_feed(SHAPE, tmp_path, format))])
    columns = input_schema(files).columns.names
    assert columns == [field["name"] for field in transaction_schema()["fields"]]
    batches = list(read_batches(files[0], columns))
    broken = sum(len(batch.broken) for batch in batches)
    assert sum(from_ipc(batch.ipc).num_rows for batch in batches) + broken == SHAPE.rows
    assert broken == (1 if format == "csv" else 0)


def test_customers_return_with_the_same_quasi_identifiers(feed: pa.Table) -> None:
    """Whoever is seen twice has one birth date, one gender, one home, one occupation, one income."""
    stable = ["birth_date", "gender", "occupation", "income", "postcode_area"]
    distinct = feed.select(["customer", *stable]).group_by(["customer", *stable]).aggregate([])
    assert distinct.num_rows == pc.count_distinct(feed["customer"]).as_py() > 100


def test_a_few_customers_do_much(feed: pa.Table) -> None:
    """Activity is heavy-tailed: the most active tenth has more than a quarter of the rows."""
    counts = np.sort(pc.value_counts(feed["customer"]).field("counts").to_numpy())[::-1]
    assert counts[: len(counts) // 10].sum() > 0.25 * SHAPE.rows


def test_days_and_hours_have_their_rhythm(feed: pa.Table) -> None:
    """Nights are quieter than afternoons, Sundays than Saturdays."""
    hours = np.bincount(pc.hour(feed["booked_at"]).to_numpy(), minlength=24)
    days = np.bincount(pc.day_of_week(feed["booked_at"]).to_numpy(), minlength=7)
    assert hours[2] < hours[17] / 5
    assert days[6] < days[5]


def test_some_rows_are_late_unknown_or_broken(feed: pa.Table) -> None:
    """Rows come out of order, a few by hours; some incomes are null; one home was never located."""
    booked = feed["booked_at"].cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(booked) - booked
    assert 0.001 < np.mean(behind > 3_600_000) < 0.01
    assert 0.03 < feed["income"].null_count / feed.num_rows < 0.15
    assert pc.sum(pc.equal(feed["home_latitude"], 0.0)).as_py() == 1


def test_customers_arrive_and_leave(feed: pa.Table) -> None:
    """Between two days most customers return, and some are new, beyond those who pause."""
    week = (pc.day(feed["booked_at"]).to_numpy() - 1) // 7
    who = feed["customer"].to_numpy()
    first, second = set(who[week == 0]), set(who[week == 1])
    assert len(first & second) > 0.7 * len(first)
    assert second - first


def test_text_is_broken_in_ways_that_types_rule_out(tmp_path: Path) -> None:
    """The CSV feed has a bad amount, a bad time, a missing customer and a row that is too short."""
    with write_feed(SHAPE, tmp_path).open(newline="") as file:
        header, *rows = csv.reader(file)
    assert sum(len(row) < len(header) for row in rows) == 1
    named = [dict(zip(header, row, strict=False)) for row in rows]
    assert sum(row["amount"] == "n/a" for row in named) == 1
    assert sum(row["booked_at"].startswith("2024-13") for row in named) == 1
    assert sum(row["customer"] == "" for row in named) == 1


def test_a_feed_is_never_overwritten(tmp_path: Path) -> None:
    """The same feed may be written again; another one is refused, as releases of the first may be there."""
    write_feed(FeedShape(50, 2, 1), tmp_path)
    path = write_feed(FeedShape(50, 2, 1), tmp_path)
    before = path.read_bytes()
    with pytest.raises(FeedError, match="another feed"):
        write_feed(FeedShape(50, 2, 2), tmp_path)
    assert path.read_bytes() == before


def test_a_feed_has_rows_and_days() -> None:
    """No rows, no days, no feed."""
    with pytest.raises(ValueError, match="at least 1 row"):
        FeedShape(rows=0, days=1, seed=1)
