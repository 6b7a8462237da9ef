"""The benchmarks of cohorts that last: their measures on feeds that can be counted by hand, and small runs of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import known_people, lasting, rosters
from benchmarks.data_sets import SPARKOV, VARIABLE, example_policy
from benchmarks.lasting import Posed, Published, Source
from benchmarks.odd_feeds import (
    SPARKOV_CARDS,
    as_a_trickle,
    cards_like,
    with_bots,
    with_guests,
    with_moves,
)
from kanonflow.schemas.policy import Cohort
from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.problem.table import Table

pytestmark = pytest.mark.thorough

PEOPLE, DAYS = 40, 6


def sparkov_like(people: int = PEOPLE, days: int = DAYS, seed: int = 1) -> pa.Table:
    """A feed like sparkov as text: everybody has a row or two a day; every fourth person comes on the last two days."""
    rng = np.random.default_rng(seed)
    rows = []
    for day in range(days):
        for person in range(people):
            if person % 4 == 3 and day < days - 2:
                continue
            for hour in range(1 + int(rng.integers(0, 2))):
                own = {
                    "trans_date_trans_time": f"2020-01-{day + 1:02d} {hour:02d}:00:00",
                    "cc_num": f"{person}",
                    "dob": f"19{50 + person % 50}-05-01",
                    "gender": "FM"[person % 2],
                    "lat": f"{30 + person % 30}.5",
                    "long": f"-{80 + person}.25",
                    "city_pop": f"{100 * person}",
                    "job": f"job {person % 3}",
                    "amt": f"{hour}.5",
                    "is_fraud": "0",
                }
                rows.append(
                    {field.name: own.get(field.name, "x") for field in example_policy("sparkov").fields}
                )
    return pa.Table.from_pylist(rows)


def owners(table: pa.Table) -> dict[str, list[dict[str, str]]]:
    """The rows of each person."""
    of: dict[str, list[dict[str, str]]] = {}
    for row in table.to_pylist():
        of.setdefault(row["cc_num"], []).append(row)
    return of


def attributes(row: dict[str, str]) -> tuple[str, ...]:
    """What is a person's in a row."""
    return tuple(row[name] for name in SPARKOV_CARDS.attributes)


def test_boxes_are_compared_with_a_persons_last_one() -> None:
    """Of three person-windows with an earlier one, one has the same box; a window without the person does not count."""
    releases = [
        Published(np.array([1, 2], dtype=np.uint64), ["a", "b"]),
        Published(np.array([1], dtype=np.uint64), ["c"]),
        Published(np.array([1, 2], dtype=np.uint64), ["d", "b"]),
    ]
    assert lasting.same_box(iter(releases)) == pytest.approx(1 / 3)
    assert lasting.same_box(iter(releases[:1])) is None


def test_waiting_is_counted_once_the_feed_has_settled() -> None:
    """Rows that wait at ends of windows by rows at hand, without the first windows."""
    metrics = [{"rows_new": 10, "rows_waited": 0, "rows_waiting": 9}] * 3
    later = [{"rows_new": 10, "rows_waited": 10, "rows_waiting": 2}]
    assert lasting.waiting_share(metrics + later) == 0.1
    assert lasting.waiting_share(metrics) is None


def test_means_are_by_released_rows() -> None:
    """A window of three times the rows counts three times; one that has no figure does not count."""
    releases = [
        {"gcp": 0.1, "rows_released": 30},
        {"gcp": 0.5, "rows_released": 10},
        {"gcp": None, "rows_released": 99},
    ]
    assert lasting.by_rows(releases, "gcp") == pytest.approx(0.2)
    assert lasting.by_rows([], "gcp") is None


def test_candidates_are_by_people() -> None:
    """The least of all releases, and the mean over person-windows."""
    releases = [
        {"epoch_candidates": {"minimum": 6, "mean": 6.0}, "individuals": 30},
        {"epoch_candidates": {"minimum": 5, "mean": 10.0}, "individuals": 10},
    ]
    assert lasting.candidates(releases) == (5, 7.0)
    assert lasting.candidates([]) == (None, None)


def test_newcomers_have_their_part_of_the_loss() -> None:
    """Two of four rows of the second release are of people who entered with it; in the first nobody did."""

    def issued(of_row: list[int]) -> SimpleNamespace:
        answer = SimpleNamespace(people=(np.array(of_row), np.array([7, 8, 9], dtype=np.uint64)))
        return SimpleNamespace(
            name="m.issue", args=(None, answer), result=SimpleNamespace(publication=object())
        )

    entered = SimpleNamespace(segment=SimpleNamespace(people=np.array([8], dtype=np.uint64)))
    log = SimpleNamespace(
        calls=[issued([0, 2]), SimpleNamespace(name="m.found", result=entered), issued([0, 1, 1, 2])]
    )
    releases = [
        {"gcp": 0.1, "rows_released": 2, "gcp_newcomers": None},
        {"gcp": 0.2, "rows_released": 4, "gcp_newcomers": 0.3},
    ]
    assert lasting.newcomers_share(log, releases) == pytest.approx(0.6 / 1.0)  # type: ignore[arg-type]


