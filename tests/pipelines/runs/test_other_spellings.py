"""A chain of nights whose ids are written differently: nobody enters twice in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.cli import main
from tests.pipelines.runs.spelled_nights import PEOPLE, POLICY, Nights, night_rows, number, padded, write

pytestmark = pytest.mark.thorough


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """A first night of 60 people, whose ids are text with leading zeros."""
    nights = Nights(tmp_path)
    assert nights.run("out1", write(tmp_path / "1.csv", night_rows(1))) == 0
    return nights


def record(nights: Nights, output: str) -> dict[str, Any]:
    """run.json of a run."""
    return json.loads((nights.place / output / "restricted" / "run.json").read_text())


def untouched(nights: Nights, output: str = "out2", earlier: str = "out1") -> bool:
    """Whether a run that was refused left nothing: no release, no record, and no mark on the run before."""
    place = nights.place / output
    return (
        not (place / "restricted" / "run.json").exists()
        and not (place / "restricted" / "cohorts").exists()
        and not list(place.glob("release/*"))
        and not (nights.place / earlier / "restricted" / "continued_by.json").exists()
    )


@pytest.mark.parametrize(("name", "ids"), [("2.parquet", pa.int64()), ("2.avro", pa.int64())])
def test_numbers_after_text_are_refused_by_name(
    nights: Nights, capsys: pytest.CaptureFixture[str], name: str, ids: pa.DataType
) -> None:
    """CSV one night, a column of whole numbers the next: both types are named, and nothing is written at all."""
    assert nights.on("out1", "out2", write(nights.place / name, night_rows(2, number), ids)) == 2
    told = capsys.readouterr().err
    assert "text (string) there" in told
    assert "whole numbers (long) here" in told
    assert "as: string" in told
    assert not (nights.place / "out2").exists()
    assert untouched(nights)


def test_text_after_numbers_is_refused_until_the_policy_reads_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other way round, and the mend: ``as: long`` knows everybody again, whatever zeros and fractions text has."""
    nights = Nights(tmp_path)
    assert nights.run("out1", write(tmp_path / "1.parquet", night_rows(1, number), pa.int64())) == 0
    rows = night_rows(2, lambda who: padded(who) if who % 2 else f"{number(who)}.0")
    second = write(tmp_path / "2.csv", rows)
    assert nights.on("out1", "out2", second) == 2
    told = capsys.readouterr().err
    assert "whole numbers (long) there and text (string) here" in told
    assert "write as: long under who" in told
    mended = POLICY.replace("{role: individual}", "{role: individual, as: long}")
    assert nights.on("out1", "out2", second, policy=mended) == 0
    assert "Of 60 known people 60 were here, 0 not, 0 new." in capsys.readouterr().err
    third = write(tmp_path / "3.parquet", night_rows(3, number), pa.int32())
    assert nights.on("out2", "out3", third) == 0
    assert "Of 60 known people 60 were here, 0 not, 0 new." in capsys.readouterr().err


def test_numbers_that_become_text_know_people_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mend of numbers after text, ``as: string``, where no id there begins with a zero."""
    nights = Nights(tmp_path)
    assert nights.run("out1", write(tmp_path / "1.csv", night_rows(1, lambda who: str(number(who))))) == 0
    second = write(tmp_path / "2.parquet", night_rows(2, number), pa.int64())
    assert nights.on("out1", "out2", second) == 2
    assert "as: string under who" in capsys.readouterr().err
    mended = POLICY.replace("{role: individual}", "{role: individual, as: string}")
    assert nights.on("out1", "out2", second, policy=mended) == 0
    assert "Of 60 known people 60 were here, 0 not, 0 new." in capsys.readouterr().err


def test_whole_numbers_of_any_width_are_one_type(tmp_path: Path) -> None:
    """Their canonical texts are equal, so 32 bits one night and 64 the next are no difference; nor is ``as: long``."""
    nights = Nights(tmp_path)
    assert nights.run("out1", write(tmp_path / "1.parquet", night_rows(1, number), pa.int32())) == 0
    assert nights.on("out1", "out2", write(tmp_path / "2.avro", night_rows(2, number), pa.int64())) == 0
    mended = POLICY.replace("{role: individual}", "{role: individual, as: long}")
    assert nights.on("out2", "out3", write(tmp_path / "3.csv", night_rows(3)), policy=mended) == 0
    assert [record(nights, out)["cohorts"]["individual_type"] for out in ("out1", "out2", "out3")] == [
        "long"
    ] * 3


def test_bytes_are_a_type_of_their_own(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes after text are refused, and bytes after bytes know people again."""
    first, second = (
        write(nights.place / f"{day}.avro", night_rows(day, lambda who: padded(who).encode()), pa.binary())
        for day in (1, 2)
    )
    assert nights.on("out1", "out2", second) == 2
    assert "text (string) there and bytes here" in capsys.readouterr().err
    assert nights.run("bytes1", first) == 0
    assert nights.on("bytes1", "bytes2", second) == 0
    assert "Of 60 known people 60 were here" in capsys.readouterr().err


