"""What ``docs/using-releases.md`` shows runs, on releases of ``card.yaml``, and says what is true."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.estimates.estimate import Estimate
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.secret.seeds import Secret
from tests.made_releases import made, write_release
from tests.test_documents import ROOT, blocks, card_policy, feed

PAGE = ROOT / "docs" / "using-releases.md"
WORTH_OF = ("sparkov", "complete_journey", "adult")
OURS = ("lasting", "window", "row")
QUESTIONS = ("count", "sum", "mean", "quantile")


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with releases of ``card.yaml`` in ``out``."""
    monkeypatch.chdir(tmp_path)
    Path("card.yaml").write_text(card_policy())
    policy = load_policy("card.yaml")
    table = feed()
    found = anonymize_table(table, policy, Secret(bytes(range(32))), threads=1).released
    schema = release_avro_schema(bind(policy, table.schema, text=False, source="the feed"), 0)
    Path("out/release").mkdir(parents=True)
    for name in found.column("release_id").unique().to_pylist():
        rows = found.filter(pc.equal(found.column("release_id"), name))
        Path(f"out/release/{name}.avro").write_bytes(avro_file(rows, schema, bytes(16)))
    return tmp_path


@pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")
def test_the_page_runs(
    released: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its command, then its blocks of Python one after the other; each engine prints the same groups."""
    commands = re.findall(r"^    (kanonflow .*)$", PAGE.read_text(), re.MULTILINE)
    # The third one's catalog is nobody's here.
    for command in commands[:2]:
        assert cli.main(shlex.split(command)[1:]) == 0
    assert len(commands) == 3
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    capsys.readouterr()
    names: dict[str, Any] = {}
    ran = blocks(PAGE, "python")
    assert len(ran) == 8
    for block in ran:
        exec(block, names)
        for found in [value for value in names.values() if isinstance(value, Estimate)]:
            for row in found.rows():
                # Of several questions each has the three under its own name.
                for name in [name for name in row if name.endswith("lower")]:
                    value = row["value" if name == "lower" else name.removesuffix("_lower")]
                    assert row[name] <= value <= row[name.removesuffix("lower") + "upper"]
    out = capsys.readouterr().out
    assert "born_from" in out
    cells, release = names["cells"], names["release"]
    one = duckdb.sql("SELECT born_from, occupation, sum(share), sum(share * amount) FROM cells GROUP BY ALL")
    counted = {row[:2]: row[2:] for row in one.fetchall()}
    by = {"born": "10y", "occupation": "each"}
    for place, what in enumerate((("count",), ("sum", "amount"))):
        for row in release.estimate(*what, by=by).rows():
            told = counted[row["born_from"], row["occupation"]][place]
            assert float(told) == pytest.approx(row["value"], abs=1e-6)
    assert sum(cells.column("share").to_pylist()) == pytest.approx(len(release))
    expected = polars.read_parquet("out/export.parquet", hive_partitioning=True).group_by("occupation").len()
    for occupation in expected["occupation"].to_list():
        # Printed by polars, of Parquet and of Iceberg, and pandas; DuckDB asks for a part of the rows.
        assert out.count(occupation) >= 3


def test_the_page_on_models_runs(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its command, and its regression; the files are what Python gives."""
    page = ROOT / "docs" / "models.md"
    (command,) = re.findall(r"^    (kanonflow .*)$", page.read_text(), re.MULTILINE)
    assert cli.main(shlex.split(command)[1:]) == 0
    assert "imputed rows are invented" in capsys.readouterr().err
    names: dict[str, Any] = {}
    exec(blocks(page, "python")[0], names)
    assert "a year later born:" in capsys.readouterr().out
    assert names["pooled"].lower[1] < names["pooled"].estimate[1] < names["pooled"].upper[1]
    for number, table in enumerate(names["tables"], start=1):
        assert pyarrow.parquet.read_table(f"out/imputed/imputed-{number}.parquet").equals(table)
        assert table.schema.field("born").type == feed().schema.field("born").type


def test_the_figures_of_models_are_those_that_were_measured() -> None:
    """The table of the page, of both results of the benchmark."""
    told = re.findall(r"^\| (.*) \|$", (ROOT / "docs" / "models.md").read_text(), re.MULTILINE)[1:]
    results = ROOT / "benchmarks" / "results"
    gaps, slopes = (
        json.loads((results / f"{name}.json").read_text())["tables"][0]["rows"]
        for name in ("imputed_models", "imputed_models_score")
    )
    assert len(told) == len(gaps)
    for line, row in zip(told, gaps, strict=True):
        cells = line.split(" | ")[1:]
        assert cells[0] == f"{row['mean']:.4f}".removeprefix("0")
        found = {each["slope of"]: each for each in slopes if each["by"] == row["trained on"]}
        if found:
            age, men = (f"{found[of]['ratio']:.2f}".removeprefix("0") for of in ("age", "men"))
            assert cells[1:] == [age, f"{found['age']['covered']} of {found['age']['of']}", men]


def test_the_types_are_those_of_the_table(tmp_path: Path) -> None:
    """Of Arrow, Parquet, polars and DuckDB, field by field of a release with every type."""
    write_release(tmp_path, made(1, 40, lasting=True))
    assert cli.main(["export", str(tmp_path), "--to", "parquet"]) == 0
    (path, *_) = sorted((tmp_path / "export.parquet").rglob("*.parquet"))
    schema = pyarrow.parquet.read_schema(path)
    columns = pyarrow.parquet.ParquetFile(path).schema
    parquet = {columns.column(place).name: columns.column(place) for place in range(len(columns))}
    frame = polars.read_parquet(path)
    kinds = dict(row[:2] for row in duckdb.sql(f"describe from '{path}'").fetchall())
    rows = re.findall(r"^\| (.*) \|$", PAGE.read_text().split("## Types")[1], re.MULTILINE)
    told = {row.split(" | ")[0]: row.split(" | ") for row in rows[1:]}
    fields = {
        "`int`, `long`": ("age_min", "count"),
        "`float`, `double`": ("weight_max", "score"),
        "`decimal(p,s)`": ("amount", "income_min"),
        "`date`": ("day", "born_mid"),
        "`timestamp`": ("moment", "seen_min"),
        "times of day": ("at",),
        "`string`, UUIDs": ("note", "uid", "gender"),
        "`boolean`": ("flag", "age_nulls"),
        "bytes": ("raw",),
    }
    assert set(told) == set(fields)
    for name, some in fields.items():
        _, arrow, in_parquet, in_polars, in_duckdb, _ = told[name]
        for field in some:
            kind = str(schema.field(field).type).split("[")[0].split("(")[0]
            assert kind in arrow, field
            logical = str(parquet[field].logical_type).split("(")[0].upper()
            physical = parquet[field].physical_type
            assert {"NONE": physical}.get(logical, logical) in in_parquet, field
            assert str(frame.schema[field]).split("(")[0] in in_polars, field
            assert kinds[field].split("(")[0] in in_duckdb, field
    # Spark reads times of day that are not adjusted to UTC, and no others.
    assert "isAdjustedToUTC=false" in str(parquet["at"].logical_type)
    assert "isAdjustedToUTC=true" in str(parquet["moment"].logical_type)


def test_the_parquet_of_a_release_is_what_the_page_says(tmp_path: Path) -> None:
    """Row by row of the table of nested forms, on a release with every type; the one key of its metadata."""
    columns = pyarrow.parquet.ParquetFile(
        write_release(tmp_path, made(1, 40, lasting=True), suffix=".parquet")
    )
    leaves = {columns.schema.column(place).path: columns.schema.column(place) for place in range(36)}
    assert len(columns.schema) == 36
    section = PAGE.read_text().split("## Releases that are Parquet themselves")[1].split("## Types")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)][1:]
    told = {row[0]: row[2] for row in rows}
    fields = {
        "a range": ("age.nulls",),
        "a set": ("gender.list.element", "kids.list.element"),
        "a label of a hierarchy": ("job",),
        "`release_id`, the numbers of `publish_member` and `publish_group`; `class_id`": (
            "release_id",
            "class_id",
        ),
        "`window_start`, `window_end`": ("window_start", "window_end"),
        "`int`, `long`, `float`, `double`, `boolean`": ("age.min", "count", "weight.max", "score", "flag"),
        "`string` and UUIDs; bytes": ("note", "uid", "raw"),
        "`decimal(p,s)`": ("amount", "income.min"),
        "`date`; times of day": ("day", "born.min", "at"),
        "`timestamp`": ("moment", "seen.min"),
    }
    assert set(told) == set(fields)
    for name, paths in fields.items():
        for path in paths:
            leaf = leaves[path]
            if path.endswith(".list.element"):
                # A list that has elements is the first level of definition, an element that is there the second.
                assert (leaf.max_repetition_level, leaf.max_definition_level) == (1, 2)
                assert told[name] == "LIST, its elements optional"
                continue
            logical = str(leaf.logical_type).split("(")[0].upper()
            assert {"NONE": leaf.physical_type}.get(logical, logical) in told[name], path
            required = leaf.max_definition_level == 0
            assert required == ("required" in told[name]), path
    assert "isAdjustedToUTC=false" in str(leaves["at"].logical_type)
    assert "timeUnit=microseconds" in str(leaves["moment"].logical_type)
    assert "timeUnit=milliseconds" in str(leaves["seen.min"].logical_type)
    assert list(columns.metadata.metadata) == [b"kanonflow.schema"]


