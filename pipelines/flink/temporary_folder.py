"""A folder of its own for what Beam and its job server leave in the temporary folder of the machine."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kanonflow.pipelines.flink.flags import flag_value

_PREFIX, _MARK = "kanonflow-", ".of-process"


@contextlib.contextmanager
def private_temporary_folder(flags: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """For as long as the context lasts, this process and its job server put temporary files into one folder.

    It goes with the process: Beam stops its job server only then. What a process that was killed has left goes first.
    flags: Beam's flags of the run. Gives the further ones that tell the job server.
    """
    remove_left_folders(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    if (process := _process(os.getpid())) is not None:
        Path(folder, _MARK).write_text(process)
    # Before Beam registers the end of its job server: exit handlers run backwards.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    properties = flag_value(flags, "--job_server_jvm_properties")
    try:
        yield () if properties is not None else (f"--job_server_jvm_properties=-Djava.io.tmpdir={folder}",)
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable


def remove_left_folders(above: str) -> int:
    """Remove the folders of this user's that have our mark, of processes of this machine that are gone; how many.

    A folder without a mark, or with that of another machine, boot or container, stays.
    """
    gone = 0
    for folder in Path(above).glob(f"{_PREFIX}*"):
        try:
            # A link would lead to what is not ours; nobody else's mark is believed.
            status = folder.lstat()
            if folder.is_symlink() or status.st_uid != os.geteuid():
                continue
            *here, pid, _ = mark = (folder / _MARK).read_text().split()
            now = _process(int(pid))
        except (OSError, ValueError):
            continue
        own = _process(os.getpid())
        if own is None or here != own.split()[:2] or mark == (now or "").split():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        gone += 1
    return gone


def _process(pid: int) -> str | None:
    """Boot, namespace of processes, number and start of a process, which no other has; None: there is no such."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        names = os.readlink("/proc/self/ns/pid")
        # Its second field is a name in brackets, which may hold spaces.
        began = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{boot} {names} {pid} {began}"
