"""The lattice benchmark: its tables are the same every time, and it runs without the data sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import lattices
from benchmarks.data_sets import VARIABLE
from benchmarks.lattice_tables import TAX_ROWS, cargo_lattice, tax_lattice

pytestmark = pytest.mark.thorough


def test_the_tax_table_is_the_same_every_time_and_has_four_kinds() -> None:
    """1,600 rows; numbers by ranges, dates, strings by stars, places; more attributes leave the first as they are."""
    lattice, wider = tax_lattice(5), tax_lattice(7)
    assert lattice.records == TAX_ROWS
    assert np.array_equal(lattice.values, wider.values[:, :5])
    assert lattice.top[1] == 3
    assert lattice.top[4] == 2
    assert all(int(table.sizes[-1]) == 1 for table in lattice.tables)


def test_cargo_is_read_by_ranges(tmp_path: Path) -> None:
    """Widths of 5, 10, 50, ... as far as the values reach, then everything."""
    path = tmp_path / "cargo.csv"
    path.write_text("a,b\n3,120\n4,7\n12,0\n")
    lattice = cargo_lattice(path, 2)
    assert lattice.top == (3, 5)
    assert lattice.tables[0].codes.tolist() == [[0, 1, 2], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_runs_without_data_and_says_what_it_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tax table is measured; the data sets are named as skipped."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(lattices, "TAX_ATTRIBUTES", 6)
    assert lattices.main(["--sizes", "3", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name in ("cargo2000", "adult", "sparkov"):
        assert f"{name}: skipped" in said
    record = json.loads((tmp_path / "lattices.json").read_text())
    exact = [row for row in record["tables"][0]["rows"] if row["method"] in ("ola", "exhaustive")]
    assert {row["attributes"] for row in exact} == {3, 6}
    for size in (3, 6):
        assert len({(row["LOG"], row["solutions"]) for row in exact if row["attributes"] == size}) == 1
    worse = {row["what"]: row["found"] for row in record["tables"][1]["rows"]}
    assert worse["Tax: kgen never worse than random search"] is True