def test_the_figures_of_formats_are_those_that_were_measured() -> None:
    """Of the benchmark's results, on the page and in the decision."""
    found = json.loads((ROOT / "benchmarks" / "results" / "release_formats.json").read_text())
    (section,) = re.findall(r"What it comes to, Parquet to Avro.*?\n\n", PAGE.read_text(), re.DOTALL)
    for data, told in (
        ("sparkov", ("bytes 0.69", "encoding 0.35", "`read_release` 0.033", "`verify` 0.94")),
        ("complete_journey", ("1.02", "0.36", "0.062", "0.96")),
    ):
        for what, text in zip(("bytes", "encode", "read_release", "verify"), told, strict=True):
            assert text in section
            number = float(text.split()[-1])
            rows = [row for row in found["tables"][0]["rows"] if row["data"] == data]
            (exact,) = [
                row["ratio"]
                for row in rows
                if row["what"].startswith(what) and (what != "bytes" or row["what"].endswith("all"))
            ]
            assert exact == pytest.approx(number, rel=0.03)


def test_the_figures_are_those_that_were_measured() -> None:
    """Of the benchmark's results: its claims about errors, and that every truth was within its bounds."""
    found = json.loads((ROOT / "benchmarks" / "results" / "using_releases.json").read_text())
    errors, _, groups, _ = (table["rows"] for table in found["tables"])
    assert {row["data"] for row in errors} == {"sparkov", "complete_journey"}
    for row in (*errors, *groups):
        inside, _, of = row["within"].split()
        assert inside == of
    by_what = {what: [row for row in errors if row["what"] == what] for what in ("count", "mean")}
    assert all(0.02 <= row["median"] < 0.025 and row["queries"] == 400 for row in by_what["count"])
    assert all(0.008 < row["median"] < 0.02 for row in by_what["mean"])
    assert sorted(round(row["naive median"], 2) for row in by_what["count"]) == [0.1, 0.16]
    assert sorted(round(row["naive median"], 2) for row in by_what["mean"]) == [0.01, 0.04]
    assert [round(row["worst"], 2) for row in by_what["count"]] == [0.83, 0.64]


