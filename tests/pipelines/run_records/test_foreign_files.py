"""What is not of a run is said, and left alone."""

from __future__ import annotations

from pathlib import Path

from kanonflow.pipelines.run_records.foreign_files import foreign_files, strangers_note


def test_what_runs_write_is_none(tmp_path: Path) -> None:
    """Nor what is hidden; nor what is not there."""
    for name in ("release", "restricted", "metrics", "second-2", "feed", ".hidden"):
        (tmp_path / name).mkdir()
    assert foreign_files(str(tmp_path)) == ()
    assert foreign_files(str(tmp_path / "none")) == ()
    assert foreign_files("gs://bucket/out") == ()
    assert strangers_note("out", ()) == ()


def test_other_names_are_told(tmp_path: Path) -> None:
    """Some of them, in order, and how many more there are; what a terminal would obey is escaped."""
    for name in ("g", "b.csv", "a.csv", "c", "d", "e\x1b[2J", "second-x"):
        (tmp_path / name).touch()
    names = foreign_files(str(tmp_path))
    assert names == ("a.csv", "b.csv", "c", "d", "e\x1b[2J", "g", "second-x")
    (note,) = strangers_note("out", names)
    assert note.startswith("out also holds what is not of a run and is left as it is: a.csv, b.csv, c, d, e")
    assert " and 2 more." in note
    assert "\x1b" not in note
