"""Singling out as Anonymeter measures it, which runs in an environment of its own: it wants another numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.attribute_attacks import AttributeAttacks, Sides
from kanonflow.pipelines.assess.boxes import boxes_and_people
from kanonflow.pipelines.assess.rates import Excess
from kanonflow.schemas.bound_policy import BoundPolicy
from tests.pipelines.assess.small_feeds import ROWS, canonical, exactly, people, policy_of, released

pytestmark = pytest.mark.thorough

VERSION = "anonymeter==1.1.0"
PROGRAM = """
import json, sys
import pandas as pd
from anonymeter.evaluators import SinglingOutEvaluator
original, flat, control = (pd.read_parquet(path) for path in sys.argv[1:4])
attack = SinglingOutEvaluator(original, flat, n_attacks=500, n_cols=3, control=control, seed=1, max_attempts=50000)
risk = attack.evaluate(mode="multivariate").risk()
print(json.dumps([risk.value, *risk.ci, len(attack.queries())]))
"""
PEOPLE = 1_000


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has it."""
    folder = tmp_path_factory.mktemp("anonymeter")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", VERSION], check=True)
    return str(folder / "bin" / "python")


def _plain(table: pa.Table, bound: BoundPolicy) -> pa.Table:
    """Numbers as doubles, and texts."""
    names = [column.name for column in bound.quasis]
    numbers = {column.name for column in bound.quasis if column.in_ranges}
    types = [pa.float64() if name in numbers else pa.string() for name in names]
    columns = [table.column(name).cast(kind) for name, kind in zip(names, types, strict=True)]
    return pa.table(columns, names=names)


def _theirs(
    judge: str, folder: Path, release: ReleasedTable, sides: tuple[pa.Table, pa.Table], bound: BoundPolicy
) -> list[float]:
    paths = [folder / f"{name}.parquet" for name in ("original", "flat", "control")]
    for path, table in zip(paths, (sides[0], release.flat(Flat.MID), sides[1]), strict=True):
        pa.parquet.write_table(_plain(table, bound), path)
    ran = subprocess.run(
        [judge, "-c", PROGRAM, *paths], check=True, capture_output=True, text=True, cwd=folder
    )
    numbers: list[float] = json.loads(ran.stdout.splitlines()[-1])
    return numbers


@pytest.mark.parametrize(("k", "share"), [(5, 0.0), (2, 0.0), (5, 0.3), (5, 1.0)])
def test_our_figure_is_that_of_anonymeter(judge: str, tmp_path: Path, k: int, share: float) -> None:
    """On the same flat release, people and controls: each figure lies in the other's interval, or they are .03 apart.

    share: rows that are released under their own values.
    """
    policy = policy_of(ROWS.replace("k: 40", f"k: {k}"), tmp_path)
    bound, rows = canonical(list(people(PEOPLE, 1)), policy)
    controls = canonical(list(people(PEOPLE, 2, first=PEOPLE)), policy)[1]
    release = exactly(rows, bound, share) if share else released(rows, bound)
    both = boxes_and_people(release, pa.concat_tables([rows, controls]), bound)
    sides = Sides(np.arange(PEOPLE), PEOPLE + np.arange(PEOPLE))
    ours = Excess(*AttributeAttacks(both, sides, k, 1).singling_out(several=True))
    figure, low, high, _ = _theirs(judge, tmp_path, release, (rows, controls), bound)
    assert ours.enough
    assert low - 0.03 <= ours.figure <= high + 0.03, (ours, figure, low, high)
    assert ours.interval[0] - 0.03 <= figure <= ours.interval[1] + 0.03, (ours, figure)
    if share == 1.0:
        assert ours.figure > 0.5
