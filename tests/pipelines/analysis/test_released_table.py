"""Releases as a table: what is read, in which forms, and what is refused by name."""

from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.released_table import ReleasedTable, read_release
from kanonflow.pipelines.estimates.estimate import WideBoundsWarning
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.hierarchy import Hierarchy
from tests.made_releases import JOBS, made, write_release

pytestmark = pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")


@pytest.fixture(params=[".avro", ".parquet"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two releases of cohorts that last, with nulls in every kind of field."""
    for seed in range(2):
        write_release(tmp_path / "run", made(seed, 40, lasting=True), suffix=request.param)
    return tmp_path / "run"


def test_what_is_read_is_what_was_released(run: Path) -> None:
    """Every cell, file by file, with the epoch behind the id of the release."""
    expected = pa.concat_tables([made(seed, 40, lasting=True).released for seed in range(2)])
    release = read_release(run)
    assert release.arrow().drop_columns(["epoch"]).to_pylist() == expected.to_pylist()
    assert release.arrow().column_names[:2] == ["release_id", "epoch"]
    assert set(release.arrow().column("epoch").to_pylist()) == {"0000000000000007"}
    assert len(release) == 80
    assert "note" in repr(release)
    assert "two" not in repr(release)


def test_as_data_frames(run: Path) -> None:
    """Flat with types, nulls apart from empty texts; nested if asked for; pandas can group by each flat column."""
    release = read_release(run)
    flat = release.flat()
    assert release.polars().to_arrow().select(flat.column_names).to_pylist() == flat.to_pylist()
    assert release.polars(None).schema["gender"] == polars.List(polars.String)
    assert release.polars("label").height == 80
    frame = release.pandas()
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == flat.to_pylist()
    for name in frame.columns:
        assert frame.groupby(name, dropna=False).size().sum() == 80
    assert release.pandas("mid").shape == (80, len(release.fields))


def test_estimates_as_data_frames(run: Path) -> None:
    """The same rows in each form, with days as days and missing groups as nulls."""
    found = read_release(run).estimate("mean", "amount", by={"born": "20y", "gender": ["F", None]})
    assert found.polars().to_dicts() == found.rows() == found.arrow().to_pylist()
    assert found.polars().schema["born_from"] == polars.Date
    assert list(found.pandas().columns) == found.table.column_names
    means = read_release(run).estimate("mean", "born").rows()
    assert means[0]["lower"] <= means[0]["value"] <= means[0]["upper"]


def test_a_hierarchy_comes_with_its_file(run: Path, tmp_path: Path) -> None:
    """A release has labels only; with the hierarchy its leaves and labels can be asked for."""
    with pytest.raises(InputError, match="job: a release has labels only; give read_release the hierarchy"):
        read_release(run).estimate("count", by={"job": "each"})
    (tmp_path / "jobs.csv").write_text("\n".join(";".join(row) for row in JOBS))
    by_file = read_release(run, hierarchies={"job": tmp_path / "jobs.csv"})
    by_rows = read_release(run, hierarchies={"job": Hierarchy(tuple(JOBS))})
    by = {"job": ["craft", "office", None]}
    assert by_file.estimate("count", by=by).rows() == by_rows.estimate("count", by=by).rows()
    assert sum(row["value"] for row in by_rows.estimate("count", by={"job": "each"}).rows()) == pytest.approx(
        80
    )
    other = Hierarchy((("x", "*"), ("y", "*")))
    for hierarchies, told in (({"job": other}, "labels that the given hierarchy has not"),):
        with pytest.raises(InputError, match=told):
            read_release(run, hierarchies=hierarchies).estimate("count", by={"job": "each"})
    with pytest.raises(InputError, match="no such label"):
        by_rows.estimate("count", where={"job": "chef"})
    with pytest.raises(InputError, match="gender is released without a hierarchy"):
        read_release(run, hierarchies={"gender": other})


@pytest.mark.parametrize(
    ("what", "of", "more", "told"),
    [
        ("mode", None, {}, "mode is none of count, sum, mean, quantile"),
        ("count", "amount", {}, "count takes no column"),
        ("sum", None, {}, "sum needs the name of a column"),
        ("sum", "born", {}, "born has no sum; ask for the mean"),
        ("quantile", "amount", {}, "quantile needs q"),
        ("quantile", "amount", {"q": 1.5}, "q is a number from 0 to 1"),
        ("mean", "amount", {"q": 0.5}, "q is for quantile, not for mean"),
        ("ratio", "amount", {}, "ratio takes two columns"),
        ("ratio", None, {}, "ratio needs a pair of columns"),
        (
            "ratio",
            None,
            {"part": {"age": (1, 9)}, "by": {"age": [0, 9]}},
            "age is in part and in by or where",
        ),
        ("share", None, {"by": {"gender": "each"}, "within": ["age"]}, "age is in within and not in by"),
        (["top", "count"], None, {"n": 3}, "is asked by itself"),
        ("sum", "note", {}, "note has no sum"),
        ("mean", "gender", {}, "gender has no mean"),
        ("mean", "at", {}, "at has no mean"),
        ("mean", "nobody", {}, "no field nobody; it has release_id"),
        ("count", None, {"by": {"release_id": "each"}}, "release_id: is the release's own"),
        ("count", None, {"by": {"gender": "F"}}, "by gender: give a list of categories, or each"),
        ("count", None, {"by": {"gender": ["F", ("F", "M")]}}, "a category is in two parts"),
        ("count", None, {"by": {"gender": "each"}, "where": {"gender": "F"}}, "gender is in by and in where"),
        ("count", None, {"where": {"age": 30}}, "where age: give a pair of edges"),
    ],
)
def test_what_cannot_be_asked_is_said(
    run: Path, what: Any, of: str | None, more: dict[str, Any], told: str
) -> None:
    """By the name of the field, with what can."""
    with pytest.raises(InputError, match=told):
        read_release(run).estimate(what, of, **more)


def test_without_windows_there_is_nothing_by_window(tmp_path: Path) -> None:
    """The other fields are there."""
    write_release(tmp_path, made(4, 20, windows=False))
    release = read_release(tmp_path)
    with pytest.raises(InputError, match="the release has no windows"):
        release.estimate("count", by={"window": "1d"})
    assert release.estimate("count").rows()[0]["value"] == 20


@pytest.mark.parametrize(("offset", "cut"), [("0ms", True), ("4d", False)])
def test_weeks_that_cut_windows_are_said(tmp_path: Path, offset: str, cut: bool) -> None:
    """Windows of a week begin on Thursdays where a policy does not say otherwise, and weeks that are asked for on
    Mondays. Each window by itself is always an answer to the row."""
    rows = [
        {"who": f"p{at % 20}", "when": f"2024-03-{4 + at % 14:02}T12:00:00Z", "age": 20 + at % 20}
        for at in range(280)
    ]
    policy = {
        "version": 1,
        "name": "weeks",
        "k": 5,
        "window": "1w",
        "window_offset": offset,
        "cohort": "window",
        "fields": {
            "who": {"role": "individual"},
            "when": {"role": "time"},
            "age": {"role": "quasi", "type": "numeric", "as": "long"},
        },
    }
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(policy))
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "in.csv")
    flags = [
        "--policy",
        str(tmp_path / "p.yaml"),
        "--input",
        str(tmp_path / "in.csv"),
        "--output",
        str(tmp_path / "out"),
    ]
    assert cli.main(["anonymize", *flags]) == 0
    release = read_release(tmp_path / "out")
    if cut:
        with pytest.warns(WideBoundsWarning, match="within windows of the release"):
            weeks = release.estimate("count", by={"window": "1w"})
    else:
        weeks = release.estimate("count", by={"window": "1w"})
        assert not weeks.warnings
    exact = [row["lower"] == row["upper"] for row in weeks.rows()]
    assert all(exact) != cut
    each = release.estimate("count", by={"window": "each"})
    assert not each.warnings
    assert [row["value"] for row in each.rows()] == [row["upper"] for row in each.rows()]
    assert sum(row["value"] for row in each.rows()) == len(release)
    first = each.rows()[0]
    (alone,) = release.estimate("count", where={"window": (first["window_from"], first["window_to"])}).rows()
    assert alone["value"] == first["value"]


def test_a_table_in_memory_is_the_same(run: Path) -> None:
    """What ``anonymize_table`` released, with the bound policy, which has the hierarchies."""
    release = made(0, 40, lasting=True)
    table = ReleasedTable.of(release.released, release.bound)
    assert table.estimate("count", by={"job": "each"}).rows()
    empty = ReleasedTable.of(release.released.slice(0, 0), release.bound)
    assert empty.estimate("count").rows()[0]["value"] == 0
    assert empty.estimate("mean", "amount", by={"age": [0, 9], "gender": ["F"]}).rows()[0]["value"] is None
