"""A schema registry in this process: what the client needs of one, and ways to fail."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class StubRegistry:
    """subjects: name -> its schemas, oldest first.     schemas: id -> what the registry answers with.
    failing: status that every request is answered with.     asked: paths so far.     passwords: as they came.
    elsewhere: where every request is redirected to.     stranger: what everything is answered with, whatever it is.
    tokens: what its token endpoint gives to a client's credentials."""

    url: str = ""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    failing: int | None = None
    elsewhere: str | None = None
    stranger: bytes | None = None
    tokens: str | None = None
    asked: list[str] = field(default_factory=list)
    passwords: list[str | None] = field(default_factory=list)

    def add(self, subject: str, schema: dict[str, Any], **more: Any) -> int:
        """The id of the schema, registered under the subject."""
        answer = {"schema": json.dumps(schema)} | more
        same = [number for number, known in self.schemas.items() if known == answer]
        number = same[0] if same else len(self.schemas) + 1
        self.schemas[number] = answer
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Status and content."""
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403})
            case ["subjects", subject, "versions"] if body is not None:
                return 200, {"id": self.add(subject, json.loads(body["schema"]))}
            case ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                number = self.subjects[subject][-1]
                return 200, {"id": number, "subject": subject} | self.schemas[number]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                number = self.subjects[subject][int(version) - 1]
                return 200, {"id": number, "subject": subject, "version": int(version)} | self.schemas[number]
            case ["subjects", *_]:
                return 404, {"error_code": 40401}
        return 404, {"message": "no such page"}


@contextlib.contextmanager
def stub_registry(certificate: tuple[str, str] | None = None) -> Iterator[StubRegistry]:
    """A registry that answers on loopback. certificate: with TLS, the files of its certificate and its key."""
    registry = StubRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/token":
                registry.asked.append(self.path)
                registry.passwords.append(self.headers.get("Authorization"))
                told = {"access_token": registry.tokens, "token_type": "bearer", "expires_in": 3600}
                self._send(200, told) if registry.tokens else self._send(400, {"error": "invalid_client"})
                return
            self._answer(json.loads(body))

        def _answer(self, body: dict[str, Any] | None) -> None:
            path = self.path.partition("?")[0]
            registry.asked.append(path)
            registry.passwords.append(self.headers.get("Authorization"))
            if registry.elsewhere is not None:
                self._send(307, {}, registry.elsewhere + self.path)
                return
            failed = registry.failing
            status, content = (failed, {"error_code": failed}) if failed else registry.answer(path, body)
            self._send(status, content)

        def _send(self, status: int, content: dict[str, Any], location: str | None = None) -> None:
            data = json.dumps(content).encode() if registry.stranger is None else registry.stranger
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    registry.url = f"{scheme}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
