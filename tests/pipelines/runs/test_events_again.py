"""Event ids over a chain of runs: what was released or waits does not come again, what was rejected may, mended."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import pytest

from kanonflow.pipelines.analysis.released_table import read_release
from tests.pipelines.audit.good_runs import read
from tests.pipelines.runs.spelled_nights import POLICY, Nights

pytestmark = pytest.mark.thorough

EVENTS = POLICY.replace(
    "  age:", "  event: {role: event_id}\n  reference: {role: insensitive, accept_risk: for the test}\n  age:"
).replace("window: 1d", "window: 1d\nmax_delay: 1d")
Line = tuple[str, str, str, str, str, str]


def lines(day: int, people: range = range(60), prefix: str = "e") -> list[Line]:
    """A row of each person on a day. ``reference`` is published, and names the event for this test."""
    rng = random.Random(day)
    found = []
    for who in people:
        age = random.Random(who).randint(18, 80)
        event = f"{prefix}{day}-{who}"
        when = f"2024-03-{day:02} {rng.randrange(24):02}:{rng.randrange(60):02}:00"
        found.append((f"p{who}", when, event, event, str(age), f"{rng.randrange(1000, 9999) / 100:.2f}"))
    return found


def write(path: Path, rows: list[Line]) -> Path:
    """A CSV file of them."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["who", "when", "event", "reference", "age", "amount"])
        out.writerows(rows)
    return path


def released(nights: Nights, *outputs: str) -> Counter[str]:
    """How often each event was published."""
    tables = [read_release(nights.place / output).arrow() for output in outputs]
    return Counter(each for table in tables for each in table.column("reference").to_pylist())


def rejected(nights: Nights, output: str) -> Counter[str]:
    """Rejected rows by reason."""
    found: Counter[str] = Counter()
    for path in (nights.place / output / "restricted" / "rejected").glob("*.avro"):
        found.update(row["reason"] for row in read(path)[1])
    return found


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """A first night of 60 people with an event each."""
    nights = Nights(tmp_path, EVENTS)
    assert nights.run("out1", write(tmp_path / "1.csv", lines(1))) == 0
    return nights


def test_rows_of_another_file_are_told_by_their_events(nights: Nights) -> None:
    """Yesterday's rows in today's file, in another order: another digest, the same events. Each is published once over
    the chain, and the third night knows the first one's too."""
    again = lines(1)[::-1]
    assert nights.on("out1", "out2", write(nights.place / "2.csv", lines(2) + again)) == 0
    assert nights.on("out2", "out3", write(nights.place / "3.csv", again + lines(3) + lines(2))) in (0, 3)
    events = released(nights, "out1", "out2", "out3")
    assert set(events.values()) == {1}
    assert rejected(nights, "out2") == {"duplicate_event": 60}
    assert rejected(nights, "out3") == {"duplicate_event": 120}


def test_a_mended_row_that_was_rejected_comes_again_under_its_event(nights: Nights) -> None:
    """An amount that could not be read is no release of its event: mended, the row goes out the next night."""
    broken = [(*row[:5], "?") if row[0] == "p7" else row for row in lines(2)]
    assert nights.on("out1", "out2", write(nights.place / "2.csv", broken)) == 0
    assert rejected(nights, "out2") == {"bad_value": 1}
    mended = [row for row in lines(2) if row[0] == "p7"]
    assert nights.on("out2", "out3", write(nights.place / "3.csv", lines(3) + mended)) == 0
    events = released(nights, "out1", "out2", "out3")
    assert events["e2-7"] == 1
    assert set(events.values()) == {1}
    assert len(events) == 180


def test_an_old_event_that_was_never_seen_is_no_repeat(nights: Nights) -> None:
    """What is merely old is released, in a release of its own."""
    assert nights.on("out1", "out2", write(nights.place / "2.csv", lines(3))) == 0
    late = lines(2, prefix="late")
    assert nights.on("out2", "out3", write(nights.place / "3.csv", lines(4) + late)) == 0
    assert sum(name.startswith("late") for name in released(nights, "out3")) == len(late)