def worth_rows(data: str, title: str) -> list[dict[str, Any]]:
    """A table of what releases of a data set are worth, by the beginning of its title."""
    record = json.loads((ROOT / "benchmarks" / "results" / f"worth_releases_{data}.json").read_text())
    (rows,) = (table["rows"] for table in record["tables"] if table["title"].startswith(title))
    return list(rows)


def test_the_table_of_what_releases_are_worth_is_that_of_its_benchmark() -> None:
    """Line by line: raw rows, all releases at k = 5, ours at 10 and histograms with noise; and in how many cells of our
    modes middles are better than ``estimate`` and ``impute``."""
    text = PAGE.read_text()
    section = text.split("## What a release is worth")[1].split("\n## ")[0]
    told = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in section.splitlines()
        if line.startswith(tuple(f"| {name} |" for name in WORTH_OF))
    ]
    assert told == [
        tuple("-" if cell is None else str(cell) for cell in row.values())
        for data in WORTH_OF
        for row in worth_rows(data, "What each release is worth")
        if row["k"] in (None, 5) or (row["k"] == 10 and row["release"] in OURS)
    ]
    cells = [row for data in WORTH_OF for row in worth_rows(data, "As estimate") if row["release"] in OURS]
    counted = dict.fromkeys(("misplaced", "trends", "missed", "AUC gap"), 0)
    for row in cells:
        for name in row["middles are better in"].split(", "):
            if name != "none":
                counted[name] += 1
    asked = sum(row["trends"] is not None for row in cells)
    said = (
        f"Of {len(cells)} dashboards of our modes, {counted['misplaced']} were better by middles; of {asked} sets of"
        f" trends {counted['trends']}, of {len(cells)} top lists {counted['missed']}, of {len(cells)} models"
        f" {counted['AUC gap']}"
    )
    assert said in " ".join(section.split())


