"""What a chain of runs has read is not released a second time: files by their content, whatever their names are."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.pipelines.runs.spelled_nights import Nights, night_rows, padded, write
from tests.pipelines.runs.test_other_spellings import record, stream, untouched

pytestmark = pytest.mark.thorough

ENDINGS = ("csv", "csv.gz", "parquet", "avro")


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest) -> str:
    """Of the files of a feed."""
    return str(request.param)


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """A first night, of CSV."""
    nights = Nights(tmp_path)
    assert nights.run("out1", write(tmp_path / "1.csv", night_rows(1))) == 0
    return nights


def test_the_same_night_twice_is_refused_by_name(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """--continue over the input that the run before was made of, in each format: nothing is written."""
    nights = Nights(tmp_path)
    first = write(tmp_path / f"1.{ending}", night_rows(1))
    assert nights.run("out1", first) == 0
    assert nights.on("out1", "out2", first) == 2
    told = capsys.readouterr().err
    assert f"have read the input already: 1.{ending}." in told
    assert "--second-release, without --continue" in told
    assert untouched(nights)


def test_a_renamed_or_moved_file_is_known_by_its_content(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name says nothing; what it was called then is told."""
    (nights.place / "archive").mkdir()
    moved = shutil.move(nights.place / "1.csv", nights.place / "archive" / "monday.csv")
    assert nights.on("out1", "out2", moved) == 2
    assert "monday.csv (then 1.csv)" in capsys.readouterr().err


