"""A new run takes no directory and no secret that somebody else has prepared or can read."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kanonflow.pipelines.run_records.private_places import OpenPlaceError, refuse_open_places
from kanonflow.pipelines.run_records.run_directory import RunDirectory, open_run_directory
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.secret.seeds import Secret

PLANTED = bytes(range(60, 92))
Prepare = Callable[[Path], Path]


def _open(output: Path, *, resume: bool = False, release: bool = False) -> RunDirectory:
    fields = {"age": {"role": "quasi", "type": "numeric"}}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    files = [{"name": "a.csv", "bytes": 10}]
    with open_run_directory(str(output), policy, files, None, resume=resume) as directory:
        if release:
            (output / "release" / "r1.avro").write_bytes(b"rows")
        return directory


def _restricted(out: Path, mode: int = 0o700) -> Path:
    (out / "restricted").mkdir(parents=True)
    (out / "restricted").chmod(mode)
    return out / "restricted"


def _secret(folder: Path, mode: int = 0o600) -> Path:
    (folder / "secret").write_bytes(PLANTED)
    (folder / "secret").chmod(mode)
    return folder / "secret"


def _open_restricted(out: Path) -> Path:
    _secret(_restricted(out, 0o755))
    return out / "restricted"


def _open_secret(out: Path) -> Path:
    return _secret(_restricted(out), 0o644)


def _link_to_release(out: Path) -> Path:
    elsewhere = out.parent / "elsewhere"
    elsewhere.mkdir()
    out.mkdir()
    (out / "release").symlink_to(elsewhere)
    return out / "release"


def _link_to_restricted(out: Path) -> Path:
    elsewhere = _restricted(out.parent / "elsewhere")
    _secret(elsewhere)
    out.mkdir()
    (out / "restricted").symlink_to(elsewhere)
    return out / "restricted"


def _link_to_nothing(out: Path) -> Path:
    out.mkdir()
    (out / "restricted").symlink_to(out.parent / "not there yet")
    return out / "restricted"


def _link_to_secret(out: Path) -> Path:
    place = _restricted(out) / "secret"
    place.symlink_to(_secret(out.parent))
    return place


def _link_to_output(out: Path) -> Path:
    _secret(_restricted(out.parent / "elsewhere"))
    out.symlink_to(out.parent / "elsewhere")
    return out


def _pipe(out: Path) -> Path:
    os.mkfifo(_restricted(out) / "secret", 0o600)
    return out / "restricted" / "secret"


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (_open_restricted, r"open to others \(mode 0755\).*chmod 700"),
        (_open_secret, r"open to others \(mode 0644\).*chmod 600"),
        (_link_to_restricted, "symbolic link"),
        (_link_to_nothing, "symbolic link"),
        (_link_to_secret, "symbolic link"),
        (_link_to_output, "symbolic link"),
        (_link_to_release, "symbolic link"),
        (_pipe, "not a plain file"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_a_new_run_refuses_a_prepared_place(
    tmp_path: Path, prepare: Prepare, told: str, resume: bool
) -> None:
    """Nothing is written, no mode changed, and the message names the path and the mend; --resume changes nothing."""
    path = prepare(tmp_path / "out")
    before = sorted((str(each), each.lstat().st_mode) for each in tmp_path.rglob("*"))
    with pytest.raises(OpenPlaceError, match=re.escape(str(path)) + ".*" + told) as caught:
        _open(tmp_path / "out", resume=resume)
    assert caught.value.exit_code == 2
    assert sorted((str(each), each.lstat().st_mode) for each in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("place", ["restricted", "restricted/secret"])
def test_what_belongs_to_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Also when it is closed: its owner may open it again, and knows the secret that he laid there."""
    _secret(_restricted(tmp_path / "out"))
    look = os.lstat

    def of_somebody(path: str) -> os.stat_result:
        found = look(path)
        owner = found.st_uid + (1 if str(path).endswith(place) else 0)
        return os.stat_result((*found[:4], owner, *found[5:]))

    monkeypatch.setattr("kanonflow.pipelines.run_records.private_places.os.lstat", of_somebody)
    with pytest.raises(OpenPlaceError, match=f"{place} belongs to another user"):
        refuse_open_places(str(tmp_path / "out"))


