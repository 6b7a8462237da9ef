"""``publish_member`` before the audit: honest numbers pass, and each planted fault is found, as far as it can be."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.audit.lasting.member_numbers import judge_numbers_drawn
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.schemas.release_format import ReleaseFormat
from tests.pipelines.audit.good_runs import read, write
from tests.pipelines.audit.lasting_runs import (
    BY_SHOP,
    POLICY,
    LastingRun,
    cohort_of,
    lines,
    make_run,
    owner_of,
)

pytestmark = pytest.mark.thorough

Row = dict[str, Any]
MEMBER = "cohort: lasting\npublish_member: {accept_risk: a test}\n"
WITH = POLICY.replace("cohort: lasting\n", MEMBER)
OTHER = "0123456789abcdef"


@pytest.fixture(scope="module", params=ReleaseFormat)
def good_run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LastingRun:
    """Six days of 48 people under numbers."""
    return make_run(tmp_path_factory.mktemp("members") / "run", policy=WITH, release_format=request.param)


@pytest.fixture
def run(good_run: LastingRun, tmp_path: Path) -> LastingRun:
    """A copy of it, to be spoiled."""
    shutil.copytree(good_run.out.parent, tmp_path / "run")
    folder = tmp_path / "run"
    return LastingRun(folder / "policy.yaml", folder / "rows.csv", folder / "out")


def change_numbers(run: LastingRun, of: Callable[[Row, int], str]) -> None:
    """Other numbers on all rows of all releases, which are put in order again. of: row and release -> number."""
    names = ("amount", "note", "ref", "member")
    for place, path in enumerate(run.releases):
        schema, rows = read(path)
        groups: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            groups[row["class_id"]].append({**row, "member": of(row, place)})
        # Sorted as they were but for what is told by payload and number.
        turns = {number: turn for turn, number in enumerate(dict.fromkeys(row["class_id"] for row in rows))}
        changed = sorted(
            (row for own in groups.values() for row in own),
            key=lambda row: (turns[row["class_id"]], *((row[name] is not None, row[name]) for name in names)),
        )
        write(path, schema, changed)


def number_of(run: LastingRun) -> dict[str, str]:
    """The number of each person with rows, by name."""
    owner = owner_of(run)
    return {owner[row["ref"]]: row["member"] for path in run.releases for row in read(path)[1]}


def mates(run: LastingRun) -> Iterator[tuple[str, str]]:
    """People of one cohort who have rows."""
    numbers, by_cohort = number_of(run), defaultdict(list)
    for name, cohort in cohort_of(run).items():
        if name in numbers:
            by_cohort[cohort].append(name)
    for names in by_cohort.values():
        yield from combinations(names, 2)


def failures(run: LastingRun, *, secret: bool) -> tuple[str, ...]:
    return run.judged(secret=secret).failures


def found(run: LastingRun, says: str, *, secret: bool) -> None:
    told = failures(run, secret=secret)
    assert any(says in each for each in told), told


BY_SECRET = "rows have a member number that the secret gives nobody with such a row"


@pytest.mark.parametrize(("secret", "recorded"), [(False, False), (True, False), (True, True)])
def test_an_honest_run_with_numbers_passes(good_run: LastingRun, secret: bool, recorded: bool) -> None:
    """And the report says what was done with them."""
    report = good_run.judged(secret=secret, recorded=recorded)
    assert report.failures == ()
    assert report.figures.members_told == (48 if secret else None)
    assert any("member number" in line for line in report.checked) == secret
    assert (
        any(line.startswith("whose member number each is: no secret") for line in report.not_checked)
        != secret
    )


def test_numbers_of_partitions_late_rows_and_runs_that_go_on_pass(tmp_path: Path) -> None:
    """A partition is in the number, a late row has its person's, and who waits has none yet."""
    shops = make_run(tmp_path / "shops", policy=BY_SHOP.replace("cohort: lasting\n", MEMBER))
    assert failures(shops, secret=True) == failures(shops, secret=False) == ()
    late = {line for number, line in enumerate(lines()) if number % 9 == 0}
    assert failures(make_run(tmp_path / "late", policy=WITH, late=late.__contains__), secret=True) == ()
    open_ = make_run(tmp_path / "open", policy=WITH, stop_after=4)
    assert open_.judged(waiting=True).failures == ()
    assert open_.judged(waiting=True).figures.waiting


def test_by_numbers_groups_are_followed_that_nothing_else_tells_apart(tmp_path: Path) -> None:
    """People and rows that are all alike: numbers tell whose each row is to who has the secret."""
    alike = [
        ",".join([line.split(",")[0], line.split(",")[1], "40,170.0,1980-01-01,A,Breda,1.0,n0", "", "s0"])
        for line in lines(days=3, moves=False)
    ]
    assert make_run(tmp_path / "bare", alike).judged().verdict == "passed in part"
    assert make_run(tmp_path / "told", alike, policy=WITH).judged().verdict == "passed in full"


