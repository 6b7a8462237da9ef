"""Whether a directory may take a new run's raw data and its secret: nobody else has prepared it, or can look in.

    OUT, folders above it   not for all to write to, unless one above is closed: who can rename restricted/, or OUT, or
                            a folder above that, can put his own there. OUT is no link
    OUT/release             no link; nor OUT/metrics: who made it would have releases written where he points
    OUT/restricted          no link, a directory of the user's, mode 0700
    OUT/restricted/secret   no link, a plain file of the user's, mode 0600

A secret that somebody else has laid there in advance would be taken for the run's own, and he could undo every release.
"""

from __future__ import annotations

import contextlib
import os
import stat

from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE
from kanonflow.transforms.files.storage import is_local

_ELSEWHERE = "choose another --output"
_OWN = f"{_ELSEWHERE}, or remove it if nothing there is needed"


class OpenPlaceError(Exception):
    """The output cannot keep what must stay inside; the message names the path and the mend."""

    exit_code = 2


def refuse_open_places(output: str) -> None:
    """Raise OpenPlaceError if ``output``, as far as it exists, is not for a new run's raw data. Local paths only.

    Links are not followed (lstat). To be called before the directories are made and again afterwards: what was put
    there in between is found too, and when ``restricted/`` is the user's and closed, nobody can exchange what is in it.
    """
    if not is_local(output):
        return
    output = output.rstrip("/") or "/"  # lstat follows a link that a slash follows
    if (there := _status(output)) is not None:
        _refuse_link(output, there)
    _refuse_exchangeable(output)
    for public in ("release", "metrics"):
        if (there := _status(path := os.path.join(output, public))) is not None:
            _refuse_link(path, there)
    restricted = os.path.join(output, "restricted")
    for path, mode in ((restricted, 0o700), (os.path.join(restricted, "secret"), 0o600)):
        if (there := _status(path)) is not None:
            _refuse_link(path, there)
            _refuse_others(path, there, mode)


def close_own_secret(output: str) -> None:
    """Make the secret of the run that is there its owner's alone again: copies of a directory lose their modes."""
    path = os.path.join(output, "restricted", "secret")
    if is_local(output):
        with contextlib.suppress(OSError):  # whoever reads the secret says what is wrong with it
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, PRIVATE_FILE)
            finally:
                os.close(descriptor)


def _refuse_exchangeable(output: str) -> None:
    """Raise OpenPlaceError if somebody else can put another directory in the place of OUT, or of what is in it."""
    asked = os.path.abspath(output)
    folder, name = os.path.split(asked)
    # Links on the way can be turned by who may write where they lie, and what they lead to can be exchanged there.
    for way in dict.fromkeys((os.path.join(os.path.realpath(folder), name), asked)):
        if (place := _open_on_the_way(way)) is not None:
            above = "" if place == way else f", and so put another directory in the way to {output}"
            raise OpenPlaceError(
                f"{place}: everybody may write there{above}; chmod o-w {place}, or {_ELSEWHERE}"
            )


def _open_on_the_way(path: str) -> str | None:
    """The first directory down to ``path`` where everybody may exchange what is in it; None: nobody else can.

    Below a directory that others cannot pass through modes say nothing. In a sticky one each has his own.
    """
    parts = path.split(os.sep)
    for count in range(1, len(parts) + 1):
        folder = os.sep.join(parts[:count]) or os.sep
        try:
            mode = os.stat(folder).st_mode
        except OSError:
            return None  # not there yet: what is made is made closed
        if not mode & (stat.S_IXGRP | stat.S_IXOTH):
            return None
        if mode & stat.S_IWOTH and mode & stat.S_IXOTH and not mode & stat.S_ISVTX:
            return folder
    return None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OpenPlaceError(f"{path}: cannot be looked at ({error.strerror}); {_OWN}") from None


def _refuse_link(path: str, there: os.stat_result) -> None:
    if stat.S_ISLNK(there.st_mode):
        raise OpenPlaceError(
            f"{path} is a symbolic link, and what a new run writes would go where somebody else points; name the place"
            f" itself, or {_OWN}"
        )


def _refuse_others(path: str, there: os.stat_result, mode: int) -> None:
    expected, is_kind = ("a directory", stat.S_ISDIR) if mode == 0o700 else ("a plain file", stat.S_ISREG)
    if not is_kind(there.st_mode):
        raise OpenPlaceError(f"{path} is not {expected}; {_OWN}")
    if there.st_uid != os.geteuid():
        raise OpenPlaceError(f"{path} belongs to another user, who could have laid it there; {_OWN}")
    if stat.S_IMODE(there.st_mode) & 0o077:
        raise OpenPlaceError(
            f"{path} is open to others (mode {stat.S_IMODE(there.st_mode):04o}), and no run of yours has recorded it;"
            f" chmod {mode:o} {path} if it is yours, or {_OWN}"
        )
