"""The attack bench: it runs anywhere, its arithmetic is right, and it finds what naive publishers give away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.attacks import scores
from benchmarks.attacks.__main__ import NAMES, main
from benchmarks.attacks.across_windows import followed
from benchmarks.attacks.attacked_feed import (
    CLASSES,
    DEMO,
    PEOPLE,
    ROWS,
    NotAvailableError,
    attacked_policy,
    attacked_windows,
    demo,
    numbered_secret,
)
from benchmarks.attacks.attacked_release import AttackedRelease, class_members
from benchmarks.attacks.box_candidates import in_boxes
from benchmarks.attacks.chance import Tally
from benchmarks.attacks.homogeneity import posteriors
from benchmarks.attacks.linked_rows import KNOWLEDGE, linked_sets
from benchmarks.attacks.naive_publishers import (
    assignment_graph,
    classes_without_levels,
    fixed_factorization,
    identity_release,
)
from benchmarks.attacks.replay import common_members
from benchmarks.attacks.simulated_publisher import Simulation
from benchmarks.data_sets import VARIABLE
from kanonflow.pipelines.commands.demo_feed import FeedShape
from kanonflow.solvers.structures.graph import GeneralizationGraph
from tests import naive_matchings
from tests.regular_graphs import ring, searched

pytestmark = pytest.mark.thorough

SHAPE = FeedShape(rows=240, days=3, seed=2, late=0.05)


MODES = [ROWS, PEOPLE, CLASSES]


def releases(mode: str) -> list[AttackedRelease]:
    """A few small days in one of the modes."""
    feed = demo(SHAPE, attacked_policy(DEMO, mode, k=3))
    windows = attacked_windows(feed, DEMO, numbered_secret(1))
    return [window.release for window in windows if window.release is not None]


def test_the_bench_runs_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every attack has its table; what needs sparkov or Adult is named as skipped; no path of this machine is told."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert main(["--quick", "--results", str(tmp_path), "--date", "2024-03-01"]) == 0
    told = capsys.readouterr().out
    assert f"{VARIABLE} is not set" in told
    record = json.loads((tmp_path / "attacks.json").read_text())
    assert len(record["tables"]) == len(NAMES)
    assert all(table["rows"] for table in record["tables"])
    assert record["command"].startswith(f"{VARIABLE}=DIR python -m benchmarks.attacks")
    assert str(tmp_path) not in (tmp_path / "attacks.md").read_text()
    assert {path.name for path in tmp_path.glob("*.svg")} >= {
        "attacks_identity_and_order.svg",
        "attacks_windows_transactions.svg",
    }
    by_title = {table["title"].split(":")[0]: table["rows"] for table in record["tables"]}
    order = [row for row in by_title["Identity and order"] if row["attack"] == "n-th row, n-th record"]
    assert all(row["naive"] == 1 and row["ours"] < 0.4 for row in order)


def test_an_attack_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that do."""
    with pytest.raises(SystemExit):
        main(["medoids"])
    assert "identity_and_order" in capsys.readouterr().err


def test_a_policy_that_is_refused_is_not_available() -> None:
    """The bench says so instead of attacking something else."""
    with pytest.raises(NotAvailableError, match="cohort: window: not available"):
        attacked_policy(DEMO, PEOPLE, cohort="window")


@pytest.mark.parametrize("mode", MODES)
def test_the_truth_is_among_the_candidates(mode: str) -> None:
    """Each row's record is a member of its slot or class, lies in its box, and each record is published once."""
    for release in releases(mode):
        assert release.file is not None
        assert release.quasi is not None
        assert np.any(release.candidates == release.truth[:, None], axis=1).all()
        assert np.unique(release.truth).size == release.truth.size
        names = release.quasi["transaction_id"].to_pylist()
        assert [names[record] for record in release.truth] == release.file["transaction_id"].to_pylist()
        assert (release.chance(release.truth) <= 1 / 3 + 1e-9).all()


@pytest.mark.parametrize("mode", [ROWS, CLASSES])
def test_boxes_are_read_as_they_are_written(mode: str) -> None:
    """Value by value in Python: the same records lie in the same boxes, all members among them."""
    policy = attacked_policy(DEMO, mode, k=3)
    bound = demo(SHAPE, policy).bound
    release = releases(mode)[0]
    assert release.file is not None
    assert release.quasi is not None
    found = in_boxes(release.file, release.quasi, bound)
    boxes, records = release.file.to_pylist(), release.quasi.to_pylist()

    def inside(box: dict, record: dict) -> bool:
        for column in bound.quasis:
            cell, value = box[column.published_name], record[column.name]
            if not column.in_ranges:
                good = value in cell
            elif value is None:
                good = cell["nulls"]
            else:
                good = cell["min"] is not None and cell["min"] <= value <= cell["max"]
            if not good:
                return False
        return True

    expected = [[inside(box, record) for record in records] for box in boxes]
    np.testing.assert_array_equal(found, expected)
    rows, places = np.nonzero(release.valid)
    assert found[rows, release.candidates[rows, places]].all()


def test_class_members_by_hand() -> None:
    """Padded with -1; records that wait are nowhere."""
    members = class_members(np.array([1, 0, -1, 1, 1]), np.array([1, 0]))
    assert members.tolist() == [[0, 3, 4], [1, -1, -1]]


