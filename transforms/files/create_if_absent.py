"""Create a file unless it exists: what makes a sink idempotent under retry, replay and resume.

Local: a temporary file in the same directory, or in a workspace on the same file system, fsync, ``link(temporary,
final)``, which fails when the final name exists, unlink. A crash at any point leaves the complete file or none
(perhaps also a hidden ``.tmp`` in the workspace, which is why what is published has one outside of its directory).

Google Cloud Storage (gs://): one upload with the precondition that the object has no generation yet, which the
service checks. An upload whose answer was lost and that is sent again finds its own object, which says the same.

S3 (s3://): one upload with the condition that no object has the name (``If-None-Match: *``), which the service checks,
by the client that Beam has, with its credentials. A store that does not know the condition, and says so, is one of the
others; one that ignores it overwrites where two workers upload in the same instant.

Elsewhere (hdfs://) and on file systems without hard links: a temporary file, then a rename if the
final name does not exist. Test and rename are two steps there, and object stores rename by copying: of
two workers that commit the same name in the same instant, the later one wins. As both derive the file from
the same slot, they hold the same bytes unless the input changed between two replays; a conflict that falls
into that instant goes unnoticed.
"""

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from kanonflow.transforms.files import storage
from kanonflow.transforms.files.storage import is_local

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

_FAILED_CONDITION, _CONFLICT, _NOT_IMPLEMENTED = 412, 409, 501
_CONFLICT_TRIES = 4
"""S3 answers with a conflict, and wants the request again, when another one for the name came in between."""

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
PUBLIC_FILE = 0o666  # the process's umask takes its part away


class Outcome(StrEnum):
    """What became of an attempt to create a file."""

    CREATED = "created"
    SAME = "same"
    DIFFERENT = "different"


def make_directory(path: str, *, private: bool = False) -> None:
    """Create a directory and its parents; a private one is readable by its owner only, also if it existed."""
    if not is_local(path):
        return  # object stores have no directories; a prefix appears with its first file
    # From the first moment on: a process may end between two calls, and an open folder of nobody's is refused.
    os.makedirs(path, PRIVATE_DIRECTORY if private else 0o777, exist_ok=True)
    if private and stat.S_IMODE(os.stat(path).st_mode) != PRIVATE_DIRECTORY:
        os.chmod(path, PRIVATE_DIRECTORY)


def create_if_absent(
    path: str,
    data: bytes,
    *,
    private: bool = False,
    same: Callable[[bytes, bytes], bool] = bytes.__eq__,
    workspace: str | None = None,
) -> Outcome:
    """Create ``path`` with ``data`` unless it exists; never change a file that does.

    Args:
        path: final name; its directory must exist where directories exist.
        data: the complete content.
        private: readable by its owner only, where files have modes.
        same: whether an existing file (first argument) says the same as ``data`` (second argument).
        workspace: local directory for the temporary file; None, and on another file system: the file's own.

    Returns:
        CREATED; SAME when the file existed and says the same; DIFFERENT when it says something else.

    Raises:
        OSError: the file system refused (disk full, no permission...).
        google.api_core.exceptions.GoogleAPICallError: the same, of gs://; botocore.exceptions.ClientError: of s3://.
    """
    scheme = storage.scheme_of(path)
    if scheme == "gs":
        return Outcome.CREATED if _upload_unless_exists(path, data) else _compare(path, data, same)
    if storage.exists(path):
        return _compare(path, data, same)
    if scheme == "s3":
        put = _put_unless_exists(path, data)
        if put is not None:
            return Outcome.CREATED if put else _compare(path, data, same)
    folder, name = storage.split(path)
    if is_local(path):
        mode = PRIVATE_FILE if private else PUBLIC_FILE
        try:
            created = _create_local(path, data, mode, folder if workspace is None else workspace)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            created = _create_local(path, data, mode, folder)
    else:
        temporary = storage.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with storage.create(temporary) as file:
                file.write(data)
            created = _rename_unless_exists(temporary, path)
        finally:
            _remove(temporary)
    return Outcome.CREATED if created else _compare(path, data, same)


def replace_whole(path: str, data: bytes, workspace: str | None = None) -> None:
    """Write a private file whole, in the place of one that may be there. workspace: as of ``create_if_absent``."""
    if not is_local(path):
        with storage.create(path) as file:
            file.write(data)
        return
    folder, name = os.path.split(path)
    temporary = os.path.join(folder if workspace is None else workspace, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        _write_local(temporary, data, PRIVATE_FILE)
        os.replace(temporary, path)
    finally:
        _remove(temporary)


def read_whole(path: str) -> bytes:
    """The bytes of a file, local or remote, undecoded."""
    with storage.open_stored(path) as file:
        return file.read()


def _upload_unless_exists(path: str, data: bytes) -> bool:
    from apache_beam.io.gcp.gcsio import parse_gcs_path
    from google.api_core.exceptions import PreconditionFailed

    # Beam's file systems have no way to say "unless it exists"; its client, with its credentials, does.
    client: Any = storage.stores().get_filesystem(path)._gcsIO().client
    bucket, name = parse_gcs_path(path)
    try:
        client.bucket(bucket).blob(name).upload_from_string(
            data, content_type="application/octet-stream", if_generation_match=0
        )
    except PreconditionFailed:
        return False
    return True


def _put_unless_exists(path: str, data: bytes) -> bool | None:
    """Whether the object was created; None: the store, or a boto3 before 1.35, knows no such condition."""
    from apache_beam.io.aws.s3io import S3IO, parse_s3_path
    from botocore.exceptions import ClientError, ParamValidationError

    # As above: Beam's client, which its options describe, with a request that Beam does not make.
    client: Any = S3IO(options=storage.stores().get_filesystem(path)._options).client.client
    bucket, name = parse_s3_path(path)
    for tries_left in reversed(range(_CONFLICT_TRIES)):
        try:
            client.put_object(Bucket=bucket, Key=name, Body=data, IfNoneMatch="*")
            return True
        except ParamValidationError:
            return None
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == _FAILED_CONDITION:
                return False
            if status == _NOT_IMPLEMENTED:
                return None
            if status != _CONFLICT or not tries_left:
                raise
    raise AssertionError("unreachable")


def _compare(path: str, data: bytes, same: Callable[[bytes, bytes], bool]) -> Outcome:
    return Outcome.SAME if same(read_whole(path), data) else Outcome.DIFFERENT


def _create_local(path: str, data: bytes, mode: int, workspace: str) -> bool:
    temporary = os.path.join(workspace, f".{os.path.basename(path)}.{uuid.uuid4().hex}.tmp")
    try:
        _write_local(temporary, data, mode)
        return _link(temporary, path)
    finally:
        _remove(temporary)


def _write_local(path: str, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _link(temporary: str, path: str) -> bool:
    """Whether ``path`` was created; durable when it was, because the directory's entry is flushed too."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_unless_exists(temporary, path)
    handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return True


def _rename_unless_exists(temporary: str, path: str) -> bool:
    if storage.exists(path):
        return False
    storage.stores().rename([temporary], [path])
    return True


def _remove(temporary: str) -> None:
    if is_local(temporary):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    elif storage.exists(temporary):
        storage.delete([temporary])