def test_groups_are_kept_as_sets_of_the_cohorts_here() -> None:
    """A group is kept if it has all cohorts of an old one that are here, and no other."""
    assert lasting.kept_share(np.array([0, 0, 1, 2]), np.array([4, 4, 6, 6])) == pytest.approx(1 / 3)
    assert lasting.kept_share(np.array([0, 0, 1]), np.array([4, -1, 5])) == pytest.approx(1 / 2)


def test_chains_begin_with_their_own_last_groups() -> None:
    """Windows that are the same keep all groups when they begin warm; both chains lose as much in the first."""
    points = np.arange(12, dtype=np.float64)[:, None] / 11
    table = Table(
        points,
        np.empty((12, 0), dtype=np.int32),
        np.empty(0, dtype=np.int32),
        np.ones(1),
        individuals=np.arange(12),
    )
    task = MergeTask(table, np.full(12, 3), np.full(12, 2), 4, 1)
    windows = [Posed(task, np.arange(12) * 2)] * 3
    warm = lasting.chain(windows, 20, warm=True)
    assert warm.kept == 1
    assert warm.loss <= lasting.chain(windows, 20, warm=False).loss
    assert [row[:3] for row in lasting.warm_rows("same", windows)] == [
        ("same", per_row, 3) for per_row in lasting.BUDGETS
    ]


def test_people_like_those_of_a_table_are_near_one_and_keep_the_rest() -> None:
    """A place within half a degree, a birth within a year; gender, job and population together as somebody has them."""
    table = sparkov_like()
    drawn = cards_like(table, SPARKOV_CARDS, 50, np.random.default_rng(2)).to_pylist()
    there = [rows[0] for rows in owners(table).values()]
    for card in drawn:
        born = np.datetime64(card["dob"])
        assert any(
            abs(float(card["lat"]) - float(row["lat"])) <= 0.5
            and abs(float(card["long"]) - float(row["long"])) <= 0.5
            and abs(int((born - np.datetime64(row["dob"])).astype(int))) <= 365
            and all(card[name] == row[name] for name in ("gender", "city_pop", "job"))
            for row in there
        )