SPELLINGS: dict[str, tuple[Callable[[int], Any], str]] = {
    "no zeros": (lambda who: str(number(who)), "leading zeros"),
    "fraction": (lambda who: f"{number(who)}.0", "leading zeros"),
    "blanks": (lambda who: f" {padded(who)}", "blanks"),
    "another field": (lambda who: f"account {who}", "another field"),
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_text_in_another_spelling_is_refused_before_anything_is_written(
    nights: Nights, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """The type is the same, nobody is known: exit code 3, the counts, the likely cause; a flag goes on."""
    spell, cause = SPELLINGS[case]
    second = write(nights.place / "2.csv", night_rows(2, spell))
    assert nights.on("out1", "out2", second) == 3
    told = capsys.readouterr().err
    assert "0 of 60 people of the input are known, where 60 people entered" in told
    assert cause in told
    assert "--people-changed" in told
    assert untouched(nights)
    for who in range(PEOPLE):
        assert padded(who) not in told
    assert nights.on("out1", "out2", second, flags=("--people-changed",)) == 0
    assert "Of 60 known people 0 were here, 60 not, 60 new." in capsys.readouterr().err


def test_what_is_refused_can_be_mended_and_run_into_the_same_output(nights: Nights) -> None:
    """The refusal has left nothing that another start would take for a run."""
    second = write(nights.place / "2.csv", night_rows(2, lambda who: str(number(who))))
    assert nights.on("out1", "out2", second) == 3
    write(second, night_rows(2))
    assert nights.on("out1", "out2", second) == 0
    assert record(nights, "out2")["people"] == {"known": 60, "here": 60, "new": 0}


def test_few_ids_that_lost_their_zeros_are_refused(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four of 60: far more than a twentieth is known, but the four would have two places each, and all four who would
    be new are known with zeros."""
    few = night_rows(2, lambda who: str(number(who)) if who < 4 else padded(who))
    assert nights.on("out1", "out2", write(nights.place / "2.csv", few)) == 3
    told = capsys.readouterr().err
    assert "56 of 60 people of the input are known" in told
    assert "of 4 new ones 4 are known in another spelling (leading zeros 4)" in told
    assert untouched(nights)


@pytest.mark.parametrize(
    ("people", "code"),
    [(range(57, 117), 0), (range(58, 118), 3), (range(58, 119), 0)],
    ids=["3 of 60", "2 of 60", "2 of 61, more than the roster has"],
)
def test_a_night_of_other_people_is_told_from_one_of_newcomers(
    nights: Nights, people: range, code: int
) -> None:
    """Below a twentieth of those who are there, and only where the roster has as many people as the input."""
    assert nights.on("out1", "out2", write(nights.place / "2.csv", night_rows(2, padded, people))) == code


def test_a_small_roster_says_nothing(tmp_path: Path) -> None:
    """49 people entered: other 40 people may come. From 50 on they are asked about."""
    nights = Nights(tmp_path)
    other = write(tmp_path / "2.csv", night_rows(2, padded, range(100, 140)))
    for people, code in ((49, 0), (50, 3)):
        first = write(tmp_path / f"{people}.csv", night_rows(1, padded, range(people)))
        assert nights.run(f"out{people}", first) == 0
        assert nights.on(f"out{people}", f"next{people}", other) == code


def test_the_counts_of_people_are_told_and_stay_restricted(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the terminal and in restricted/run.json at the end of a continued run, also of one that resumes; in no public
    file."""
    second = write(nights.place / "2.csv", night_rows(2, padded, range(5, 64)))
    assert nights.on("out1", "out2", second) == 0
    told = "Of 60 known people 55 were here, 5 not, 4 new."
    assert told in capsys.readouterr().err
    assert record(nights, "out2")["people"] == {"known": 60, "here": 55, "new": 4}
    for path in (nights.place / "out2").rglob("*"):
        if path.is_file() and "restricted" not in path.parts:
            assert b"were here" not in path.read_bytes()
    assert nights.run("out2", second, flags=("--resume",)) == 0
    assert told in capsys.readouterr().err
    assert record(nights, "out2")["people"] == {"known": 60, "here": 55, "new": 4}


def forget_type(nights: Nights, output: str) -> None:
    """run.json as an earlier build wrote it."""
    path = nights.place / output / "restricted" / "run.json"
    told = json.loads(path.read_text())
    del told["cohorts"]["individual_type"]
    path.write_text(json.dumps(told))


def test_a_chain_without_a_type_on_record_is_asked_once(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused by name with the flag to give; the answer is compared, kept, and never asked for again."""
    forget_type(nights, "out1")
    second = write(nights.place / "2.csv", night_rows(2))
    assert nights.on("out1", "out2", second) == 2
    assert "--individual-type string" in capsys.readouterr().err
    assert untouched(nights)
    assert nights.on("out1", "out2", second, flags=("--individual-type", "long")) == 2
    assert "whole numbers (long) there and text (string) here" in capsys.readouterr().err
    assert untouched(nights)
    assert nights.on("out1", "out2", second, flags=("--individual-type", "string")) == 0
    assert record(nights, "out2")["cohorts"]["individual_type"] == "string"
    assert nights.on("out2", "out3", write(nights.place / "3.csv", night_rows(3))) == 0


def test_an_answer_that_is_on_record_otherwise_is_refused(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is on record was measured; and without --continue the flags mean nothing."""
    second = write(nights.place / "2.csv", night_rows(2))
    assert nights.on("out1", "out2", second, flags=("--individual-type", "long")) == 2
    assert "on record is that who was text (string)" in capsys.readouterr().err
    for flags in (("--individual-type", "long"), ("--people-changed",)):
        assert nights.run("out2", second, flags=flags) == 2
        assert f"{flags[0]} goes with --continue" in capsys.readouterr().err


def stream(nights: Nights, source: Path, output: str, *flags: str) -> int:
    """``kanonflow stream`` over a directory, as far as it goes without a cluster."""
    given = ["--policy", str(nights.place / "policy.yaml"), "--secret-file", str(nights.place / "secret")]
    given += [
        "--source",
        str(source),
        "--output",
        str(nights.place / output),
        "--unmeasured",
        "--quiet",
        "--flink_job_server_jar=none",
    ]
    return main(["stream", *given, *flags])


def test_a_stream_that_continues_is_asked_the_same(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of Parquet after a night of CSV: the types are compared. A directory of CSV in another spelling: the
    rows that are there are looked at before the job begins. Nothing is written by either."""
    typed, spelled = nights.place / "typed", nights.place / "spelled"
    typed.mkdir()
    spelled.mkdir()
    write(typed / "2.parquet", night_rows(2, number), pa.int64())
    write(spelled / "2.csv", night_rows(2, lambda who: str(number(who))))
    continues = ("--continue", str(nights.place / "out1"))
    assert stream(nights, typed, "out2", *continues) == 2
    assert "text (string) there and whole numbers (long) here" in capsys.readouterr().err
    assert untouched(nights)
    assert stream(nights, spelled, "out2", *continues) == 3
    told = capsys.readouterr().err
    assert "0 of 60 people in the input's beginning are known" in told
    assert "--people-changed" in told
    assert untouched(nights)
