"""The same rows by two ways: a copy of a file beside it, and an output that was moved away from its chain."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.nightly import Nights, night_lines, nights_of


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Two nights."""
    return nights_of(tmp_path / "place", [night_lines(1), night_lines(2)])


@pytest.mark.parametrize("way", ["copied", "linked"])
def test_a_copy_of_a_file_beside_it_is_refused(nights: Nights, way: str, capsys: Any) -> None:
    """By name and before anything is written: every row would have been out twice."""
    one, other = nights.place / "in/1.csv", nights.place / "in/1 again.csv"
    shutil.copy(one, other) if way == "copied" else other.symlink_to(one)
    assert nights.anonymize("1*.csv", "out") == 2
    assert "1 again.csv" in (told := capsys.readouterr().err)
    assert "byte for byte" in told
    assert not (nights.place / "out/release").exists()


def test_equal_files_without_rows_are_no_copies(nights: Nights) -> None:
    """Of days on which nothing was."""
    header = (nights.place / "in/1.csv").read_text().split("\n")[0] + "\n"
    for name in ("3.csv", "4.csv"):
        (nights.place / "in" / name).write_text(header)
    assert nights.anonymize("*.csv", "out") == 0


@pytest.mark.parametrize("gone", ["moved", "removed"])
def test_a_night_whose_successor_is_gone_is_not_continued_again(
    nights: Nights, gone: str, capsys: Any
) -> None:
    """What it published is somewhere; where it was moved to, the chain goes on."""
    nights.chain(2)
    if gone == "moved":
        (nights.place / "out2").rename(nights.place / "elsewhere")
    else:
        shutil.rmtree(nights.place / "out2")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    assert "is not there any more" in capsys.readouterr().err
    assert not (nights.place / "out2").exists()
    if gone == "moved":
        (nights.place / "in/3.csv").write_text(
            (nights.place / "in/2.csv").read_text().replace("03-02", "03-03")
        )
        assert nights.anonymize("3.csv", "out3", "--continue", "@elsewhere") == 0
