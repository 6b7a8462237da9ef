"""Faults in classes that no secret is needed to see, and exchanges that only following groups shows."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.files.release_files import release_reader
from kanonflow.pipelines.audit.records.record_file import keyed
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.release_format import ReleaseFormat
from tests.pipelines.audit.good_runs import change_record, change_rows, read
from tests.pipelines.audit.lasting_runs import HEADER, LastingRun, cohort_of, lines, make_run, owner_of

pytestmark = pytest.mark.thorough

Rows = list[dict[str, Any]]
SIZES = (5, 10, 20)


def few_values(count: int) -> list[str]:
    """The feed's rows with a payload of so many distinct values."""
    told = []
    for place, line in enumerate(lines(moves=False)):
        cells = line.split(",")
        told.append(",".join([*cells[:7], "1.0", f"n{place * 7 % count}", "", cells[10]]))
    return told


@pytest.fixture(scope="module", params=ReleaseFormat)
def good_run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LastingRun:
    """Six days of 48 people whose payload has five values."""
    return make_run(tmp_path_factory.mktemp("floor") / "run", few_values(5), release_format=request.param)


@pytest.fixture(scope="module")
def numbered_run(tmp_path_factory: pytest.TempPathFactory) -> LastingRun:
    """The same with the payload that tells each row, so that a test knows whose it is."""
    return make_run(tmp_path_factory.mktemp("numbered") / "run")


@pytest.fixture
def told_run(numbered_run: LastingRun, tmp_path: Path) -> LastingRun:
    """A copy of the run whose rows are told, to be spoiled."""
    return copied(numbered_run, tmp_path)


@pytest.fixture
def run(good_run: LastingRun, tmp_path: Path) -> LastingRun:
    """A copy of the good run, to be spoiled."""
    return copied(good_run, tmp_path)


def copied(run: LastingRun, place: Path) -> LastingRun:
    """A copy below ``place``."""
    shutil.copytree(run.out.parent, place / "run")
    folder = place / "run"
    return LastingRun(folder / "policy.yaml", folder / "rows.csv", folder / "out")


def found(report: AuditReport, says: str) -> None:
    """The audit says this."""
    assert any(says in failure for failure in report.failures), report.failures
    assert report.verdict == "failed"


def largest(rows: Rows) -> Rows:
    """The rows of the largest class."""
    (number, _), *_ = Counter(row["class_id"] for row in rows).most_common()
    return [row for row in rows if row["class_id"] == number]


def alone(rows: Rows) -> None:
    largest(rows)[0]["class_id"] += 123_456_789_012_345


@pytest.mark.parametrize("secret", [False, True])
def test_a_class_of_one_row_is_found(run: LastingRun, secret: bool) -> None:
    """Also without the secret, and with it where payload repeats."""
    change_rows(run.releases[-1], alone)
    found(run.judged(secret=secret), "1 groups have fewer than k = 3 rows")


def test_payloads_of_fewer_than_k_people_are_found(tmp_path: Path) -> None:
    """A class of the three rows that two people have, told by payload that does not repeat."""
    run = make_run(tmp_path / "run")
    owner = {line.split(",")[9]: line.split(",")[0] for line in run.source.read_text().splitlines()[1:]}

    def two_people(rows: Rows) -> None:
        for own in (largest(rows), rows):
            own = [row for row in rows if row["class_id"] == own[0]["class_id"]]
            twice = [name for name, times in Counter(owner[row["ref"]] for row in own).items() if times > 1]
            if len(twice) > 1:
                break
        for row in own:
            if owner[row["ref"]] in twice[:2]:
                row["class_id"] += 987_654_321_098_765

    change_rows(run.releases[-1], two_people)
    found(run.judged(secret=False), "1 groups have payloads that fewer than k = 3 people of the input bring")


def of_class(run: LastingRun, change: Callable[[dict[str, Any]], Any]) -> None:
    def spoil(rows: Rows) -> None:
        for row in largest(rows):
            change(row)

    change_rows(run.releases[-1], spoil)


def test_a_box_of_nobody_is_found(run: LastingRun) -> None:
    """A box between people: no cohort is in it, nor anybody of the input."""
    of_class(run, lambda row: row["height"].update(min=20.0, max=21.0, nulls=False))
    report = run.judged(secret=False)
    found(report, "1 groups have a box that fewer than k = 3 people of the input lie in")
    found(report, "1 groups have a box that does not hold the frozen boxes of cohorts of k = 3 people")


