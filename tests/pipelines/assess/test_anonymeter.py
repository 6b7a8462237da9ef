"""The three questions as Anonymeter asks them. It runs in an environment of its own: it wants another numpy."""

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
from kanonflow.pipelines.assess.payload_values import payload_values
from kanonflow.pipelines.assess.rates import Excess
from kanonflow.schemas.bound_policy import BoundPolicy
from tests.pipelines.assess.small_feeds import ROWS, canonical, exactly, people, policy_of, released

pytestmark = pytest.mark.thorough

VERSION = "anonymeter==1.1.0"
PROGRAM = """
import json, sys
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
original, flat, control = (pd.read_parquet(path) for path in sys.argv[1:4])
quasis, halves, secret = json.loads(sys.argv[4])
alone = SinglingOutEvaluator(
    original[quasis], flat[quasis], n_attacks=500, n_cols=3, control=control[quasis], seed=1, max_attempts=50000
).evaluate(mode="multivariate").risk()
links = [
    LinkabilityEvaluator(original, flat, half, n_attacks=500, control=control).evaluate(n_jobs=1).risk()
    for half in halves
]
guessed = InferenceEvaluator(
    original, flat, quasis, secret, n_attacks=500, control=control
).evaluate(n_jobs=1).risk()
mean = lambda values: sum(values) / len(values)
linked = [mean([risk.value for risk in links]), *(mean([risk.ci[end] for risk in links]) for end in (0, 1))]
print(json.dumps({
    "singling out": [alone.value, *alone.ci], "linkability": linked, "inference": [guessed.value, *guessed.ci],
}))
"""
PEOPLE = 1_000
SECRET_FIELD = "taste"
HALVES = ((("age", "sex"), ("height", "area", "town")), (("area", "age"), ("height", "sex", "town")))
Figure = tuple[float, float, float]
"""With the ends of its interval."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has it."""
    folder = tmp_path_factory.mktemp("anonymeter")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", VERSION], check=True)
    return str(folder / "bin" / "python")


def _plain(table: pa.Table, bound: BoundPolicy) -> pa.Table:
    """Numbers as doubles, and texts."""
    names = [*(column.name for column in bound.quasis), SECRET_FIELD]
    numbers = {column.name for column in bound.quasis if column.in_ranges}
    types = [pa.float64() if name in numbers else pa.string() for name in names]
    columns = [table.column(name).cast(kind) for name, kind in zip(names, types, strict=True)]
    return pa.table(columns, names=names)


def _theirs(
    judge: str, folder: Path, release: ReleasedTable, sides: tuple[pa.Table, pa.Table], bound: BoundPolicy
) -> dict[str, Figure]:
    paths = [folder / f"{name}.parquet" for name in ("original", "flat", "control")]
    for path, table in zip(paths, (sides[0], release.flat(Flat.MID), sides[1]), strict=True):
        pa.parquet.write_table(_plain(table, bound), path)
    asked = json.dumps([[column.name for column in bound.quasis], HALVES, SECRET_FIELD])
    ran = subprocess.run(
        [judge, "-c", PROGRAM, *paths, asked], check=True, capture_output=True, text=True, cwd=folder
    )
    return {name: tuple(figure) for name, figure in json.loads(ran.stdout.splitlines()[-1]).items()}


def _ours(release: ReleasedTable, sides: tuple[pa.Table, pa.Table], bound: BoundPolicy) -> dict[str, Excess]:
    both = pa.concat_tables(sides)
    attacks = AttributeAttacks(
        boxes_and_people(release, both, bound),
        Sides(np.arange(PEOPLE), PEOPLE + np.arange(PEOPLE)),
        bound.policy.k,
        1,
    )
    (column,) = (each for each in bound.payload if each.name == SECRET_FIELD)
    taste = payload_values(column, release.arrow().column(SECRET_FIELD), both.column(SECRET_FIELD))
    ((_, *guessed),) = attacks.inference([taste], np.arange(2 * PEOPLE))
    linked = attacks.linkability()
    assert linked is not None
    return {
        "singling out": Excess(*attacks.singling_out(several=True)),
        "linkability": Excess(*linked),
        "inference": Excess(*guessed),
    }


@pytest.mark.parametrize(("k", "share"), [(5, 0.0), (5, 0.3), (5, 1.0)])
def test_our_figure_is_that_of_anonymeter(judge: str, tmp_path: Path, k: int, share: float) -> None:
    """On the same flat release, people and controls: each figure lies in the other's interval, or they are .03 apart.

    So of singling out and linking. Inferring never says less: ours weighs all boxes that hold a person, theirs takes
    one row. Of people's own values as boxes all is found by both; there halves differ in how many they link.
    share: rows that are released under their own values.
    """
    policy = policy_of(ROWS.replace("k: 40", f"k: {k}"), tmp_path)
    bound, rows = canonical(list(people(PEOPLE, 1)), policy)
    controls = canonical(list(people(PEOPLE, 2, first=PEOPLE)), policy)[1]
    release = exactly(rows, bound, share) if share else released(rows, bound)
    sides = rows, controls
    ours, theirs = _ours(release, sides, bound), _theirs(judge, tmp_path, release, sides, bound)
    for question, (figure, low, high) in theirs.items():
        mine = ours[question]
        assert mine.enough
        assert mine.figure >= low - 0.03, (question, mine, figure, low, high)
        if question == "singling out" or (question == "linkability" and share < 1.0):
            assert mine.figure <= high + 0.03, (question, mine, figure, low, high)
            assert mine.interval[0] - 0.03 <= figure <= mine.interval[1] + 0.03, (question, mine, figure)
        if share == 1.0:
            assert mine.figure > 0.4, question