def test_two_people_who_exchanged_their_numbers_are_found_with_the_secret(run: LastingRun) -> None:
    """Of one cohort; without it they are not, for that is what numbers hide."""
    numbers = number_of(run)
    one, other = next(mates(run))
    swapped = {numbers[one]: numbers[other], numbers[other]: numbers[one]}
    change_numbers(run, lambda row, _: swapped.get(row["member"], row["member"]))
    assert failures(run, secret=False) == ()
    found(run, BY_SECRET, secret=True)


def test_two_people_of_two_cohorts_who_exchanged_their_numbers_are_found_without(run: LastingRun) -> None:
    """In one release only: boxes of the others hold another cohort."""
    numbers, cohort = number_of(run), cohort_of(run)
    last = {row["member"]: row["class_id"] for row in read(run.releases[-1])[1]}
    seen = {name for name in numbers if numbers[name] in last}
    hits = 0
    for one, other in combinations(sorted(seen), 2):
        if cohort[one] == cohort[other] or last[numbers[one]] == last[numbers[other]]:
            continue
        hits += 1
        if hits > 1:
            break
        swapped = {numbers[one]: numbers[other], numbers[other]: numbers[one]}
        change_numbers(
            run,
            lambda row, place, swapped=swapped: (
                swapped.get(row["member"], row["member"]) if place == len(run.releases) - 1 else row["member"]
            ),
        )
        found(run, "member numbers stand in boxes that hold no one cohort", secret=False)
        found(run, BY_SECRET, secret=True)
    assert hits


def test_one_person_with_two_numbers_is_found(run: LastingRun) -> None:
    """With the secret; without it a cohort has room for it as long as not all of its people are there."""
    numbers = number_of(run)
    name = sorted(numbers)[0]
    change_numbers(
        run, lambda row, place: OTHER if place % 2 and row["member"] == numbers[name] else row["member"]
    )
    found(run, BY_SECRET, secret=True)


def test_more_numbers_than_people_of_a_cohort_are_found_without_the_secret(run: LastingRun) -> None:
    """Everybody has another number in each release: no cohort has so many people."""
    change_numbers(
        run, lambda row, place: f"{(int(row['member'], 16) ^ (place * 0x9E3779B97F4A7C15)) % 2**64:016x}"
    )
    found(run, "cohorts have more member numbers than people: somebody has several", secret=False)


def test_one_number_for_two_people_is_found(run: LastingRun) -> None:
    """With the secret, also in one cohort."""
    numbers = number_of(run)
    one, other = next(mates(run))
    change_numbers(run, lambda row, _: numbers[one] if row["member"] == numbers[other] else row["member"])
    found(run, BY_SECRET, secret=True)


def test_one_number_in_two_groups_is_found_without_the_secret(run: LastingRun) -> None:
    """Nobody's rows are in two groups of one release."""
    rows = read(run.releases[-1])[1]
    one = rows[0]
    other = next(row for row in rows if row["class_id"] != one["class_id"])
    change_numbers(run, lambda row, _: one["member"] if row["member"] == other["member"] else row["member"])
    found(run, "1 member numbers stand in several groups of one release", secret=False)


def test_a_box_with_fewer_than_k_numbers_is_found_without_the_secret(run: LastingRun) -> None:
    """All rows of a group have one number."""
    path = run.releases[-1]
    group = read(path)[1][0]
    change_numbers(
        run, lambda row, _: group["member"] if row["class_id"] == group["class_id"] else row["member"]
    )
    found(run, "1 groups have rows of fewer than k = 3 member numbers", secret=False)


@pytest.mark.parametrize("cell", ["7", "0123456789ABCDEF", "p17", ""])
def test_what_is_no_number_is_found(run: LastingRun, cell: str) -> None:
    """16 hex digits, lower case, and nothing else."""
    number = read(run.releases[0])[1][0]["member"]
    change_numbers(run, lambda row, _: cell if row["member"] == number else row["member"])
    found(run, "field member: ", secret=False)


def test_numbers_in_any_other_order_of_rows_are_found(run: LastingRun) -> None:
    """Rows that are equal but for it stand by their number."""
    for path in run.releases:
        schema, rows = read(path)
        for row in rows:
            row.update(amount=1.0, note="n", ref="r")
        order = list(dict.fromkeys(row["class_id"] for row in rows))
        rows.sort(key=lambda row: (order.index(row["class_id"]), row["member"]), reverse=False)
        rows.sort(key=lambda row: order.index(row["class_id"]))
        first = [row for row in rows if row["class_id"] == order[0]]
        write(path, schema, [*reversed(first), *rows[len(first) :]])
    found(run, "rows do not stand in the order of what they publish", secret=False)


def test_numbers_that_count_are_found() -> None:
    """Nobody draws such, and nobody draws the same bits again and again."""
    for numbers, says in (
        (np.arange(1, 30, dtype=np.uint64), "29 member numbers count or name something"),
        (np.arange(2**50, 2**50 + 60, dtype=np.uint64), "bits of member numbers are the same"),
    ):
        findings = Findings()
        judge_numbers_drawn(numbers, findings)
        assert any(says in each for each in findings.messages()), says
    findings = Findings()
    judge_numbers_drawn(np.frombuffer(np.random.default_rng(1).bytes(8 * 500), np.uint64), findings)
    assert findings.messages() == ()
