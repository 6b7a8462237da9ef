"""Adult as S4 takes it: age and education are numbers, six attributes have taxonomies, the income is what to predict.

The taxonomies of the paper are not printed. Ours are the files of ARX that stand beside the data: sex and race have
the root above their values, work class, marital status, occupation and country one level between.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_file import read_hierarchy
from kanonflow.solvers.loss.class_measures import Height
from kanonflow.solvers.problem.table import Table

ALL_ROWS = 30_162
NUMERIC = ("age", "education")
CATEGORICAL = ("workclass", "marital-status", "occupation", "race", "sex", "native-country")
# From the least to the most schooling, as the census numbers them.
EDUCATION = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip


class Adult:
    """The first rows of the file. Domains of numbers are those of the rows taken, those of taxonomies their leaves.

    table: each taxonomy priced by the leaves below the lowest node above some values (S4, eq. 2). sets: the same rows
    with sets of values in the place of taxonomies, as GenTotal-IL counts them. heights: of each taxonomy the share of
    its height at which codes of ``sets`` meet. income: int64 (n,), the class label. numbers: float64 (n, 2), age and
    rank of education as they are. relined: gives each taxonomy's file another order of lines.
    """

    def __init__(
        self, path: Path, rows: int, relined: Callable[[Hierarchy], Hierarchy] | None = None
    ) -> None:
        with path.open(encoding="utf-8", newline="") as file:
            records = [row for row, _ in zip(csv.DictReader(file, delimiter=";"), range(rows), strict=False)]
        folder = path.parent / "hierarchies"
        files = [folder / f"adult_hierarchy_{name}.csv" for name in CATEGORICAL]
        self.taxonomies = [read_hierarchy(source) for source in files]
        if relined is not None:
            self.taxonomies = [relined(taxonomy) for taxonomy in self.taxonomies]
        self.numbers = np.array(
            [(float(record["age"]), EDUCATION.index(record["education"])) for record in records]
        )
        scaled = np.stack([_scaled(column) for column in self.numbers.T], axis=1)
        self.heights: list[Height] = []
        leaves, codes, sizes = [], [], []
        for name, taxonomy, source in zip(CATEGORICAL, self.taxonomies, files, strict=True):
            texts = [record[name] for record in records]
            place = dict(zip(taxonomy.leaves, taxonomy.places.tolist(), strict=True))
            leaves.append(np.array([place[text] for text in texts]) / max(len(place) - 1, 1))
            domain, column = np.unique(texts, return_inverse=True)
            codes.append(column)
            sizes.append(domain.size)
            self.heights.append(hierarchy_height(source, domain.tolist()))
        self.table = Table(
            numeric=np.concatenate([scaled, np.stack(leaves, axis=1)], axis=1),
            categorical=np.empty((len(records), 0), dtype=np.int32),
            cardinality=np.empty(0, dtype=np.int64),
            weights=np.ones(len(NUMERIC) + len(CATEGORICAL)),
            heights=(None, None, *(taxonomy.heights for taxonomy in self.taxonomies)),
        )
        self.sets = Table(
            numeric=scaled,
            categorical=np.stack(codes, axis=1).astype(np.int32),
            cardinality=np.array(sizes),
            weights=self.table.weights,
        )
        self.income = np.array([record["salary-class"] == ">50K" for record in records]).astype(np.int64)


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.min()) / max(float(np.ptp(values)), 1.0)


def hierarchy_height(path: Path, domain: Sequence[str]) -> Height:
    """Share of the tree's height at which codes of ``domain`` meet. path: CSV with ``;``, leaf first, root last."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = {row[0]: row for row in csv.reader(file, delimiter=";") if row}
    levels = np.array([lines[value] for value in domain])
    top = levels.shape[1] - 1

    def height(codes: NDArray[np.int32]) -> float:
        if codes.size < 2:
            return 0.0
        return next(level for level in range(top + 1) if np.unique(levels[codes, level]).size == 1) / top

    return height