def test_odd_feeds_are_odd_as_they_say() -> None:
    """Guests have one row; a trickle's newcomers come one after the other; movers change once; bots have half."""
    table = sparkov_like()
    guests = owners(with_guests(table, SPARKOV_CARDS, 0.5, 3))
    assert sorted(len(rows) for name, rows in guests.items() if "guest" in name) == [1] * PEOPLE
    trickle = owners(as_a_trickle(table, SPARKOV_CARDS, 2, 2, 3))
    begins = sorted(min(row["trans_date_trans_time"][:10] for row in rows) for rows in trickle.values())
    assert begins == ["2020-01-01"] * (PEOPLE - PEOPLE // 4 - 2) + ["2020-01-03", "2020-01-05"]
    moved = {
        name: [attributes(row) for row in rows]
        for name, rows in owners(with_moves(table, SPARKOV_CARDS, 0.25, 3)).items()
    }
    changes = {name: sum(a != b for a, b in pairwise(own)) for name, own in moved.items()}
    assert set(changes.values()) == {0, 1}
    before = {name: attributes(rows[0]) for name, rows in owners(table).items()}
    assert 0 < sum(moved[name][-1] != before[name] for name in moved) <= PEOPLE // 4
    bots = owners(with_bots(table, SPARKOV_CARDS, 2, 3))
    rows = sorted((len(own) for own in bots.values()), reverse=True)
    assert abs(sum(rows[:2]) - sum(rows[2:])) <= 1
    assert all(len({attributes(row) for row in own}) == 1 for own in bots.values())


@pytest.mark.parametrize("change", [lambda table: with_guests(table, SPARKOV_CARDS, 0.9, 1)])
def test_odd_feeds_follow_from_their_seed(change: object) -> None:
    """The same table again, and the one that was given is as it was."""
    table = sparkov_like()
    assert change(table).equals(change(table))  # type: ignore[operator]
    assert table.equals(sparkov_like())


def test_a_small_feed_goes_through_all_protections() -> None:
    """Every row of the table is there, and says what the courses were."""
    source = Source("small", sparkov_like(), example_policy("sparkov"), 0.1, 0.2)
    rows = {}
    for cohort in (Cohort.LASTING, Cohort.WINDOW, None):
        run = lasting.course(source, cohort)
        rows[cohort] = dict(zip(lasting.COURSES, lasting.course_row(source, cohort, run), strict=True))
        if cohort is Cohort.LASTING:
            assert len(lasting.posed(run.log)) == len(run.releases)
            odd = dict(zip(lasting.ODD, lasting.odd_row("small", run), strict=True))
            assert odd["outdated %"] == 0
    told = rows[Cohort.LASTING]
    assert told["people known"] == PEOPLE
    assert told["intakes"] >= 1
    assert told["candidates min"] >= 5
    assert told["snapping"] > 0
    assert 0 < told["newcomers' loss %"] <= 100
    assert told["us/row merging"] >= told["us/row search"] > 0
    assert rows[Cohort.WINDOW]["people known"] is None
    assert rows[Cohort.WINDOW]["gcp_hull"] > 0
    assert 0 < rows[None]["gcp_hull"] < rows[Cohort.WINDOW]["gcp_hull"]
    assert rows[None]["left alone %"] > 0
    assert rows[Cohort.WINDOW]["left alone %"] is None


def test_attributes_that_change_are_counted() -> None:
    """Rows of movers lie outside of their frozen box; without a move none does."""
    table = with_moves(sparkov_like(), SPARKOV_CARDS, 0.25, 3)
    run = lasting.course(Source("moves", table, example_policy("sparkov")), Cohort.LASTING)
    assert dict(zip(lasting.ODD, lasting.odd_row("moves", run), strict=True))["outdated %"] > 0


def test_cohorts_by_sorting_have_their_size() -> None:
    """Every cohort has ``size`` people, the last those that are over."""
    values = pa.table({"lat": [3.5, 1.5, 2.5, 1.2, 9.0], "long": [0.0, 4.0, 1.0, 2.0, 5.0]})
    labels = rosters.sorted_cohorts(values, 2)
    assert np.bincount(labels).tolist() == [2, 3]
    assert labels[3] == labels[1]


def test_rosters_run_on_a_small_table(tmp_path: Path) -> None:
    """All tables are filled; who waits is in the warm state, who enters in a segment, others in neither."""
    findings = rosters.Findings("rosters", "")
    rosters.measure(findings, sparkov_like(), [50], [1_000, 2_000], 1)
    founding, sizes, windows = (
        [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in findings.tables
    )
    assert {row["people"] for row in founding} == {50}
    assert [row["segments"] for row in sizes] == [rosters.SEGMENTS] * 2
    assert all(8 < row["bytes a person"] < 500 for row in sizes)
    assert len(windows) == 2 * 3 * 2
    of = {(row["people"], row["newcomers"], row["roster"]): row for row in windows}
    alone, wait, enter = (of[2_000, count, "cached"] for count in (0, rosters.INTAKE // 2, rosters.INTAKE))
    assert (alone["released"], wait["released"], enter["released"]) == (2_000, 2_000, 4_000)
    assert alone["segment bytes"] == wait["segment bytes"] == 0 < enter["segment bytes"]
    assert wait["warm state bytes"] > 2 * alone["warm state bytes"]
    assert enter["people entered"] == rosters.INTAKE
    assert findings.tables[2].note.count("ratio") == 6


@pytest.mark.parametrize("arguments", [["--feeds", "sparkov days", "complete_journey weeks"]])
def test_what_is_not_there_is_skipped(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both end well, name the data and the variable, and write nothing."""
    monkeypatch.delenv(VARIABLE, raising=False)
    results = ["--results", str(tmp_path / "results")]
    assert lasting.main([*arguments, *results]) == 0
    assert rosters.main(results) == 0
    told = capsys.readouterr().out
    assert told.count(SPARKOV.name) >= 3
    assert VARIABLE in told
    assert not (tmp_path / "results").exists()


def test_both_state_their_protocol() -> None:
    """Data, ratios and the time that counts, after a question."""
    for module in (lasting, rosters):
        text = (module.__doc__ or "").lower()
        assert text.splitlines()[0].endswith("?")
        assert all(word in text for word in ("data:", "ratio", "cpu"))


def test_every_oddity_says_what_the_documents_should() -> None:
    """A sentence each, which stands under the table."""
    assert all(odd.say.endswith(".") and "TO SAY" not in odd.say for odd in lasting.ODDITIES)


def test_everybody_named_enters_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of all people makes one intake, whatever rows come when."""
    source = Source("small", sparkov_like(), example_policy("sparkov"))
    assert known_people.people_of(source, 1).num_rows == PEOPLE
    assert known_people.people_of(source, 2).num_rows == PEOPLE // 2
    monkeypatch.setattr(known_people, "FEEDS", {"demo": lambda: source})
    assert known_people.main(["--feeds", "demo", "--results", str(tmp_path)]) == 0
    _, named, some, known, intakes, *_ = known_people.row_of(source, "everybody", None)
    assert (named, some, known, intakes) == ("everybody", PEOPLE, PEOPLE, 1)
    assert (tmp_path / "known_people.md").is_file()
