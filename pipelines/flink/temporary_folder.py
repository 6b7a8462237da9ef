"""A folder of its own for what Beam and its job server leave in the temporary folder of the machine."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from kanonflow.pipelines.flink.flags import flag_value


@contextlib.contextmanager
def private_temporary_folder(flags: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """For as long as the context lasts, this process and its job server put temporary files into one folder.

    It goes with the process: Beam stops its job server only then. A process that is killed leaves it.
    flags: Beam's flags of the run. Gives the further ones that tell the job server.
    """
    folder = tempfile.mkdtemp(prefix="kanonflow-")
    # Before Beam registers the end of its job server: exit handlers run backwards.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    told = flag_value(flags, "--job_server_jvm_properties")
    try:
        yield () if told is not None else (f"--job_server_jvm_properties=-Djava.io.tmpdir={folder}",)
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