def test_naive_graphs_are_graphs_that_hold_their_own_record() -> None:
    """k-regular and simple, record j in slot j; their factorization is one."""
    points = np.random.default_rng(3).random((20, 2))
    distances = np.abs(points[:, None] - points[None]).sum(axis=2)
    members = assignment_graph(distances, 4)
    GeneralizationGraph(members.astype(np.int32)).check()
    assert members[:, 0].tolist() == list(range(20))
    factors = fixed_factorization(members.astype(np.int32))
    assert sorted(factors[:, 7].tolist()) == sorted(members[7].tolist())


def test_classes_without_levels_keep_people_together() -> None:
    """k individuals or more in each class, no individual in two."""
    people = np.random.default_rng(1).integers(0, 17, 60)
    labels = classes_without_levels(people, 5)
    pairs = {(person, label) for person, label in zip(people.tolist(), labels.tolist(), strict=True)}
    assert len(pairs) == np.unique(people).size
    assert min(np.bincount([label for _, label in pairs])) >= 5


def test_the_middle_gives_an_identity_publisher_away() -> None:
    """Guessing by position finds all records of a publisher that keeps the order, and most by the medoid."""
    rng = np.random.default_rng(0)
    middle = []
    for release in map(identity_release, releases(PEOPLE)):
        assert release.right(scores.guesses(release, scores.file_place, rng)).all()
        middle += release.right(scores.guesses(release, scores.to_medoid, rng)).tolist()
    assert np.mean(middle) > 0.5


@pytest.mark.parametrize("members", [searched(8, 3, 1), ring(7, 3)], ids=["searched", "ring"])
def test_possible_slots_are_those_of_perfect_matchings(members: np.ndarray) -> None:
    """With known matches, a slot is possible for a record iff an enumerated perfect matching has them all."""
    every = naive_matchings.perfect_matchings(members)
    simulation = Simulation(members, fixed_factorization(members))
    rng = np.random.default_rng(2)
    n = len(members)
    for _ in range(60):
        matching = every[rng.integers(len(every))]
        record, *known = rng.permutation(n)[: 1 + int(rng.integers(1, 4))].tolist()
        slots = np.array([int(np.flatnonzero(matching == each)[0]) for each in known])
        fits = every[(every[:, slots] == known).all(axis=1)]
        expected = sorted({int(np.flatnonzero(each == record)[0]) for each in fits})
        assert sorted(simulation._possible(record, slots, np.array(known)).tolist()) == expected


def test_one_known_match_reveals_a_fixed_factorization() -> None:
    """The simulated publisher names every other record's slot."""
    members = searched(12, 3, 3)
    factors = fixed_factorization(members)
    simulation = Simulation(members, np.repeat(factors, 40, axis=0))
    for factor in factors.astype(np.int64):
        slot_of = np.argsort(factor)
        for target in range(1, 12):
            assert simulation.guess(target, slot_of[:1], np.array([0])) == slot_of[target]


def test_common_members_by_hand() -> None:
    """In a complete component nothing is lost; in rings most rows lose candidates."""
    assert common_members(ring(5, 5), 0).tolist() == [5] * 5
    assert common_members(ring(40, 5), 0).mean() < 4.9


def test_candidates_only_shrink() -> None:
    """Followed are those who were in every window."""
    windows = [{"a": {"a", "b", "c"}, "b": {"b", "c"}}, {"a": {"a", "c"}, "d": {"d"}}, {"a": {"a", "d"}}]
    assert [counts.tolist() for counts in followed(windows)] == [[3], [2], [1]]


def test_linked_rows_of_closed_classes_keep_k() -> None:
    """Any linked set keeps odds of at most 1/k in closed classes; in row mode some are settled."""
    for mode, most in ((CLASSES, 1 / 3), (PEOPLE, 1.0)):
        bound = demo(SHAPE, attacked_policy(DEMO, mode, k=3)).bound
        highest = [
            max(float(each.odds.max()) for each in sets)
            for release in releases(mode)
            for (publisher, _, linked), sets in linked_sets(release, bound, mode)
            if publisher == mode and linked in KNOWLEDGE
        ]
        assert max(highest) == pytest.approx(most)


def test_posteriors_by_hand() -> None:
    """Two classes: in one a single value, in the other two of three alike."""
    release = releases(ROWS)[0]
    candidates = np.array([[0, 1, 2]] * 3 + [[3, 4, 5]] * 3)
    small = replace(
        release, people=np.arange(6), truth=np.array([1, 0, 2, 3, 5, 4]), candidates=candidates, quasi=None
    )
    told = posteriors(small, np.array([7, 7, 7, 1, 2, 2]), 8)
    assert told.share.tolist() == [1, 1, 1, 2 / 3, 2 / 3, 2 / 3]
    assert told.right.tolist() == [True] * 3 + [False, True, True]
    assert told.counts.max() == 3


def test_a_tally_tells_chance_from_success() -> None:
    """Chance passes, twice the chance does not; guesses that hang together widen the interval."""
    rng = np.random.default_rng(8)
    fair, broken, tied = Tally(), Tally(), Tally()
    for _ in range(100):
        chance = np.full(50, 0.2)
        fair.add(rng.random(50) < 0.2, chance)
        broken.add(rng.random(50) < 0.4, chance)
        tied.add(np.repeat(rng.random(2) < 0.2, 25), chance)
    assert fair.verdict(5) == "yes"
    assert broken.verdict(5) == "NO: above chance"
    assert fair.verdict(10) == "NO: fewer than k candidates"
    assert broken.dispersion < 2
    assert tied.dispersion > 10
    assert tied.verdict(5) == "yes"
