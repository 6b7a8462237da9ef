"""A chain of nightly runs: no two releases under one name, nobody forgotten, and with ``--carry`` nothing cut off."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from kanonflow.pipelines.cli import main
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
cohort: lasting
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  town: {role: insensitive}
  amount: {role: sensitive, as: "decimal(9,2)", accept_risk: rows of a test}
  id: {role: event_id}
partition_by: [town]
"""
HEAD = ("who", "when", "age", "job", "town", "amount", "id")
Row = tuple[str, ...]


def person_row(who: int, day: int, number: int, town: str = "A") -> Row:
    """The ``number``-th row of a person on a day of March."""
    when = f"2024-03-{day:02} {(who * 7 + number) % 24:02}:{number % 60:02}:00"
    event = f"{who}.{day}.{number}"
    return f"p{who}", when, str(20 + who * 5 % 60), "abcd"[who % 4], town, f"{who + number}.25", event


def write(place: Path, name: str, rows: Iterable[Row]) -> None:
    """A file of the input."""
    (place / "in").mkdir(exist_ok=True)
    with (place / "in" / name).open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(HEAD)
        out.writerows(rows)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Policy and secret."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "secret").write_bytes(bytes(range(7, 47)))
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


def anonymize(place: Path, files: str, output: str, *flags: str, policy: str = "policy.yaml") -> int:
    """The command; secret and policy are the place's."""
    given = [
        "--policy",
        str(place / policy),
        "--input",
        str(place / "in" / files),
        "--output",
        str(place / output),
    ]
    return main(["anonymize", *given, "--secret-file", str(place / "secret"), *flags])


def chain(place: Path, nights: int, *flags: str) -> list[Path]:
    """The outputs of so many nights, each of a file of its own."""
    for night in range(nights):
        before = ("--continue", str(place / f"out{night - 1}")) if night else ()
        assert anonymize(place, f"{night}.csv", f"out{night}", *before, *flags) == 0
    return [place / f"out{night}" for night in range(nights)]


def ids(output: Path) -> list[str]:
    """Names of the files of releases."""
    return sorted(path.stem for path in (output / "release").glob("[!.]*"))


def released(*outputs: Path) -> list[str]:
    """Amount and window of all rows that are out."""
    return sorted(
        f"{row['amount']} {row['window_end']}"
        for output in outputs
        for path in (output / "release").glob("[!.]*")
        for row in read(path)[1]
    )


def rejected(*outputs: Path) -> dict[str, int]:
    """How many rows were rejected, by reason."""
    records = [row for output in outputs for path in rejected_files(output) for row in read(path)[1]]
    return dict(Counter(str(row["reason"]) for row in records))


def rejected_files(output: Path) -> list[Path]:
    return sorted((output / "restricted" / "rejected").glob("*.avro"))


def people_known(output: Path) -> int:
    """Of all partitions, as the run's files of cohorts tell it."""
    return sum(len(read(path)[1]) for path in output.glob("restricted/cohorts/*/*.people.avro"))


def test_no_two_releases_of_a_chain_have_one_name(place: Path) -> None:
    """What waits at the end of a night leaves at the end of the next day's window, where the next night releases its
    own: they are two releases, with two ids."""
    for night in range(3):
        write(
            place,
            f"{night}.csv",
            [person_row(who, night + 1, number) for who in range(20) for number in (0, 1)],
        )
    outputs = chain(place, 3)
    names = [name for output in outputs for name in ids(output)]
    assert len(names) >= 3
    assert len(set(names)) == len(names)
    assert len(released(*outputs)) == 3 * 40


def test_late_rows_of_the_next_night_are_a_release_of_their_own(place: Path) -> None:
    """Rows of day 1 that come in the second night's file, after day 1 was released."""
    write(place, "0.csv", [person_row(who, 1, number) for who in range(20) for number in (0, 1)])
    write(place, "1.csv", [person_row(who, day, 2) for who in range(20) for day in (1, 2)])
    write(place, "2.csv", [person_row(who, day, 3) for who in range(20) for day in (1, 2, 3)])
    outputs = chain(place, 3)
    names = [name for output in outputs for name in ids(output)]
    assert len(set(names)) == len(names)
    assert len(released(*outputs)) == 40 + 40 + 60


@pytest.mark.parametrize("flags", [(), ("--carry",)])
def test_a_newcomer_a_night_enters_when_there_are_enough(place: Path, flags: tuple[str, ...]) -> None:
    """The pool goes on: of one newcomer a night the third night's three are a cohort; with --carry their rows, too."""
    (place / "policy.yaml").write_text(POLICY.replace("cohort: lasting", "cohort: lasting\nintake: 3"))
    write(place, "0.csv", [person_row(who, 1, number) for who in range(20) for number in (0, 1)])
    for night in (1, 2, 3):
        rows = [person_row(who, night + 1, 0) for who in range(20)]
        write(place, f"{night}.csv", [*rows, person_row(100 + night, night + 1, 0)])
    outputs = chain(place, 4, *flags)
    assert people_known(outputs[0]) == 20
    assert people_known(outputs[2]) == 20
    assert people_known(outputs[3]) == 23
    assert rejected(*outputs) == {"awaits_intake": 1 if flags else 2}