def test_what_is_said_of_k_10_beside_others_at_smaller_k_was_measured() -> None:
    """The sentence of the benchmark's table about Adult, with its intervals."""
    section = " ".join(PAGE.read_text().split("## What a release is worth")[1].split("\n## ")[0].split())
    for row in worth_rows("adult", "Adult: ours"):
        for name in ("AUC, ours less its", "inference, rare", "its"):
            assert row[name] in section, (row["rival"], row["its k"], name)


def test_trends_are_said_to_be_off_by_what_was_measured() -> None:
    """Of cohorts that last at k = 5, on both feeds; and by rows, where they can be read."""
    section = " ".join(PAGE.read_text().split("\n## Trends")[1].split("\n## ")[0].split())
    for data in WORTH_OF[:2]:
        for row in worth_rows(data, "What each release is worth"):
            if row["k"] == 5 and row["release"] in OURS:
                assert row["trends"] in section, (data, row["release"])


def test_what_answers_take_and_how_often_plausible_intervals_hold_was_measured() -> None:
    """Processor time of ``using_releases``, coverage of ``plausible``: from the least release to the best."""
    text = " ".join(PAGE.read_text().split())
    results = ROOT / "benchmarks" / "results"
    speed = json.loads((results / "using_releases.json").read_text())["tables"][-1]["rows"]
    (taken,) = (
        row["seconds, CPU"]
        for row in speed
        if row["data"] == "sparkov" and row["step"].startswith("400 queries")
    )
    assert f"400 random queries over all of sparkov {taken:.0f} s of processor time" in text
    held = json.loads((results / "plausible.json").read_text())["tables"][0]["rows"]

    def range_of(what: str, data: str, k: int) -> str:
        shares = [row["held, %"] for row in held if (row["what"], row["data"], row["k"]) == (what, data, k)]
        low, high = round(min(shares)), round(max(shares))
        return f"{low}%" if low == high else f"{low} to {high}%"

    five, ten = ({what: range_of(what, "complete_journey", k) for what in QUESTIONS} for k in (5, 10))
    assert (
        f"counts {five['count']}, sums {five['sum']}, means {five['mean']}, quantiles {five['quantile']}; k = 10,"
        f" the same feed: counts and sums {ten['count']}, means {ten['mean']}, quantiles {ten['quantile']}; Adult, held"
        f" out: counts {range_of('count', 'adult', 5)}"
    ) in text
    assert ten["sum"] == ten["count"]
    assert range_of("count", "adult", 10) == range_of("count", "adult", 5)
