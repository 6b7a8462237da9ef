"""A chain of nightly runs: no two releases under one name, nobody forgotten, and with ``--carry`` nothing cut off."""

from __future__ import annotations

import csv
import json
import random
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.cli import main
from tests.pipelines.audit.good_runs import read
from tests.test_layers import ROOT

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


def test_an_intake_is_a_share_of_the_people_of_all_nights(place: Path) -> None:
    """A quarter of twenty: two newcomers a night are enough in the third; then a quarter of twenty-six. The audit
    counts people of earlier nights, too, night by night and over the whole."""
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\nintake: 3\nintake_share: 0.25")
    (place / "policy.yaml").write_text(policy.replace("max_delay: 1d", "max_delay: 9d"))
    for night in range(7):
        rows = [person_row(who, night + 1, 0) for who in range(20)]
        write(
            place,
            f"{night}.csv",
            [*rows, *(person_row(100 * night + n, night + 1, 0) for n in (0, 1) if night)],
        )
    outputs = chain(place, 7, "--carry")
    assert [people_known(output) for output in outputs] == [20, 20, 20, 26, 26, 26, 26]
    judged = ["--policy", str(place / "policy.yaml"), "--secret-file", str(place / "secret"), "--strict"]
    for files, told in [
        *((f"{night}.csv", [output]) for night, output in enumerate(outputs)),
        ("*.csv", outputs),
    ]:
        given = ["--input", str(place / "in" / files), "--release", *map(str, told)]
        assert main(["verify", *judged, *given]) == 0, files


def summary(output: Path) -> dict[str, Any]:
    """The closing table, as it is kept."""
    return json.loads((output / "restricted" / "summary.json").read_text())["summary"]


def record(output: Path) -> dict[str, Any]:
    """run.json."""
    return json.loads((output / "restricted" / "run.json").read_text())


def published(*outputs: Path) -> list[str]:
    """Everything that is out but ids, a line a row."""
    return sorted(
        repr({name: row[name] for name in sorted(row) if name not in ("release_id", "class_id")})
        for output in outputs
        for path in (output / "release").glob("[!.]*")
        for row in read(path)[1]
    )


def nightly_feed(place: Path, nights: int) -> None:
    """A file a night and all of them in one folder: two towns, one of them with few people and not every night."""
    rng = random.Random(5)
    for night in range(nights):
        rows = [
            person_row(who, night + 1, number)
            for who in range(24)
            if night in (0, who) or rng.random() < 0.5
            for number in range(rng.randint(1, 2))
        ]
        rows += [person_row(100 + who, night + 1, 0, "B") for who in range(5) if rng.random() < 0.3]
        write(place, f"{night}.csv", rows)


