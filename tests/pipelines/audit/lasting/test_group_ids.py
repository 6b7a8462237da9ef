"""``publish_group`` before the audit: honest ids pass, and each planted fault is found, as far as it can be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.schemas.release_format import ReleaseFormat
from tests.pipelines.audit.good_runs import read, write
from tests.pipelines.audit.lasting_runs import BY_SHOP, POLICY, LastingRun, make_run

pytestmark = pytest.mark.thorough

Row = dict[str, Any]
GROUP = "cohort: lasting\npublish_group: {members: people, accept_risk: a test}\n"
WITH = POLICY.replace("cohort: lasting\n", GROUP)
OTHER = "0123456789abcdef"


@pytest.fixture(scope="module", params=ReleaseFormat)
def good_run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LastingRun:
    """Six days of 48 people under ids of groups."""
    return make_run(tmp_path_factory.mktemp("groups") / "run", policy=WITH, release_format=request.param)


@pytest.fixture
def run(good_run: LastingRun, tmp_path: Path) -> LastingRun:
    """A copy of it, to be spoiled."""
    shutil.copytree(good_run.out.parent, tmp_path / "run")
    folder = tmp_path / "run"
    return LastingRun(folder / "policy.yaml", folder / "rows.csv", folder / "out")


def change(run: LastingRun, of: Callable[[Row, int], Row]) -> None:
    """Other cells in rows. of: row and release -> what is other."""
    for place, path in enumerate(run.releases):
        schema, rows = read(path)
        write(path, schema, [row | of(row, place) for row in rows])


def found(run: LastingRun, says: str, *, secret: bool) -> None:
    told = run.judged(secret=secret).failures
    assert any(says in each for each in told), told


def ids_of(run: LastingRun, place: int) -> list[str]:
    return sorted({row["group_id"] for row in read(run.releases[place])[1]})


@pytest.mark.parametrize("secret", [False, True])
def test_an_honest_run_with_ids_passes(good_run: LastingRun, secret: bool) -> None:
    """And the report says what was done with them; groups of several releases have one id."""
    report = good_run.judged(secret=secret)
    assert report.failures == ()
    everywhere = [name for place in range(len(good_run.releases)) for name in ids_of(good_run, place)]
    assert len(set(everywhere)) < len(everywhere)
    assert report.figures.ids_told == (len(set(everywhere)) if secret else None)
    assert any("the id that the secret gives their cohorts" in line for line in report.checked) == secret
    assert any(line.startswith("that ids of groups are") for line in report.not_checked) != secret


def test_ids_of_partitions_pass(tmp_path: Path) -> None:
    """A partition is in the id, and a late row is in a group like others."""
    shops = make_run(tmp_path / "shops", policy=BY_SHOP.replace("cohort: lasting\n", GROUP))
    for secret in (True, False):
        assert shops.judged(secret=secret).failures == ()


@pytest.mark.parametrize("secret", [False, True])
def test_what_shows_without_the_secret(run: LastingRun, secret: bool) -> None:
    """An id twice in a release; rows of a group that differ; a number that is no multiple of k."""
    first, second = ids_of(run, 0)[:2]
    change(run, lambda row, place: {"group_id": first} if (row["group_id"], place) == (second, 0) else {})
    found(run, "have the id of another of their release", secret=secret)
    found(run, "have the id of another box", secret=secret)


def test_rows_of_a_group_have_one_id(run: LastingRun) -> None:
    """And one number of people."""
    seen: set[int] = set()

    def first_row(row: Row, place: int) -> Row:
        new = row["class_id"] not in seen
        seen.add(row["class_id"])
        return {"group_id": OTHER, "people": row["people"] + 5} if new else {}

    change(run, first_row)
    found(run, "field group_id: ", secret=False)
    found(run, "field people: ", secret=False)


@pytest.mark.parametrize(
    ("people", "says"),
    [(lambda told: told + 1, "no multiple of k"), (lambda told: told * 40, "more people than the cohorts")],
)
def test_people_who_are_not_there(run: LastingRun, people: Callable[[int], int], says: str) -> None:
    """Without the secret."""
    change(run, lambda row, place: {"people": people(row["people"])})
    found(run, says, secret=False)


def test_people_other_than_those_of_the_cohorts(run: LastingRun) -> None:
    """Fewer than there are: who follows groups to their cohorts sees it."""
    k = 3
    sizes = {row["people"] for path in run.releases for row in read(path)[1]}
    assert max(sizes) > k
    change(run, lambda row, place: {"people": k})
    found(run, "have another number of people than their cohorts", secret=True)


def test_an_id_that_is_another_in_another_release(run: LastingRun) -> None:
    """With the secret people are followed, so one set has one id; and the id is the one it gives."""
    turned = {name: f"{int(name, 16) ^ 0x5555555555555555:016x}" for name in ids_of(run, 1)}
    change(run, lambda row, place: {"group_id": turned[row["group_id"]]} if place == 1 else {})
    found(run, "have another id than the same cohorts elsewhere", secret=True)
    found(run, "have an id that the secret does not give their cohorts", secret=True)


def test_ids_that_count(run: LastingRun) -> None:
    """Small numbers say an order."""
    everything = sorted({name for place in range(len(run.releases)) for name in ids_of(run, place)})
    number = {name: f"{place:016x}" for place, name in enumerate(everything, 1)}
    change(run, lambda row, place: {"group_id": number[row["group_id"]]})
    found(run, "ids of groups count or name something", secret=False)


def test_cells_that_are_no_ids(run: LastingRun) -> None:
    """Text of another form."""
    change(run, lambda row, place: {"group_id": "everybody"})
    found(run, "cells that are no 16 hex digits", secret=False)