def test_where_some_files_were_read_before_those_are_named(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of all nights, as a careless glob gives it: refused, with the files to leave out and no other."""
    write(nights.place / "2.csv", night_rows(2))
    write(nights.place / "3.csv", night_rows(3))
    assert nights.on("out1", "out2", nights.place / "?.csv") == 2
    told = capsys.readouterr().err
    assert "have read 1 of the 3 files of the input already: 1.csv. Their" in told
    assert "Leave those out" in told
    assert untouched(nights)
    assert nights.on("out1", "out2", nights.place / "2.csv", nights.place / "3.csv") == 0


def test_the_third_night_knows_what_the_first_read(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list goes along the chain, whose last directory is all that is needed."""
    assert nights.on("out1", "out2", write(nights.place / "2.csv", night_rows(2))) == 0
    shutil.rmtree(nights.place / "out1")
    for day in (1, 2):
        capsys.readouterr()
        assert nights.on("out2", "out3", nights.place / f"{day}.csv") == 2
        assert f"already: {day}.csv." in capsys.readouterr().err
    assert nights.on("out2", "out3", write(nights.place / "3.csv", night_rows(3))) == 0
    assert [each["name"] for each in record(nights, "out3")["read"]] == ["1.csv", "2.csv"]


def test_digests_on_record_are_keyed(nights: Nights) -> None:
    """A digest of a small file would tell its rows to whoever guesses them: the same file has another under another
    secret, and none is its SHA-256."""
    assert nights.on("out1", "out2", write(nights.place / "2.csv", night_rows(2))) == 0
    plain = hashlib.sha256((nights.place / "1.csv").read_bytes()).hexdigest()
    assert plain not in (nights.place / "out2" / "restricted" / "run.json").read_text()


def test_a_run_that_resumes_reads_its_own_input_again(nights: Nights) -> None:
    """--resume of a continuing night is that night, also where it was stopped before its first release."""
    second = write(nights.place / "2.csv", night_rows(2))
    assert nights.on("out1", "out2", second) == 0
    before = record(nights, "out2")
    assert nights.on("out1", "out2", second, flags=("--resume",)) == 0
    assert nights.run("out2", second, flags=("--resume",)) == 0
    assert record(nights, "out2")["read"] == before["read"]
    for folder in ("release", "restricted/metrics", "restricted/slots"):
        for path in (nights.place / "out2" / folder).rglob("*"):
            if path.is_file():
                path.unlink()
    assert nights.on("out1", "out2", second, flags=("--resume",)) == 0
    assert list((nights.place / "out2" / "release").iterdir())


def test_files_without_rows_are_never_read_before(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A header alone is the same content each night, and nothing of it can be released twice."""
    empty = write(nights.place / "empty.csv", [])
    both = (write(nights.place / "2.csv", night_rows(2)), empty)
    assert nights.on("out1", "out2", *both) == 0
    third = write(nights.place / "3.csv", night_rows(3))
    assert nights.on("out2", "out3", third, shutil.copy(empty, nights.place / "none.csv")) == 0
    capsys.readouterr()
    assert nights.on("out3", "out4", third, empty) == 2
    assert "1 of the 2 files of the input already: 3.csv. Their" in capsys.readouterr().err


def test_what_a_run_read_that_released_nothing_may_be_fed_again(nights: Nights) -> None:
    """Two people are too few for a release: their rows were rejected. Their file may come again, as it is."""
    few = write(nights.place / "few.csv", night_rows(2, padded, range(100, 102)))
    flags = ("--people-changed",)
    assert nights.on("out1", "out2", few, flags=flags) == 3  # none of the rows read was released
    assert not list((nights.place / "out2" / "release").iterdir())
    assert nights.on("out2", "out3", few, flags=flags) == 3
    assert [each["name"] for each in record(nights, "out3")["read"]] == ["1.csv"]


def test_old_rows_are_not_refused(nights: Nights) -> None:
    """What is merely old was not read: the night of two days ago may come after yesterday's."""
    assert nights.on("out1", "out2", write(nights.place / "3.csv", night_rows(3))) == 0
    assert nights.on("out2", "out3", write(nights.place / "2.csv", night_rows(2))) in (0, 3)
    assert (nights.place / "out3" / "restricted" / "run.json").exists()


def test_a_second_release_is_another_run_without_continue(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both flags are refused with what to do; the way that the refusal names releases the rows once more, and says
    what that costs."""
    first = nights.place / "1.csv"
    assert nights.on("out1", "out1", first, flags=("--second-release",)) == 2
    assert "leave --continue out" in capsys.readouterr().err
    (nights.place / "other").write_bytes(bytes(range(9, 49)))
    (nights.place / "other").chmod(0o600)
    nights.secret = "other"
    assert nights.run("out1", first, flags=("--second-release",)) == 0
    assert "SECOND RELEASE" in capsys.readouterr().err
    assert (nights.place / "out1" / "second-2" / "release").is_dir()


def test_a_chain_of_an_earlier_build_has_read_its_input(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its run.json has no list of the runs before, and digests of its own files: those are refused."""
    path = nights.place / "out1" / "restricted" / "run.json"
    told = json.loads(path.read_text())
    del told["cohorts"]["individual_type"]
    path.write_text(json.dumps(told))
    flags = ("--individual-type", "string")
    assert nights.on("out1", "out2", nights.place / "1.csv", flags=flags) == 2
    assert "have read the input already" in capsys.readouterr().err


def test_a_directory_whose_files_the_nights_have_read_is_no_feed(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream that continues a night is told of the files that are there already, under whatever name."""
    feed = nights.place / "feed"
    feed.mkdir()
    shutil.copy(nights.place / "1.csv", feed / "a.csv")
    write(feed / "b.csv", night_rows(2))
    write(feed / "c.csv", [])
    continues = ("--continue", str(nights.place / "out1"))
    assert stream(nights, feed, "out2", *continues) == 2
    assert "1 of the 3 files of the input already: a.csv (then 1.csv)" in capsys.readouterr().err
    assert untouched(nights)


def test_what_waits_in_a_carried_state_was_read(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of the file was released, but its rows are carried along and leave later: fed again, they would leave
    twice."""
    few = write(nights.place / "few.csv", night_rows(2, padded, range(100, 102)))
    assert nights.on("out1", "out2", few, flags=("--carry",)) in (0, 3)
    assert not list((nights.place / "out2" / "release").iterdir())
    capsys.readouterr()
    assert nights.on("out2", "out3", few) == 2
    assert "have read the input already: few.csv." in capsys.readouterr().err
