"""The benchmark of S0's tables: it runs on generated data alone, and says what it lacks."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import paper_tables, segments, small_example
from benchmarks.data_sets import VARIABLE
from benchmarks.generated_tables import census_table, wide_table
from benchmarks.paper_runs import improvement
from kanonflow.solvers.units.distinct_rows import group_rows

pytestmark = pytest.mark.thorough

SMALL = "--rows 30 40 --sil-rows 30 --optimum-rows 40 --k 3 --seeds 1 2 --times 0.01 --evaluations 3000 --per-row 40"


def test_all_parts_run_without_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated tables are measured, Adult is named as skipped; every search ends no worse than its start."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert paper_tables.main(["--results", str(tmp_path), "--date", "2024-03-01", *SMALL.split()]) == 0
    record = json.loads((tmp_path / "paper_tables.json").read_text())
    assert any("adult" in line for line in record["skipped"])
    tables = {table["title"]: table["rows"] for table in record["tables"]}
    lines = tables["GCP of heuristics, and of local searches from them"]
    assert {line["data"] for line in lines} == {"wide-23", "census-4"}
    assert all(line["S0 GCP"] <= line["GCP"] and line["ours GCP"] <= line["GCP"] + 1e-9 for line in lines)
    readings = tables["SIL of heuristics, and of local searches from them"]
    assert len({line["reading of eq. 7"] for line in readings}) == 4
    assert (tmp_path / "paper_tables_anytime_census-4.svg").read_text().startswith("<svg")


def test_single_parts_leave_the_whole_result_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files are named after them."""
    monkeypatch.delenv(VARIABLE, raising=False)
    small = ["--parts", "perturbation", "--data", "census-4", *SMALL.split()]
    assert paper_tables.main(["--results", str(tmp_path), *small]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "paper_tables_perturbation.json",
        "paper_tables_perturbation.md",
    ]


def test_l_greedy_chooses_the_same_with_and_without_increments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fig. 4 compares two ways to the same classes; a name of its own keeps other results."""
    monkeypatch.delenv(VARIABLE, raising=False)
    part = ["--parts", "l-greedy", "--name", "four", "--rows", "60", "90", "--data", "wide-23", "census-4"]
    assert paper_tables.main(["--results", str(tmp_path), *part]) == 0
    (table,) = json.loads((tmp_path / "four.json").read_text())["tables"]
    assert [(line["data"], line["rows"], line["same classes"]) for line in table["rows"]] == [
        (name, rows, True) for name in ("wide-23", "census-4") for rows in (60, 90)
    ]


def test_longer_segments_lose_less(tmp_path: Path) -> None:
    """Sorted blocks alone lose most, by both orders each cell is measured."""
    given = ["--rows", "60", "--k", "3", "--columns", "0", "500", "--results", str(tmp_path)]
    assert segments.main(given) == 0
    (table,) = json.loads((tmp_path / "segments.json").read_text())["tables"]
    losses = {(line["data"], line["variance"], line["columns"]): line["GCP"] for line in table["rows"]}
    assert len(losses) == 6
    for data in ("census-4", "even"):
        assert losses[data, "ascending", 500] < losses[data, "ascending", 0]


def test_the_example_of_s2_is_measured(tmp_path: Path) -> None:
    """The printed graph is one; no graph is below the bound."""
    assert small_example.main(["--results", str(tmp_path)]) == 0
    (table,) = json.loads((tmp_path / "small_example.json").read_text())["tables"]
    by = {line["graph"]: line["to the printed"] for line in table["rows"]}
    assert by[small_example.PRINTED_NAME] == 1
    assert min(by.values()) == pytest.approx(by["proven bound"], abs=1e-9)


def test_generated_tables_are_seeded_and_have_their_shape() -> None:
    """Equal for equal seeds; the census set is mostly duplicates, the wide one has none; all columns fill [0, 1]."""
    for make, width in ((census_table, 4), (wide_table, 23)):
        table = make(2_000, 3)
        assert np.array_equal(table.numeric, make(2_000, 3).numeric)
        assert not np.array_equal(table.numeric, make(2_000, 4).numeric)
        assert table.numeric.shape == (2_000, width)
        assert np.ptp(table.numeric, axis=0) == pytest.approx(1.0)
    assert group_rows(census_table(2_000, 3)).weight.size < 1_000
    assert group_rows(wide_table(2_000, 3)).weight.size == 2_000


def test_improvement_is_relative_to_the_start() -> None:
    """S0, eq. 9, in percent; nothing can be improved on no loss."""
    assert improvement(0.04, 0.03) == pytest.approx(25.0)
    assert improvement(0.0, 0.0) == 0.0
