"""The accounts of chaos find what they are there for: lost rows, doubled rows, releases that differ."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.flink import chaos
from tests.flink.chaos_report import Report, Strike
from tests.flink.chaos_streams import Ledger, Stream
from tests.small_feeds import Row


class Kept(Stream):
    """A stream whose rows go nowhere."""

    def send(self, rows: object) -> None:
        """Nothing arrives anywhere."""

    def ledger(self) -> Ledger:
        """The accounts without a batch run."""
        return self._ledger()


@pytest.fixture
def stream(tmp_path: Path) -> Kept:
    """Three hours and poison, all of it out once: rows released, poison rejected."""
    run: Any = SimpleNamespace(output=tmp_path, feed=tmp_path)
    made = Kept("s", run, 5, ("Bonn",), ())
    for _ in range(3):
        made.feed()
    made.spoil()
    made.garbage = 2
    released = [name(each) for each in made.rows]
    rejected = [
        *((name(each), "bad_value") for each in made.poison),
        ("", "unparseable"),
        ("", "unparseable"),
    ]
    run.released, run.rejected = lambda: list(released), lambda: list(rejected)
    run.lists = (released, rejected)
    return made


def name(row: Row) -> str:
    """A row's reference."""
    return str(row["reference"])


def test_the_feed_is_that_of_its_seed(stream: Kept) -> None:
    """Each hour follows from the seed; references are unique, and times within their hour."""
    assert len({name(each) for each in stream.rows}) == len(stream.rows) == 180
    assert [str(stream.rows[number]["when"])[:13] for number in (0, 60, 179)] == [
        f"2024-03-01T0{hour}" for hour in range(3)
    ]


def test_what_is_out_once_is_no_problem(stream: Kept) -> None:
    """Then the figures are those of the feed."""
    ledger = stream.ledger()
    assert (ledger.fed, ledger.released, ledger.rejected.total()) == (185, 180, 5)
    assert (ledger.twice, ledger.lost, ledger.from_nowhere) == (0, 0, 0)


def test_what_is_lost_twice_or_from_nowhere_is_found(stream: Kept) -> None:
    """A row missing, one released and rejected, one that nobody fed, one message too few."""
    released, rejected = stream.run.lists  # type: ignore[attr-defined]
    lost = released.pop()
    rejected += [(released[0], "late"), ("r777777", "late")]
    rejected.remove(("", "unparseable"))
    ledger = stream.ledger()
    assert lost not in released
    assert (ledger.lost, ledger.twice, ledger.from_nowhere) == (2, 1, 1)
    said = "\n".join(ledger.problems())
    for problem in (
        "1 rows that are there twice",
        "2 rows that are lost",
        "1 rows from nowhere",
        "2 rows late",
    ):
        assert problem in said


def test_releases_that_differ_and_failed_audits_are_problems() -> None:
    """As are no releases at all."""
    well = Ledger("s", releases=3, equal_to_batch=3, audit_passed=True)
    assert well.problems() == []
    for wrong in (
        Ledger("s", releases=3, equal_to_batch=2, audit_passed=True),
        Ledger("s", releases=3, equal_to_batch=3),
        Ledger("s", audit_passed=True),
    ):
        assert len(wrong.problems()) == 1


def test_a_report_can_be_written_down(stream: Kept) -> None:
    """As JSON, with what went wrong."""
    report = Report(1, 8.0, ("disk-full",), [Strike("worker", 1.5, 1)], [stream.ledger()])
    told = json.loads(json.dumps(report.record()))
    assert told["strikes"] == [{"kind": "worker", "recovery_seconds": 1.5, "restarts": 1}]
    assert told["ledgers"][0]["rejected"] == {"bad_value": 3, "unparseable": 2}
    assert told["problems"] == report.problems() != []
    assert all(problem in report.render() for problem in told["problems"])


def test_every_kind_comes_once_a_round_in_the_order_of_the_seed() -> None:
    """The same seed, the same strikes."""
    once = list(chaos.schedule(random.Random(3), tuple(chaos.KINDS), 2))
    assert once == list(chaos.schedule(random.Random(3), tuple(chaos.KINDS), 2))
    assert set(once[:10]) == set(once[10:]) == set(chaos.KINDS)
    assert once[:10] != once[10:]
