"""Where the traceback of an error goes that nobody expected: to a file for its owner only, never to the terminal.

A traceback may hold values of records. Only the standard library is needed here, as the error may be that something
else cannot be imported.
"""

from __future__ import annotations

import argparse
import errno
import os
import stat
import tempfile
import traceback
from pathlib import Path

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def restricted_of(arguments: argparse.Namespace | None) -> Path | None:
    """The ``restricted/`` folder of the run that a command makes or audits; None where it has none on this machine.

    arguments: None when the error came before they were read.
    """
    for name in ("restricted", "output", "release"):
        place = getattr(arguments, name, None)
        if place and "://" not in place:
            return Path(place) / "restricted"
    return None


def out_of_space(error: BaseException | None) -> bool:
    """Whether a device had no space left, in an error or in what it came from. Runners keep an error's text alone."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or f"[Errno {errno.ENOSPC}]" in str(
            error
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def write_trace(
    error: BaseException, restricted: Path | None, milliseconds: int, *, create: bool
) -> Path | None:
    """Write the traceback to ``restricted/error-<milliseconds>-<process>.log``, mode 0600.

    restricted: None, or a folder that cannot be used (a link, not its owner's, open to others, missing and not to be
    created): a new folder below the system's one for temporary files. milliseconds: since 1970. create: make
    ``restricted`` (0700) when it is missing, as a run would have.

    Returns the file; None when none could be written, which is no reason to raise another error.
    """
    name = f"error-{milliseconds}-{os.getpid()}.log"
    for make in (lambda: _usable(restricted, create), lambda: Path(tempfile.mkdtemp(prefix="kanonflow-"))):
        try:
            folder = make()
            if folder is not None:
                return _write(folder / name, error)
        except Exception:  # the next place may do, and what failed first is what must be told
            continue
    return None


def _usable(restricted: Path | None, create: bool) -> Path | None:
    if restricted is None:
        return None
    if create and not os.path.lexists(restricted):
        restricted.parent.mkdir(parents=True, exist_ok=True)
        restricted.mkdir(mode=PRIVATE_FOLDER)
    status = restricted.lstat()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return restricted if own and stat.S_IMODE(status.st_mode) & 0o077 == 0 else None


def _write(path: Path, error: BaseException) -> Path:
    text = "".join(traceback.format_exception(error))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