def test_ones_own_closed_place_is_taken(tmp_path: Path) -> None:
    """A restricted/ that the user made, also with a secret of his; and a directory under a sticky one, as in /tmp."""
    _secret(_restricted(tmp_path / "out"))
    assert _open(tmp_path / "out").secret == Secret(PLANTED)
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    _open(sticky)
    assert stat.S_IMODE((sticky / "restricted").stat().st_mode) == 0o700


@pytest.fixture
def seen() -> Iterator[Path]:
    """A folder that everybody can look into, as pytest's own ones are not."""
    folder = Path(tempfile.mkdtemp(prefix="kanonflow-seen-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _folders(base: Path, *modes: int) -> Path:
    """Folders in one another, of these modes, from the outermost; the innermost one."""
    place = base
    for number, mode in enumerate(modes):
        place = place / f"f{number}"
        place.mkdir()
        place.chmod(mode)
    return place


@pytest.mark.parametrize(
    ("modes", "open_one"),
    [
        ((0o777,), "f0"),
        ((0o777, 0o755), "f0"),
        ((0o755, 0o777, 0o755), "f0/f1"),
        ((0o777, 0o700), "f0"),
        ((0o2777, 0o755), "f0"),
        ((0o711, 0o777), "f0/f1"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_place_that_somebody_else_can_exchange_is_refused(
    seen: Path, modes: tuple[int, ...], open_one: str, there: bool
) -> None:
    """Who may write into OUT can rename restricted/; who may write into a folder above it, the whole way down, even
    one that is closed itself. Whether OUT is there already or not, and through a link as well."""
    out = _folders(seen, *modes)
    out = out if there else out / "new"
    (seen / "link").symlink_to(out.parent)
    for path in (out, seen / "link" / out.name):
        with pytest.raises(OpenPlaceError, match=f"{seen / open_one}: everybody may write there.*chmod o-w"):
            refuse_open_places(str(path))


@pytest.mark.parametrize("modes", [(0o700, 0o777), (0o700, 0o777, 0o777), (0o1777, 0o755), (0o755, 0o755)])
def test_a_place_that_nobody_else_can_reach_or_exchange_is_taken(seen: Path, modes: tuple[int, ...]) -> None:
    """Below a folder that is closed to others, whatever the modes there; in one like /tmp, where each has his own."""
    refuse_open_places(str(_folders(seen, *modes)))


def test_a_link_in_a_folder_for_all_can_be_turned(seen: Path) -> None:
    """The folder that it leads to is closed to writers, the one in which it lies is not."""
    target = _folders(seen, 0o755)
    shared = seen / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "link").symlink_to(target)
    with pytest.raises(OpenPlaceError, match=f"{shared}: everybody may write there"):
        refuse_open_places(str(shared / "link" / "out"))


def test_the_runs_own_secret_is_closed_again(tmp_path: Path) -> None:
    """A copy of a run's directory has lost its modes: run.json has the secret's commitment, so it goes on."""
    first = _open(tmp_path / "out", release=True)
    (tmp_path / "out" / "restricted").chmod(0o755)
    (tmp_path / "out" / "restricted" / "secret").chmod(0o644)
    assert _open(tmp_path / "out", resume=True).secret == first.secret
    for place, mode in (("restricted", 0o700), ("restricted/secret", 0o600)):
        assert stat.S_IMODE((tmp_path / "out" / place).stat().st_mode) == mode


def test_another_secret_in_the_place_of_the_runs_own_is_refused(tmp_path: Path) -> None:
    """What was exchanged has no commitment in run.json."""
    _open(tmp_path / "out", release=True)
    _secret(tmp_path / "out" / "restricted", 0o644)
    with pytest.raises(Exception, match="another one") as caught:
        _open(tmp_path / "out", resume=True)
    assert getattr(caught.value, "exit_code", None) == 2
