"""The same rows by two ways: a copy of a file beside it, an output that was moved away from its chain, and a copy of an
output beside it."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.chains.run_identity import KEY, identity_record, original_of
from tests.nightly import Nights, night_lines, nights_of
from tests.object_store import object_store


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Two nights."""
    return nights_of(tmp_path / "place", [night_lines(1), night_lines(2)])


@pytest.mark.parametrize("way", ["copied", "linked", "sorted", "compressed"])
def test_a_copy_of_a_file_beside_it_is_refused(nights: Nights, way: str, capsys: Any) -> None:
    """By name and before anything is written: every row would have been out twice."""
    one, other = nights.place / "in/1.csv", nights.place / "in/1 again.csv"
    if way == "linked":
        other.symlink_to(one)
    elif way == "sorted":
        header, *lines = one.read_text().splitlines()
        other.write_text("\n".join([header, *sorted(lines)]) + "\n")
    elif way == "compressed":
        (other := nights.place / "in/1 again.csv.gz").write_bytes(gzip.compress(one.read_bytes()))
    else:
        shutil.copy(one, other)
    assert nights.anonymize("1*", "out") == 2
    assert f"{other} holds what {one} holds" in (told := capsys.readouterr().err.replace("  ", " ")) or (
        f"{one} holds what {other} holds" in told
    )
    assert "row for row" in told
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


@pytest.mark.parametrize("policy", ["lasting", "window"])
@pytest.mark.parametrize("first", ["copy", "original"])
def test_a_copy_of_an_output_does_not_go_on_beside_it(
    nights: Nights, first: str, policy: str, capsys: Any
) -> None:
    """Made before the original was continued, it has no mark of that: night two would have been out twice."""
    if policy == "window":
        text = (nights.place / "policy.yaml").read_text()
        text = text.replace("cohort: lasting\nintake: 6", "cohort: window")
        (nights.place / "policy.yaml").write_text(text)
    nights.chain(1)
    shutil.copytree(nights.place / "out1", nights.place / "copy")
    if first == "original":
        assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.anonymize("2.csv", "twice", "--continue", "@copy") == 2
    assert f"it is a copy of {nights.place}/out1" in capsys.readouterr().err
    assert not (nights.place / "twice").exists()
    assert nights.anonymize("1.csv", "copy", "--resume") == 2
    assert f"cannot be resumed: it is a copy of {nights.place}/out1" in capsys.readouterr().err
    if first == "copy":
        assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0


def test_what_was_moved_or_is_seen_by_two_names_goes_on(nights: Nights) -> None:
    """By continuing and by resuming; from then on the place on record is the new one."""
    nights.chain(1)
    (nights.place / "out1").rename(nights.place / "moved")
    assert nights.anonymize("1.csv", "moved", "--resume") == 0
    shutil.copytree(nights.place / "moved", nights.place / "out1")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    (nights.place / "name").symlink_to(nights.place / "moved")
    assert nights.anonymize("2.csv", "out2", "--continue", "@name") == 0


def test_copies_are_told_by_the_place_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket as on a disk, and across both; another run at that place, a damaged one or none is no original."""
    with object_store(monkeypatch) as store:
        record = identity_record("gs://bucket/out/", None)
        assert original_of("gs://bucket/out", record) is None
        assert original_of("gs://bucket/copy", record) is None
        store.objects["gs://bucket/out/restricted/run.json"] = json.dumps(record).encode()
        assert original_of("gs://bucket/copy", record) == "gs://bucket/out"
        assert original_of(str(tmp_path), record) == "gs://bucket/out"
        assert original_of("gs://bucket/copy", identity_record("gs://bucket/out", None)) is None
        store.objects["gs://bucket/out/restricted/run.json"] = b"{"
        assert original_of("gs://bucket/copy", record) is None
        assert identity_record("gs://bucket/copy", record)[KEY] == record[KEY] | {
            "output": "gs://bucket/copy"
        }
        assert original_of("gs://bucket/copy", {}) is None
        assert identity_record("gs://bucket/copy", {}) == {}


def test_a_directory_that_is_mounted_twice_is_no_copy(tmp_path: Path) -> None:
    """One file by two names: a hard link stands in for the mount."""
    record = identity_record(str(tmp_path / "one"), None)
    for name in ("one", "other"):
        (tmp_path / name / "restricted").mkdir(parents=True)
    (tmp_path / "one/restricted/run.json").write_text(json.dumps(record))
    (tmp_path / "other/restricted/run.json").hardlink_to(tmp_path / "one/restricted/run.json")
    assert original_of(str(tmp_path / "other"), record) is None
