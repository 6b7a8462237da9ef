"""A stand-in for Google Cloud Storage: what its JSON protocol needs to upload, list, look at and read objects."""

from __future__ import annotations

import contextlib
import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from google_crc32c import Checksum


@dataclass
class ObjectStore:
    """objects: content by gs:// path. requests: method, path and query of each. lose_answers: how many uploads are
    kept, but answered with an error, as when the connection breaks."""

    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    lose_answers: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def listing(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        """The objects of a bucket whose names begin with a prefix."""
        begin = f"gs://{bucket}/"
        names = [path.removeprefix(begin) for path in sorted(self.objects) if path.startswith(begin)]
        about = {"bucket": bucket, "generation": "1", "updated": "2024-03-01T00:00:00.000Z"}
        return {
            "items": [
                {**about, "name": name, "size": str(len(self.objects[begin + name]))}
                for name in names
                if name.startswith(query.get("prefix", ""))
            ]
        }

    def upload(self, path: str, data: bytes, query: dict[str, str]) -> int:
        """Keep an object if its precondition holds; the HTTP status."""
        with self.lock:
            if query.get("ifGenerationMatch") == "0" and path in self.objects:
                return 412
            self.objects[path] = data
            if self.lose_answers:
                self.lose_answers -= 1
                return 503
            return 200


@contextlib.contextmanager
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Serve an empty store on loopback, and make Beam's gs:// file system use it, without credentials."""
    from apache_beam.io.gcp import gcsio
    from google.cloud import storage

    store = ObjectStore()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(
        gcsio, "create_storage_client", lambda *_, **__: storage.Client.create_anonymous_client()
    )
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            bucket, _, query = self._request("POST")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if query.get("uploadType") == "resumable":  # what is written piece by piece; one piece here
                place = f"http://{self.headers['Host']}{urlsplit(self.path).path}"
                name = quote(query.get("name") or json.loads(body)["name"], safe="")
                self._send(200, b"{}", "application/json", {"Location": f"{place}?name={name}"})
                return
            boundary = self.headers["Content-Type"].split("boundary=")[1].strip('"').encode()
            about, data = (
                part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
                for part in body.split(b"--" + boundary)[1:3]
            )
            name = json.loads(about)["name"]
            path = f"gs://{bucket}/{name}"
            self._answer(store.upload(path, data, query), path)

        def do_PUT(self) -> None:
            bucket, _, query = self._request("PUT")
            path = f"gs://{bucket}/{query['name']}"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(store.upload(path, body, query), path)

        def do_GET(self) -> None:
            bucket, name, query = self._request("GET")
            path = f"gs://{bucket}/{name}"
            if not name:
                self._send(200, json.dumps(store.listing(bucket, query)).encode(), "application/json")
            elif path not in store.objects:
                self._answer(404, path)
            elif query.get("alt") == "media":
                self._send(200, store.objects[path], "application/octet-stream")
            else:
                self._answer(200, path)

        def _request(self, method: str) -> tuple[str, str, dict[str, str]]:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            store.requests.append((method, parts.path, query))
            bucket, _, name = parts.path.split("/b/", 1)[1].partition("/o")
            return unquote(bucket), unquote(name.removeprefix("/")), query

        def _answer(self, status: int, path: str) -> None:
            bucket, _, name = path.removeprefix("gs://").partition("/")
            data = store.objects.get(path, b"")
            about = {"bucket": bucket, "name": name, "size": str(len(data)), "generation": "1"}
            about["crc32c"] = b64encode(Checksum(data).digest()).decode()
            content = about if status == 200 else {"error": {"code": status, "message": "no"}}
            self._send(status, json.dumps(content).encode(), "application/json")

        def _send(
            self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
        ) -> None:
            self.send_response(status)
            for each in (headers or {}).items():
                self.send_header(*each)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest's output is for failures."""

    return Handler