def test_a_box_that_is_no_hull_of_cohorts_is_found_without_the_secret(run: LastingRun) -> None:
    """One step of the grid more than any cohort in it reaches."""
    widest = max(row["age"]["min"] for row in read(run.releases[-1])[1])
    assert widest >= 5

    def wider(rows: Rows) -> None:
        number = next(row["class_id"] for row in rows if row["age"]["min"] == widest)
        for row in rows:
            if row["class_id"] == number:
                row["town"] = sorted({*row["town"], "Z"}, key=lambda each: (each is not None, each))

    change_rows(run.releases[-1], wider)
    found(run.judged(secret=False), "field town: a set with values that no record in its box has")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (lambda place, _: place, "counts or names something"),
        (lambda place, own: 2**40 + place if place else own, "comes after that of another"),
        (lambda place, own: own >> 20 << 20, "20 bits of class_id are the same in all groups"),
    ],
)
def test_numbers_that_are_not_drawn_are_found(
    number: Callable[[int, int], int], says: str, run: LastingRun
) -> None:
    """Row numbers, numbers one after the other, and numbers of fewer bits."""
    for path in run.releases:

        def rename(rows: Rows) -> None:
            places = {each: place for place, each in enumerate(sorted({row["class_id"] for row in rows}))}
            for row in rows:
                row["class_id"] = number(places[row["class_id"]], row["class_id"])

        change_rows(path, rename)
    report = run.judged(secret=False)
    found(report, says)


@pytest.mark.parametrize("by", ["rows", "cohorts", "boxes"])
@pytest.mark.parametrize("down", [False, True])
def test_numbers_in_the_order_of_something_else_are_found(by: str, down: bool, told_run: LastingRun) -> None:
    """The drawn numbers, dealt out by how many rows a group has, which cohort is its oldest, or where its box lies."""
    cohort = cohort_of(told_run)
    who = owner_of(told_run)
    scores: dict[str, Callable[[Rows], Any]] = {
        "rows": len,
        "cohorts": lambda rows: min(cohort[who[row["ref"]]] for row in rows),
        "boxes": lambda rows: (rows[0]["age"]["min"], rows[0]["height"]["min"] or 0.0),
    }
    for path in told_run.releases:

        def deal(rows: Rows) -> None:
            own: dict[int, Rows] = {}
            for row in rows:
                own.setdefault(row["class_id"], []).append(row)
            order = sorted(own, key=lambda number: scores[by](own[number]), reverse=down)
            named = dict(zip(order, sorted(own), strict=True))
            for row in rows:
                row["class_id"] = named[row["class_id"]]

        change_rows(path, deal)
    found(told_run.judged(secret=by == "cohorts"), "class_ids are in the order of")


@pytest.mark.parametrize("secret", [False, True])
def test_numbers_of_cohorts_are_found(secret: bool, told_run: LastingRun) -> None:
    """Each group is called by its oldest cohort: small, and the same in every release."""
    cohort = cohort_of(told_run)
    who = owner_of(told_run)
    for path in told_run.releases:

        def rename(rows: Rows) -> None:
            named: dict[int, int] = {}
            for row in rows:
                own = cohort[who[row["ref"]]]
                named[row["class_id"]] = min(own, named.get(row["class_id"], own))
            for row in rows:
                row["class_id"] = named[row["class_id"]]

        change_rows(path, rename)
    report = told_run.judged(secret=secret)
    found(report, "counts or names something")
    found(report, "class_id that stands in another release too")


def test_numbers_that_are_drawn_and_not_of_the_secret_are_found_by_matching_records(run: LastingRun) -> None:
    """Numbers as random as before, in the same order, in a release that its matching record vouches for."""

    def others(rows: Rows) -> None:
        for row in rows:
            row["class_id"] += 1_000

    path = run.releases[-1]
    change_rows(path, others)
    bound = bind(
        read_policy(run.policy),
        pa.schema([(name, pa.string()) for name in HEADER.split(",")]),
        text=True,
        source="rows.csv",
    )
    content = release_reader(path).content(bound)
    change_record(
        run.out / f"restricted/matching_records/{path.stem}.avro",
        lambda told: told.update(content_digest=keyed(told["digest_key"], b"c", content)),
    )
    (failure,) = run.judged(recorded=True).failures
    assert "class_ids are not those that the secret draws" in failure
    assert any("class_ids are those the secret draws" in each for each in run.judged().not_checked)


