"""The attack bench of cohorts that last: its measures, on feeds small enough to count by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import lasting_attacks, lasting_reader
from benchmarks.data_sets import VARIABLE
from benchmarks.lasting_attacks import (
    KNOWN,
    Ours,
    People,
    after_churn,
    forgotten_candidates,
    groups_met,
    grown_box_candidates,
    known_activity_candidates,
    moved_candidates,
    planted_candidates,
    present_hull_candidates,
    silent_join_candidates,
    spread,
)
from benchmarks.lasting_reader import Truth, bundles, epoch_candidates, first_releases, holds


def points(*rows: tuple[float, ...]) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64)


def was_there(*windows: str) -> NDArray[np.bool_]:
    """One text a window: x where somebody has rows."""
    return np.array([[sign == "x" for sign in window] for window in windows])


def in_order(points: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Cohorts of ``size`` by the first coordinate; what is left over joins the last."""
    rank = np.argsort(np.argsort(points[:, 0], kind="stable"), kind="stable")
    return np.minimum(rank // size, max(len(points) // size - 1, 0))


def test_spread() -> None:
    """Five followed, of whom two are below 5 and one is alone."""
    assert spread([1, 4, 5, 5, 10]) == (5, 5.0, 1, 40.0, 20.0)
    assert spread([]) == (0, None, None, None, None)


def test_one_who_joins_and_widens_a_box_is_named() -> None:
    """Of four unseen people one explains the new side; two lie in the old box, and one outside of the new one."""
    old = points((0, 0), (4, 4))
    unseen = points((6, 2), (1, 1), (3, 3), (9, 9))
    assert grown_box_candidates(old, points((6, 2)), unseen) == 1
    # Who joins within the box is one of the two in it.
    assert grown_box_candidates(old, points((1, 1)), unseen) == 2
    # Two at once: whoever lies in the new box may be either.
    assert grown_box_candidates(old, points((6, 2), (1, 1)), unseen) == 3


def test_who_joins_in_silence_holds_no_side_alone() -> None:
    """Four corners of a box are founders; of the seven people in it three may have joined."""
    founders = points((0, 2), (4, 2), (2, 0), (2, 4))
    everybody = np.concatenate([founders, points((1, 1), (2, 2), (3, 3), (8, 8))])
    assert silent_join_candidates(founders, everybody) == 3
    # Another at the low end of the first field: then neither of the two is sure to be a founder.
    assert silent_join_candidates(founders, np.concatenate([everybody, points((0, 3))])) == 5


def test_hulls_of_those_present_tell_who_was_there() -> None:
    """Three on a line; the middle one was there with the left, and alone."""
    members = points((0,), (1,), (2,))
    # Hulls: [0, 1], [1, 1], [2, 2]. The bundle of the second and third window is one person's each.
    assert present_hull_candidates(members, was_there("xx.", ".x.", "..x")) == [1, 1, 1]
    # All there in all windows: nothing is told.
    assert present_hull_candidates(members, was_there("xxx", "xxx")) == [3, 3, 3]
    # The middle one alone was away: no side is his, so nobody knows that it was he. Bundles of the ends were there when
    # each end was needed; the middle one's bundle is of no end.
    assert present_hull_candidates(members, was_there("x.x")) == [3, 3]
    assert present_hull_candidates(members, was_there("x.x", "xxx")) == [3, 1, 3]


def test_a_box_that_grows_names_the_windows_bundles() -> None:
    """Moved after the first window, seen again in the third, where two bundles have rows."""
    active = was_there("xxx", ".xx", "xx.", "xxx")
    assert moved_candidates(active, 0, 1) == 2
    assert moved_candidates(active, 2, 2) == 3
    assert moved_candidates(was_there("x", "."), 0, 1) is None


def test_known_windows_leave_those_who_were_there_too() -> None:
    """Of four, three were there in the first window, two in the first and away in the second."""
    active = was_there("xxx.", "..xx", "xx..")
    assert known_activity_candidates(active, 0, np.array([0])) == 3
    assert known_activity_candidates(active, 0, np.array([0, 1])) == 2
    assert known_activity_candidates(active, 3, np.array([0, 1, 2])) == 1


def test_who_comes_back_after_being_forgotten_is_in_two_cohorts() -> None:
    """0 and 1 are founded together, forgotten after one silent window, and come back with 2 and 3."""
    people = People(points((0,), (1,), (0.5,), (1.5,)), was_there("xx..", "....", "....", "xxxx"))
    # Window 3: everybody enters; by the first coordinate {0, 2} and {1, 3}. So 0 is in {0, 1} and {0, 2}.
    assert forgotten_candidates(people, 1, 2, in_order) == [1, 1]
    # Nobody is forgotten within five windows.
    assert forgotten_candidates(people, 5, 2, in_order) == []


def test_planted_accounts_leave_the_victim_alone() -> None:
    """Two plants at the victim's place fill its cohort of 3; in one of 4 somebody else is there."""
    everybody = points((0,), (10,), (20,), (30,))
    assert planted_candidates(everybody, np.array([0]), 2, 3, in_order) == [1]
    assert planted_candidates(everybody, np.array([0]), 2, 4, in_order) == [4]


def test_churn() -> None:
    """Nobody leaves: all candidates stay. Everybody leaves: one is left."""
    rng = np.random.default_rng(1)
    sizes = np.array([5, 7])
    assert after_churn(sizes, 0.0, 3, rng).tolist() == [5, 7]
    assert after_churn(sizes, 1.0, 3, rng).tolist() == [1, 1]
    # (1 - .2)^3 = .512; of five, all are left with .512^4 = .0687.
    left = after_churn(np.full(20_000, 5), 0.2, 3, rng)
    assert (left == 5).mean() == pytest.approx(0.0687, abs=0.006)


def test_known_activity_is_chosen_as_told() -> None:
    """One and three windows with rows; the longest gap; five windows."""
    rng = np.random.default_rng(1)
    active = np.array([sign == "x" for sign in "x.xx....xx.x"])
    one, three, gap, five = (choose(active, rng) for choose in KNOWN.values())
    assert one is not None
    assert one.size == 1
    assert active[one].all()
    assert three is not None
    assert np.unique(three).size == 3
    assert active[three].all()
    assert gap is not None
    assert gap.tolist() == [4, 5, 6, 7]
    assert five is not None
    assert np.unique(five).size == 5
    nobody = np.zeros(4, dtype=np.bool_)
    assert [choose(nobody, rng) for choose in KNOWN.values()] == [None] * 4


def box(low: int, high: int) -> dict[str, Any]:
    return {"min": low, "max": high, "nulls": False}


def test_the_reader_keeps_whom_all_boxes_hold() -> None:
    """Three people in two releases. The first two appear at once; the third later, in a box that holds all of them."""
    truth = Truth([{"age": 1}, {"age": 5}, {"age": 3}], {"a": 0, "b": 1, "c": 2, "d": 1, "e": 0})
    releases = [
        [{"tag": "a", "age": box(0, 5)}, {"tag": "b", "age": box(0, 5)}],
        [{"tag": "c", "age": box(0, 9)}, {"tag": "d", "age": box(4, 9)}, {"tag": "e", "age": box(0, 9)}],
    ]
    found = bundles(releases, truth, "tag")
    assert {person: bundle.first for person, bundle in found.items()} == {0: 0, 1: 0, 2: 1}
    appears = first_releases(found, 3)
    assert appears.tolist() == [0, 0, 1]
    left = {person: who.tolist() for person, who in epoch_candidates(found, truth, appears).items()}
    assert left == {0: [0, 1], 1: [1], 2: [2]}
    # All entered with the first release, and the third has its first row later: then the boxes alone tell.
    left = {person: who.tolist() for person, who in epoch_candidates(found, truth, np.zeros(3)).items()}
    assert left == {0: [0, 1, 2], 1: [1], 2: [0, 1, 2]}


def test_what_a_box_holds() -> None:
    """Ranges with their ends, nulls where they are told, sets."""
    assert holds(box(1, 3), 3)
    assert not holds(box(1, 3), 4)
    assert not holds(box(1, 3), None)
    assert holds({"min": None, "max": None, "nulls": True}, None)
    assert not holds({"min": None, "max": None, "nulls": True}, 2)
    assert holds(["a", None], None)
    assert not holds(["a"], "b")


def test_groups_that_meet() -> None:
    """Cohort 0 is merged with 1 and then with 2: a bundle of it has been with 0 alone in both; 2's with 0 and 2."""
    truth = Truth([], {"a": 0, "b": 1, "c": 0, "d": 2})
    ours = Ours(
        [
            [{"trans_num": "a", "class_id": 7}, {"trans_num": "b", "class_id": 7}],
            [{"trans_num": "c", "class_id": 8}, {"trans_num": "d", "class_id": 8}],
        ],
        np.array([0, 1, 2]),
        np.zeros(3, dtype=np.int64),
    )
    assert groups_met(ours, truth) == {0: 1, 1: 2, 2: 2}


def test_the_reader_shares_no_code_with_the_product() -> None:
    """Its judgement is its own."""
    assert "kanonflow" not in Path(lasting_reader.__file__).read_text(encoding="utf-8")


def test_it_says_what_it_skips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the data it measures nothing, writes nothing, and is no failure."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert lasting_attacks.main(["--results", str(tmp_path)]) == 0
    assert "sparkov: skipped" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_nobody_is_below_k_on_a_week_of_sparkov(tmp_path: Path) -> None:
    """The promise, by a reader who shares no code with the product; naive designs beside it fall below."""
    assert lasting_attacks.main(["--days", "7", "--results", str(tmp_path)]) == 0
    table, _ = json.loads((tmp_path / "lasting_attacks.json").read_text(encoding="utf-8"))["tables"]
    lines = {(row["design"], row["attack"]): row for row in table["rows"]}
    ours = lines["cohorts that last", "all boxes, and with which release everybody entered"]
    assert ours["followed"] > 500
    assert ours["below k %"] == 0.0
    assert lines["newcomers join, boxes grow", "the box before and after"]["below k %"] > 50
