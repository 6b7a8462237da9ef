"""Benchmarks of S4: a made-up Adult goes through them, and their own arithmetic is that of slow twins."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import category_order, kab_search, kab_tables, kab_variants
from benchmarks.adult_taxonomies import CATEGORICAL, EDUCATION, Adult
from benchmarks.data_sets import ADULT, VARIABLE
from benchmarks.paper_page import NOT_RUN, Results
from benchmarks.paper_page_s4 import PAGE
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.clusterings import CLUSTERINGS, individual_input
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import gather_individuals
from tests.mixed_tables import tree_heights, tree_paths

pytestmark = pytest.mark.thorough

TREES = {name: [f"{name}{leaf};{leaf % 2};*" for leaf in range(5)] for name in CATEGORICAL}


@pytest.fixture
def adult_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """240 made-up people with hierarchies beside them."""
    path = tmp_path / "data" / ADULT.file
    (path.parent / "hierarchies").mkdir(parents=True)
    for name, lines in TREES.items():
        file = path.parent / "hierarchies" / f"adult_hierarchy_{name}.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([*CATEGORICAL, "age", "education", "salary-class"])
        for _ in range(240):
            leaves = np.minimum(rng.geometric(0.5, len(CATEGORICAL)), 5) - 1
            texts = [f"{name}{leaf}" for name, leaf in zip(CATEGORICAL, leaves, strict=True)]
            school, income = rng.choice(EDUCATION), rng.choice(["<=50K", ">50K"])
            writer.writerow([*texts, int(rng.integers(17, 91)), school, income])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    return path


def test_taxonomies_cost_what_the_paper_says(adult_file: Path) -> None:
    """Eq. 1, 2 and 7 from the rows of the file: ranges over the domain, and leaves below the node above all values."""
    adult = Adult(adult_file, 60)
    labels = (np.arange(60) % 7).astype(np.int32)
    with adult_file.open(encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file, delimiter=";"), range(60), strict=False)]
    numbers = [[float(row["age"]), float(EDUCATION.index(row["education"]))] for row in rows]
    spans = [max(column) - min(column) for column in zip(*numbers, strict=True)]
    total = 0.0
    for label in range(7):
        members = [place for place in range(60) if labels[place] == label]
        for j, span in enumerate(spans):
            held = [numbers[place][j] for place in members]
            total += len(members) * (max(held) - min(held)) / span
        for name in CATEGORICAL:
            leaves = {int(rows[place][name].removeprefix(name)) for place in members}
            below = 5 if len({leaf % 2 for leaf in leaves}) > 1 else (3, 2)[min(leaves) % 2]
            total += len(members) * (below / 5 if len(leaves) > 1 else 0)
    assert gcp(adult.table, Partition(labels)) == pytest.approx(total / (60 * 8))


def test_the_tables_of_s4_are_made_and_read_by_its_page(adult_file: Path, tmp_path: Path) -> None:
    """All four benchmarks on a made-up file; each line of the page that reads results then has some."""
    assert adult_file.is_file()
    results = ["--results", str(tmp_path), "--date", "2024-03-01"]
    assert kab_tables.main(["--k", "2", "5", "--rows", "120", "--sizes", "60", *results]) == 0
    assert kab_search.main(["--k", "3", "--rows", "60", "--seeds", "1", *results]) == 0
    variants = ["--k", "3", "--rows", "40", "--all-rows", "60"]
    assert kab_variants.main([*variants, *results]) == 0
    assert category_order.main(["--rows", "120", "--k", "5", "--numberings", "2", *results]) == 0
    text = PAGE.text(Results(tmp_path))
    assert NOT_RUN not in text
    lines = Results(tmp_path).rows("kab_tables", "By k", method="kab")
    assert [line["k"] for line in lines] == [2, 5]
    assert all(line["CA"] == 1 and line["GCP %"] <= line["GenTotal-IL %"] * 1.5 for line in lines)
    sizes = Results(tmp_path).rows("kab_tables", "By size", method="kab")
    assert [line["rows"] for line in sizes] == [60, 120]
    (order,) = Results(tmp_path).rows("category_order", "Mondrian", categories="sets", cut="mondrian")
    assert order["by codes, least"] <= order["by codes, mean"] <= order["by codes, largest"]
    assert json.loads((tmp_path / "kab_variants.json").read_text())["skipped"] == []


@pytest.mark.parametrize("k", [2, 3, 7])
def test_k_member_in_plain_numpy_is_the_solvers(adult_file: Path, k: int) -> None:
    """What variants are compared with; equally cheap rows may be taken in another order, so losses are compared."""
    adult = Adult(adult_file, 100)
    people = gather_individuals(adult.table)
    plain = kab_variants.labels_of(adult, k, kab_variants.Variant(), 1)
    assert np.bincount(plain).min() >= k
    solved = CLUSTERINGS["k-member"](individual_input(adult.table, people, k, 1))
    assert kab_variants.losses(adult, plain) == pytest.approx(kab_variants.losses(adult, solved), rel=0.05)


@settings(derandomize=True, max_examples=40)
@given(st.integers(0, 2**20), st.integers(8, 60), st.integers(2, 4), st.booleans())
def test_cuts_in_plain_numpy_are_the_solvers_where_there_is_one_order(
    drawn: int, n: int, k: int, relaxed: bool
) -> None:
    """Numbers have one order, and so has a single category; leaves of a hierarchy make classes of k as well."""
    rng = np.random.default_rng(drawn)
    table = Table(
        numeric=rng.integers(0, 9, (n, 2)) / 8,
        categorical=np.zeros((n, 1), dtype=np.int32),
        cardinality=np.array([3]),
        weights=np.array([1.0, 2.0, 1.0]),
    )
    name = "relaxed-mondrian" if relaxed else "mondrian"
    solved = CLUSTERINGS[name](individual_input(table, gather_individuals(table), k, 1))
    plain = category_order.cut_in_order(table, k, relaxed=relaxed)
    assert np.array_equal(plain, solved)
    paths = tree_paths(drawn, 9)
    tree = Table(
        numeric=rng.integers(0, 9, (n, 1)) / 8,
        categorical=np.empty((n, 0), dtype=np.int32),
        cardinality=np.empty(0, dtype=np.int64),
        weights=np.ones(1),
        heights=(tree_heights(paths),),
    )
    assert np.bincount(category_order.cut_in_order(tree, k, relaxed=relaxed)).min() >= k