def test_another_count_of_people_is_found_with_the_secret(run: LastingRun) -> None:
    """One more or less than had rows in a release, as the public metrics would tell it too."""
    for change in (1, -1):
        path = run.out / f"restricted/metrics/{run.releases[2].stem}.avro"
        change_record(path, lambda told, change=change: told.update(individuals=told["individuals"] + change))
        found(run.judged(), "its metrics tell another individuals than the input gives")
        change_record(path, lambda told, change=change: told.update(individuals=told["individuals"] - change))
    assert run.judged().passed


def test_numbers_that_are_digests_of_places_are_found(run: LastingRun) -> None:
    """Of the place among the groups, by a function that everybody has."""
    import hashlib

    def rename(rows: Rows) -> None:
        for place, each in enumerate(sorted({row["class_id"] for row in rows})):
            digest = hashlib.sha256(str(place).encode()).digest()[:8]
            for row in rows:
                if row["class_id"] == each:
                    row["class_id"] = int.from_bytes(digest, "big", signed=True)

    change_rows(run.releases[0], rename)
    found(run.judged(secret=False), "have a class_id that is a digest anybody can work out")


# Groups that are followed


@pytest.mark.parametrize("count", SIZES)
def test_repeating_payload_is_followed_in_full(count: int, tmp_path: Path) -> None:
    """With the secret every group has one set of cohorts, whichever few values the payload has."""
    report = make_run(tmp_path / "run", few_values(count)).judged()
    assert report.verdict == "passed in full", report.render()
    assert report.figures.followed == report.figures.classes
    assert report.figures.rows_followed == report.figures.rows
    assert report.figures.people_followed == report.figures.individuals


def test_without_the_secret_it_passes_in_part(good_run: LastingRun) -> None:
    """One sentence says that nothing was followed."""
    report = good_run.judged(secret=False)
    assert report.verdict == "passed in part"
    assert report.render().startswith(
        "audit passed in part: 0.0% of the groups, 0.0% of the people and 0.0% of"
    )


def test_payloads_of_two_days_exchanged_are_found(run: LastingRun) -> None:
    """Two releases of as many rows exchange what they can: every payload value of the input is still out."""

    def payloads(rows: Rows) -> list[Any]:
        return [row["note"] for row in rows]

    *_, one, other = run.releases
    first, second = payloads(read(one)[1]), payloads(read(other)[1])
    many = min(len(first), len(second))

    def give(told: list[Any]) -> Callable[[Rows], None]:
        def spoil(rows: Rows) -> None:
            for row, note in zip(rows, told[:many], strict=False):
                row["note"] = note

        return spoil

    change_rows(one, give(second))
    change_rows(other, give(first))
    assert not run.judged().passed


def test_two_payloads_of_two_groups_exchanged_are_found(run: LastingRun) -> None:
    """Also where each value is frequent: no choice of whole cohorts has such rows."""

    def swap(rows: Rows) -> None:
        one = rows[0]
        other = next(row for row in rows if row["class_id"] != one["class_id"] and row["note"] != one["note"])
        one["note"], other["note"] = other["note"], one["note"]

    change_rows(run.releases[-1], swap)
    assert not run.judged().passed


def test_k_minus_one_people_in_a_group_are_found(run: LastingRun) -> None:
    """A policy that asks for one more than groups have."""
    run.policy.write_text(run.policy.read_text().replace("k: 3", "k: 4"))
    for path in (run.out / "restricted/metrics").glob("*.avro"):
        path.unlink()
    assert any("have rows of fewer than k = 4 people" in each for each in run.judged().failures)


def test_foreign_files_are_named(run: LastingRun) -> None:
    """What no run puts into its directory is not judged, and named."""
    (run.out / "copy of people.csv").write_text("p1\n")
    (run.out / "restricted/metrics/notes.txt").write_text("p1\n")
    (run.out / "restricted/people.csv").write_text("p1\n")
    told = run.judged().not_checked
    assert any(
        "3 entries of the directory: no run makes them (copy of people.csv, restr" in each for each in told
    )
