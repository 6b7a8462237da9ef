"""A schema registry as Confluent's speaks: schemas by id, the latest of a subject, and a subject's new schema."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from kanonflow.schemas.errors import InputError

PAUSE_SECONDS = 0.2

_CONTENT = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = (40401, 40402, 40403)  # subject, version, schema


class RegistryUnavailableError(Exception):
    """The registry does not answer, or not as a registry: try again later. No row is at fault."""


class SchemaRegistry:
    """A client that remembers the schemas it has seen: what an id means never changes.

    credentials: "user:password".     tries, timeout_s: how often it asks, and how long it waits each time.
    """

    def __init__(
        self, url: str, credentials: str | None = None, *, tries: int = 5, timeout_s: float = 2.0
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._tries = tries
        self._timeout_s = timeout_s
        self._known: dict[int, dict[str, Any] | str] = {}

    def schema(self, schema_id: int) -> dict[str, Any] | str:
        """The Avro schema of that id, or a sentence that says why there is none. Raises RegistryUnavailableError."""
        if schema_id not in self._known:
            self._known[schema_id] = self._fetch(schema_id)
        return self._known[schema_id]

    def latest(self, subject: str) -> dict[str, Any]:
        """The newest Avro schema of a subject. Raises InputError: it has none; RegistryUnavailableError."""
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer is None:
            raise InputError(
                f"the schema registry has no subject {subject}; register a schema, or give schema=FILE"
            )
        found = _avro_schema(answer)
        if isinstance(found, str):
            raise InputError(f"the schema registry's subject {subject}: {found}")
        return found

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id of the schema, as the newest version of the subject unless it is there already.

        Raises InputError: the registry refuses it (not compatible with the versions before); RegistryUnavailableError.
        """
        answer = self._ask(
            f"/subjects/{quote(subject, safe='')}/versions",
            {"schema": json.dumps(schema), "schemaType": "AVRO"},
        )
        if answer is None or not isinstance(answer.get("id"), int):
            raise RegistryUnavailableError("it did not answer with an id")
        return answer["id"]

    def _fetch(self, schema_id: int) -> dict[str, Any] | str:
        answer = self._ask(f"/schemas/ids/{schema_id}")
        return "the schema registry does not know it" if answer is None else _avro_schema(answer)

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The answer; None when what is asked for does not exist."""
        for left in reversed(range(self._tries)):
            try:
                return self._ask_once(path, body)
            except RegistryUnavailableError:
                if not left:
                    raise
                time.sleep(PAUSE_SECONDS)
        return None

    def _ask_once(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any] | None:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Accept": _CONTENT})
        if data is not None:
            request.add_header("Content-Type", _CONTENT)
        if self._credentials is not None:
            token = base64.b64encode(self._credentials.encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                return _object(response.read())
        except urllib.error.HTTPError as error:
            return _none_or_raise(error)
        except (OSError, HTTPException) as error:
            raise RegistryUnavailableError(
                f"the schema registry does not answer ({type(error).__name__})"
            ) from None


def _none_or_raise(error: urllib.error.HTTPError) -> dict[str, Any] | None:
    """None when the registry says that there is no such thing: another server's 404 does not say so."""
    if error.code in (401, 403):
        raise InputError(
            f"the schema registry refuses access ({error.code});"
            " give schema.registry.basic.auth.user.info with config=FILE"
        ) from None
    if error.code in (409, 422):
        raise InputError(
            f"the schema registry refuses the schema ({error.code}): not compatible with the subject's earlier ones"
        ) from None
    if error.code == 404 and _object(error.read()).get("error_code") in _UNKNOWN:
        return None
    raise RegistryUnavailableError(f"the schema registry answers with an error ({error.code})") from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RegistryUnavailableError("the address answers, but not as a schema registry does")
    return answer


def _avro_schema(answer: Mapping[str, Any]) -> dict[str, Any] | str:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        return "it is not an Avro schema"
    if answer.get("references"):
        return "it refers to other schemas, which is not supported; register it as one"
    try:
        schema = json.loads(answer["schema"])
    except (KeyError, TypeError, ValueError):
        return "it is not readable"
    return schema if isinstance(schema, dict) and schema.get("type") == "record" else "it is not a record"