def test_nights_that_carry_over_publish_what_one_run_publishes(place: Path) -> None:
    """Rows, boxes and rejected rows are those of one run over all nights; a night's ledger adds up; a night in the
    middle that is killed when its releases are out, and its carried files not, comes to the same when it resumes."""
    nightly_feed(place, 5)
    assert anonymize(place, "*.csv", "one") == 0
    for night in range(5):
        before = ("--continue", str(place / f"out{night - 1}")) if night else ()
        carry = ("--carry",) if night < 4 else ()
        assert anonymize(place, f"{night}.csv", f"out{night}", *before, *carry) == 0
        if night == 2:
            output = place / "out2"
            kept = {path.name: path.read_bytes() for path in (output / "restricted" / "carried").iterdir()}
            shutil.rmtree(output / "restricted" / "carried")
            (output / "restricted" / "ended").unlink()
            sorted((output / "release").iterdir())[0].unlink()
            assert anonymize(place, "2.csv", "out2", "--resume") == 0
            again = {path.name: path.read_bytes() for path in (output / "restricted" / "carried").iterdir()}
            assert again == kept
    outputs = [place / f"out{night}" for night in range(5)]
    assert published(*outputs) == published(place / "one")
    assert rejected(*outputs) == rejected(place / "one")
    tables = [summary(output) for output in outputs]
    assert any(table["rows_waiting"] for table in tables)
    for before, after in pairwise(tables):
        assert after["rows_carried_in"] == before["rows_waiting"]
    for table in tables:
        came = table["rows_read"] + table["rows_carried_in"]
        assert came == table["rows_released"] + sum(table["rejected"].values()) + table["rows_waiting"]
        assert table["rows_missing"] == 0
    assert [record(output)["chain"]["place"] for output in outputs] == list(range(5))
    for path in outputs[0].glob("restricted/carried/*"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_night_that_is_killed_before_its_first_release_resumes_as_what_it_was(place: Path) -> None:
    """Its run.json is all there is: place, what it goes on from, and that it carries over need not be said again."""
    nightly_feed(place, 2)
    outputs = [place / "out0", place / "out1"]
    for night, output in enumerate(outputs):
        before = ("--continue", str(outputs[0])) if night else ()
        assert anonymize(place, f"{night}.csv", output.name, *before, "--carry") == 0
        there = published(output), rejected(output), record(output)["chain"], record(output)["epoch"]
        for folder in ("release", "restricted/metrics", "restricted/rejected", "restricted/slots"):
            shutil.rmtree(output / folder, ignore_errors=True)
        (output / "restricted" / "ended").unlink()
        shutil.rmtree(output / "restricted" / "carried")
        for path in output.glob("restricted/cohorts/*/*"):  # those that it took in itself
            if not night:
                path.unlink()
        assert anonymize(place, f"{night}.csv", output.name, "--resume") == 0
        assert there == (
            published(output),
            rejected(output),
            record(output)["chain"],
            record(output)["epoch"],
        )
        assert any((output / "restricted" / "carried").iterdir())


def test_rows_older_than_the_clock_of_a_run_leave_in_a_closing_release(place: Path) -> None:
    """Mended rows of three days ago, fed on purpose: they are neither late nor in a conflict, and beside the regular
    release of the next window; rows whose max_delay is not over go with that one."""
    for night in range(3):
        write(place, f"{night}.csv", [person_row(who, night + 1, 0) for who in range(20)])
    chain(place, 3, "--carry")
    old = [person_row(who, 1, 7) for who in range(10)]
    late = [person_row(who, 3, 8) for who in range(10)]
    write(place, "3.csv", [*old, *late, *(person_row(who, 4, 0) for who in range(20))])
    assert anonymize(place, "3.csv", "out3", "--continue", str(place / "out2"), "--carry") == 0
    output = place / "out3"
    assert rejected(output) == {}
    metrics = {row["kind"]: row for path in output.glob("restricted/metrics/*.avro") for row in read(path)[1]}
    assert {kind: row["rows_released"] for kind, row in metrics.items()} == {"closing": 10, "window": 30}
    assert metrics["closing"]["window_end"] == metrics["window"]["window_end"]
    assert len(set(ids(output))) == 2
    slots = sorted(path.name.rpartition("-")[2] for path in output.glob("restricted/slots/*/*/*"))
    assert slots == ["0", "0.closing"]
    before = published(output)
    for path in (output / "release").iterdir():
        path.unlink()
    assert anonymize(place, "3.csv", "out3", "--resume") == 0
    assert published(output) == before


def test_a_row_that_was_rejected_may_come_again_and_one_that_is_out_may_not(place: Path) -> None:
    """Event ids go on with the chain: of the night before, a released row is a repeat and a rejected one is new."""
    write(place, "0.csv", [person_row(who, 1, 0) for who in range(20)] + [person_row(99, 1, 0)])
    (place / "policy.yaml").write_text(POLICY.replace("cohort: lasting", "cohort: lasting\nintake: 20"))
    alone = [person_row(77, 2, 0)]
    write(place, "1.csv", [*(person_row(who, 2, 0) for who in range(20)), *alone])
    friends = [person_row(who, 3, 0) for who in (78, 79, 80)]
    again = [person_row(3, 2, 0), *alone]
    write(place, "2.csv", [*(person_row(who, 3, 0) for who in range(20)), *friends, *again])
    (place / "policy.yaml").write_text(POLICY.replace("cohort: lasting", "cohort: lasting\nintake: 3"))
    outputs = chain(place, 3)
    assert rejected(outputs[1]) == {"awaits_intake": 1}
    assert rejected(outputs[2]) == {"duplicate_event": 1}
    assert people_known(outputs[2]) == 25


def test_a_second_successor_is_refused_before_the_input_is_looked_at(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its input need not even be there; the first successor may resume."""
    for night in range(2):
        write(place, f"{night}.csv", [person_row(who, night + 1, 0) for who in range(20)])
    chain(place, 2)
    capsys.readouterr()
    assert anonymize(place, "nothing.csv", "other", "--continue", str(place / "out0")) == 2
    assert "another run continues it already" in capsys.readouterr().err
    assert not (place / "other").exists()
    assert anonymize(place, "1.csv", "out1", "--resume", "--continue", str(place / "out0")) == 0


def test_the_end_of_a_run_is_said_and_can_be_given(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong row of the far future moves it, and --until bounds it: that row waits, and the others are as ever."""
    wrong = person_row(5, 9, 0)
    write(place, "0.csv", [*(person_row(who, 1, 0) for who in range(20)), wrong])
    assert anonymize(place, "0.csv", "far", "--carry") == 0
    assert (
        "This run ends at 2024-03-10 00:00:00 UTC (the end of the window of its latest row)"
        in capsys.readouterr().err
    )
    assert anonymize(place, "0.csv", "out", "--carry", "--until", "2024-03-03") == 0
    assert "This run ends at 2024-03-03 00:00:00 UTC (--until)" in capsys.readouterr().err
    assert summary(place / "out")["rows_released"] == 20
    assert summary(place / "out")["rows_waiting"] == 1
    assert record(place / "out")["chain"] == {"place": 0, "carry": True, "until": 1709424000000}
    write(place, "1.csv", [person_row(who, 2, 0) for who in range(20)])
    earlier = ("--continue", str(place / "out"), "--carry", "--until", "2024-03-02")
    assert anonymize(place, "1.csv", "next", *earlier) == 2
    assert "went on to 2024-03-03 00:00:00 UTC already" in capsys.readouterr().err
    assert anonymize(place, "1.csv", "next", "--until", "2024-03-02") == 2
    assert "--until goes with --carry" in capsys.readouterr().err


def test_an_epoch_has_the_number_that_is_given(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of one epoch, secret and input write equal files; of another epoch nothing goes on."""
    write(place, "0.csv", [person_row(who, 1, 0) for who in range(20)])
    epoch = "0123456789abcdef"
    for output in ("one", "two"):
        assert anonymize(place, "0.csv", output, "--epoch", epoch) == 0
    for name in ids(place / "one"):
        one, two = ((place / output / "release" / f"{name}.avro").read_bytes() for output in ("one", "two"))
        assert one == two
    assert record(place / "one")["epoch"] == epoch
    write(place, "1.csv", [person_row(who, 2, 0) for who in range(20)])
    capsys.readouterr()
    other = ("--epoch", "00000000000000aa")
    assert anonymize(place, "1.csv", "next", "--continue", str(place / "one"), *other) == 2
    assert anonymize(place, "0.csv", "one", "--resume", *other) == 2
    assert capsys.readouterr().err.count("leave the flag out") == 2
    with pytest.raises(SystemExit):
        anonymize(place, "0.csv", "three", "--epoch", "12")


def test_a_run_that_has_not_ended_is_not_continued(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What waits there would be lost."""
    for night in range(2):
        write(place, f"{night}.csv", [person_row(who, night + 1, 0) for who in range(20)])
    assert anonymize(place, "0.csv", "out0") == 0
    (place / "out0" / "restricted" / "ended").unlink()
    capsys.readouterr()
    assert anonymize(place, "1.csv", "out1", "--continue", str(place / "out0")) == 2
    assert "has not ended" in capsys.readouterr().err
    # Of a job on another machine nobody knows more, so its own mark counts.
    run = record(place / "out0") | {"elsewhere": True}
    (place / "out0" / "restricted" / "run.json").write_text(json.dumps(run))
    assert anonymize(place, "1.csv", "out1", "--continue", str(place / "out0")) == 2
    assert "wait for restricted/ended" in capsys.readouterr().err


def test_the_nights_of_the_documents_do_what_is_said(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of docs/operations.md, one after the other, over three nights with a few newcomers in the first."""
    text = (ROOT / "docs" / "operations.md").read_text()
    block = text.partition("## Nightly runs")[2].partition("```sh\n")[2].partition("```")[0]
    for day in (1, 2, 3):
        rows = [person_row(who, day, number) for who in range(20) for number in (0, 1)]
        write(place, f"2024-03-0{day}.csv", rows)
    monkeypatch.chdir(place)
    for number, line in enumerate(block.splitlines(), 1):
        program, *arguments = shlex.split(line)
        assert program == "kanonflow"
        assert main(arguments) == 0
        waits = "rows wait in out/" in capsys.readouterr().err
        assert waits == (number == 1)
    outputs = [place / "out" / str(number) for number in (1, 2, 3)]
    assert len(released(*outputs)) == 120
