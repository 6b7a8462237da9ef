"""Files that appear whole or not at all, and what a crash leaves of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent, make_directory


def test_a_crash_leaves_nothing_among_the_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not finished lies in restricted/, hidden, and the next attempt succeeds beside it."""

    def dies(*paths: str) -> None:
        raise SystemExit

    (tmp_path / "release").mkdir()
    (tmp_path / "restricted").mkdir()
    path = str(tmp_path / "release" / "a.avro")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", dies)
        patch.setattr(os, "unlink", dies)
        with pytest.raises(SystemExit):
            create_if_absent(path, b"x", workspace=str(tmp_path / "restricted"))
    assert list((tmp_path / "release").iterdir()) == []
    (left,) = (tmp_path / "restricted").iterdir()
    assert left.name.startswith(".a.avro.")
    assert left.name.endswith(".tmp")
    assert create_if_absent(path, b"x", workspace=str(tmp_path / "restricted")) is Outcome.CREATED


def test_a_private_directory_is_never_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the process ends right after it was made: the next run would refuse an open one."""

    def dies(*given: object) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "chmod", dies)
    make_directory(str(tmp_path / "out" / "restricted"), private=True)
    assert (tmp_path / "out" / "restricted").stat().st_mode & 0o777 == 0o700


def test_a_workspace_on_another_file_system_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links do not reach there; the file is made beside its place."""
    link, tried = os.link, []

    def within_one(source: str, target: str) -> None:
        tried.append(os.path.dirname(source))
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, "another file system")
        link(source, target)

    monkeypatch.setattr(os, "link", within_one)
    (tmp_path / "other").mkdir()
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "a"
    assert create_if_absent(str(path), b"x", workspace=str(tmp_path / "other")) is Outcome.CREATED
    assert tried == [str(tmp_path / "other"), str(tmp_path / "here")]
    assert path.read_bytes() == b"x"
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["a"]
