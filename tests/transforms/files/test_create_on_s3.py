"""Files on s3:// are created once, also by workers that come at the same instant: the store decides, not a test before.

The store is moto's, on loopback. It honours If-None-Match, but looks and writes in two steps, so it is asked by one
request at a time, as S3 decides for a name: a client that did not send the condition would overwrite here.
"""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from kanonflow.transforms.files import create_if_absent as module
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent, read_whole

pytestmark = pytest.mark.thorough

WRITERS = 20
MEGABYTE = 1 << 20


class OneAtATime:
    """The store's application; status: what to answer every conditional upload with, None: what the store says."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.uploads: list[str | None] = []
        self.statuses: list[int] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Serve one request whole."""
        with self._lock:
            if environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].count("/") > 1:
                condition = environ.get("HTTP_IF_NONE_MATCH")
                self.uploads.append(condition)
                if condition is not None and self.statuses:
                    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                    start_response(f"{self.statuses.pop(0)} No", [("Content-Length", "0")])
                    return [b""]
            return [b"".join(self._application(environ, start_response))]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[OneAtATime]:
    """An empty bucket, which Beam finds by the variables of AWS."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions([]))
    import boto3

    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    try:
        yield application
    finally:
        for each in client.list_objects_v2(Bucket="bucket").get("Contents", ()):
            client.delete_object(Bucket="bucket", Key=each["Key"])
        client.delete_bucket(Bucket="bucket")
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_file_is_created_once_and_never_changed(store: OneAtATime) -> None:
    """As everywhere: created, the same, different."""
    path = "s3://bucket/out/release/r.avro"
    assert create_if_absent(path, b"one") is Outcome.CREATED
    assert create_if_absent(path, b"one") is Outcome.SAME
    assert create_if_absent(path, b"two") is Outcome.DIFFERENT
    assert read_whole(path) == b"one"
    assert store.uploads == ["*"]


@pytest.mark.parametrize(
    "size", [1000, 12 * MEGABYTE], ids=["small", "larger than a part of an upload in parts"]
)
def test_of_writers_in_the_same_instant_one_wins(
    size: int, store: OneAtATime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has seen that there is none: the file is the winner's, whole; the others learn that theirs is another."""
    path = "s3://bucket/race.avro"
    together = threading.Barrier(WRITERS)
    exists = module.storage.exists

    def looked(asked: str) -> bool:
        found = bool(exists(asked))
        together.wait(60)
        return found

    monkeypatch.setattr(module.storage, "exists", looked)
    with ThreadPoolExecutor(WRITERS) as pool:
        contents = [bytes([number]) * size for number in range(WRITERS)]
        outcomes = list(pool.map(lambda data: create_if_absent(path, data), contents))
    assert collections.Counter(outcomes) == {Outcome.CREATED: 1, Outcome.DIFFERENT: WRITERS - 1}
    assert read_whole(path) == contents[outcomes.index(Outcome.CREATED)]
    assert store.uploads == ["*"] * WRITERS


def test_a_conflict_is_asked_again(store: OneAtATime) -> None:
    """S3 says 409 where requests for a name cross; what does not end is an error and no silence."""
    from botocore.exceptions import ClientError

    store.statuses = [409, 409]
    assert create_if_absent("s3://bucket/a", b"one") is Outcome.CREATED
    assert len(store.uploads) == 3
    store.statuses = [409] * 50
    with pytest.raises(ClientError):
        create_if_absent("s3://bucket/b", b"one")
    store.statuses = [403]
    with pytest.raises(ClientError):
        create_if_absent("s3://bucket/c", b"one")


def test_a_store_without_the_condition_is_served_as_before(store: OneAtATime) -> None:
    """A temporary object, and a rename where there is none of the name; nothing of it stays behind."""
    store.statuses = [501]
    assert create_if_absent("s3://bucket/out/a", b"one") is Outcome.CREATED
    assert read_whole("s3://bucket/out/a") == b"one"
    listed = FileSystems.match(["s3://bucket/out/*"])[0].metadata_list
    assert [each.path for each in listed] == ["s3://bucket/out/a"]
    assert create_if_absent("s3://bucket/out/a", b"two") is Outcome.DIFFERENT


def test_names_that_could_be_globs_are_names_there_too(store: OneAtATime) -> None:
    """Listed, read and removed; of the neighbours that the glob would fit nothing is touched."""
    folder, beside = "s3://bucket/out[1]*", "s3://bucket/out1x"
    for each in (folder, beside):
        for name in ("a.avro", "b[0].avro"):
            assert create_if_absent(storage.join(each, name), each.encode()) is Outcome.CREATED
    paths = [storage.join(folder, name) for name in ("a.avro", "b[0].avro")]
    assert storage.paths_below(folder, "*.avro") == paths
    storage.delete([*paths, storage.join(folder, "none")])
    assert storage.paths_below(folder, "*") == []
    assert len(storage.paths_below(beside, "*")) == 2
